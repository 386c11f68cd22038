/* SPDX-License-Identifier: Apache-2.0 */
/* prefix.c -- a prefix is one batch of GETs in parts: layer 0 of all blocks is asked for first, then layer 1.
 *
 * The destination is a paged cache, layer first: the slices of a block are as far apart as all blocks have bytes in one
 * layer. One thread submits the batch to a queue, looks how far each block is, and sleeps between two looks: a part
 * wakes nobody. So the time of the first layer is late by a look at most.
 *
 * Memory, items and arrivals are made once, for all loads. They are the library's until the completion was reaped,
 * which comes by the deadline also if the server dies. */
#include "kvbench/load/prefix.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/host.h"
#include "kvbench/load/keys.h"
#include "kvbench/load/phase.h"
#include "kvbench/load/values.h"
#include "kvbench/setup/signals.h"

#define MEMORY_MAX                                                                                                     \
	(1ull << 30) /* of the destination: a longer prefix is loaded as far as it fits, and that is said              \
		      */
#define LOADS_NS 2000000000ull
#define LOOK_NS  20000ull

enum { LOADS_MIN = 3, LOADS_MAX = 50, TICK_MS = 100 };

struct prefix {
	struct bench *bench;
	struct bench_area memory;
	struct kvc_queue *queue;
	struct bench_key *key;
	struct kvc_item *item;
	struct kvc_layout *layout;
	struct kvc_arrival *arrival;
	uint64_t part_end[KVC_PARTS_OF_ITEM_MAX]; /* bytes of a block up to the end of each layer */
	unsigned blocks, layers;
	double first_ns[LOADS_MAX], all_ns[LOADS_MAX];
};

static void prefix_free(struct prefix *p)
{
	free(p->arrival);
	free(p->layout);
	free(p->item);
	free(p->key);
	free(p);
}

static int prefix_close(struct prefix *p, struct kv_error *err)
{
	int rc;
	kvc_queue_close(&p->queue);
	rc = bench_area_close(p->bench->pool, &p->memory, "prefix", err);
	prefix_free(p);
	return rc;
}

static void items_fill(struct prefix *p)
{
	const struct bench_options *o = p->bench->opt;
	const struct model_bytes *m = &o->model.bytes;
	uint8_t *base = p->memory.area.base;
	for (unsigned i = 0; i < p->layers; i++)
		p->part_end[i] = (uint64_t)(i + 1) * m->slices_per_layer * m->slice;
	for (unsigned i = 0; i < p->blocks; i++) {
		uint64_t len = bench_key_of(&p->bench->names, i, &p->key[i]);
		p->layout[i] = (struct kvc_layout){.size = sizeof(p->layout[i]),
						   .num_parts = p->layers,
						   .part_ends = p->part_end,
						   .arrival = &p->arrival[i]};
		p->item[i] = (struct kvc_item){.key = {p->key[i].text, p->key[i].len},
					       .data = base + i * m->slice,
					       .len = len,
					       .slice = m->slice,
					       .stride = p->blocks * m->slice,
					       .layout = &p->layout[i]};
	}
}

static int prefix_open(struct prefix *p, struct kv_error *err)
{
	size_t n = p->blocks;
	int rc;
	p->key = calloc(n, sizeof(*p->key));
	p->item = calloc(n, sizeof(*p->item));
	p->layout = calloc(n, sizeof(*p->layout));
	p->arrival = calloc(n, sizeof(*p->arrival));
	if (!p->key || !p->item || !p->layout || !p->arrival)
		return kv_fail(err, -KV_ENOMEM, "no memory for %zu block%s", n, kv_plural(n));
	rc = bench_area_open(p->bench->pool, n * p->bench->opt->load.value_size, &p->memory, err);
	if (rc == 0)
		rc = kvc_queue_open(p->bench->pool, NULL, &p->queue, err);
	if (rc == 0)
		items_fill(p);
	return rc;
}

static bool first_layer_here(const struct prefix *p, unsigned *from)
{
	while (*from < p->blocks && kvc_arrival_parts(&p->arrival[*from]) > 0)
		++*from;
	return *from == p->blocks;
}

