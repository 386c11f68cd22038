/* SPDX-License-Identifier: Apache-2.0 */
/* opt.h -- option tables: one row per option gives the parse (glibc argp), --help, and the configuration dump. */
#ifndef KVRAIL_BASE_OPT_H
#define KVRAIL_BASE_OPT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum kv_opt_type {
	KV_OPT_FLAG,     /* bool: no argument, sets true */
	KV_OPT_U32,      /* uint32_t */
	KV_OPT_U64,      /* uint64_t */
	KV_OPT_SIZE,     /* uint64_t bytes, see kv_size_parse */
	KV_OPT_DURATION, /* uint64_t ns, see kv_duration_parse */
	KV_OPT_DOUBLE,   /* double */
	KV_OPT_STRING,   /* const char *: points into argv or at the default */
	KV_OPT_STRINGS,  /* struct kv_opt_strings: repeatable */
	KV_OPT_CHOICE    /* int: index into choices */
};

/* The unit of a bare KV_OPT_U32 or KV_OPT_U64. A number with its own unit ("90s", "4GiB") is converted and must be
 * whole. */
enum kv_opt_unit { KV_OPT_PLAIN, KV_OPT_US, KV_OPT_MS, KV_OPT_SECONDS, KV_OPT_MIB };

enum { KV_OPT_STRINGS_MAX = 64 };

struct kv_opt_strings {
	unsigned count;
	const char *item[KV_OPT_STRINGS_MAX];
};

struct kv_opt {
	const char *name; /* long name without dashes; NULL ends the table */
	const char *alias;
	char letter; /* short option, or 0 */
	enum kv_opt_type type;
	size_t offset;              /* of the field in the caller's struct */
	const char *metavar;        /* "SIZE", "N", "HOST:PORT" */
	const char *def;            /* as the user types it; NULL: zero */
	const char *help;           /* one sentence; the default is appended */
	uint64_t min, max;          /* for numbers, inclusive; both 0: any; a max of 0 alone: no upper bound */
	const char *const *choices; /* for KV_OPT_CHOICE: NULL-terminated */
	enum kv_opt_unit unit;
	const char *group;
};

/* Rows: name, field as .offset = offsetof(...), arguments of the type, help; then .letter, .alias, .unit, .group. No
 * bounds: 0, 0. */
#define KV_ROW_FLAG(n, at, text, ...)               {.name = n, .type = KV_OPT_FLAG, at, .help = text, __VA_ARGS__}
#define KV_ROW_TEXT(n, at, meta, deflt, text, ...)  KV_ROW(KV_OPT_STRING, n, at, meta, deflt, text, __VA_ARGS__)
#define KV_ROW_TEXTS(n, at, meta, deflt, text, ...) KV_ROW(KV_OPT_STRINGS, n, at, meta, deflt, text, __VA_ARGS__)
#define KV_ROW_CHOICE(n, at, meta, deflt, names, text, ...)                                                            \
	KV_ROW(KV_OPT_CHOICE, n, at, meta, deflt, text, .choices = names, __VA_ARGS__)
#define KV_ROW_U32(n, at, meta, deflt, lo, hi, text, ...)                                                              \
	KV_ROW(KV_OPT_U32, n, at, meta, deflt, text, .min = lo, .max = hi, __VA_ARGS__)
#define KV_ROW_U64(n, at, meta, deflt, lo, hi, text, ...)                                                              \
	KV_ROW(KV_OPT_U64, n, at, meta, deflt, text, .min = lo, .max = hi, __VA_ARGS__)
#define KV_ROW_DOUBLE(n, at, meta, deflt, lo, hi, text, ...)                                                           \
	KV_ROW(KV_OPT_DOUBLE, n, at, meta, deflt, text, .min = lo, .max = hi, __VA_ARGS__)
#define KV_ROW_SIZE(n, at, deflt, lo, hi, text, ...)                                                                   \
	KV_ROW(KV_OPT_SIZE, n, at, "SIZE", deflt, text, .min = lo, .max = hi, __VA_ARGS__)
#define KV_ROW_DURATION(n, at, deflt, lo, hi, text, ...)                                                               \
	KV_ROW(KV_OPT_DURATION, n, at, "TIME", deflt, text, .min = lo, .max = hi, __VA_ARGS__)
#define KV_ROW(kind, n, at, meta, deflt, text, ...)                                                                    \
	{.name = n, .type = kind, at, .metavar = meta, .def = deflt, .help = text, __VA_ARGS__}

struct kv_opt_program {
	const char *name; /* "kv-bench" */
	const char *usage_args;
	const char *about; /* text before the options */
	const char *epilogue;
	unsigned args_max; /* positional arguments allowed */
};

/* kv_opt_defaults -- set every field that the table names to its default. */
void kv_opt_defaults(const struct kv_opt *table, void *into);

/* kv_opt_parse -- set defaults, then parse argv; *out_args gets positional arguments (NULL if args_max is 0). 0; 1
 * after
 * --help and --version; or -KV_EINVAL with *err. */
int kv_opt_parse(const struct kv_opt_program *program, const struct kv_opt *table, int argc, char **argv, void *into,
		 struct kv_opt_strings *out_args, struct kv_error *err);

/* kv_opt_parse_over -- the same without defaults: over the options of a file. */
int kv_opt_parse_over(const struct kv_opt_program *program, const struct kv_opt *table, int argc, char **argv,
		      void *into, struct kv_opt_strings *out_args, struct kv_error *err);

/* kv_opt_set -- set one option from text, by name or alias. A flag takes NULL, "true" or "false". Strings are not
 * copied. 0 or -KV_EINVAL with *err. */
int kv_opt_set(const struct kv_opt *table, const char *name, const char *value, void *into, struct kv_error *err);

/* kv_opt_format -- a field as text for kv_opt_set; KV_OPT_STRINGS joined with commas, for reading only. Returns buf. */
char *kv_opt_format(const struct kv_opt *row, const void *from, char *buf, size_t cap);

/* kv_opt_dump -- write "name = value" for each row and each item. */
void kv_opt_dump(const struct kv_opt *table, const void *from, FILE *out);

#endif
