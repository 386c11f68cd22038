/* SPDX-License-Identifier: Apache-2.0 */
/* proof.c -- make and check the proof that opens a further session (docs/reference/protocol.md 2.7).
 *
 * The exporter value binds it to this TLS connection, the nonces make it fresh, the id restricts it to one session. The
 * key is the named identity's, or else the connection's secret. Without TLS the binding is zeros and the secret the
 * token of the own session.
 *
 * An unknown identity is checked against a key of zeros, so the time reveals no names. */
#include "bootstrap/conn.h"
#include "bootstrap/hmac.h"
#include "bootstrap/keys.h"

#include <string.h>

enum { MAGIC_LEN = 16, SECRET_LEN = 32, BINDING_LEN = 32 };

static const char magic[MAGIC_LEN + 1] = "kvrail session 1";
static const char label_binding[] = "EXPORTER-KVRail-session-binding";
static const char label_secret[] = "EXPORTER-KVRail-session-secret";

_Static_assert((int)WIRE_PROOF_LEN == (int)HMAC_LEN, "a proof is an HMAC-SHA256");
_Static_assert((int)WIRE_IDENTITY_MAX == (int)SECRET_IDENTITY_MAX + 1, "every identity fits");

struct secret {
	uint8_t key[SECRET_KEY_MAX];
	size_t len;
};

static int secret_own(struct boot_conn *conn, const struct boot_challenge *ch, struct secret *out)
{
	int rc = conn_export(conn, label_secret, out->key, SECRET_LEN);
	out->len = SECRET_LEN;
	if (rc != -KV_ENOTSUP)
		return rc;
	memcpy(out->key, ch->token, KV_TOKEN_LEN);
	out->len = KV_TOKEN_LEN;
	return 0;
}

static void secret_of(const struct secret_psk *psk, struct secret *out)
{
	memcpy(out->key, psk->key, sizeof(out->key));
	out->len = psk->key_len;
}

static int proof_make(struct boot_conn *conn, const struct boot_challenge *ch, const struct secret *secret,
		      const struct wire_session_open *open, uint8_t out[WIRE_PROOF_LEN])
{
	uint8_t in[MAGIC_LEN + 12 + 2 * WIRE_NONCE_LEN + BINDING_LEN + WIRE_IDENTITY_MAX], *p = in;
	size_t identity_len = strnlen(open->identity, sizeof(open->identity) - 1);
	int rc;
	memcpy(p, magic, MAGIC_LEN);
	p += MAGIC_LEN;
	kv_put32(p, open->id);
	kv_put64(p + 4, open->client_id);
	p += 12;
	memcpy(p, ch->nonce, WIRE_NONCE_LEN);
	memcpy(p + WIRE_NONCE_LEN, open->nonce, WIRE_NONCE_LEN);
	p += (size_t)2 * WIRE_NONCE_LEN;
	rc = conn_export(conn, label_binding, p, BINDING_LEN);
	if (rc == -KV_ENOTSUP) {
		memset(p, 0, BINDING_LEN);
		rc = 0;
	}
	p += BINDING_LEN;
	memcpy(p, open->identity, identity_len);
	p += identity_len;
	if (rc == 0)
		rc = hmac_sha256(secret->key, secret->len, in, (size_t)(p - in), out);
	secret_wipe(in, sizeof(in));
	return rc;
}

int boot_prove(struct boot_conn *conn, const struct boot_challenge *challenge, const struct boot_key *key,
	       struct wire_session_open *open)
{
	struct secret secret = {.len = 0};
	int rc = 0;
	memset(open->identity, 0, sizeof(open->identity));
	if (key) {
		memcpy(open->identity, key->psk.identity, strlen(key->psk.identity));
		secret_of(&key->psk, &secret);
	} else {
		rc = secret_own(conn, challenge, &secret);
	}
	if (rc == 0)
		rc = proof_make(conn, challenge, &secret, open, open->proof);
	secret_wipe(&secret, sizeof(secret));
	return rc;
}

int boot_proof_check(struct boot_conn *conn, const struct boot_challenge *challenge, const struct boot_keys *keys,
		     const struct wire_session_open *open)
{
	const struct secret_psk *psk = open->identity[0] ? keys_find(keys, open->identity) : NULL;
	bool known = psk || !open->identity[0];
	struct secret secret = {.len = SECRET_LEN};
	uint8_t want[WIRE_PROOF_LEN] = {0};
	int rc = 0;
	if (psk)
		secret_of(psk, &secret);
	else if (known)
		rc = secret_own(conn, challenge, &secret);
	if (rc == 0)
		rc = proof_make(conn, challenge, &secret, open, want);
	if (rc == 0 && !(kv_equal_secret(want, open->proof, WIRE_PROOF_LEN) & known))
		rc = -KV_EDENIED;
	secret_wipe(&secret, sizeof(secret));
	secret_wipe(want, sizeof(want));
	return rc;
}
