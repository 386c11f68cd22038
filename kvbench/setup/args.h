/* SPDX-License-Identifier: Apache-2.0 */
/* args.h -- the arguments of a new process. */
#ifndef KVRAIL_KVBENCH_SETUP_ARGS_H
#define KVRAIL_KVBENCH_SETUP_ARGS_H

#include <stdbool.h>

#include "base/base.h"

enum { ARGS_MAX = 192, ARGS_TEXT_MAX = 32768 };

/* The arguments of a process, beginning with the program's name. Zeroed before the first one. */
struct args {
	const char *arg[ARGS_MAX]; /* NULL behind the last */
	unsigned count;
	bool full;
	size_t used;
	char text[ARGS_TEXT_MAX];
};

/* args_add -- append a formatted argument. args_put -- append one that outlives args. */
void args_add(struct args *args, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void args_put(struct args *args, const char *arg);

/* args_check -- 0, or -KV_EINVAL with *err if an argument found no room. */
int args_check(const struct args *args, struct kv_error *err);

#endif
