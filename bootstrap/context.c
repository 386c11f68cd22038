/* SPDX-License-Identifier: Apache-2.0 */
/* context.c -- choose the security of one side. Contradictory or incomplete settings are errors, never plain TCP. */
#include "bootstrap/context.h"

#include <stdlib.h>
#include <string.h>

#include "bootstrap/hmac.h"

static int certificates_check(const struct boot_security *s, bool *out_any, struct kv_error *err)
{
	unsigned given = !!s->cert_file + !!s->key_file + !!s->ca_file;
	const char *missing = "CA file";
	*out_any = given != 0;
	if (given == 0 || given == 3)
		return 0;
	if (!s->cert_file)
		missing = "certificate file";
	else if (!s->key_file)
		missing = "key file";
	return kv_fail(
		err, -KV_EINVAL,
		"certificates need three files, and the %s is missing: give certificate, key and CA file together",
		missing);
}

static int mode_choose(const struct boot_security *s, bool server, enum boot_mode *out, struct kv_error *err)
{
	bool psk = s->psk || s->psk_file, certs;
	int rc = certificates_check(s, &certs, err);
	if (rc)
		return rc;
	if (s->psk && s->psk_file)
		return kv_fail(err, -KV_EINVAL, "a pre-shared key is given both as text and as file %s: give one",
			       s->psk_file);
	if (psk && certs)
		return kv_fail(err, -KV_EINVAL,
			       "a pre-shared key (psk) and certificates are given: choose one of the two");
	if (s->server_name && (server || !certs))
		return kv_fail(
			err, -KV_EINVAL,
			"a server name is given, but only a client that uses certificates can check it: leave it out");
	if (s->server_name && !*s->server_name)
		return kv_fail(err, -KV_EINVAL,
			       "the server name to check is empty: leave it out to expect the dialled name");
	if (s->crl_file && !certs)
		return kv_fail(err, -KV_EINVAL,
			       "a CRL file is given, but no certificates: give certificates as well, or leave it out");
	*out = certs ? BOOT_CERT : BOOT_PLAIN;
	if (psk)
		*out = BOOT_PSK;
	return 0;
}

static int psks_get(const struct boot_security *s, struct secret_psks *out, struct kv_error *err)
{
	if (s->psk_file)
		return secret_psks_load(s->psk_file, out, err);
	out->bytes = sizeof(*out->key);
	out->key = secret_pages(out->bytes);
	if (!out->key)
		return kv_fail(err, -KV_ENOMEM, "no memory for a key");
	out->count = 1;
	return secret_psk_parse(s->psk, strlen(s->psk), "the PSK text", out->key, err);
}

static int tls_make(const struct boot_security *s, struct boot_context *ctx, const struct kv_log *log,
		    struct kv_error *err)
{
	struct secret_psks psks = {0};
	struct tls_settings settings = {
		.server = ctx->server,
		.psks = ctx->mode == BOOT_PSK ? &psks : NULL,
		.cert_file = s->cert_file,
		.key_file = s->key_file,
		.ca_file = s->ca_file,
		.crl_file = s->crl_file,
		.crl_kept = s->crl_kept,
		.server_name = s->server_name,
		.gate = ctx->server ? &ctx->gate : NULL,
		.log = log,
	};
	int rc = ctx->mode == BOOT_PSK ? psks_get(s, &psks, err) : 0;
	if (rc == 0)
		rc = tls_context_create(&settings, &ctx->tls, err);
	secret_psks_fini(&psks);
	return rc;
}

int boot_context_create(const struct boot_security *security, bool server, const struct kv_log *log,
			struct boot_context **out, struct kv_error *err)
{
	enum boot_mode mode = BOOT_PLAIN;
	int rc = mode_choose(security, server, &mode, err);
	if (rc)
		return rc;
	struct boot_context *ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return kv_fail(err, -KV_ENOMEM, "no memory for the security settings");
	ctx->mode = mode;
	ctx->server = server;
	gate_init(&ctx->gate);
	rc = mode == BOOT_PLAIN ? 0 : tls_make(security, ctx, log, err);
	if (rc)
		goto free_ctx;
	*out = ctx;
	return 0;

free_ctx:
	free(ctx);
	return rc;
}

void boot_context_destroy(struct boot_context **ctx)
{
	if (!*ctx)
		return;
	tls_context_release(&(*ctx)->tls);
	free(*ctx);
	*ctx = NULL;
}

void boot_context_adopt(struct boot_context *ctx, struct boot_context **fresh)
{
	tls_context_follow((*fresh)->tls, ctx->tls);
	tls_context_release(&ctx->tls);
	ctx->tls = (*fresh)->tls;
	(*fresh)->tls = NULL;
	boot_context_destroy(fresh);
}

enum boot_mode boot_context_mode(const struct boot_context *ctx)
{
	return ctx->mode;
}

/* ---- two processes of one owner ---- */

/* Proofs of another purpose, under the same key, have other data. */
static int owner_hmac(const struct secret_psk *key, const uint8_t nonce[BOOT_OWNER], uint8_t out[BOOT_OWNER])
{
	static const char purpose[] = "kvrail handover 1";
	uint8_t data[BOOT_OWNER + sizeof(purpose)];
	memcpy(data, nonce, BOOT_OWNER);
	memcpy(data + BOOT_OWNER, purpose, sizeof(purpose));
	return hmac_sha256(key->key, key->key_len, data, sizeof(data), out);
}

int boot_owner_prove(const struct boot_security *security, const uint8_t nonce[BOOT_OWNER], uint8_t out[BOOT_OWNER],
		     struct kv_error *err)
{
	struct secret_psks psks = {0};
	int rc;
	memset(out, 0, BOOT_OWNER);
	if (!security->psk_file && !security->psk)
		return 0;
	rc = psks_get(security, &psks, err);
	if (rc == 0)
		rc = owner_hmac(secret_psks_own(&psks), nonce, out);
	secret_psks_fini(&psks);
	return rc;
}

int boot_owner_check(const struct boot_security *security, const uint8_t nonce[BOOT_OWNER],
		     const uint8_t proof[BOOT_OWNER])
{
	struct secret_psks psks = {0};
	uint8_t right[BOOT_OWNER];
	bool good = false;
	int rc;
	if (!security->psk_file && !security->psk)
		return 0;
	rc = psks_get(security, &psks, NULL);
	for (unsigned i = 0; rc == 0 && i < psks.count; i++) {
		rc = owner_hmac(&psks.key[i], nonce, right);
		good |= rc == 0 && kv_equal_secret(right, proof, sizeof(right));
	}
	secret_psks_fini(&psks);
	secret_wipe(right, sizeof(right));
	if (rc)
		return rc;
	return good ? 0 : -KV_EDENIED;
}
