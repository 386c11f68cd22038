/* SPDX-License-Identifier: Apache-2.0 */
/* outage.c -- outages as a client meets them.
 *
 * kv-bench does not know which server holds a key. So an outage begins with a failed call, remembers the keys of calls
 * that fail in it, and ends with the first success on one of these. A call that succeeded after BENCH_SLOW_NS or more
 * is an outage as well. A call that began before an outage was over belongs to it and opens no other. */
#include "kvbench/measure/outage.h"

#include <stdlib.h>

int bench_outages_init(struct bench_outages *o, uint64_t num_keys)
{
	memset(o, 0, sizeof(*o));
	o->key = calloc(num_keys, sizeof(*o->key));
	o->num_keys = num_keys;
	return o->key ? 0 : -KV_ENOMEM;
}

void bench_outages_fini(struct bench_outages *o)
{
	free(o->key);
	o->key = NULL;
}

static void outage_over(struct bench_outages *o, uint64_t end_ns)
{
	o->now.to_ns = end_ns;
	if (o->count < BENCH_OUTAGES_MAX)
		o->row[o->count] = o->now;
	o->count++;
	o->end_ns = end_ns;
	o->open = false;
}

static void outage_begin(struct bench_outages *o, uint64_t start_ns)
{
	o->now = (struct bench_outage){.from_ns = start_ns};
	o->mark++;
	o->open = true;
}

static void call_failed(struct bench_outages *o, uint64_t key, uint64_t start_ns)
{
	if (!o->open && start_ns < o->end_ns)
		return;
	if (!o->open)
		outage_begin(o, start_ns);
	o->now.from_ns = KV_MIN(o->now.from_ns, start_ns);
	o->now.failed++;
	o->key[key % o->num_keys] = o->mark;
}

static void call_served(struct bench_outages *o, uint64_t key, uint64_t start_ns, uint64_t end_ns)
{
	bool slow = end_ns - start_ns >= BENCH_SLOW_NS;
	if (!o->open && slow && start_ns >= o->end_ns)
		outage_begin(o, start_ns);
	if (o->open && (slow || o->key[key % o->num_keys] == o->mark))
		outage_over(o, end_ns);
}

void bench_outages_count(struct bench_outages *o, uint64_t start_ns, uint64_t end_ns, uint64_t timeout_ns)
{
	uint64_t took = end_ns > start_ns ? end_ns - start_ns : 0;
	o->calls++;
	o->longest_ns = KV_MAX(o->longest_ns, took);
	o->overdue += took > timeout_ns + BENCH_LATE_NS;
}

void bench_outages_call(struct bench_outages *o, uint64_t key, uint64_t start_ns, uint64_t end_ns, uint64_t timeout_ns,
			bool failed)
{
	uint64_t took = end_ns > start_ns ? end_ns - start_ns : 0;
	bench_outages_count(o, start_ns, end_ns, timeout_ns);
	if (failed)
		call_failed(o, key, start_ns);
	else
		call_served(o, key, start_ns, start_ns + took);
}
