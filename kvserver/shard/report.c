/* SPDX-License-Identifier: Apache-2.0 */
/* report.c -- a shard's reports to the control loop: nothing is in flight any more, its peers are void, clients must
 * begin anew. The last two call functions of the control loop (struct shard_options), which may fail for the moment;
 * the tick repeats them. */
#include "kvserver/shard/private.h"

#include "kvserver/shard/loopcall.h"
#include "kvserver/shard/shard.h"

void report_reset(struct shard *s)
{
	if (s->calls.reset_due && (!s->opt.reports.reset || s->opt.reports.reset(s->opt.reports.arg, s) == 0))
		s->calls.reset_due = false;
}

void report_lost(struct shard *s)
{
	s->calls.lost_due = s->opt.reports.lost && s->opt.reports.lost(s->opt.reports.arg, s) != 0;
}

void report_drained(struct shard *s)
{
	struct call *drained = s->calls.drained;
	if (!drained || s->opt.ops->saving(s) || s->requests.used || (s->te && te_busy(s->te)))
		return;
	s->calls.drained = NULL;
	call_finish(drained, 0);
}

void report_closed(struct shard *s)
{
	struct call *closed = s->calls.closed;
	if (s->opt.ops->busy(s) && loop_now(s->loop) < s->calls.closed_ns)
		return;
	s->calls.closed = NULL;
	call_finish(closed, 0);
}
