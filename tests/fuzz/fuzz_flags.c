/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_flags.c -- the command lines of kv-server, kv-bench and kv-client: the input is a list of words, each ended by a
 * 0 byte. Every refusal explains itself, and what is accepted keeps the bounds that its table states. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvbench/setup/options.h"
#include "kvcli/options.h"
#include "kvserver/options.h"

enum { WORDS_MAX = 24, INPUT_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

static void outcome(int rc, const struct kv_error *err)
{
	check(rc == 0 || rc == 1 || (rc == -KV_EINVAL && err->text[0]));
}

static void server(int argc, char **argv)
{
	static const struct kv_log log = {.level = KV_LOG_OFF};
	struct kvs_options options;
	struct kv_error err = {0};
	struct flags f;
	int rc = flags_parse(argc, argv, &f, &err);
	outcome(rc, &err);
	if (rc == 0)
		flags_options(&f, NULL, &log, &options);
}

static void bench(int argc, char **argv)
{
	struct bench_options o;
	struct kv_error err = {0};
	int rc = bench_options_parse(argc, argv, &o, &err);
	outcome(rc, &err);
	if (rc == 0)
		check(o.load.num_workers >= 1 && o.load.num_workers <= KV_OPT_WORKERS_MAX && o.load.num_clients >= 1 &&
		      2 * bench_piece_bytes(o.load.value_size) <= o.client.buffer_mb << 20);
}

static void client(int argc, char **argv)
{
	struct cli_options o;
	struct kv_opt_strings words = {0};
	struct kv_error err = {0};
	outcome(cli_options_parse(argc, argv, &o, &words, &err), &err);
	check(words.count <= KV_OPT_STRINGS_MAX);
}

/* --help prints a page each time. */
static void quiet(void)
{
	static bool done;
	int fd = done ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);
	done = true;
	if (fd < 0)
		return;
	dup2(fd, STDOUT_FILENO);
	close(fd);
}

static void with(void (*program)(int argc, char **argv), const char *text, size_t size)
{
	char *copy = malloc(size + 1), *argv[WORDS_MAX + 2] = {"fuzz"};
	int argc = 1;
	check(copy != NULL);
	memcpy(copy, text, size);
	copy[size] = 0;
	for (char *at = copy; at < copy + size && argc <= WORDS_MAX; at += strlen(at) + 1)
		argv[argc++] = at;
	program(argc, argv);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > INPUT_MAX)
		return 0;
	quiet();
	with(server, (const char *)data, size);
	with(bench, (const char *)data, size);
	with(client, (const char *)data, size);
	return 0;
}
