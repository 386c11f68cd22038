/* SPDX-License-Identifier: Apache-2.0 */
/* info.c -- what a pool runs on, and its counters. Read from any thread: counters are atomics with one writer each, the
 * rest does not change once the pool is open. */
#include "kvclient/client.h"

static void text_copy(char *to, size_t cap, const char *from)
{
	snprintf(to, cap, "%.*s", (int)cap - 1, from);
}

static void engine_info(struct kvc_info *o, const struct te_info *t)
{
	text_copy(o->provider, sizeof(o->provider), t->provider);
	text_copy(o->fabric, sizeof(o->fabric), t->fabric);
	text_copy(o->domain, sizeof(o->domain), t->domain);
	text_copy(o->libfabric, sizeof(o->libfabric), t->libfabric);
	text_copy(o->why, sizeof(o->why), t->why);
	text_copy(o->wait, sizeof(o->wait), t->wait_fd ? "fd" : "poll");
	o->rails = t->rails;
	o->chunk_bytes = t->chunk_bytes;
	o->eager_bytes = t->eager_bytes;
	o->tx_depth = t->tx_depth;
	o->cq_depth = t->cq_depth;
}

int kvc_info(struct kvc_pool *pool, struct kvc_info *out)
{
	static const char *const modes[] = {[BOOT_PLAIN] = "none", [BOOT_PSK] = "psk", [BOOT_CERT] = "certificate"};
	struct kvc_info o = {0};
	size_t size;
	if (!pool || !out || out->size < sizeof(size_t) || out->size > 65536)
		return -KV_EINVAL;
	size = KV_MIN(out->size, sizeof(o));
	engine_info(&o, &pool->client[0]->info);
	o.size = size;
	o.num_clients = pool->num_clients;
	o.os_threads = pool->own_loops ? pool->num_loops : 0;
	o.num_servers = pool->num_servers;
	text_copy(o.security, sizeof(o.security), modes[pool->client[0]->mode]);
	for (unsigned i = 0; i < pool->num_clients; i++) {
		const struct kvc_client *c = pool->client[i];
		uint32_t credits = (uint32_t)atomic_load_explicit(&c->count.credits, memory_order_relaxed);
		o.endpoints += c->info.rails;
		o.links += (unsigned)atomic_load_explicit(&c->count.links, memory_order_relaxed);
		o.buffer_bytes += c->area.len_bytes;
		o.message_bytes += c->info.msg_memory_bytes;
		o.credits = o.credits ? KV_MIN(o.credits, credits ? credits : o.credits) : credits;
	}
	memcpy(out, &o, size);
	return 0;
}

static uint64_t get(const _Atomic uint64_t *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

static void counters_add(struct kvc_counters *o, const struct kvc_count *c)
{
	o->gets += get(&c->gets);
	o->puts += get(&c->puts);
	o->exists += get(&c->exists);
	o->deletes += get(&c->deletes);
	o->hits += get(&c->hits);
	o->misses += get(&c->misses);
	o->errors += get(&c->errors);
	o->timeouts += get(&c->timeouts);
	o->retries += get(&c->retries);
	o->corrupt += get(&c->corrupt);
	o->reconnects += get(&c->reconnects);
	o->fences += get(&c->fences);
	o->bytes_in += get(&c->bytes_in);
	o->bytes_out += get(&c->bytes_out);
	o->stale_immediates += get(&c->stale_immediates);
	o->bad_frames += get(&c->bad_frames);
	o->eagain += get(&c->eagain);
	o->cancels += get(&c->cancels);
	o->quarantined_bytes += get(&c->quarantined_bytes);
}

int kvc_counters(struct kvc_pool *pool, struct kvc_counters *out)
{
	struct kvc_counters o = {0};
	size_t size;
	if (!pool || !out || out->size < sizeof(size_t) || out->size > 65536)
		return -KV_EINVAL;
	size = KV_MIN(out->size, sizeof(o));
	for (unsigned i = 0; i < pool->num_clients; i++)
		counters_add(&o, &pool->client[i]->count);
	o.size = size;
	memcpy(out, &o, size);
	return 0;
}

/* The functions of base/ are not exported by the shared library: base is ours to change. */
const char *kvc_strerror(int code)
{
	return kv_strerror(code);
}

const char *kvc_errname(int code)
{
	return kv_errname(code);
}

const char *kvc_errkey(int code)
{
	return kv_errkey(code);
}
