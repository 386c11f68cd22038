/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.h -- the bare ibverbs model of kv-bench capacity. */
#ifndef KVRAIL_KVBENCH_CAPACITY_VERBS_H
#define KVRAIL_KVBENCH_CAPACITY_VERBS_H

#include "kvbench/capacity/reporter.h"

/* capacity_verbs_run -- the bare ibverbs model: QP, two CQs and two MRs per client. */
void capacity_verbs_run(struct capacity_reporter *t);

/* capacity_verbs_end -- the exhausted resource when a call that makes `what` failed with this errno; host: the present
 * state. */
enum capacity_end capacity_verbs_end(enum capacity_end what, int error, const struct kv_host *host);

#endif
