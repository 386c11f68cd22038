/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c -- keys of logical clients: a client's one, and all of a server.
 *
 * Keys are sorted by identity and found by bisection, in a mapping left out of core dumps. Only pointers are sorted, so
 * that no copy of a key stays in memory that nobody wipes. */
#include "bootstrap/keys.h"

#include <stdlib.h>
#include <string.h>

int boot_key_parse(const char *text, struct boot_key **out, struct kv_error *err)
{
	struct boot_key *k = calloc(1, sizeof(*k));
	int rc;
	if (!k)
		return kv_fail(err, -KV_ENOMEM, "no memory for a key");
	rc = secret_psk_parse(text, strlen(text), "the session's key", &k->psk, err);
	if (rc)
		boot_key_destroy(&k);
	else
		*out = k;
	return rc;
}

void boot_key_destroy(struct boot_key **key)
{
	if (!*key)
		return;
	secret_wipe(*key, sizeof(**key));
	free(*key);
	*key = NULL;
}

/* ---- many keys ---- */

static int by_identity(const void *a, const void *b)
{
	const struct secret_psk *const *x = a, *const *y = b;
	return strcmp((*x)->identity, (*y)->identity);
}

static size_t lines_max(const struct secret_text *text)
{
	return text->len / (2 + 2 * SECRET_KEY_MIN) + 1;
}

static int keys_alloc(struct boot_keys *k, size_t max, struct kv_error *err)
{
	k->bytes = max * sizeof(*k->psk);
	k->psk = secret_pages(k->bytes);
	k->sorted = calloc(max, sizeof(*k->sorted));
	if (!k->psk || !k->sorted)
		return kv_fail(err, -KV_ENOMEM, "no memory for %zu keys", max);
	return 0;
}

static int keys_parse(struct boot_keys *k, const struct secret_text *text, const char *path, struct kv_error *err)
{
	struct secret_reader r = {.at = text->data, .end = text->data + text->len, .source = path};
	int rc;
	while ((rc = secret_psk_next(&r, &k->psk[k->count], err)) == 1) {
		k->sorted[k->count] = &k->psk[k->count];
		k->count++;
	}
	if (rc == 0 && k->count == 0)
		return kv_fail(err, -KV_EINVAL,
			       "%s holds no key: lines identity:hex are needed (`kv-server --make-psk FILE` makes one; "
			       "hex: `openssl rand -hex 32`)",
			       path);
	return rc;
}

static int keys_sort(struct boot_keys *k, const char *path, struct kv_error *err)
{
	qsort(k->sorted, k->count, sizeof(k->sorted[0]), by_identity); /* NOLINT: pointers, not secrets */
	for (size_t i = 1; i < k->count; i++)
		if (strcmp(k->sorted[i - 1]->identity, k->sorted[i]->identity) == 0)
			return kv_fail(err, -KV_EINVAL, "%s has two keys for identity %s: remove one of the two lines",
				       path, k->sorted[i]->identity);
	return 0;
}

int boot_keys_load(const char *path, struct boot_keys **out, struct kv_error *err)
{
	struct secret_text text = {0};
	struct boot_keys *k = NULL;
	int rc = secret_keys_read(path, "file of session keys", &text, err);
	if (rc)
		return rc;
	k = calloc(1, sizeof(*k));
	rc = k ? keys_alloc(k, lines_max(&text), err) : kv_fail(err, -KV_ENOMEM, "no memory for keys");
	if (rc == 0)
		rc = keys_parse(k, &text, path, err);
	if (rc == 0)
		rc = keys_sort(k, path, err);
	secret_text_fini(&text);
	if (rc)
		boot_keys_destroy(&k);
	else
		*out = k;
	return rc;
}

void boot_keys_destroy(struct boot_keys **keys)
{
	struct boot_keys *k = *keys;
	if (!k)
		return;
	secret_pages_free(k->psk, (k->count + 1) * sizeof(k->psk[0]), k->bytes);
	free(k->sorted);
	free(k);
	*keys = NULL;
}

const struct secret_psk *keys_find(const struct boot_keys *k, const char *identity)
{
	size_t low = 0, high = k ? k->count : 0;
	while (low < high) {
		size_t mid = (low + high) / 2;
		int cmp = strcmp(identity, k->sorted[mid]->identity);
		if (cmp == 0)
			return k->sorted[mid];
		if (cmp < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

int boot_secrets_read(const char *path, const char *what,
		      int (*take)(void *arg, const char *name, const uint8_t *key, size_t len, struct kv_error *err),
		      void *arg, struct kv_error *err)
{
	struct secret_text text = {0};
	struct secret_psk key;
	int rc = secret_file_read(path, what, &text, err), more = rc == 0;
	struct secret_reader r = {.at = text.data, .end = text.data + text.len, .source = path};
	while (more > 0) {
		more = secret_psk_next(&r, &key, err);
		rc = more > 0 ? take(arg, key.identity, key.key, key.key_len, err) : more;
		if (rc < 0)
			break;
	}
	secret_wipe(&key, sizeof(key));
	secret_text_fini(&text);
	return rc;
}
