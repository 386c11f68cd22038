/* SPDX-License-Identifier: Apache-2.0 */
/* ending.h -- an attachment stops, ends, becomes idle, or gets other addresses. The shard's thread; nothing parks. */
#ifndef KVRAIL_KVSERVER_SHARD_ENDING_H
#define KVRAIL_KVSERVER_SHARD_ENDING_H

#include "kvserver/shard/attachment.h"

/* shard_attachment_stop -- take no new requests and drop queued work. Transfers in flight stay until they complete, and
 * count as left behind by a gone client (shard_quarantine_check). A second call does nothing. */
void shard_attachment_stop(struct shard_attachment *s);

/* shard_attachment_end -- shard_attachment_stop; when nothing is in flight, close the peer, free the attachment and
 * finish `gone`. */
void shard_attachment_end(struct shard_attachment *s, struct call *gone);

/* shard_attachment_hurry -- the client waits for the attachment to end: cut its peer, if that harms no others. */
void shard_attachment_hurry(struct shard_attachment *s);

/* shard_attachment_when_idle -- finish `idle` when no request of the attachment is in flight (at once if there is
 * none). */
void shard_attachment_when_idle(struct shard_attachment *s, struct call *idle);

/* shard_attachment_readdress -- the client has other addresses: stop its requests without an answer; it must prove its
 * links again. 0, -KV_ECLOSED, or a code of kv_entropy_fill or te_peer_readdress, after which the links are unproven as
 * well. */
int shard_attachment_readdress(struct shard_attachment *s, const struct te_address *addrs, unsigned rails,
			       struct kv_error *err);

#endif
