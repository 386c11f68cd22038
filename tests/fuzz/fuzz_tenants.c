/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tenants.c -- a file of tenants, whatever is in it: a sentence with its place, or a table whose answers hold
 * together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvserver/tenant/tenants.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_tenants: %s\n", what);
	abort();
}

static void table_check(const struct tenants *t)
{
	static const char *const spaces[] = {"", "a", "a-b", "public", "zzz"};
	const struct tenant_row *row;
	unsigned n = 0;
	for (; (row = tenants_row(t, n)) != NULL; n++) {
		must(row->name[0] && row->limits.memory_share <= row->limits.memory_cap, "an impossible tenant");
		for (size_t i = 0; i < KV_COUNT(spaces); i++) {
			unsigned rights = tenants_rights(t, row, spaces[i]);
			must(rights <= TENANT_RIGHTS && (!rights || rights & TENANT_READ), "impossible rights");
			must(!(rights & TENANT_WRITE) || tenants_owner(t, spaces[i]), "a writer, and no owner");
		}
	}
	must(n >= 1 && n <= TENANTS_MAX, "an impossible number of tenants");
	must(tenants_find(t, "") == NULL, "nobody is somebody");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tenants *t = NULL;
	struct kv_error err = {0};
	char *text = malloc(size ? size : 1); /* an exact copy, so that ASan sees one byte too many */
	int rc;
	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	rc = tenants_parse(text, size, "fuzz", &t, &err);
	free(text);
	if (rc == 0)
		table_check(t);
	else
		must(rc == -KV_EINVAL && strncmp(err.text, "fuzz", 4) == 0, "an error without a place");
	tenants_unref(&t);
	return 0;
}
