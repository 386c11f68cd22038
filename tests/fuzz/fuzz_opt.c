/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_opt.c -- text that people type: units, addresses, option values and whole command lines.
 *
 * The input is a list of words, each ended by a 0 byte. Every word is parsed as each kind of text; then the words are
 * one command line, and pairs of them are a name and a value. Nothing may crash, a refusal must explain itself, and
 * what was accepted must come back the same when it is printed and parsed again. */
#include <stdbool.h>
#include <stdlib.h>

#include "base/base.h"

enum { WORDS_MAX = 24, INPUT_MAX = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct conf {
	bool verbose;
	uint32_t workers;
	uint64_t seed, chunk, timeout;
	double ratio;
	const char *server;
	struct kv_opt_strings tags;
	int mode;
};

static const char *const modes[] = {"auto", "push", "pull", NULL};

static const struct kv_opt table[] = {
	{.name = "verbose",
	 .letter = 'v',
	 .type = KV_OPT_FLAG,
	 .offset = offsetof(struct conf, verbose),
	 .group = "A:"},
	{.name = "num-workers",
	 .alias = "threads",
	 .letter = 'n',
	 .type = KV_OPT_U32,
	 .offset = offsetof(struct conf, workers),
	 .def = "32",
	 .min = 1,
	 .max = 4096},
	{.name = "num-seed", .type = KV_OPT_U64, .offset = offsetof(struct conf, seed)},
	{.name = "chunk",
	 .letter = 'c',
	 .type = KV_OPT_SIZE,
	 .offset = offsetof(struct conf, chunk),
	 .def = "64KB",
	 .min = 512},
	{.name = "timeout",
	 .type = KV_OPT_DURATION,
	 .offset = offsetof(struct conf, timeout),
	 .def = "5s",
	 .group = "B:"},
	{.name = "ratio", .type = KV_OPT_DOUBLE, .offset = offsetof(struct conf, ratio), .def = "0.5"},
	{.name = "server", .letter = 's', .type = KV_OPT_STRING, .offset = offsetof(struct conf, server)},
	{.name = "tag", .type = KV_OPT_STRINGS, .offset = offsetof(struct conf, tags), .def = "none"},
	{.name = "mode", .type = KV_OPT_CHOICE, .offset = offsetof(struct conf, mode), .choices = modes},
	{0},
};

/* require -- an assertion that stays in a release build; a fuzzer reports the abort. */
static void require(bool holds)
{
	if (!holds)
		abort();
}

/* explained -- a refusal has its code and a sentence. */
static void explained(int rc, const struct kv_error *err)
{
	require(rc == 0 || (rc == -KV_EINVAL && err->code == rc && err->text[0] != '\0'));
}

static void try_units(const char *word)
{
	uint64_t v = 0;
	char buf[32];
	if (kv_size_parse(word, &v) == 0)
		require(strlen(kv_size_format(v, buf, sizeof(buf))) < 16);
	if (kv_duration_parse(word, &v) == 0)
		require(strlen(kv_duration_format(v, buf, sizeof(buf))) < 16);
	if (kv_u64_parse(word, &v) == 0) {
		uint64_t back = 0;
		snprintf(buf, sizeof(buf), "%llu", (unsigned long long)v);
		require(kv_u64_parse(buf, &back) == 0 && back == v);
		kv_rate_format((double)v, buf, sizeof(buf));
	}
	enum kv_log_level level;
	if (kv_log_level_parse(word, &level) == 0)
		require(strcmp(kv_log_level_name(level), word) == 0);
}

static void try_addr(const char *word)
{
	struct kv_hostport hp, back;
	struct kv_error err = {0};
	char buf[KV_HOST_MAX + 16];
	struct kv_server_entry entry, again;
	int rc = kv_server_entry_parse(word, &entry, &err);
	explained(rc, &err);
	if (rc == 0)
		require(kv_server_entry_parse(entry.text, &again, NULL) == 0 && strcmp(again.id, entry.id) == 0 &&
			again.named == entry.named);
	rc = kv_hostport_parse(word, &hp, &err);
	explained(rc, &err);
	if (rc != 0)
		return;
	kv_hostport_format(&hp, buf, sizeof(buf));
	require(kv_hostport_parse(buf, &back, NULL) == 0);
	require(strcmp(back.host, hp.host) == 0 && back.port == hp.port);
}

/* round_trip -- every number and choice, printed and set again, prints the same. */
static void round_trip(const struct conf *conf)
{
	struct conf copy;
	char a[64], b[64];
	kv_opt_defaults(table, &copy);
	for (const struct kv_opt *row = table; row->name; row++) {
		if (row->type == KV_OPT_STRING || row->type == KV_OPT_STRINGS)
			continue;
		kv_opt_format(row, conf, a, sizeof(a));
		require(kv_opt_set(table, row->name, a, &copy, NULL) == 0);
		require(strcmp(kv_opt_format(row, &copy, b, sizeof(b)), a) == 0);
	}
}

static void try_pairs(int count, char **words)
{
	struct conf conf;
	struct kv_error err = {0};
	kv_opt_defaults(table, &conf);
	for (int i = 1; i < count; i++)
		explained(kv_opt_set(table, words[i - 1], words[i], &conf, &err), &err);
	for (int i = 0; i < count; i++)
		explained(kv_opt_set(table, table[i % (KV_COUNT(table) - 1)].name, words[i], &conf, &err), &err);
	round_trip(&conf);
}

/* asks_for_print -- whether a word might be --help or --version, which would flood the fuzzer's output. */
static bool asks_for_print(const char *word)
{
	if (word[0] != '-')
		return false;
	return word[1] == '-' ? word[2] == 'h' || strncmp(word, "--vers", 6) == 0 : strpbrk(word, "hV") != NULL;
}

static void try_command_line(int count, char **words)
{
	static const struct kv_opt_program program = {
		.name = "kv-fuzz", .usage_args = "[KEY...]", .about = "x", .args_max = 3};
	char *argv[WORDS_MAX + 2] = {(char *)(uintptr_t)"kv-fuzz"};
	struct conf conf;
	struct kv_opt_strings args;
	struct kv_error err = {0};
	for (int i = 0; i < count; i++) {
		if (asks_for_print(words[i]))
			return;
		argv[i + 1] = words[i];
	}
	int rc = kv_opt_parse(&program, table, count + 1, argv, &conf, &args, &err);
	explained(rc, &err);
	require(args.count <= program.args_max);
	if (rc == 0)
		round_trip(&conf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[INPUT_MAX + 1], *words[WORDS_MAX];
	int count = 0;
	size = KV_MIN(size, (size_t)INPUT_MAX);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	for (char *p = text; p <= text + size && count < WORDS_MAX; p += strlen(p) + 1)
		words[count++] = p;
	for (int i = 0; i < count; i++) {
		try_units(words[i]);
		try_addr(words[i]);
	}
	try_pairs(count, words);
	try_command_line(count, words);
	return 0;
}
