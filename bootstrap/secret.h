/* SPDX-License-Identifier: Apache-2.0 */
/* secret.h -- pre-shared keys as text, and files that hold secrets. Private to bootstrap/ (tests excepted). */
#ifndef KVRAIL_BOOTSTRAP_SECRET_H
#define KVRAIL_BOOTSTRAP_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum {
	SECRET_IDENTITY_MAX = 128, /* characters */
	SECRET_KEY_MIN = 16,       /* bytes, 32 hex digits */
	SECRET_KEY_MAX = 64,
	SECRET_PSKS_MAX = 8,            /* keys of a PSK file */
	SECRET_FILE_MAX = 64 << 10,     /* bytes of a file that holds one key, or a few */
	SECRET_KEYS_FILE_MAX = 16 << 20 /* ... and of one that holds many */
};

struct secret_psk {
	char identity[SECRET_IDENTITY_MAX + 1];
	uint8_t key[SECRET_KEY_MAX];
	size_t key_len;
};

/* The keys of a PSK file: while keys are changed there are two. This side shows the last one, and a server accepts
 * each. */
struct secret_psks {
	struct secret_psk key[SECRET_PSKS_MAX];
	unsigned count;
};

/* struct secret_text -- the content of a secret file; data has a 0 after len bytes. Wipe it with secret_text_fini. */
struct secret_text {
	char *data;
	size_t len;
};

/* secret_psk_parse -- read one line "identity:hex" among comments (#) and blank lines. source names the text in errors
 * (a file, "the psk text"). The input may be any bytes. Errors: -KV_EINVAL with source and line, never with a part of
 * the key; *out is written on success only. Thread: any. */
int secret_psk_parse(const char *text, size_t len, const char *source, struct secret_psk *out, struct kv_error *err);

/* secret_psk_next -- read the next key of a text with one key a line. Start with at, end and source set and number 0.
 * Returns 1 with *out; 0 at the end; -KV_EINVAL as secret_psk_parse. */
struct secret_reader {
	const char *at, *end, *source;
	unsigned number; /* of the last line read */
};
int secret_psk_next(struct secret_reader *r, struct secret_psk *out, struct kv_error *err);

/* secret_psks_parse -- read 1 to SECRET_PSKS_MAX keys of a text with one key a line, each with an identity of its own.
 * Errors: as secret_psk_parse. */
int secret_psks_parse(const char *text, size_t len, const char *source, struct secret_psks *out, struct kv_error *err);

/* secret_psks_own -- the key that this side shows. */
static inline const struct secret_psk *secret_psks_own(const struct secret_psks *keys)
{
	return &keys->key[keys->count - 1];
}

/* secret_psks_load -- read keys from a file. Errors: those of secret_file_read and secret_psks_parse. */
int secret_psks_load(const char *path, struct secret_psks *out, struct kv_error *err);

/* secret_file_read -- read a regular file that only its owner may read or write. `what` names it in errors ("PSK
 * file"). Errors: -KV_EDENIED (its mode; the sentence has the chmod to run), -KV_EINVAL (not a regular file, too long),
 * -KV_ENOMEM, -errno. */
int secret_file_read(const char *path, const char *what, struct secret_text *out, struct kv_error *err);
/* secret_keys_read -- the same for a file of many keys, of SECRET_KEYS_FILE_MAX bytes at most. */
int secret_keys_read(const char *path, const char *what, struct secret_text *out, struct kv_error *err);
void secret_text_fini(struct secret_text *text); /* wipes and frees; harmless on a zeroed struct */

void secret_wipe(void *p, size_t n); /* a wipe that the compiler does not remove */

#endif
