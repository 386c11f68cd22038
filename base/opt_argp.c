/* SPDX-License-Identifier: Apache-2.0 */
/* opt_argp.c -- the command line of an option table, by glibc's argp.
 *
 * argp's own errors and exits are off, since our programs report one sentence. bad_option() finds the wrong option:
 * getopt stands behind the wrong word, or inside a cluster of letters. argp's rows and texts exist during a call. */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/nearest.h"
#include "base/opt.h"
#include "base/opt_table.h"

#ifndef KVRAIL_VERSION
#define KVRAIL_VERSION "0.1.0"
#endif

enum { KEY_HELP = 0x200, KEY_VERSION, KEY_ROW = 0x1000, HELP_CAP = 1024, HELP_COLUMN = 29 };

struct parse {
	const struct kv_opt_program *program;
	const struct kv_opt *table;
	void *into;
	struct kv_opt_strings *args;
	struct kv_error *err;
	size_t rows; /* in the table, without its end */
	int rc;
	int help_key, version_key;
	struct argp argp;
	struct argp_option *options;
	char **texts; /* of rows, owned */
	char *doc;
};

static const struct kv_opt *row_by_letter(const struct kv_opt *table, int letter)
{
	for (const struct kv_opt *row = table; row->name; row++) {
		if (letter && row->letter == letter)
			return row;
	}
	return NULL;
}

/* NULL for argp's own keys, above those of rows. */
static const struct kv_opt *row_by_key(const struct parse *p, int key)
{
	if (key < KEY_ROW)
		return row_by_letter(p->table, key);
	return (size_t)(key - KEY_ROW) < p->rows ? &p->table[key - KEY_ROW] : NULL;
}

/* row_text -- help with choices and default; NULL: no memory. */
static char *row_text(const struct kv_opt *row)
{
	char choices[HELP_CAP / 2] = "", *text = NULL;
	if (row->type == KV_OPT_CHOICE)
		kv_opt_choices_format(row, choices, sizeof(choices));
	bool show = row->def && row->type != KV_OPT_FLAG;
	int n = asprintf(&text, "%s%s%s%s%s%s", row->help ? row->help : "", *choices ? ": " : "", choices,
			 show ? " (default: " : "", show ? row->def : "", show ? ")" : "");
	return n < 0 ? NULL : text;
}

static bool options_build(struct parse *p)
{
	struct argp_option *o = p->options;
	int group = 1;
	for (size_t i = 0; i < p->rows; i++) {
		const struct kv_opt *row = &p->table[i];
		p->texts[i] = row_text(row);
		if (!p->texts[i])
			return false;
		if (row->group)
			*o++ = (struct argp_option){.doc = row->group, .group = ++group};
		const char *metavar = row->metavar ? row->metavar : "VALUE";
		*o++ = (struct argp_option){.name = row->name,
					    .key = row->letter ? row->letter : KEY_ROW + (int)i,
					    .arg = row->type == KV_OPT_FLAG ? NULL : metavar,
					    .doc = p->texts[i],
					    .group = group};
		if (row->alias)
			*o++ = (struct argp_option){.name = row->alias, .flags = OPTION_ALIAS, .group = group};
	}
	p->help_key = row_by_letter(p->table, 'h') ? KEY_HELP : 'h';
	p->version_key = row_by_letter(p->table, 'V') ? KEY_VERSION : 'V';
	*o++ = (struct argp_option){.name = "help", .key = p->help_key, .doc = "print this help and exit", .group = -1};
	*o++ = (struct argp_option){
		.name = "version", .key = p->version_key, .doc = "print the version and exit", .group = -1};
	return true;
}

static int arg_take(struct parse *p, const char *arg)
{
	unsigned max = KV_MIN(p->program->args_max, (unsigned)KV_OPT_STRINGS_MAX);
	if (p->args && p->args->count < max) {
		p->args->item[p->args->count++] = arg;
		return 0;
	}
	if (max == 0)
		return kv_fail(p->err, -KV_EINVAL, "unexpected argument '%.100s'; %s takes options only", arg,
			       p->program->name);
	return kv_fail(p->err, -KV_EINVAL, "one argument too many: '%.100s'; %s takes at most %u", arg,
		       p->program->name, max);
}

