/* SPDX-License-Identifier: Apache-2.0 */
/* command.h -- how every command of kv-bench begins. */
#ifndef KVRAIL_KVBENCH_SETUP_COMMAND_H
#define KVRAIL_KVBENCH_SETUP_COMMAND_H

#include <stdbool.h>

#include "base/base.h"

/* command_over -- after the options were parsed: rc is that of the parser, name is "kv-bench sweep". Prints the error,
 * or the options of --config (table NULL: the command has none). Returns the exit status, or -1 if the command runs. */
int command_over(const char *name, int rc, const struct kv_error *err, const struct kv_opt *table, const void *options,
		 bool config);

#endif
