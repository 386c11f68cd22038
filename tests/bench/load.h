/* SPDX-License-Identifier: Apache-2.0 */
/* load.h -- what the load tools of `make bench` share: options, the blocks that a peer of their own serves, its end. */
#ifndef KVRAIL_TESTS_BENCH_LOAD_H
#define KVRAIL_TESTS_BENCH_LOAD_H

#include <sys/types.h>

#include "base/base.h"

struct load_shape {
	uint64_t blocks; /* that there are */
	uint64_t size, seed, duration_ns;
};

#define LOAD_DURATION_MAX 3600000000000ull

/* Rows of an option table. of: the struct that has a `struct load_shape shape`. */
#define LOAD_ROWS(of)                                                                                                  \
	{.name = "value-size",                                                                                         \
	 .letter = 'v',                                                                                                \
	 .type = KV_OPT_SIZE,                                                                                          \
	 .offset = offsetof(of, shape.size),                                                                           \
	 .metavar = "SIZE",                                                                                            \
	 .def = "64KB",                                                                                                \
	 .min = 16,                                                                                                    \
	 .max = 1 << 30,                                                                                               \
	 .help = "Size of a value."},                                                                                  \
		{.name = "duration",                                                                                   \
		 .letter = 'd',                                                                                        \
		 .type = KV_OPT_DURATION,                                                                              \
		 .offset = offsetof(of, shape.duration_ns),                                                            \
		 .metavar = "SEC",                                                                                     \
		 .def = "1",                                                                                           \
		 .min = 1000000,                                                                                       \
		 .max = LOAD_DURATION_MAX,                                                                             \
		 .help = "How long to read, after a warm-up of a tenth."},                                             \
		{.name = "seed",                                                                                       \
		 .type = KV_OPT_U64,                                                                                   \
		 .offset = offsetof(of, shape.seed),                                                                   \
		 .metavar = "N",                                                                                       \
		 .def = "1",                                                                                           \
		 .help = "Seed of values and order."}

/* How many there are; `n` is the option's name. */
#define LOAD_BLOCKS_ROW(of, n, text)                                                                                   \
	{.name = n,                                                                                                    \
	 .letter = 'k',                                                                                                \
	 .type = KV_OPT_U64,                                                                                           \
	 .offset = offsetof(of, shape.blocks),                                                                         \
	 .metavar = "N",                                                                                               \
	 .def = "4096",                                                                                                \
	 .min = 1,                                                                                                     \
	 .max = 1 << 30,                                                                                               \
	 .help = text}

/* uint32_t, with what else is to be said of it: name, letter, default, bounds, help. */
#define LOAD_COUNT_ROW(...) {.type = KV_OPT_U32, .metavar = "N", .min = 1, __VA_ARGS__}

/* load_options -- the command line. -1: go on; else the status to end with, after --help or a sentence. */
int load_options(const struct kv_opt_program *program, const struct kv_opt *table, int argc, char **argv, void *into);

/* blocks_fill -- random bytes; each block begins and ends with a word of its own. */
void blocks_fill(const struct load_shape *shape, uint8_t *base);

/* block_wipe, block_is -- wipe both words of the place that a block is to come to; whether it is there. */
void block_wipe(const struct load_shape *shape, uint8_t *place);
bool block_is(const struct load_shape *shape, const uint8_t *place, uint64_t block);

/* peer_start -- fork the process that serves; it ends with this one. 0 in the child; -1: it could not be made. */
pid_t peer_start(void);

/* peer_end -- whether it ended well, now that its client has gone; else says so. */
bool peer_end(pid_t pid, const char *program);

#endif
