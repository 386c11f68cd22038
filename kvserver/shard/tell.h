/* SPDX-License-Identifier: Apache-2.0 */
/* tell.h -- a shard's reports to the control loop. The shard's thread. */
#ifndef KVRAIL_KVSERVER_SHARD_TELL_H
#define KVRAIL_KVSERVER_SHARD_TELL_H

struct shard;

/* tell_drained -- a request was freed, or the engine may be idle: finish shard->drained if nothing is in flight. */
void tell_drained(struct shard *s);

/* tell_reset -- report that the peers are void, if due (shard->reset_due). */
void tell_reset(struct shard *s);

/* tell_lost -- report that clients of marked attachments (*shard_attachment_args.anew) must begin anew. */
void tell_lost(struct shard *s);

#endif