/* long_matches -- options that a long name may mean, whole (*out_exact) or abbreviated. */
static unsigned long_matches(const struct parse *p, const char *name, size_t len, bool *out_exact)
{
	unsigned matches = 0;
	int last_key = 0, key = 0;
	*out_exact = false;
	for (const struct argp_option *o = p->options; o->name || o->doc; o++) {
		key = o->flags & OPTION_ALIAS ? key : o->key;
		if (!o->name || strncmp(o->name, name, len) != 0)
			continue;
		if (o->name[len] == '\0') {
			*out_exact = true;
			return 1;
		}
		matches += matches == 0 || key != last_key;
		last_key = key;
	}
	return matches;
}

static int unknown_long(struct parse *p, const char *name, size_t len)
{
	struct kv_nearest n = kv_nearest_begin(name, len);
	char hint[KV_NEAREST_TEXT];
	for (const struct argp_option *o = p->options; o->name || o->doc; o++)
		if (o->name)
			kv_nearest_try(&n, o->name);
	return kv_fail(p->err, -KV_EINVAL, "unknown option --%.*s%s", (int)KV_MIN(len, (size_t)100), name,
		       kv_nearest_hint(&n, "--", hint));
}

static int bad_long(struct parse *p, const char *word)
{
	const char *name = word + 2, *value = strchr(name, '=');
	size_t len = value ? (size_t)(value - name) : strlen(name);
	bool exact = false;
	unsigned matches = long_matches(p, name, len, &exact);
	int shown = (int)KV_MIN(len, (size_t)100);
	if (matches == 0)
		return unknown_long(p, name, len);
	if (matches > 1)
		return kv_fail(p->err, -KV_EINVAL, "option --%.*s is ambiguous; write the whole name", shown, name);
	return kv_fail(p->err, -KV_EINVAL, value ? "option --%.*s takes no value" : "option --%.*s needs a value",
		       shown, name);
}

/* letter_unknown -- the first unknown letter of a cluster such as "-vxz", or 0. A value ends the cluster; *out_valued
 * is the letter of an option whose value is missing. */
static char letter_unknown(const struct parse *p, const char *word, char *out_valued)
{
	*out_valued = 0;
	for (const char *c = word + 1; *c; c++) {
		if (*c == p->help_key || *c == p->version_key)
			continue;
		const struct kv_opt *row = row_by_letter(p->table, *c);
		if (!row)
			return *c;
		if (row->type != KV_OPT_FLAG) {
			*out_valued = c[1] ? 0 : *c;
			return 0;
		}
	}
	return 0;
}

static bool is_cluster(const char *word)
{
	return word && word[0] == '-' && word[1] && word[1] != '-';
}

/* bad_option -- the sentence for an option that getopt refused. `next`: the word itself if a letter of a cluster is
 * wrong, else the word behind it. If that word has an unknown letter as well, it is named instead, just as true. */
static int bad_option(struct parse *p, int argc, char **argv, int next)
{
	const char *here = next < argc ? argv[next] : NULL, *before = next > 0 && next <= argc ? argv[next - 1] : NULL;
	char valued = 0, letter = is_cluster(here) ? letter_unknown(p, here, &valued) : 0;
	if (!letter && before && strncmp(before, "--", 2) == 0)
		return bad_long(p, before);
	if (!letter && is_cluster(before))
		letter = letter_unknown(p, before, &valued);
	if (letter)
		return kv_fail(p->err, -KV_EINVAL, "unknown option -%c", letter);
	if (valued)
		return kv_fail(p->err, -KV_EINVAL, "option -%c needs a value", valued);
	return kv_fail(p->err, -KV_EINVAL, "the command line is not understood at '%.100s'", before ? before : "");
}

static void version_print(const struct parse *p)
{
	printf("%s %s\n", p->program->name, KVRAIL_VERSION);
}

/* Mend --help. glibc's argp miscounts columns when it flushes its buffer behind a letter: "  -s," with 30 blanks, then
 * text at column 0. */
static void help_mend(const char *text)
{
	bool mended = false;
	for (const char *end; *text; text = end + (*end == '\n')) {
		end = strchrnul(text, '\n');
		int len = (int)(end - text);
		size_t blanks = len > 5 && strncmp(text, "  -", 3) == 0 && text[4] == ',' ? strspn(text + 5, " ") : 0;
		bool astray = blanks > 1 && strncmp(text + 5 + blanks, "--", 2) == 0;
		if (astray)
			printf("%.5s %.*s\n", text, len - 5 - (int)blanks, text + 5 + blanks);
		else
			printf("%*s%.*s\n", mended && len > 0 && *text != ' ' ? HELP_COLUMN : 0, "", len, text);
		mended = astray;
	}
}

