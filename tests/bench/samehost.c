/* SPDX-License-Identifier: Apache-2.0 */
/* samehost.c -- what moving a block between two processes of one host costs: the kernel's copy (process_vm_readv, which
 * is what the shm provider does), with small and with huge pages; memcpy from memory that both map; and the checksum
 * of bytes that stay there, which is all that a client could not save.
 *
 * The owner of the blocks is a child that sleeps; this process copies blocks in random order from AREA_BYTES into a
 * buffer of BUFFER_BYTES, slot after slot, so neither side is in a cache. With each copy or without its checksum, as a
 * GET makes it. What is compared runs in turn, ROUNDS times; the median is printed. One thread: another one would
 * compete for memory. The shared mapping has huge pages only if /sys/kernel/mm/transparent_hugepage/shmem_enabled
 * allows it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/result.h"

enum { ROUNDS = 7 };
#define AREA_BYTES   ((uint64_t)256 << 20)
#define BUFFER_BYTES ((uint64_t)64 << 20)
#define WORK_BYTES   ((uint64_t)64 << 20)
#define ALIGN_BYTES  ((uint64_t)2 << 20)

enum way { SMALL_PAGES, HUGE_PAGES, SHARED, IN_PLACE, WAYS };

static const char *const way_name[WAYS] = {"readv, 4 KiB pages", "readv, huge pages", "memcpy, shared",
					   "in place, shared"};

static pid_t owner;
static uint8_t *area[WAYS],
	*buffer[WAYS]; /* addresses here; the owner, a fork of us, has its own pages at the same ones */
static volatile uint64_t sink;

static uint8_t *map(uint64_t len, int flags, int fd, int advice)
{
	uint64_t at;
	uint8_t *p = mmap(NULL, len + ALIGN_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	at = ((uint64_t)(uintptr_t)p + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
	p = mmap((void *)(uintptr_t)at, len, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	(void)madvise(p, len, advice); /* without such pages it measures what there is */
	return p;
}

static int areas_map(void)
{
	int fd = memfd_create("samehost", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)AREA_BYTES))
		return -1;
	area[SMALL_PAGES] = map(AREA_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1, MADV_NOHUGEPAGE);
	area[HUGE_PAGES] = map(AREA_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1, MADV_HUGEPAGE);
	area[SHARED] = map(AREA_BYTES, MAP_SHARED, fd, MADV_HUGEPAGE);
	close(fd);
	area[IN_PLACE] = area[SHARED];
	for (unsigned w = 0; w < WAYS; w++) {
		buffer[w] = map(BUFFER_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1,
				w == SMALL_PAGES ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
		if (!area[w] || !buffer[w])
			return -1;
	}
	return 0;
}

/* The owner writes its blocks itself, so that the pages are its own. */
static int owner_start(void)
{
	int ready[2];
	char c;
	if (pipe(ready))
		return -1;
	owner = fork();
	if (owner < 0)
		return -1;
	if (owner == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (unsigned w = 0; w < WAYS; w++)
			memset(area[w], 2, AREA_BYTES);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	return read(ready[0], &c, 1) == 1 ? 0 : -1;
}

/* Where the bytes are afterwards; NULL: the kernel refuses. */
static const uint8_t *bring(enum way way, uint8_t *to, uint64_t offset, uint64_t len)
{
	struct iovec local = {to, len}, remote = {area[way] + offset, len};
	if (way == IN_PLACE)
		return area[way] + offset;
	if (way == SHARED)
		return memcpy(to, area[way] + offset, len);
	return process_vm_readv(owner, &local, 1, &remote, 1, 0) == (ssize_t)len ? to : NULL;
}

/* ns for each block, or a negative number. */
static double measure(enum way way, uint64_t len, bool sum, struct kv_prng *prng)
{
	uint64_t n = WORK_BYTES / len, begun = now_ns(), sums = 0;
	for (uint64_t i = 0; i < n; i++) {
		uint8_t *to = buffer[way] + i * len % BUFFER_BYTES;
		const uint8_t *at = bring(way, to, kv_prng_below(prng, AREA_BYTES / len) * len, len);
		if (!at)
			return -1;
		sums += sum ? kv_hash_block(at, len) : 0;
	}
	sink += sums;
	return (double)(now_ns() - begun) / (double)n;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int row(uint64_t len, bool sum, struct kv_prng *prng)
{
	double ns[WAYS][ROUNDS];
	unsigned ways = sum ? WAYS : IN_PLACE; /* without a checksum nothing happens in place */
	for (unsigned r = 0; r < ROUNDS; r++)
		for (unsigned w = 0; w < ways; w++) {
			ns[w][r] = measure((enum way)w, len, sum, prng);
			if (ns[w][r] < 0) {
				fprintf(stderr, "samehost: process_vm_readv: %s (see kernel.yama.ptrace_scope)\n",
					strerror(errno));
				return -1;
			}
		}
	printf("%5llu KiB %-9s", (unsigned long long)(len >> 10), sum ? "+ sum" : "");
	for (unsigned w = 0; w < ways; w++) {
		qsort(ns[w], ROUNDS, sizeof(double), by_size);
		printf("%8.1f us %5.1f GB/s  ", ns[w][ROUNDS / 2] / 1e3, (double)len / ns[w][ROUNDS / 2]);
	}
	printf("\n");
	return 0;
}

int main(void)
{
	static const uint64_t len[] = {4 << 10, 64 << 10, 1 << 20};
	struct kv_prng prng;
	int rc = 0;
	kv_prng_seed(&prng, 1);
	if (areas_map() || owner_start()) {
		fprintf(stderr, "samehost: %s\n", strerror(errno));
		return 1;
	}
	for (unsigned w = 0; w < WAYS; w++)
		memset(buffer[w], 1,
		       BUFFER_BYTES); /* after the fork: copied on write, huge pages would become small ones */
	printf("%-18s", "");
	for (unsigned w = 0; w < WAYS; w++)
		printf("%-24s", way_name[w]);
	printf("\n");
	for (unsigned i = 0; i < KV_COUNT(len) && rc == 0; i++)
		rc = row(len[i], false, &prng);
	for (unsigned i = 0; i < KV_COUNT(len) && rc == 0; i++)
		rc = row(len[i], true, &prng);
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);
	return rc ? 1 : 0;
}
