/* SPDX-License-Identifier: Apache-2.0 */
/* report.h -- a shard's reports to the control loop. The shard's thread. */
#ifndef KVRAIL_KVSERVER_SHARD_REPORT_H
#define KVRAIL_KVSERVER_SHARD_REPORT_H

struct shard;

/* report_drained -- a request was freed, or the engine may be idle: finish shard->drained if nothing is in flight. */
void report_drained(struct shard *s);

/* report_reset -- report that the peers are void, if due (shard->reset_due). */
void report_reset(struct shard *s);

/* report_lost -- report that clients of marked attachments (*shard_attachment_args.anew) must begin anew. */
void report_lost(struct shard *s);

#endif
