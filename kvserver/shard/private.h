/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- the functions of shard/ for each other. The shard's thread; nothing parks. */
#ifndef KVRAIL_KVSERVER_SHARD_PRIVATE_H
#define KVRAIL_KVSERVER_SHARD_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

struct kv_error;
struct shard;
struct te_peer;

/* ---- store.c ---- */

/* shard_store -- set up an empty store. 0, or a code with *err. */
int shard_store(struct shard *s, struct kv_error *err);

/* ---- frame.c ---- */

/* frame_message -- te_handlers.message: `arg` is the shard. `data` is untrusted until its tag is verified; nothing of
 * it is kept. */
void frame_message(void *arg, unsigned rail, const uint8_t *data, size_t len);

/* frame_local -- te_handlers.local: the same for a frame of a channel. The kernel says that it is the peer's, so its
 * tag is not read. */
void frame_local(void *arg, struct te_peer *peer, const uint8_t *data, size_t len);

/* ---- report.c ---- */

/* report_drained -- a request was freed, or the engine may be idle: finish shard->drained if nothing is in flight. */
void report_drained(struct shard *s);

/* report_closed -- finish shard->calls.closed if no file is read or written any more, or time is over. */
void report_closed(struct shard *s);

/* report_reset -- report that the peers are void, if due (shard->reset_due). */
void report_reset(struct shard *s);

/* report_lost -- report that clients of marked attachments (*shard_attachment_args.anew) must begin anew. */
void report_lost(struct shard *s);

/* ---- quarantine.c ---- */

/* quarantined_bytes -- bytes not reusable because an operation is unresolved. */
uint64_t quarantined_bytes(struct shard *s);

/* ending_attachments -- ending attachments with operations in flight. */
unsigned ending_attachments(const struct shard *s);

/* shard_quarantine_check -- if transfers of clients gone for SHARD_QUARANTINE_NS exceed the budget, fence the client
 * with most: at most once in that time. Where they block all others (te_info.death_stalls), fence it after
 * SHARD_STALL_NS, whatever it holds. Called by the tick. */
void shard_quarantine_check(struct shard *s, uint64_t now_ns);

#endif
