/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c -- what the pages of a shared arena cost: making them, and reading values in place through another mapping.
 *
 * Kinds: private memory with transparent huge pages, as a server had before it shared its arena; shared memory with
 * small pages, as distributions give it; shared memory whose stretches of 2 MiB are collapsed before their first use
 * (kv_area_ready). Values are read at random addresses of AREA_BYTES, with their checksum in place, and copied. All
 * kinds run in turn, ROUNDS times; the median is printed. The first reading of a new mapping makes its page tables: it
 * is measured apart, and their size is VmPTE of /proc. One thread, in its processor time. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "host/host.h"
#include "tests/bench/result.h"

enum { ROUNDS = 7 };
#define AREA_BYTES ((uint64_t)256 << 20)
#define WORK_BYTES ((uint64_t)128 << 20)
#define STRETCH    ((uint64_t)2 << 20)

enum kind { PRIVATE, SMALL, COLLAPSED, KINDS };

static const char *const kind_name[KINDS] = {"private, huge", "shared, 4 KiB", "shared, collapsed"};
static volatile uint64_t sink;
static uint8_t *copy;

static double page_tables_kib(void)
{
	char text[64];
	return kv_file_field(text, sizeof(text), "VmPTE:", "/proc/self/status") ? strtod(text, NULL) : -1;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *n)
{
	qsort(n, ROUNDS, sizeof(double), by_size);
	return n[ROUNDS / 2];
}

static int area_make(enum kind kind, struct kv_area *out)
{
	struct kv_error err = {0};
	int rc = kind == PRIVATE ? kv_area_map_lazy(AREA_BYTES, out, &err)
				 : kv_area_map_shared(AREA_BYTES, KV_NODE_ANY, out, &err);
	if (rc < 0)
		fprintf(stderr, "pages: %s\n", err.text);
	if (rc == 0 && kind == SMALL && out->ready)
		(void)madvise(out->base, out->len_bytes, MADV_NOHUGEPAGE);
	return rc;
}

/* Processor time, in which other processes do not count. */
static double processor_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Store bytes as a server would. Returns ns for each 2 MiB. */
static double area_fill(enum kind kind, struct kv_area *area)
{
	double begun = processor_ns();
	for (uint64_t at = 0; at < AREA_BYTES; at += 64 << 10) {
		if (kind == COLLAPSED)
			kv_area_ready(area, at, 64 << 10);
		memset((uint8_t *)area->base + at, (int)(at >> 16) + 1, 64 << 10);
	}
	return (processor_ns() - begun) / (double)(AREA_BYTES / STRETCH);
}

/* ns for each 2 MiB of a new mapping, of which a byte of each page is read. */
static double first_reading(const uint8_t *at)
{
	double begun = processor_ns();
	uint64_t sum = 0;
	for (uint64_t i = 0; i < AREA_BYTES; i += 4096)
		sum += at[i];
	sink += sum;
	return (processor_ns() - begun) / (double)(AREA_BYTES / STRETCH);
}

static double reading(const uint8_t *at, uint64_t len, bool copying, struct kv_prng *prng)
{
	uint64_t n = WORK_BYTES / len, sum = 0;
	double begun = processor_ns();
	for (uint64_t i = 0; i < n; i++) {
		const uint8_t *value = at + kv_prng_below(prng, AREA_BYTES / len) * len;
		if (copying)
			memcpy(copy + i * len % WORK_BYTES, value, len);
		else
			sum += kv_hash_block(value, len);
	}
	sink += sum;
	return (processor_ns() - begun) / (double)n;
}

/* Make, fill and view an area of each kind. */
static int round_of_areas(struct kv_area *area, const uint8_t **view, double *fill, double *first, double *tables)
{
	for (unsigned k = 0; k < KINDS; k++) {
		void *at;
		if (view[k] && k != PRIVATE)
			munmap((void *)(uintptr_t)view[k], AREA_BYTES);
		kv_area_unmap(&area[k]);
		if (area_make((enum kind)k, &area[k]) < 0)
			return -1;
		fill[k] = area_fill((enum kind)k, &area[k]);
		at = area[k].base;
		if (k != PRIVATE && kv_memfd_map(area[k].fd, AREA_BYTES, false, &at, NULL) < 0)
			return -1;
		tables[k] = page_tables_kib();
		first[k] = first_reading(at);
		tables[k] = page_tables_kib() - tables[k];
		view[k] = at;
	}
	return 0;
}

/* The areas of the last round stay. */
static int make_all(struct kv_area *area, const uint8_t **view)
{
	double fill[ROUNDS][KINDS], first[ROUNDS][KINDS], tables[KINDS], one[ROUNDS];
	for (unsigned r = 0; r < ROUNDS; r++)
		if (round_of_areas(area, view, fill[r], first[r], tables) < 0)
			return -1;
	printf("%-20s%16s%18s%14s\n", "", "fill, us/2 MiB", "view, us/2 MiB", "tables, KiB");
	for (unsigned k = 0; k < KINDS; k++) {
		for (unsigned r = 0; r < ROUNDS; r++)
			one[r] = fill[r][k] / 1e3;
		printf("%-20s%16.1f", kind_name[k], median(one));
		for (unsigned r = 0; r < ROUNDS; r++)
			one[r] = first[r][k] / 1e3;
		printf("%18.1f%14.0f\n", median(one), tables[k]);
	}
	return 0;
}

int main(void)
{
	static const uint64_t len[] = {4 << 10, 64 << 10, 1 << 20};
	struct kv_area area[KINDS] = {0};
	const uint8_t *view[KINDS] = {0};
	struct kv_prng prng;
	kv_prng_seed(&prng, 1);
	copy = mmap(NULL, WORK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (copy == MAP_FAILED || make_all(area, view) < 0)
		return 1;
	printf("\n%-20s", "us for each value");
	for (unsigned k = 0; k < KINDS; k++)
		printf("%20s", kind_name[k]);
	printf("\n");
	for (unsigned i = 0; i < 2 * KV_COUNT(len); i++) {
		double ns[KINDS][ROUNDS];
		uint64_t n = len[i / 2];
		bool copying = i % 2;
		for (unsigned r = 0; r < ROUNDS; r++)
			for (unsigned k = 0; k < KINDS; k++)
				ns[k][r] = reading(view[k], n, copying, &prng);
		printf("%5llu KiB %-10s", (unsigned long long)(n >> 10), copying ? "copied" : "checksum");
		for (unsigned k = 0; k < KINDS; k++)
			printf("%20.2f", median(ns[k]) / 1e3);
		printf("\n");
	}
	return 0;
}
