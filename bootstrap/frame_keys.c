/* SPDX-License-Identifier: Apache-2.0 */
/* frame_keys.c -- derive the keys of fabric frames.
 *
 * The secret has two inputs: a TLS exporter value, so that only the connection's ends can derive it, and the token of
 * the WELCOME, new with each attachment: a repeated key with counters from 0 reveals the inputs of its tags. Without
 * TLS the token is readable on the control connection; then tags only keep out attackers who have just the fabric.
 *
 * Each shard has two keys of a session, one per direction: HMAC-SHA256(secret, label | direction | shard | session),
 * the first 16 bytes. One key per shard, since only its thread may use it; none per link, since OpenSSL's contexts are
 * large. The nonce contains the link (base/seal.c). Further sessions send in the frames of their connection and have no
 * keys. */
#include <string.h>

#include "bootstrap/conn.h"
#include "bootstrap/hmac.h"
#include "bootstrap/secret.h"

enum { MAGIC_LEN = 16, TO_SERVER = 0, TO_CLIENT = 1 };

static const char magic[MAGIC_LEN + 1] = "kvrail frames 3\n";
static const char label[] = "EXPORTER-KVRail-frames";

_Static_assert((int)KV_MAC_KEY <= (int)HMAC_LEN, "a key is a part of an HMAC-SHA256");
_Static_assert((int)BOOT_FRAME_SECRET == (int)HMAC_LEN, "the secret is an HMAC-SHA256");

int boot_frame_secret(struct boot_conn *conn, const uint8_t token[KV_TOKEN_LEN], uint8_t out[BOOT_FRAME_SECRET])
{
	uint8_t exported[BOOT_FRAME_SECRET] = {0};
	int rc = conn_export(conn, label, exported, sizeof(exported));
	if (rc == 0 || rc == -KV_ENOTSUP)
		rc = hmac_sha256(exported, sizeof(exported), token, KV_TOKEN_LEN, out);
	secret_wipe(exported, sizeof(exported));
	return rc;
}

static int key_make(const uint8_t secret[BOOT_FRAME_SECRET], uint8_t direction, uint32_t session, unsigned shard,
		    uint8_t out[KV_MAC_KEY])
{
	uint8_t in[MAGIC_LEN + 12], mac[HMAC_LEN], *p = in + MAGIC_LEN;
	int rc;
	memcpy(in, magic, MAGIC_LEN);
	kv_put32(p, direction);
	kv_put32(p + 4, shard);
	kv_put32(p + 8, session);
	rc = hmac_sha256(secret, BOOT_FRAME_SECRET, in, sizeof(in), mac);
	if (rc == 0)
		memcpy(out, mac, KV_MAC_KEY);
	secret_wipe(mac, sizeof(mac));
	return rc;
}

int boot_frame_keys(const uint8_t secret[BOOT_FRAME_SECRET], uint32_t session, unsigned shard, bool server,
		    struct kv_seal_keys *out)
{
	int rc = key_make(secret, TO_SERVER, session, shard, server ? out->in : out->out);
	return rc ? rc : key_make(secret, TO_CLIENT, session, shard, server ? out->out : out->in);
}

int boot_frame_macs(const uint8_t secret[BOOT_FRAME_SECRET], uint32_t session, unsigned shard, bool server,
		    struct kv_macs *out)
{
	struct kv_seal_keys keys;
	int rc = boot_frame_keys(secret, session, shard, server, &keys);
	if (rc == 0)
		rc = kv_macs_init(out, &keys);
	secret_wipe(&keys, sizeof(keys));
	return rc;
}