static void help_print(struct parse *p)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	argp_help(&p->argp, out ? out : stdout, ARGP_HELP_STD_HELP, (char *)(uintptr_t)p->program->name);
	if (out && fclose(out) == 0)
		help_mend(text);
	free(text);
}

/* Non-zero ends the parse; p->rc says why. */
static error_t on_key(int key, char *arg, struct argp_state *state)
{
	struct parse *p = state->input;
	if (key == ARGP_KEY_ARG) {
		p->rc = arg_take(p, arg);
	} else if (key == ARGP_KEY_ERROR) {
		/* argp calls this also after our own failures. */
		if (p->rc == 0)
			p->rc = bad_option(p, state->argc, state->argv, state->next);
	} else if (key == p->help_key) {
		help_print(p);
		p->rc = 1;
	} else if (key == p->version_key) {
		version_print(p);
		p->rc = 1;
	} else {
		const struct kv_opt *row = row_by_key(p, key);
		if (!row)
			return ARGP_ERR_UNKNOWN;
		p->rc = kv_opt_row_set(row, arg, p->into, p->err);
	}
	return p->rc == 0 ? 0 : ECANCELED;
}

static size_t row_count(const struct kv_opt *table)
{
	size_t n = 0;
	while (table[n].name)
		n++;
	return n;
}

/* The notation of TIME and SIZE, once, at the end. */
static const char *notation(const struct parse *p)
{
	bool time = false, size = false;
	for (size_t i = 0; i < p->rows; i++) {
		time |= p->table[i].type == KV_OPT_DURATION ||
			(p->table[i].unit != KV_OPT_PLAIN && p->table[i].unit != KV_OPT_MIB);
		size |= p->table[i].type == KV_OPT_SIZE || p->table[i].unit == KV_OPT_MIB;
	}
	if (time && size)
		return "\n\nTIME is 90s, 1m, 1.5h, 500ms or 10us, and SIZE 64KB (65536), 1.5MiB or 2G. A bare number "
		       "is in the unit that the option's name ends in; if there is none, in seconds or bytes.";
	if (time)
		return "\n\nTIME is 90s, 1m, 1.5h, 500ms or 10us. A bare number is in the unit that the option's name "
		       "ends in; if there is none, in seconds.";
	if (size)
		return "\n\nSIZE is 64KB (65536), 1.5MiB or 2G. A bare number is in the unit that the option's name "
		       "ends in; if there is none, in bytes.";
	return "";
}

static int parse_build(struct parse *p)
{
	const char *epilogue = p->program->epilogue;
	p->options = calloc(3 * p->rows + 3, sizeof(*p->options));
	p->texts = calloc(p->rows + 1, sizeof(*p->texts));
	if (asprintf(&p->doc, "%s%s%s%s", p->program->about ? p->program->about : "", epilogue ? "\v" : "",
		     epilogue ? epilogue : "", epilogue ? notation(p) : "") < 0)
		p->doc = NULL;
	if (!p->options || !p->texts || !p->doc || !options_build(p))
		return kv_fail(p->err, -KV_ENOMEM, "no memory for the option table");
	p->argp = (struct argp){
		.options = p->options, .parser = on_key, .args_doc = p->program->usage_args, .doc = p->doc};
	return 0;
}

static void parse_free(struct parse *p)
{
	for (size_t i = 0; p->texts && i < p->rows; i++)
		free(p->texts[i]);
	free(p->texts);
	free(p->options);
	free(p->doc);
}

int kv_opt_parse_over(const struct kv_opt_program *program, const struct kv_opt *table, int argc, char **argv,
		      void *into, struct kv_opt_strings *out_args, struct kv_error *err)
{
	struct parse p = {.program = program,
			  .table = table,
			  .into = into,
			  .args = out_args,
			  .err = err,
			  .rows = row_count(table)};
	if (out_args)
		*out_args = (struct kv_opt_strings){0};
	int rc = parse_build(&p);
	if (rc == 0) {
		error_t failed = argp_parse(&p.argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_EXIT | ARGP_NO_HELP, NULL, &p);
		rc = p.rc;
		if (failed && rc == 0)
			rc = kv_fail(err, -KV_EINVAL, "the command line cannot be parsed: %s", kv_strerror(failed));
	}
	parse_free(&p);
	return rc;
}

int kv_opt_parse(const struct kv_opt_program *program, const struct kv_opt *table, int argc, char **argv, void *into,
		 struct kv_opt_strings *out_args, struct kv_error *err)
{
	kv_opt_defaults(table, into);
	return kv_opt_parse_over(program, table, argc, argv, into, out_args, err);
}
