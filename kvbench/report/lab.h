/* SPDX-License-Identifier: Apache-2.0 */
/* lab.h -- kvlab, the part of kv-bench that works on reports and is written in Python: pages, charts, comparisons,
 * sweeps. kv-bench parses the options and starts it. */
#ifndef KVRAIL_KVBENCH_REPORT_LAB_H
#define KVRAIL_KVBENCH_REPORT_LAB_H

#include <jansson.h>

#include "base/base.h"

enum { LAB_ARGS_MAX = KV_OPT_STRINGS_MAX + 8 };

/* lab_exec -- become `kvlab NAME ARGUMENTS`. program: of which command an error's sentence is. input: a document that
 * it finds under the number in its first argument; NULL: none. Returns an exit status if it cannot be started. */
int lab_exec(const char *program, const char *name, const json_t *input, const char *const *args);

/* lab_run -- the same for a command whose plan kvlab carries out; takes the plan's reference. Adds the members version,
 * program and options. plan NULL: no memory for it, or an option is not text in UTF-8. */
int lab_run(const char *command, json_t *plan, int argc, char **argv);

/* lab_strings -- an array of strings; the caller's reference. */
json_t *lab_strings(const char *const *item, unsigned count);

/* lab_make -- the text of a file (page, hgrm, csv) of a report; the caller frees it. NULL with *err: the report lacks
 * figures that the file needs, or there is no Python. lab_check -- whether the program can be started. */
char *lab_make(const char *kind, const json_t *doc, size_t *len, struct kv_error *err);
int lab_check(struct kv_error *err);

#endif
