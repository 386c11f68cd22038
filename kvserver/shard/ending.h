/* SPDX-License-Identifier: Apache-2.0 */
/* ending.h -- how a session stops, ends, becomes idle, or gets other addresses. The shard's thread; nothing parks. */
#ifndef KVRAIL_KVSERVER_SHARD_ENDING_H
#define KVRAIL_KVSERVER_SHARD_ENDING_H

#include "kvserver/shard/session.h"

/* session_stop -- take no new requests and drop queued work. Transfers in flight are kept until they complete, and
 * count as left behind by a client that is gone (shard_quarantine_check). A second time it does nothing. */
void session_stop(struct session *s);

/* session_end -- session_stop, and when nothing is in flight any more the peer is closed, the session freed and `gone`
 * finished. */
void session_end(struct session *s, struct call *gone);

/* session_hurry -- the session ends, and its client waits for that: cut its peer, if the engine can do so without harm
 * to others. */
void session_hurry(struct session *s);

/* session_when_idle -- finish `idle` as soon as no request of the session is in flight (at once if there is none). */
void session_when_idle(struct session *s, struct call *idle);

/* session_readdress -- the client has other addresses: its requests are stopped without an answer, and it has to
 * prove its links again. 0, -KV_ECLOSED, or what kv_entropy_fill and te_peer_readdress say; the links are unproven
 * then, too. */
int session_readdress(struct session *s, const struct te_address *addrs, unsigned rails, struct kv_error *err);

#endif
