/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_secret.c -- the parser of pre-shared keys: any text gives a key within its limits or a sentence, and what was
 * parsed, written out again, gives the same key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/secret.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_secret: %s\n", what);
	abort();
}

static void key_check(const struct secret_psk *psk)
{
	char text[SECRET_IDENTITY_MAX + 1 + 2 * SECRET_KEY_MAX + 1];
	struct secret_psk again;
	size_t len = strlen(psk->identity);
	must(len >= 1 && len <= SECRET_IDENTITY_MAX, "identity out of bounds");
	must(psk->key_len >= SECRET_KEY_MIN && psk->key_len <= SECRET_KEY_MAX, "key out of bounds");
	memcpy(text, psk->identity, len);
	text[len++] = ':';
	for (size_t i = 0; i < psk->key_len; i++, len += 2)
		snprintf(text + len, 3, "%02x", psk->key[i]);
	if (*psk->identity ==
	    '#') /* an identity that begins so would read as a comment, and cannot have come from a text */
		must(0, "identity begins with #");
	must(secret_psk_parse(text, len, "again", &again, NULL) == 0, "not parsed again");
	must(strcmp(again.identity, psk->identity) == 0 && again.key_len == psk->key_len &&
		     memcmp(again.key, psk->key, psk->key_len) == 0,
	     "another key");
}

static void error_check(int rc, const struct kv_error *err)
{
	must(rc == -KV_EINVAL && err->code == rc &&
		     (strncmp(err->text, "fuzz ", 5) == 0 || strncmp(err->text, "fuzz, line ", 11) == 0),
	     "an error without code or sentence");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct secret_psk psk;
	struct secret_psks psks;
	struct kv_error err = {0};
	/* An exact copy on the heap, so that ASan sees one byte too many. */
	char *text = malloc(size ? size : 1);
	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	int rc = secret_psk_parse(text, size, "fuzz", &psk, &err), several;
	if (rc == 0)
		key_check(&psk);
	else
		error_check(rc, &err);
	several = secret_psks_parse(text, size, "fuzz", &psks, &err);
	free(text);
	if (several)
		error_check(several, &err);
	for (unsigned i = 0; several == 0 && i < psks.count; i++)
		key_check(&psks.key[i]);
	must(several == 0 ? psks.count >= 1 && psks.count <= SECRET_PSKS_MAX : rc != 0,
	     "one key, and not among several");
	if (several == 0)
		secret_psks_fini(&psks);
	return 0;
}
