/* SPDX-License-Identifier: Apache-2.0 */
/* values.c -- the bytes that PUT sends, and the memory that GET uses, ready before the clock starts.
 *
 * The stock of workload.c is registered once, and all workers send from it. As many pieces of a client's buffer as its
 * workers can have at a time are borrowed, touched and released. A long message in each direction does the same for an
 * endpoint's send buffers. */
#include "kvbench/load/values.h"

#include <stdlib.h>

#include "host/host.h"
#include "kvbench/load/keys.h"

enum { PAGE = 4096, TOUCH_SHARE = 2, ASKED = 64, ITEMS = 512, VALUE_TTL_S = 3600 };

int bench_area_open(struct kvc_pool *pool, uint64_t len, struct bench_area *out, struct kv_error *err)
{
	int rc = kv_area_map(len, &out->area, err);
	if (rc < 0)
		return rc;
	memset(out->area.base, 0, out->area.len_bytes);
	rc = kvc_register(pool, out->area.base, out->area.len_bytes, &out->mem, err);
	if (rc < 0)
		kv_area_unmap(&out->area);
	return rc;
}

int bench_area_close(struct kvc_pool *pool, struct bench_area *a, const char *what, struct kv_error *err)
{
	if (a->mem && kvc_unregister(pool, &a->mem) < 0)
		return kv_fail(err, -KV_EINTERNAL, "the memory of the %s is still in use after the last operation",
			       what);
	kv_area_unmap(&a->area);
	return 0;
}

int values_open(struct bench *bench, struct kv_error *err)
{
	struct bench_area *a = &bench->values;
	int rc = bench_area_open(bench->pool, bench_stock_bytes(bench->opt->load.value_size), a, err);
	if (rc < 0)
		return kv_fail_more(err, "memory for the values to store");
	bench_stock_fill(a->area.base, bench_stock_bytes(bench->opt->load.value_size));
	bench->results.memory.values_bytes = a->area.len_bytes;
	return 0;
}

int values_close(struct bench *bench, struct kv_error *err)
{
	return bench_area_close(bench->pool, &bench->values, "values", err);
}

void *values_of(const struct bench *bench, const struct bench_key *key, uint64_t len)
{
	return (uint8_t *)bench->values.area.base + bench_value_at(key, len);
}

int value_store(struct kvc_pool *pool, const struct bench_key *key, uint64_t len, uint64_t timeout_ns)
{
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = timeout_ns, .ttl_s = VALUE_TTL_S};
	char *value = malloc(len);
	int rc = -KV_ENOMEM;
	if (value) {
		bench_value_fill(key, value, len);
		rc = kvc_put(pool, (struct kvc_key){key->text, key->len}, value, len, &call);
	}
	free(value);
	return rc;
}

/* ---- the clients' buffers ---- */

static void piece_touch(const struct kvc_borrowed *piece)
{
	volatile uint8_t *p = piece->data;
	for (uint64_t at = 0; at < piece->len; at += PAGE)
		p[at] = 0;
}

/* Best effort: a failure here comes again, with a sentence, in the measured phase. */
static void messages_touch(struct kvc_client *client, const struct bench *b)
{
	struct kvc_stat_item *item = calloc(ITEMS, sizeof(*item));
	struct bench_key *text = calloc(ASKED, sizeof(*text));
	struct kvc_key key[ASKED];
	for (unsigned i = 0; text && i < ASKED; i++) {
		bench_key_of(&b->names, i, &text[i]);
		key[i] = (struct kvc_key){text[i].text, text[i].len};
	}
	if (text)
		(void)kvc_exists_await(client, key, ASKED, NULL, NULL, NULL);
	for (unsigned i = 0; item && i < KV_MAX(b->opt->target.servers.count, 1u); i++) {
		struct kvc_call call = {.size = sizeof(call), .server = i};
		(void)kvc_stat_await(client, item, ITEMS, &call);
	}
	free(item);
	free(text);
}

/* Best effort: a piece that cannot be borrowed is touched by its first GET. */
static void buffer_touch(struct kvc_client *client, unsigned c, void *arg)
{
	const struct bench *b = arg;
	const struct bench_options *o = b->opt;
	uint64_t pieces = ((uint64_t)o->client.buffer_mb << 20) / TOUCH_SHARE / bench_piece_bytes(o->load.value_size);
	uint64_t workers = o->load.num_workers / b->num_clients + (c < o->load.num_workers % b->num_clients), n = 0;
	struct kvc_borrowed *piece = calloc(KV_MIN(pieces, workers) + 1, sizeof(*piece));
	messages_touch(client, b);
	if (!piece)
		return;
	for (; n < KV_MIN(pieces, workers); n++) {
		if (kvc_borrow_await(client, o->load.value_size, 0, &piece[n]) < 0)
			break;
		piece_touch(&piece[n]);
	}
	while (n > 0)
		kvc_borrowed_release(client, &piece[--n]);
	free(piece);
}

int buffers_touch(struct bench *bench, struct kv_error *err)
{
	int rc = kvc_run(bench->pool, bench->num_clients, buffer_touch, bench);
	if (rc < 0)
		kv_fail(err, rc, "the buffers of %u client%s cannot be touched: %s", bench->num_clients,
			kv_plural(bench->num_clients), kv_strerror(rc));
	return rc;
}
