/* SPDX-License-Identifier: Apache-2.0 */
/* paged.c -- a paged KV cache of an inference engine: one tensor per layer, cut into blocks. A block of tokens is one
 * value of KVRail, although it lies in one place per layer.
 *
 *            block 0   block 1   block 2  ...
 *   layer 0 [ slice ] [ slice ] [ slice ]        the value of block 1: its slices, from layer 0 on, which lie
 *   layer 1 [ slice ] [ slice ] [ slice ]        `stride` bytes apart
 *   ...
 *
 * A prompt is stored by one PUT, which gathers the slices, and loaded by one GET, which scatters them. The GET has
 * parts, each a group of layers: the engine computes with the first layers while the others are still on their way.
 *
 *   paged HOST:PORT     (0: the prompt was stored and loaded; 1: something failed; 2: wrong usage) */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvrail/kvclient.h>

enum {
	LAYERS = 32,
	GROUP = 8, /* layers of a part of the GET */
	GROUPS = LAYERS / GROUP,
	BLOCKS = 64,      /* of each tensor */
	SLICE = 16 << 10, /* bytes of one block in one layer: tokens, times heads, times their size, times two (K, V) */
	PROMPT = 12       /* blocks of the prompt */
};
#define TENSOR ((uint64_t)BLOCKS * SLICE)
#define CACHE  (LAYERS * TENSOR)

static unsigned char *cache;
static char name[PROMPT][64];
/* The library uses a GET's items, keys, layouts and blocks from its submission until it is reaped. */
static struct kvc_item item[PROMPT];
static struct kvc_layout layout[PROMPT];
static struct kvc_arrival arrival[PROMPT];

static unsigned char *slice_at(unsigned layer, unsigned block)
{
	return cache + layer * TENSOR + (uint64_t)block * SLICE;
}

/* Items for the blocks that the engine has chosen. The key identifies everything that determines the bytes: model and
 * revision, type and layout, and the tokens up to here (their hash). */
static void items_fill(const unsigned *block)
{
	for (unsigned i = 0; i < PROMPT; i++) {
		int len = snprintf(name[i], sizeof(name[i]), "example/model@1/fp16/tp0/%08x", i * 2654435761u);
		item[i] = (struct kvc_item){.key = {name[i], (size_t)len},
					    .data = slice_at(0, block[i]),
					    .len = (uint64_t)LAYERS * SLICE,
					    .slice = SLICE,
					    .stride = TENSOR};
	}
}

static unsigned char byte_of(unsigned layer, unsigned i)
{
	return (unsigned char)(layer * 7 + i + 1);
}

static int prompt_store(struct kvc_pool *pool, const unsigned *block)
{
	int rc;
	for (unsigned i = 0; i < PROMPT; i++) /* stands for the computation */
		for (unsigned layer = 0; layer < LAYERS; layer++)
			memset(slice_at(layer, block[i]), byte_of(layer, i), SLICE);
	items_fill(block);
	rc = kvc_put_batch(pool, item, PROMPT, NULL);
	/* An existing block is as good. A block that could not be stored will be a miss: continue. */
	for (unsigned i = 0; i < PROMPT; i++)
		if (item[i].result < 0 && item[i].result != -KV_EEXIST)
			fprintf(stderr, "block %u is not stored: %s\n", i, kvc_strerror((int)item[i].result));
	return rc == -KV_EEXIST ? 0 : rc;
}

/* The number of stored blocks at the beginning of the prompt: only these are worth loading. */
static unsigned prompt_there(struct kvc_pool *pool, const unsigned *block)
{
	struct kvc_key key[PROMPT];
	unsigned prefix = 0;
	items_fill(block);
	for (unsigned i = 0; i < PROMPT; i++)
		key[i] = item[i].key;
	return kvc_exists(pool, key, PROMPT, NULL, &prefix, NULL) < 0 ? 0 : prefix;
}

static int group_use(unsigned group, const unsigned *block, unsigned blocks)
{
	for (unsigned layer = group * GROUP; layer < (group + 1) * GROUP; layer++)
		for (unsigned i = 0; i < blocks; i++) {
			const unsigned char *at = slice_at(layer, block[i]);
			if (at[0] != byte_of(layer, i) || at[SLICE - 1] != byte_of(layer, i))
				return -KV_ECORRUPT;
		}
	printf("layers %u to %u of %u blocks are there: compute\n", group * GROUP, (group + 1) * GROUP - 1, blocks);
	return 0;
}

