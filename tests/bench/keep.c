/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c -- how long a server with --keep writes and reads its index: `keep [VALUES [THREADS [FILE]]]`.
 *
 * Each thread has a store with its part of the values, whose bytes do not matter. Rounds alternate between one thread
 * and all; the best of each is printed: seconds per million values, processor time of each value in nanoseconds, and
 * this as a multiple of the processor time in which one thread copies memory of the file's size. FILE is on /dev/shm,
 * so that no disk is measured. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/store.h"
#include "tests/bench/result.h"

enum { ROUNDS = 3, THREADS_MAX = 64, VALUE = 64 };

#define NOW 1000000000ull

static uint64_t values = 1000000;
static unsigned threads = 2, parts;
static const char *path = "/dev/shm/kvrail-bench-keep";
static struct store store[THREADS_MAX];
static struct keep_rest rest[THREADS_MAX];
static struct keep_head head = {.digest_seed = 7};
static struct keep_out *out;
static struct keep_in *in;

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "keep: %s\n", what);
	exit(1);
}

static void empty(unsigned i)
{
	const struct store_options o = {.base = &store[i], /* no byte of a value is touched */
					.limit_bytes = head.limit_bytes,
					.seed = 3,
					.digest_seed = head.digest_seed,
					.generation = 1,
					.now_ns = NOW,
					.policy = evict_policies[0],
					.blocks_max = values / parts + 1};
	check(store_init(&store[i], &o) == 0, "no memory for a store");
}

static void *fill(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;
	empty(i);
	for (uint64_t n = 0; n < values / parts; n++) {
		struct block *b, *holder;
		char key[32];
		int len = snprintf(key, sizeof(key), "value-%u-%llu", i, (unsigned long long)n);
		check(store_stage_spare(&store[i], key, (size_t)len, VALUE, ARENA_LOW, &b) == 0, "no room");
		check(store_commit(&store[i], b, n, KV_NEVER, NOW, &holder) == 0, "no value");
		block_unref(&store[i], b);
	}
	return NULL;
}

static void *save(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;
	struct keep_writer *w = keep_writer_open(out, i);
	keep_store(w, &store[i], NOW);
	keep_writer_close(&w);
	return NULL;
}

static void *restore(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;
	struct keep_clock clock = keep_clock_of(&head, NOW, NOW);
	struct keep_reader *r;
	struct kv_error err = {0};
	empty(i);
	check(keep_reader_open(in, i, &r, &err) == 0 && keep_restore(r, &clock, &store[i], &rest[i], &err) == 0,
	      err.text);
	check(rest[i].blocks == values / parts, "values are missing");
	keep_reader_close(&r);
	return NULL;
}

static void end(void)
{
	for (unsigned i = 0; i < parts; i++) {
		keep_rest_end(&store[i], &rest[i]);
		rest[i] = (struct keep_rest){0};
		store_fini(&store[i]);
	}
}

/* Of the process: seconds. */
static double cpu_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void all(void *(*work)(void *))
{
	pthread_t thread[THREADS_MAX];
	for (unsigned i = 0; i < parts; i++)
		check(pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i) == 0, "no thread");
	for (unsigned i = 0; i < parts; i++)
		pthread_join(thread[i], NULL);
}

/* Seconds, by the clock and of processors: the best so far. */
struct span {
	double wall, cpu, begun_wall, begun_cpu;
};

static void span_begin(struct span *s)
{
	s->begun_wall = (double)now_ns() / 1e9;
	s->begun_cpu = cpu_s();
}

static void span_end(struct span *s)
{
	s->wall = fmin(s->wall, (double)now_ns() / 1e9 - s->begun_wall);
	s->cpu = fmin(s->cpu, cpu_s() - s->begun_cpu);
}

static volatile uint8_t sink; /* the copy is used */

static void copy(struct span *s, uint64_t bytes)
{
	uint8_t *from = malloc(bytes), *to = malloc(bytes);
	check(from && to, "no memory to copy");
	memset(from, 1, bytes);
	memset(to, 2, bytes);
	span_begin(s);
	memcpy(to, from, bytes);
	span_end(s);
	sink = to[bytes / 2];
	free(from);
	free(to);
}

struct times {
	struct span save, restore, copy;
};

static void round_run(unsigned count, struct times *best)
{
	struct keep_head read;
	struct stat st;
	parts = count;
	head.shards = count;
	head.limit_bytes = (values / count + 1) * VALUE;
	all(fill);
	span_begin(&best->save);
	check(keep_create(path, &head, &out, NULL) == 0, "cannot write the file");
	all(save);
	check(keep_commit(&out, NULL) == 0, "the file is not complete");
	span_end(&best->save);
	end();
	check(keep_open(path, &in, &read, NULL) == 0, "cannot read the file");
	span_begin(&best->restore);
	all(restore);
	span_end(&best->restore);
	end();
	keep_close(&in);
	check(stat(path, &st) == 0, "the file is gone");
	copy(&best->copy, (uint64_t)st.st_size);
}

static void print(unsigned count, const struct times *t)
{
	double million = 1e6 / (double)(values / count * count);
	printf("%-8u %8.3f %8.3f %10.0f %10.0f %11.1f %13.1f\n", count, t->save.wall * million,
	       t->restore.wall * million, t->save.cpu * million * 1e3, t->restore.cpu * million * 1e3,
	       t->save.cpu / t->copy.cpu, t->restore.cpu / t->copy.cpu);
}

int main(int argc, char **argv)
{
	const struct span none = {.wall = 1e9, .cpu = 1e9};
	struct times one = {none, none, none}, many = one;
	values = argc > 1 ? strtoull(argv[1], NULL, 10) : values;
	threads = argc > 2 ? (unsigned)atoi(argv[2]) : threads;
	path = argc > 3 ? argv[3] : path;
	if (threads < 1 || threads > THREADS_MAX || values < threads || values > STORE_BLOCKS_MAX / 2) {
		fprintf(stderr, "usage: keep [VALUES [THREADS 1-%d [FILE]]]\n", THREADS_MAX);
		return 2;
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		round_run(1, &one);
		round_run(threads, &many);
	}
	printf("         s per million     CPU ns of a value     / copy of the file's size\n");
	printf("threads      save  restore       save    restore        save       restore\n");
	print(1, &one);
	print(threads, &many);
	unlink(path);
	return 0;
}
