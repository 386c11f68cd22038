/* SPDX-License-Identifier: Apache-2.0 */
/* args.c -- the arguments of a new process. */
#include "kvbench/setup/args.h"

#include <stdarg.h>
#include <stdio.h>

void args_put(struct args *args, const char *arg)
{
	if (args->count == ARGS_MAX - 1) {
		args->full = true;
		return;
	}
	args->arg[args->count++] = arg;
	args->arg[args->count] = NULL;
}

void args_add(struct args *args, const char *fmt, ...)
{
	size_t left = sizeof(args->text) - args->used;
	char *at = args->text + args->used;
	va_list list;
	int n;
	va_start(list, fmt);
	n = vsnprintf(at, left, fmt, list);
	va_end(list);
	if (n < 0 || (size_t)n >= left) {
		args->full = true;
		return;
	}
	args->used += (size_t)n + 1;
	args_put(args, at);
}

int args_check(const struct args *args, struct kv_error *err)
{
	return args->full ? kv_fail(err, -KV_EINVAL,
				    "the options of a run are too long: use shorter names of files, or fewer servers")
			  : 0;
}
