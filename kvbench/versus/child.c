/* SPDX-License-Identifier: Apache-2.0 */
/* child.c -- one round of one target: this program again, as kv-bench for KVRail and as `versus --drive` for the
 * others.
 */
#include <stdlib.h>

#include "kvbench/setup/again.h"
#include "kvbench/versus/versus.h"

#define SPARE_NS 600000000000ull /* beside the reads: for the writes, and a server that maps its memory */

static void args_load(struct again_args *a, const struct versus_options *o, uint64_t seed)
{
	again_add(a, "--num-workers=%u", o->num_workers);
	again_add(a, "--num-keys=%llu", (unsigned long long)o->num_keys);
	again_add(a, "--value-size=%llu", (unsigned long long)o->value_size);
	again_add(a, "--duration=%lluns", (unsigned long long)o->duration_ns);
	again_add(a, "--warmup=%llu", (unsigned long long)o->warmup);
	again_add(a, "--seed=%llu", (unsigned long long)seed);
	if (o->keys_pattern)
		again_add(a, "--keys-pattern=%s", o->keys_pattern);
	if (o->rate > 0)
		again_add(a, "--rate=%.17g", o->rate);
	if (o->arrivals == BENCH_POISSON)
		again_put(a, "--arrivals=poisson");
	if (o->batch)
		again_add(a, "--batch=%u", o->batch);
	if (o->mixed)
		again_put(a, "--mixed");
	if (o->verify)
		again_put(a, "--verify");
	if (o->no_checksum)
		again_put(a, "--no-checksum");
}

static void args_make(struct again_args *a, const struct versus *v, const struct versus_target *t, uint64_t seed)
{
	const struct versus_options *o = &v->opt;
	again_put(a, "kv-bench");
	if (t->kind != VERSUS_KVRAIL) {
		again_put(a, "versus");
		again_put(a, "--drive");
		again_add(a, "--targets=%s", t->name);
		args_load(a, o, seed);
		for (unsigned i = 0; i < o->num_targets; i++)
			if (o->target[i].kind == VERSUS_KVRAIL && v->server[i].congestion[0]) {
				again_add(a, "--congestion=%s", v->server[i].congestion);
				break;
			}
		return;
	}
	again_put(a, "--quiet");
	again_put(a, "--json=-");
	again_put(a, "--log-level=warn");
	again_add(a, "--num-clients=%u", o->num_clients);
	if (t->address[0])
		again_add(a, "--server=%s", t->address);
	args_load(a, o, seed);
	for (unsigned i = 0; i < o->own.count; i++)
		again_put(a, o->own.item[i]);
}

int versus_run_target(struct versus *v, unsigned target, uint64_t seed, struct versus_run *out, struct kv_error *err)
{
	const struct again_run run = {.timeout_ns = v->opt.duration_ns + SPARE_NS};
	struct again_args *a = calloc(1, sizeof(*a));
	json_t *doc;
	int rc;
	if (!a)
		return kv_fail(err, -KV_ENOMEM, "no memory for the arguments of a round");
	args_make(a, v, &v->opt.target[target], seed);
	rc = again_report(&run, a, &doc, err);
	if (rc == 0)
		rc = versus_run_read(doc, v->opt.mixed, out, &v->server[target], err);
	json_decref(doc);
	free(a);
	return rc;
}
