/* SPDX-License-Identifier: Apache-2.0 */
/* frame_keys.c -- derive the keys of fabric frames from secrets of the two ends of a control connection.
 *
 * The secret comes from two inputs. The first is an exporter value of TLS, so nobody without the connection's keys can
 * derive the secret. The second is the token of the WELCOME, which is new with each attachment of the connection. It is
 * needed because the exporter's value is the same for all attachments, and session numbers come again in time. A key
 * that came again with its counters from 0 would reveal the inputs of its tags.
 *
 * Without TLS there is only the token, and a reader of the control connection can read it, too. There the tags keep
 * well-meaning clients apart, and keep out attackers who have only the fabric.
 *
 * Each shard has two keys of a session, one per direction: HMAC-SHA256(secret, label | direction | shard | session),
 * the first 16 bytes. So a frame is worthless at another shard, in the other direction or in another session. The nonce
 * (base/seal.c) keeps the links of a shard apart: the link is a part of it, so counters of two links may be equal, and
 * a frame has a wrong tag on another link.
 *
 * Secret and keys belong to one session only. A session number that comes again, or a client that comes back, meets no
 * nonce that was used. Further sessions of a connection send in its frames and have no keys. Probes have none either:
 * they are frames like the others.
 *
 * Rejected: a key for each link, with the counter alone as the nonce. OpenSSL's contexts for 32 links took 71 KiB of a
 * server. One key for all shards: each shard has a thread of its own, and only one thread may use a key. */
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
