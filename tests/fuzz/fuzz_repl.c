/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_repl.c -- lines typed at kv-client's prompt: cut into words and checked as a command. Every refusal explains
 * itself; words lie inside the line. */
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
	struct cli_line line;
	struct kv_error err = {0};
	int rc = repl_split(text, &line, &err);

	check(rc == 0 || (rc == -KV_EINVAL && err.code == rc && err.text[0]));
	check(line.words.count <= KV_OPT_STRINGS_MAX);
	for (unsigned i = 0; i < line.words.count; i++)
		check(line.words.item[i] >= text && line.words.item[i] + strlen(line.words.item[i]) <= text + size);
	if (rc < 0 || line.words.count == 0)
		return;
	rc = command_check(&line, &err);
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
