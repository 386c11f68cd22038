/* SPDX-License-Identifier: Apache-2.0 */
/* opt_file.h -- an option table's values from a file: lines "name = value", as on the command line without the dashes.
 */
#ifndef KVRAIL_BASE_OPT_FILE_H
#define KVRAIL_BASE_OPT_FILE_H

#include "base/opt.h"

/* A name that may not stand in the file, and why; a NULL name ends the list. */
struct kv_opt_refused {
	const char *name, *why;
};

/* kv_opt_file_read -- set the options that the file names; all others stay. Blank lines and lines that begin with # say
 * nothing; a flag is "name" alone, or "name = true". A name that stands there twice is refused. Strings point into
 * *out_text, which is the caller's to free when nothing uses them. Returns 0, or -KV_EINVAL, -KV_ENOMEM or -errno with
 * a sentence that names file and line, and for an unknown name one that is like it. Blocks: for the file. Thread: any.
 */
int kv_opt_file_read(const struct kv_opt *table, const struct kv_opt_refused *refused, const char *path, void *into,
		     char **out_text, struct kv_error *err);

#endif
