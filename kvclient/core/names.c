/* SPDX-License-Identifier: Apache-2.0 */
/* names.c -- names of operations and codes. */
#include "base/base.h"
#include "kvclient/core/count.h"

const char *kvc_opname(enum kvc_op op)
{
	static const char *const names[] = {"GET",  "PUT",  "EXISTS", "DELETE",   "TOUCH", "PIN",
					    "PING", "STAT", "BORROW", "REGISTER", "CLEAR"};
	_Static_assert(KV_COUNT(names) == KVC_OPS, "a name for each operation");
	return op < KVC_OPS ? names[op] : "?";
}

int kvc_result_code(unsigned column)
{
	return column > 0 && column < KVC_RESULT_OTHER ? -(int)(1000 + column) : 0;
}

const char *kc_result_name(unsigned column)
{
	if (column == KVC_RESULT_OTHER)
		return "other";
	return column == 0 ? "ok" : kv_errkey(kvc_result_code(column));
}

/* The shared library does not export base/, which may change. */
const char *kvc_strerror(int code)
{
	return kv_strerror(code);
}

const char *kvc_errname(int code)
{
	return kv_errname(code);
}

const char *kvc_errkey(int code)
{
	return kv_errkey(code);
}
