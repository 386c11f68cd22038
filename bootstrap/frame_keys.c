/* SPDX-License-Identifier: Apache-2.0 */
/* frame_keys.c -- the keys of fabric frames, from what only the two ends of a control connection know.
 *
 * The secret is made of two things: an exporter value of TLS, so that who does not have the connection's keys cannot make it, and the token of the
 * WELCOME, which is new with each attachment of the connection: the exporter's value is one for all of them, session numbers come again in time, and
 * a key that comes again with its counters from 0 would give away what tags are made of. Without TLS there is the token alone, which whoever reads
 * the control connection reads, too: there the tags keep apart clients that mean well, and keep out who has only the fabric.
 * Each link has two keys, one per direction: HMAC-SHA256(secret, label | direction | shard | link | session), the first 16 bytes. So no
 * frame means anything on another link, in the other direction or in another session, and each direction has counters of its own.
 *
 * Rejected: one key per session with link and direction in the tagged bytes. The MAC's nonce is the counter, and counters of two links
 * would meet. */
#include <string.h>

#include "bootstrap/conn.h"
#include "bootstrap/hmac.h"
#include "bootstrap/secret.h"

enum { MAGIC_LEN = 16, TO_SERVER = 0, TO_CLIENT = 1 };

static const char magic[MAGIC_LEN + 1] = "kvrail frames 2\n";
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

static int key_make(const uint8_t secret[BOOT_FRAME_SECRET], uint8_t direction, uint32_t session, unsigned shard, unsigned link,
		    uint8_t out[KV_MAC_KEY])
{
	uint8_t in[MAGIC_LEN + 16] = {0}, mac[HMAC_LEN], *p = in + MAGIC_LEN;
	int rc;

	memcpy(in, magic, MAGIC_LEN);
	kv_put32(p, direction);
	kv_put32(p + 4, shard);
	kv_put32(p + 8, link);
	kv_put32(p + 12, session);
	rc = hmac_sha256(secret, BOOT_FRAME_SECRET, in, sizeof(in), mac);
	if (rc == 0)
		memcpy(out, mac, KV_MAC_KEY);
	secret_wipe(mac, sizeof(mac));
	return rc;
}

int boot_frame_keys(const uint8_t secret[BOOT_FRAME_SECRET], uint32_t session, unsigned shard, unsigned link, bool server,
		    struct kv_seal_keys *out)
{
	int rc = key_make(secret, TO_SERVER, session, shard, link, server ? out->in : out->out);

	return rc ? rc : key_make(secret, TO_CLIENT, session, shard, link, server ? out->out : out->in);
}

int boot_frame_seal(const uint8_t secret[BOOT_FRAME_SECRET], uint32_t session, unsigned shard, unsigned link, bool server,
		    struct kv_seal *out)
{
	struct kv_seal_keys keys;
	int rc = boot_frame_keys(secret, session, shard, link, server, &keys);

	if (rc == 0)
		rc = kv_seal_open(out, &keys);
	secret_wipe(&keys, sizeof(keys));
	return rc;
}
