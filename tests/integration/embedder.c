/* SPDX-License-Identifier: Apache-2.0 */
/* embedder.c -- a program of somebody else's, on the installed headers and the library alone: it stores values of many
 * sizes and reads them back.
 *
 *   embedder HOST:PORT [PROVIDER [setup]]
 *
 * C11 and C++17 alike: tests/integration/install.sh compiles it as both. Without `setup` it leaves libfabric's
 * environment as it is, as a process does that has other users of libfabric. Prints one line; status 1 with a sentence
 * if anything was not so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvrail/kvclient.h>

enum { LARGEST = 32 << 20, ITEMS = 64, ITEM = 20000 };

static unsigned char *out_bytes, *in_bytes;

static struct kvc_key key_of(const char *name)
{
	struct kvc_key key;
	key.data = name;
	key.len = strlen(name);
	return key;
}

static void fill(unsigned char *data, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1664525u + 1013904223u;
		data[i] = (unsigned char)(seed >> 24);
	}
}

static int failed(const char *what, size_t len, long long rc)
{
	fprintf(stderr, "embedder: %s of %lu bytes: %lld (%s)\n", what, (unsigned long)len, rc,
		rc < 0 ? kvc_strerror((int)rc) : "other bytes");
	return 1;
}

static int one_value(struct kvc_pool *pool, const char *kind, size_t len)
{
	char name[64];
	struct kvc_key key;
	long long rc;
	snprintf(name, sizeof(name), "embedder/%s/%lu", kind, (unsigned long)len);
	key = key_of(name);
	fill(out_bytes, len, (unsigned)len);
	memset(in_bytes, 0, len);
	rc = kvc_put(pool, key, out_bytes, len, NULL);
	if (rc < 0)
		return failed("PUT", len, rc);
	rc = kvc_get(pool, key, in_bytes, len, NULL);
	if (rc != (long long)len || memcmp(in_bytes, out_bytes, len) != 0)
		return failed("GET", len, rc);
	rc = kvc_delete(pool, key, NULL);
	return rc < 0 ? failed("DELETE", len, rc) : 0;
}

/* Around every size at which something changes: frames, rxm's buffers of 4 and 16 KiB, chunks, ranges. */
static int all_sizes(struct kvc_pool *pool, const char *kind, unsigned *inout_values)
{
	static const int around[] = {1 << 12, 1 << 14, 1 << 16, 1 << 17, 1 << 20, 1 << 22, 1 << 24};
	int status = one_value(pool, kind, 1) || one_value(pool, kind, 100) || one_value(pool, kind, 3000) ||
		     one_value(pool, kind, LARGEST);
	*inout_values += 4;
	for (size_t i = 0; i < sizeof(around) / sizeof(around[0]) && !status; i++)
		for (int more = -1; more <= 1 && !status; more++, ++*inout_values)
			status = one_value(pool, kind, (size_t)(around[i] + more));
	return status;
}

static int batch_of_values(struct kvc_pool *pool)
{
	static struct kvc_item item[ITEMS];
	static char name[ITEMS][32];
	int rc;
	memset(item, 0, sizeof(item));
	fill(out_bytes, (size_t)ITEMS * ITEM, 7);
	for (int i = 0; i < ITEMS; i++) {
		snprintf(name[i], sizeof(name[i]), "embedder/item/%d", i);
		item[i].key = key_of(name[i]);
		item[i].data = out_bytes + (size_t)i * ITEM;
		item[i].len = ITEM;
	}
	rc = kvc_put_batch(pool, item, ITEMS, NULL);
	if (rc < 0)
		return failed("PUT of a batch", ITEM, rc);
	memset(in_bytes, 0, (size_t)ITEMS * ITEM);
	for (int i = 0; i < ITEMS; i++)
		item[i].data = in_bytes + (size_t)i * ITEM;
	rc = kvc_get_batch(pool, item, ITEMS, NULL);
	if (rc < 0 || memcmp(in_bytes, out_bytes, (size_t)ITEMS * ITEM) != 0)
		return failed("GET of a batch", ITEM, rc);
	for (int i = 0; i < ITEMS; i++)
		kvc_delete(pool, item[i].key, NULL);
	return 0;
}

