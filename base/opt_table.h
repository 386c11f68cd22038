/* SPDX-License-Identifier: Apache-2.0 */
/* opt_table.h -- functions that opt.c and opt_argp.c share. Internal to base/: not part of base.h. */
#ifndef KVRAIL_BASE_OPT_TABLE_H
#define KVRAIL_BASE_OPT_TABLE_H

#include "base/opt.h"

/* kv_opt_row_set -- parse value (NULL: none was given) into the row's field. Returns 0 or -KV_EINVAL with *err. */
int kv_opt_row_set(const struct kv_opt *row, const char *value, void *into, struct kv_error *err);

/* kv_opt_choices_format -- write the choices of a KV_OPT_CHOICE row as "a, b or c". */
void kv_opt_choices_format(const struct kv_opt *row, char *buf, size_t cap);

#endif
