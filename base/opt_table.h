/* SPDX-License-Identifier: Apache-2.0 */
/* opt_table.h -- shared by opt.c and opt_argp.c. Internal to base/. */
#ifndef KVRAIL_BASE_OPT_TABLE_H
#define KVRAIL_BASE_OPT_TABLE_H

#include "base/opt.h"

/* kv_opt_row_find -- the row with this name or alias; NULL: none. */
const struct kv_opt *kv_opt_row_find(const struct kv_opt *table, const char *name);

/* kv_opt_row_set -- parse value (NULL: none) into the row's field. 0 or -KV_EINVAL with *err. */
int kv_opt_row_set(const struct kv_opt *row, const char *value, void *into, struct kv_error *err);

/* kv_opt_choices_format -- the choices as "a, b or c". */
void kv_opt_choices_format(const struct kv_opt *row, char *buf, size_t cap);

#endif
