/* SPDX-License-Identifier: Apache-2.0 */
/* command.c -- see command.h. */
#include "kvbench/setup/command.h"

#include "kvbench/load/bench.h"

int command_over(const char *name, int rc, const struct kv_error *err, const struct kv_opt *table, const void *options,
		 bool config)
{
	if (rc < 0) {
		fprintf(stderr, "%s: %s (try --help)\n", name, err->text);
		return BENCH_USAGE;
	}
	if (rc == 0 && !config)
		return -1;
	if (rc == 0)
		kv_opt_dump(table, options, stdout);
	return BENCH_OK;
}
