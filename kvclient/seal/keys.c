/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c -- read the file of keys, and extract each one as HKDF (RFC 5869) does.
 *
 * The first key seals, and all open. A key's id is 4 bytes derived from it: no file can give two keys one id
 * unnoticed. */
#include "kvclient/seal/keys.h"

#include <stdlib.h>

#include "bootstrap/bootstrap.h"

#define SEAL_EXTRACT "kvrail seal 1"
#define SEAL_ID      "kvrail seal id"
#define SEAL_NAMES   "names"

struct reading {
	struct kc_seal_keys *keys;
	const char *path;
	bool names_found;
};

static int extract(const uint8_t *key, size_t len, struct kc_seal_key *out)
{
	const struct crypt_bytes secret = {key, len}, id = {SEAL_ID, sizeof(SEAL_ID) - 1};
	uint8_t named[CRYPT_KEY];
	struct crypt_mac *mac = NULL;
	int rc = crypt_mac_create((const uint8_t *)SEAL_EXTRACT, sizeof(SEAL_EXTRACT) - 1, &mac);
	if (rc == 0)
		rc = crypt_mac(mac, &secret, 1, out->secret);
	crypt_mac_destroy(&mac);
	if (rc == 0)
		rc = crypt_mac_create(out->secret, CRYPT_KEY, &mac);
	if (rc == 0)
		rc = crypt_mac(mac, &id, 1, named);
	crypt_mac_destroy(&mac);
	out->id = kv_get32(named);
	return rc;
}

static const struct kc_seal_key *twin_of(const struct reading *r, const struct kc_seal_key *key)
{
	const struct kc_seal_keys *k = r->keys;
	for (unsigned i = 0; i < k->count; i++)
		if (k->key[i].id == key->id)
			return &k->key[i];
	return r->names_found && k->names.id == key->id ? &k->names : NULL;
}

static int key_take(void *arg, const char *name, const uint8_t *key, size_t len, struct kv_error *err)
{
	struct reading *r = arg;
	struct kc_seal_keys *k = r->keys;
	bool names = strcmp(name, SEAL_NAMES) == 0;
	struct kc_seal_key *to = names ? &k->names : &k->key[k->count];
	struct kc_seal_key read;
	int rc;
	if (len != CRYPT_KEY)
		return kv_fail(err, -KV_EINVAL,
			       "key '%s' of the seal key file %s has %zu bytes; it needs %d (64 hexadecimal digits): "
			       "`kv-client make-seal-key FILE` makes one",
			       name, r->path, len, (int)CRYPT_KEY);
	if (!names && k->count == KC_SEAL_KEYS_MAX)
		return kv_fail(err, -KV_EINVAL,
			       "the seal key file %s has more than %d keys; remove those whose values are gone",
			       r->path, (int)KC_SEAL_KEYS_MAX);
	rc = extract(key, len, &read);
	if (rc < 0)
		return kv_fail(err, rc, "no memory to read the seal key file %s", r->path);
	if (twin_of(r, &read) || (names && r->names_found))
		rc = kv_fail(err, -KV_EINVAL, "key '%s' is twice in the seal key file %s: remove one of the lines",
			     name, r->path);
	else
		*to = read;
	crypt_wipe(&read, sizeof(read));
	k->count += rc == 0 && !names;
	r->names_found |= names;
	return rc;
}

int kc_seal_keys_load(const char *path, const char *space, bool with_names, struct kc_seal_keys **out,
		      struct kv_error *err)
{
	struct kc_seal_keys *k = calloc(1, sizeof(*k));
	struct reading r = {.keys = k, .path = path};
	int rc;
	if (!k)
		return kv_fail(err, -KV_ENOMEM, "no memory to read the seal key file %s", path);
	rc = boot_secrets_read(path, "seal key file", key_take, &r, err);
	if (rc == 0 && k->count == 0)
		rc = kv_fail(err, -KV_EINVAL,
			     "the seal key file %s has no key; `kv-client make-seal-key FILE` makes one", path);
	if (rc == 0 && with_names && !r.names_found)
		rc = kv_fail(err, -KV_EINVAL,
			     "the seal key file %s has no key for names: add a line 'names:HEX' with 64 hexadecimal "
			     "digits (`openssl rand -hex 32`), the same on every client",
			     path);
	if (rc < 0) {
		kc_seal_keys_destroy(&k);
		return rc;
	}
	k->named = with_names;
	snprintf(k->space, sizeof(k->space), "%s", space ? space : "");
	*out = k;
	return 0;
}

void kc_seal_keys_destroy(struct kc_seal_keys **keys)
{
	if (!*keys)
		return;
	crypt_wipe(*keys, sizeof(**keys));
	free(*keys);
	*keys = NULL;
}
