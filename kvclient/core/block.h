/* SPDX-License-Identifier: Apache-2.0 */
/* block.h -- run a function as a coroutine on a client's loop while the calling thread waits. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_BLOCK_H
#define KVRAIL_KVCLIENT_CORE_BLOCK_H

#include "kvclient/core/client.h"

/* kc_block_run -- run fn(client, arg) as a coroutine on the client's loop, and block until it returns *out_rc. 0; or
 * fn never runs: -KV_EINVAL on a thread that turns a loop; -KV_EBUSY, -KV_ENOMEM; -KV_ETIMEOUT: the loop did not start
 * it by the deadline. */
int kc_block_run(struct kvc_client *c, uint64_t deadline_ns, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg,
		 int64_t *out_rc);

/* kc_block_run_all -- on the first n clients at once, with a shared `arg`. Returns the first failure. */
int kc_block_run_all(struct kvc_pool *pool, unsigned n, uint64_t deadline_ns,
		     int64_t (*fn)(struct kvc_client *c, void *arg), void *arg);

/* kc_job_begin -- post fn(client, arg) without blocking. Not on a thread that turns a loop. 0 and *out for
 * kc_job_end; or fn never runs. kc_job_end -- wait for the job, and free it. Returns as kc_block_run. */
struct kc_job;
int kc_job_begin(struct kvc_client *c, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg, struct kc_job **out);
int kc_job_end(struct kc_job *j, uint64_t deadline_ns, int64_t *out_rc);

/* kc_block_now -- the time by the pool's clock, for deadlines. Any thread. */
uint64_t kc_block_now(const struct kvc_pool *pool);

#endif
