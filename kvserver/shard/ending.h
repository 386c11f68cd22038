/* SPDX-License-Identifier: Apache-2.0 */
/* ending.h -- a session stops, ends, becomes idle, or gets other addresses. The shard's thread; nothing parks. */
#ifndef KVRAIL_KVSERVER_SHARD_ENDING_H
#define KVRAIL_KVSERVER_SHARD_ENDING_H

#include "kvserver/shard/session.h"

/* session_stop -- take no new requests and drop queued work. Transfers in flight stay until they complete, and count as
 * left behind by a gone client (shard_quarantine_check). A second call does nothing. */
void session_stop(struct session *s);

/* session_end -- session_stop; when nothing is in flight, close the peer, free the session and finish `gone`. */
void session_end(struct session *s, struct call *gone);

/* session_hurry -- the client waits for the session to end: cut its peer, if that harms no others. */
void session_hurry(struct session *s);

/* session_when_idle -- finish `idle` when no request of the session is in flight (at once if there is none). */
void session_when_idle(struct session *s, struct call *idle);

/* session_readdress -- the client has other addresses: stop its requests without an answer; it must prove its links
 * again. 0, -KV_ECLOSED, or a code of kv_entropy_fill or te_peer_readdress, after which the links are unproven as well.
 */
int session_readdress(struct session *s, const struct te_address *addrs, unsigned rails, struct kv_error *err);

#endif
