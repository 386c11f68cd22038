/* SPDX-License-Identifier: Apache-2.0 */
/* window.c -- the time of both sides for a PUT on one host: through the landing area, as it is made, and in a window of
 * the arena that the client may write until the server seals it.
 *
 *   landing  the client copies to the shared area, the server copies to the arena and sums (kvserver/ops/copy.c)
 *   ideal    the client copies to the arena, the server sums there: a window without a price
 *   window   a memfd for the value: made, mapped and filled by the client, unmapped, sealed against writers, mapped by
 *            the server, summed. A seal against writers is refused while any writable mapping exists
 *
 * All in one thread, in turns; medians and the ratio to `landing`. Values come from SOURCE_BYTES, and arena places are
 * random, so neither is in a cache; the landing area is as large as a client's. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kvserver/ops/private.h"
#include "tests/bench/result.h"

enum { ROUNDS = 15 };
#define ARENA_BYTES   ((uint64_t)256 << 20)
#define SOURCE_BYTES  ((uint64_t)128 << 20)
#define LANDING_BYTES ((uint64_t)8 << 20)
#define WORK_BYTES    ((uint64_t)32 << 20)

enum way { LANDING, IDEAL, WINDOW, WAYS };
static const char *const way_name[WAYS] = {"landing", "ideal", "window"};

static uint8_t *arena, *source, *landing;
static volatile uint64_t sink;

static uint8_t *shared(uint64_t len)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	memset(p, 1, len);
	return p;
}

static int window_put(const uint8_t *from, uint64_t len)
{
	int fd = memfd_create("window", MFD_CLOEXEC | MFD_ALLOW_SEALING), rc = -1;
	uint8_t *p;
	if (fd < 0 || ftruncate(fd, (off_t)len))
		goto out;
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		goto out;
	memcpy(p, from, len);
	munmap(p, len);
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		goto out;
	p = mmap(NULL, len, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		goto out;
	sink += kv_hash_block(p, len);
	munmap(p, len); /* with the block */
	rc = 0;
out:
	if (fd >= 0)
		close(fd);
	return rc;
}

static int put(enum way way, uint64_t i, uint64_t len, struct kv_prng *prng)
{
	const uint8_t *from = source + kv_prng_below(prng, SOURCE_BYTES / len) * len;
	uint8_t *to = arena + kv_prng_below(prng, ARENA_BYTES / len) * len, *at = landing + i * len % LANDING_BYTES;
	switch (way) {
	case LANDING:
		memcpy(at, from, len);
		sink += copy_digest(to, at, len);
		return 0;
	case IDEAL:
		memcpy(to, from, len);
		sink += kv_hash_block(to, len);
		return 0;
	default:
		return window_put(from, len);
	}
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int row(uint64_t len, struct kv_prng *prng)
{
	double ns[WAYS][ROUNDS];
	uint64_t n = WORK_BYTES / len;
	for (unsigned r = 0; r < ROUNDS; r++)
		for (unsigned w = 0; w < WAYS; w++) {
			uint64_t begun = now_ns();
			for (uint64_t i = 0; i < n; i++)
				if (put((enum way)w, i, len, prng))
					return -1;
			ns[w][r] = (double)(now_ns() - begun) / (double)n;
		}
	printf("%6llu KiB", (unsigned long long)(len >> 10));
	for (unsigned w = 0; w < WAYS; w++) {
		qsort(ns[w], ROUNDS, sizeof(double), by_size);
		printf("   %s %8.1f us, %.2f", way_name[w], ns[w][ROUNDS / 2] / 1e3,
		       ns[LANDING][ROUNDS / 2] / ns[w][ROUNDS / 2]);
	}
	printf("\n");
	return 0;
}

int main(void)
{
	static const uint64_t len[] = {256 << 10, 1 << 20, 4 << 20};
	struct kv_prng prng;
	int rc = 0;
	kv_prng_seed(&prng, 1);
	arena = shared(ARENA_BYTES);
	source = shared(SOURCE_BYTES);
	landing = shared(LANDING_BYTES);
	for (unsigned i = 0; arena && source && landing && i < KV_COUNT(len) && rc == 0; i++)
		rc = row(len[i], &prng);
	if (!arena || !source || !landing || rc)
		fprintf(stderr, "window: %s\n", strerror(errno));
	return arena && source && landing && rc == 0 ? 0 : 1;
}
