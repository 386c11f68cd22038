/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_result.c -- results of strangers: whatever JSON they are, page, charts and files end, and hold no script. */
#include <jansson.h>
#include <stdlib.h>

#include "kvbench/report/document.h"
#include "kvbench/report/figures.h"
#include "kvbench/report/page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void drop(char *text)
{
	if (text && strstr(text, "<script"))
		abort();
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kv_error err = {0};
	json_t *doc = json_loadb((const char *)data, size, 0, NULL);
	size_t len;
	if (!doc)
		return 0;
	drop(page_html(doc, &len, &err));
	drop(document_hgrm(doc, &len, &err));
	drop(document_csv(doc, &len, &err));
	json_decref(doc);
	return 0;
}