static int load(struct prefix *p, uint64_t *first_ns, uint64_t *all_ns)
{
	const struct kvc_call call = phase_call(p->bench->opt);
	const struct timespec look = {0, LOOK_NS};
	struct pollfd fd = {.fd = kvc_queue_fd(p->queue), .events = POLLIN};
	struct kvc_completion done;
	uint64_t start;
	unsigned from = 0;
	int64_t id;
	memset(p->arrival, 0, p->blocks * sizeof(*p->arrival));
	start = phase_now();
	*first_ns = 0;
	id = kvc_submit_get(p->queue, p->item, p->blocks, &call, 0);
	if (id < 0)
		return (int)id;
	while (kvc_reap(p->queue, &done, 1) == 0) {
		if (*first_ns) {
			poll(&fd, 1, TICK_MS);
		} else if (first_layer_here(p, &from)) {
			*first_ns = phase_now() - start;
		} else {
			nanosleep(&look, NULL);
		}
	}
	*all_ns = phase_now() - start;
	if (!*first_ns)
		*first_ns = *all_ns;
	return done.result;
}

static bool block_right(const struct prefix *p, unsigned i)
{
	const struct kvc_item *item = &p->item[i];
	uint64_t from = 0;
	for (const uint8_t *at = item->data; from < item->len; from += item->slice, at += item->stride)
		if (bench_value_check_part(&p->key[i], item->len, from, at, item->slice) != item->slice)
			return false;
	return (uint64_t)item->result == item->len;
}

/* None counts if a block failed. */
static void judge(const struct prefix *p, struct prefix_result *r, int rc)
{
	for (unsigned i = 0; rc && i < p->blocks; i++) {
		r->missing += p->item[i].result == -KV_ENOTFOUND;
		if (p->item[i].result < 0 && p->item[i].result != -KV_ENOTFOUND)
			r->code = (int)p->item[i].result;
	}
	if (rc && !r->missing && !r->code)
		r->code = rc;
	for (unsigned i = 0; rc == 0 && i < p->blocks; i++)
		r->wrong += !block_right(p, i);
}

static void loads(struct prefix *p, struct prefix_result *r)
{
	uint64_t end = phase_now() + LOADS_NS;
	struct bench_spread s;
	unsigned n = 0, tries = 0;
	while (n < LOADS_MAX && (n < LOADS_MIN || phase_now() < end) && !bench_interrupted()) {
		uint64_t first_ns = 0, all_ns = 0;
		int rc = load(p, &first_ns, &all_ns);
		p->first_ns[n] = (double)first_ns;
		p->all_ns[n] = (double)all_ns;
		judge(p, r, rc);
		if (rc || r->wrong)
			return;
		n += tries++ > 0;
	}
	r->loads = n;
	if (n == 0)
		return;
	bench_spread_of(p->first_ns, n, &s);
	r->first_ns = (uint64_t)s.median;
	bench_spread_of(p->all_ns, n, &s);
	r->all_ns = (uint64_t)s.median;
}

int prefix_run(struct bench *b, struct kv_error *err)
{
	const struct bench_options *o = b->opt;
	const struct model_bytes *m = &o->model.bytes;
	struct prefix_result *r = &b->results.prefix;
	uint64_t wanted = (o->model.prefix_tokens + o->model.layout.block_tokens - 1) / o->model.layout.block_tokens;
	uint64_t fits = KV_MAX(KV_MIN(MEMORY_MAX, kv_memory_available() / 2) / o->load.value_size, (uint64_t)1);
	struct prefix *p;
	int rc;
	if (m->slices / m->slices_per_layer > KVC_PARTS_OF_ITEM_MAX) {
		snprintf(r->why, sizeof(r->why), "a GET has no more than %u parts", KVC_PARTS_OF_ITEM_MAX);
		return 0;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return kv_fail(err, -KV_ENOMEM, "no memory for a prefix");
	p->bench = b;
	p->blocks = (unsigned)KV_MIN(KV_MIN(wanted, o->load.num_keys), fits);
	p->layers = m->slices / m->slices_per_layer;
	r->tokens = (uint64_t)p->blocks * o->model.layout.block_tokens;
	rc = prefix_open(p, err);
	if (rc == 0)
		loads(p, r);
	else
		snprintf(r->why, sizeof(r->why), "%.*s", (int)sizeof(r->why) - 1, err->text);
	return prefix_close(p, err);
}
