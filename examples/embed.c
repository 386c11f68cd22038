/* SPDX-License-Identifier: Apache-2.0 */
/* embed.c -- how a program embeds KVRail: open a pool, register memory, then store and read blocks, from workers and
 * from a plain thread.
 *
 *   kv-server --listen-addr 127.0.0.1:7411 &     # on loopback, without keys
 *   embed 127.0.0.1:7411                         # 0: all is well; 1: something failed */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvrail/kvclient.h>

enum { WORKERS = 8, BLOCK = 1 << 20 };

static atomic_uint failed; /* workers run on several threads */

/* A worker is a coroutine: while it waits in an _await call, others run. Its blocks lie in registered memory, so the
 * server reads and writes them directly. */
static void worker(struct kvc_client *client, unsigned w, void *arg)
{
	unsigned char *block = (unsigned char *)arg + (size_t)w * BLOCK;
	char name[32];
	struct kvc_key key = {name, (size_t)snprintf(name, sizeof(name), "embed/block-%u", w)};
	int64_t len;
	int rc;
	memset(block, (int)w + 1, BLOCK);
	rc = kvc_put_await(client, key, block, BLOCK, NULL);
	memset(block, 0, BLOCK);
	len = kvc_get_await(client, key, block, BLOCK, NULL);
	failed += rc < 0 || len != BLOCK || block[0] != w + 1;
	printf("worker %u: put %s, got %" PRId64 " bytes, first %d\n", w, kvc_strerror(rc), len, block[0]);
}

int main(int argc, char **argv)
{
	const char *servers[] = {argc > 1 ? argv[1] : "127.0.0.1:7411"};
	/* With KVC_OPEN_WAIT the pool opens when its server is there. Without the flag it opens at once, and the server
	 * may come later. */
	struct kvc_options options = {.size = sizeof(options),
				      .num_clients = 2,
				      .servers = servers,
				      .num_servers = 1,
				      .flags = KVC_OPEN_WAIT,
				      .log_level = 2};
	struct kvc_key key = {"embed/hello", 11};
	unsigned char *blocks = aligned_alloc(4096, (size_t)WORKERS * BLOCK);
	struct kvc_mem *mem = NULL;
	struct kvc_pool *pool = NULL;
	struct kv_error err;
	char text[16] = "";
	int64_t len;
	int rc;
	kvc_program_setup();
	rc = kvc_pool_open(&options, &pool, &err);
	if (rc == 0 && blocks)
		rc = kvc_register(pool, blocks, (uint64_t)WORKERS * BLOCK, &mem, &err);
	if (rc < 0 || !blocks) {
		fprintf(stderr, "%s\n", blocks ? err.text : "no memory");
		goto out;
	}
	rc = kvc_run(pool, WORKERS, worker, blocks);
	/* Any other thread makes the same calls without _await. Unregistered memory is copied. */
	rc = rc ? rc : kvc_put(pool, key, "hello", 6, NULL);
	len = kvc_get(pool, key, text, sizeof(text), NULL);
	rc = rc == 0 && len < 0 ? (int)len : rc;
	printf("blocking: put %s, got %" PRId64 " bytes: %s\n", kvc_strerror(rc), len, text);
out:
	/* Closing the pool also ends registrations; kvc_unregister is for memory that is freed before. */
	kvc_pool_close(&pool);
	rc = rc || !blocks || failed;
	free(blocks);
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