/* The number of groups of layers that all these blocks have, verified. */
static unsigned groups_there(unsigned blocks)
{
	unsigned least = GROUPS;
	for (unsigned i = 0; i < blocks; i++) {
		unsigned there = kvc_arrival_parts(&arrival[i]);
		least = there < least ? there : least;
	}
	return least;
}

static int64_t load_submit(struct kvc_queue *queue, const unsigned *block, unsigned blocks)
{
	static uint64_t ends[GROUPS];
	/* Less than the time to compute. A value of another length is no block of ours: a miss. */
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 500000000, .flags = KVC_EXACT};
	for (unsigned g = 0; g < GROUPS; g++)
		ends[g] = (g + 1) * (uint64_t)GROUP * SLICE;
	items_fill(block);
	for (unsigned i = 0; i < blocks; i++) {
		layout[i] = (struct kvc_layout){
			.size = sizeof(layout[i]), .num_parts = GROUPS, .part_ends = ends, .arrival = &arrival[i]};
		item[i].layout = &layout[i];
	}
	return kvc_submit_get(queue, item, blocks, &call, 0);
}

static int prompt_load(struct kvc_queue *queue, const unsigned *block, unsigned blocks)
{
	struct pollfd wait = {.fd = kvc_queue_fd(queue), .events = POLLIN};
	struct kvc_completion done;
	int64_t id = load_submit(queue, block, blocks);
	unsigned next = 0;
	int over = 0, rc = id < 0 ? (int)id : 0;
	/* Reap even if a group is bad: until then the library uses the blocks. */
	while (id > 0 && !over) {
		poll(&wait, 1, 1); /* (An engine looks before each group of layers, and runs kernels in between.) */
		over = kvc_reap(queue, &done, 1);
		if (over != 0 && rc == 0)
			rc = over < 0 ? over : done.result;
		while (rc == 0 && next < groups_there(blocks))
			rc = group_use(next++, block, blocks);
	}
	return rc == 0 && next < GROUPS ? -KV_EINTERNAL : rc;
}

static int engine_run(struct kvc_pool *pool, struct kvc_queue *queue)
{
	unsigned from[PROMPT], to[PROMPT], blocks;
	int rc;
	for (unsigned i = 0; i < PROMPT; i++) {
		from[i] = i * 5 % BLOCKS;
		to[i] = (i * 11 + 3) % BLOCKS; /* the page table of another request */
	}
	rc = prompt_store(pool, from);
	memset(cache, 0, CACHE);
	blocks = rc == 0 ? prompt_there(pool, to) : 0;
	printf("%u of %d blocks are in the cache\n", blocks, (int)PROMPT);
	if (blocks > 0)
		rc = prompt_load(queue, to, blocks);
	if (rc < 0) /* an engine now computes the prompt; nothing writes to its blocks */
		fprintf(stderr, "%s\n", kvc_strerror(rc));
	return rc < 0 || blocks < PROMPT ? -1 : 0;
}

int main(int argc, char **argv)
{
	const char *servers[] = {argc > 1 ? argv[1] : ""};
	struct kvc_options options = {.size = sizeof(options), .servers = servers, .num_servers = 1, .log_level = 2};
	struct kvc_queue *queue = NULL;
	struct kvc_pool *pool = NULL;
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	int rc = -1;
	if (argc < 2) {
		fprintf(stderr, "usage: paged HOST:PORT\n");
		return 2;
	}
	kvc_program_setup();
	cache = aligned_alloc(4096, CACHE);
	if (!cache)
		fprintf(stderr, "no memory\n");
	else if (kvc_pool_open(&options, &pool, &err) < 0 || kvc_register(pool, cache, CACHE, &mem, &err) < 0 ||
		 kvc_queue_open(pool, NULL, &queue, &err) < 0)
		fprintf(stderr, "%s\n", err.text);
	else
		rc = engine_run(pool, queue);
	kvc_queue_close(&queue);
	kvc_pool_close(&pool);
	free(cache);
	return rc < 0;
}
