/* SPDX-License-Identifier: Apache-2.0 */
/* tell.h -- what a shard tells the control loop unasked. The shard's thread. */
#ifndef KVRAIL_KVSERVER_SHARD_TELL_H
#define KVRAIL_KVSERVER_SHARD_TELL_H

struct shard;

/* tell_drained -- a request was freed, or the engine may be idle: finish shard->drained if nothing is in flight. */
void tell_drained(struct shard *s);

/* tell_reset -- say that the peers are void, if that is due (shard->reset_due). */
void tell_reset(struct shard *s);

/* tell_lost -- clients of sessions that were marked (*session_args.anew) must begin anew. */
void tell_lost(struct shard *s);

#endif
