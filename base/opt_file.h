/* SPDX-License-Identifier: Apache-2.0 */
/* opt_file.h -- options from a file: lines "name = value", named as on the command line. */
#ifndef KVRAIL_BASE_OPT_FILE_H
#define KVRAIL_BASE_OPT_FILE_H

#include "base/opt.h"

/* A name that is not allowed in the file, and why; NULL ends the list. */
struct kv_opt_refused {
	const char *name, *why;
};

/* kv_opt_file_read -- set the options in the file. Blank lines and # comments are skipped; a flag is "name" or "name =
 * true". Repeated names are refused. Strings point into *out_text, which the caller frees. 0, or -KV_EINVAL, -KV_ENOMEM
 * or -errno with file, line, and a similar name for an unknown one. Blocks: for the file. Thread: any. */
int kv_opt_file_read(const struct kv_opt *table, const struct kv_opt_refused *refused, const char *path, void *into,
		     char **out_text, struct kv_error *err);

#endif
