/* SPDX-License-Identifier: Apache-2.0 */
/* secret.h -- pre-shared keys as text, and files with secrets. Private to bootstrap/ and tests. */
#ifndef KVRAIL_BOOTSTRAP_SECRET_H
#define KVRAIL_BOOTSTRAP_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum {
	SECRET_IDENTITY_MAX = 128, /* characters */
	SECRET_KEY_MIN = 16,       /* bytes, 32 hex digits */
	SECRET_KEY_MAX = 64,
	SECRET_PSKS_MAX = 4096,
	SECRET_PSKS_FILE_MAX = 1 << 20, /* and its bytes */
	SECRET_FILE_MAX = 64 << 10,
	SECRET_KEYS_FILE_MAX = 16 << 20 /* of a file with many */
};

struct secret_psk {
	char identity[SECRET_IDENTITY_MAX + 1];
	uint8_t key[SECRET_KEY_MAX];
	size_t key_len;
};

/* The keys of a PSK file, in its order. This side proves the last one; a server accepts each. Zeroed: none. */
struct secret_psks {
	struct secret_psk *key; /* of secret_pages */
	unsigned count;
	size_t bytes;
};

/* struct secret_text -- a secret file; data[len] is 0. Wipe it with secret_text_fini. */
struct secret_text {
	char *data;
	size_t len;
};

/* secret_psk_parse -- read one line "identity:hex", beside comments (#) and blank lines. source: its name in errors.
 * Any bytes are allowed. Errors: -KV_EINVAL with source and line, never a part of the key; *out only on success.
 * Thread: any. */
int secret_psk_parse(const char *text, size_t len, const char *source, struct secret_psk *out, struct kv_error *err);

/* secret_psk_next -- the next key of a text. Start with at, end, source, and number 0. Returns 1 with *out; 0 at the
 * end; -KV_EINVAL as secret_psk_parse. */
struct secret_reader {
	const char *at, *end, *source;
	unsigned number;
};
int secret_psk_next(struct secret_reader *r, struct secret_psk *out, struct kv_error *err);

/* secret_psks_parse -- read 1 to SECRET_PSKS_MAX keys with distinct identities. Errors: as secret_psk_parse, and
 * -KV_ENOMEM. secret_psks_fini -- wipe and free. */
int secret_psks_parse(const char *text, size_t len, const char *source, struct secret_psks *out, struct kv_error *err);
void secret_psks_fini(struct secret_psks *keys);

/* secret_psks_own -- the key of this side. */
static inline const struct secret_psk *secret_psks_own(const struct secret_psks *keys)
{
	return &keys->key[keys->count - 1];
}

/* secret_psks_load -- read keys from a file. Errors: those of secret_file_read and secret_psks_parse. */
int secret_psks_load(const char *path, struct secret_psks *out, struct kv_error *err);

/* secret_file_read -- read a regular file that only its owner may read or write. `what` names it in errors ("PSK
 * file"). Errors: -KV_EDENIED (mode; with the chmod to run), -KV_EINVAL (not regular, too long), -KV_ENOMEM, -errno. */
int secret_file_read(const char *path, const char *what, struct secret_text *out, struct kv_error *err);
/* secret_keys_read -- the same for SECRET_KEYS_FILE_MAX bytes. */
int secret_keys_read(const char *path, const char *what, struct secret_text *out, struct kv_error *err);
void secret_text_fini(struct secret_text *text); /* wipes and frees; harmless on a zeroed struct */

/* secret_pages -- zeroed memory outside of core dumps, or NULL. secret_pages_free -- wipe its first `used` bytes and
 * free it; NULL is accepted. */
void *secret_pages(size_t bytes);
void secret_pages_free(void *p, size_t used, size_t bytes);

void secret_wipe(void *p, size_t n); /* a wipe that the compiler does not remove */

#endif
