/* SPDX-License-Identifier: Apache-2.0 */
/* blocking.c -- the shortest use: one thread, calls that block. A block is fetched, or computed and stored for the next
 * request.
 *
 *   blocking HOST:PORT [KEY]     (0: the block is there, fetched or computed; 1: it failed; 2: wrong usage) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvrail/kvclient.h>

enum { BLOCK = 256 << 10 };

static void compute(unsigned char *block) /* the work that the cache saves */
{
	for (size_t i = 0; i < BLOCK; i++)
		block[i] = (unsigned char)(i * 31);
}

/* A cache that fails is a cache that misses: after any error of GET, compute the block. */
static void block_get(struct kvc_pool *pool, struct kvc_key key, unsigned char *block)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 200000000}; /* less than the time to compute */
	int64_t len = kvc_get(pool, key, block, BLOCK, &call);
	int rc;
	if (len == BLOCK) {
		printf("fetched\n");
		return;
	}
	/* A value of another length belongs to another model: also a miss. */
	printf("%s: computed\n", len < 0 ? kvc_strerror((int)len) : "another length");
	compute(block);
	if (len != -KV_ENOTFOUND)
		return;
	rc = kvc_put(pool, key, block, BLOCK, &call);
	if (rc == -KV_EEXIST) /* another process has stored it: its bytes are as good */
		rc = 0;
	printf("%s\n", rc == 0 ? "stored" : kvc_strerror(rc));
}

int main(int argc, char **argv)
{
	const char *servers[] = {argc > 1 ? argv[1] : ""}, *name = argc > 2 ? argv[2] : "example/blocking";
	struct kvc_options options = {
		.size = sizeof(options), .servers = servers, .num_servers = 1, .num_clients = 1, .log_level = 2};
	struct kvc_key key = {name, strlen(name)};
	unsigned char *block = malloc(BLOCK);
	struct kvc_pool *pool = NULL;
	struct kv_error err;
	int rc = -1;
	if (argc < 2) {
		fprintf(stderr, "usage: blocking HOST:PORT [KEY]\n");
		free(block);
		return 2;
	}
	kvc_program_setup();
	if (!block)
		fprintf(stderr, "no memory\n");
	else if ((rc = kvc_pool_open(&options, &pool, &err)) < 0)
		fprintf(stderr, "%s\n", err.text); /* the failure, its cause and the remedy */
	else
		block_get(pool, key, block);
	kvc_pool_close(&pool);
	free(block);
	return rc < 0;
}
