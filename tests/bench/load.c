/* SPDX-License-Identifier: Apache-2.0 */
/* load.c -- what lfget and rawtcp do alike. A block is known by two words, at its ends: enough to notice a
 * place that was not written, or written with another block, without reading megabytes that the program measured does
 * not read either. */
#include "tests/bench/load.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int load_options(const struct kv_opt_program *program, const struct kv_opt *table, int argc, char **argv, void *into)
{
	struct kv_error err = {0};
	int rc = kv_opt_parse(program, table, argc, argv, into, NULL, &err);
	if (rc == 0)
		return -1;
	if (rc < 0)
		fprintf(stderr, "%s: %s (try --help)\n", program->name, err.text);
	return rc < 0 ? 2 : 0;
}

/* The word that a block begins and ends with; never 0. */
static uint64_t stamp(const struct load_shape *s, uint64_t block)
{
	return (block + 1) * 0x9e3779b97f4a7c15ull ^ (s->seed << 1 | 1);
}

static void words_put(const struct load_shape *s, uint8_t *at, uint64_t word)
{
	memcpy(at, &word, 8);
	memcpy(at + s->size - 8, &word, 8);
}

void blocks_fill(const struct load_shape *s, uint8_t *base)
{
	struct kv_prng prng;
	kv_prng_seed(&prng, s->seed);
	kv_prng_fill(&prng, base, s->blocks * s->size);
	for (uint64_t i = 0; i < s->blocks; i++)
		words_put(s, base + i * s->size, stamp(s, i));
}

void block_wipe(const struct load_shape *s, uint8_t *place)
{
	words_put(s, place, 0);
}

bool block_is(const struct load_shape *s, const uint8_t *place, uint64_t block)
{
	uint64_t first, last, want = stamp(s, block);
	memcpy(&first, place, 8);
	memcpy(&last, place + s->size - 8, 8);
	return first == want && last == want;
}

pid_t peer_start(void)
{
	pid_t child = fork();
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

bool peer_end(pid_t pid, const char *program)
{
	int status = 0;
	if (waitpid(pid, &status, 0) == pid && status == 0)
		return true;
	fprintf(stderr, "%s: the server process ended badly\n", program);
	return false;
}