/* The K and the V of each layer lie in tensors of their own: a value gathers them, and comes back layer by layer. */
static int value_of_layers(struct kvc_pool *pool)
{
	enum { LAYERS = 8, HALF = 3000 };
	struct kvc_span span[2 * LAYERS];
	struct kvc_layout layout;
	struct kvc_arrival arrival;
	struct kvc_item item;
	uint64_t end[LAYERS];
	int rc, i;
	fill(out_bytes, (size_t)4 * LAYERS * HALF, 9);
	memset(in_bytes, 0, (size_t)4 * LAYERS * HALF);
	memset(&layout, 0, sizeof(layout));
	memset(&arrival, 0, sizeof(arrival));
	memset(&item, 0, sizeof(item));
	memset(span, 0, sizeof(span));
	for (i = 0; i < 2 * LAYERS; i++) { /* K in front, V in the upper half, with gaps between the layers */
		span[i].data = out_bytes + (i % 2 ? 2 * LAYERS * HALF + 77 : 0) + i / 2 * (HALF + 500);
		span[i].len = HALF;
	}
	for (i = 0; i < LAYERS; i++)
		end[i] = (uint64_t)2 * HALF * (unsigned)(i + 1);
	layout.size = sizeof(layout);
	layout.spans = span;
	layout.num_spans = 2 * LAYERS;
	item.key = key_of("embedder/layers");
	item.len = (uint64_t)2 * LAYERS * HALF;
	item.layout = &layout;
	rc = kvc_put_batch(pool, &item, 1, NULL);
	if (rc < 0)
		return failed("PUT of layers", (size_t)item.len, rc);
	for (i = 0; i < 2 * LAYERS; i++)
		span[i].data = in_bytes + ((unsigned char *)span[i].data - (unsigned char *)out_bytes);
	layout.num_parts = LAYERS;
	layout.part_ends = end;
	layout.arrival = &arrival;
	rc = kvc_get_batch(pool, &item, 1, NULL);
	if (rc < 0 || kvc_arrival_parts(&arrival) != LAYERS)
		return failed("GET of layers", (size_t)item.len, rc);
	for (i = 0; i < 2 * LAYERS; i++) {
		size_t at = (size_t)((unsigned char *)span[i].data - (unsigned char *)in_bytes);
		if (memcmp(in_bytes + at, out_bytes + at, HALF) != 0)
			return failed("GET of layers", (size_t)item.len, rc);
	}
	kvc_delete(pool, item.key, NULL);
	return 0;
}

/* Once through the clients' buffers, and once more in registered memory, which the server reads and writes by itself.
 */
static int use(struct kvc_pool *pool)
{
	struct kvc_mem *mem_in = NULL, *mem_out = NULL;
	struct kvc_info info;
	struct kv_error err;
	unsigned values = 0;
	int status = all_sizes(pool, "copied", &values) || batch_of_values(pool) || value_of_layers(pool);
	if (status)
		return status;
	memset(&err, 0, sizeof(err));
	if (kvc_register(pool, out_bytes, LARGEST, &mem_out, &err) < 0 ||
	    kvc_register(pool, in_bytes, LARGEST, &mem_in, &err) < 0) {
		fprintf(stderr, "embedder: %s\n", err.text);
		return 1;
	}
	status = all_sizes(pool, "registered", &values) || batch_of_values(pool) || value_of_layers(pool);
	if (kvc_unregister(pool, &mem_in) < 0 || kvc_unregister(pool, &mem_out) < 0)
		status = 1;
	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	if (!status && kvc_info(pool, &info) == 0)
		printf("%u values went there and back over %s, eager size %u, KVRail %s\n", values, info.provider,
		       info.eager_bytes, kvc_version());
	return status;
}

int main(int argc, char **argv)
{
	const char *servers[1];
	struct kvc_options options;
	struct kvc_pool *pool = NULL;
	struct kv_error err;
	int status;
	if (argc < 2) {
		fprintf(stderr, "usage: embedder HOST:PORT [PROVIDER [setup]]\n");
		return 2;
	}
	if (argc > 3)
		kvc_program_setup();
	servers[0] = argv[1];
	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.servers = servers;
	options.num_servers = 1;
	options.num_clients = 2;
	options.provider = argc > 2 ? argv[2] : NULL;
	options.log_level = 2;
	options.timeout_ns = 60000000000ull;
	options.connect_timeout_ns = 30000000000ull;
	memset(&err, 0, sizeof(err));
	if (kvc_pool_open(&options, &pool, &err) < 0) {
		fprintf(stderr, "embedder: %s\n", err.text);
		return 1;
	}
	out_bytes = (unsigned char *)malloc(LARGEST);
	in_bytes = (unsigned char *)malloc(LARGEST);
	status = out_bytes && in_bytes ? use(pool) : 1;
	kvc_pool_close(&pool);
	free(in_bytes);
	free(out_bytes);
	return status;
}
