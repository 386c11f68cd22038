/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_repl.c -- lines typed at kv-client's prompt: cut into words, parsed and checked as a command. Every refusal
 * explains itself; words lie inside the line. */
#include <stdlib.h>
#include <string.h>

#include "kvcli/command.h"
#include "kvcli/repl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

static void line_check(char *text, size_t size)
{
	static struct cli_options base;
	struct repl_line l;
	struct kv_error err = {0};
	int rc;
	kv_opt_defaults(cli_options_table, &base);
	rc = repl_parse(text, &base, &l, &err);
	check(rc == 0 || rc == 1 || (rc == -KV_EINVAL && err.code == rc && err.text[0]));
	check(l.line.words.count <= KV_OPT_STRINGS_MAX);
	for (unsigned i = 0; i < l.line.words.count; i++)
		check(l.line.words.item[i] >= text &&
		      l.line.words.item[i] + strlen(l.line.words.item[i]) <= text + size);
	if (rc != 0 || l.line.words.count == 0)
		return;
	rc = command_check(&l.line, &err);
	check(rc == CLI_OK || (rc == CLI_USAGE && err.text[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* An exact copy on the heap, so that ASan sees one byte too many. */
	char *text = malloc(size + 1);
	check(text != NULL);
	if (size)
		memcpy(text, data, size);
	text[size] = 0;
	line_check(text, size);
	free(text);
	return 0;
}
