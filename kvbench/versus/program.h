/* SPDX-License-Identifier: Apache-2.0 */
/* program.h -- a client program as a target of kv-bench versus: one process for each worker. */
#ifndef KVRAIL_KVBENCH_VERSUS_PROGRAM_H
#define KVRAIL_KVBENCH_VERSUS_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

struct program_memory {
	int fd;
	uint8_t *base;
	uint64_t bytes;
};

/* program_memory_make -- memory of this size, zeroed. An error ends the process with a sentence, as everywhere here. */
void program_memory_make(uint64_t bytes, struct program_memory *out);

/* program_start -- start the program at this path, and wait until it is ready. Returns our end of its standard input
 * and output, a socket; version: its own words. */
int program_start(const char *path, const struct program_memory *memory, char *version, size_t cap);

/* program_stop -- end its input, and wait until it has ended, for 10 s at most: it holds no memory then. */
void program_stop(int fd);

#endif
