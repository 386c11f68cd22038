/* SPDX-License-Identifier: Apache-2.0 */
/* stuck.h -- a signal ends kv-bench, even if one of its loops does not turn any more. */
#ifndef KVRAIL_KVBENCH_SETUP_STUCK_H
#define KVRAIL_KVBENCH_SETUP_STUCK_H

#include "base/base.h"
#include "kvclient/kvclient.h"

/* stuck_watch -- once: start the thread that watches after a signal. stuck_signal -- a signal came; from its handler.
 * If a loop of the open pool does not turn for 10 s then, or a pool takes 10 s to open or close, the process ends with
 * 128 + signal. (Without memory for a thread it takes a second signal.) stuck_end -- the process ends in order: end the
 * thread, if there is one. */
void stuck_watch(void);
void stuck_signal(int number);
void stuck_end(void);

/* bench_pool_open, bench_pool_close -- kvc_pool_open and kvc_pool_close of a watched pool: one at a time. */
int bench_pool_open(const struct kvc_options *options, struct kvc_pool **out, struct kv_error *err);
void bench_pool_close(struct kvc_pool **pool);

#endif
