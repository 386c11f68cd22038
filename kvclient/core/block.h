/* SPDX-License-Identifier: Apache-2.0 */
/* block.h -- run a function as a coroutine on a client's loop while the calling thread waits. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_BLOCK_H
#define KVRAIL_KVCLIENT_CORE_BLOCK_H

#include "kvclient/core/client.h"

/* kvc_block_run -- run fn(client, arg) as a coroutine on the client's loop, and block until it has returned. *out_rc is
 * what it returned. Returns 0; -KV_EINVAL on a thread that turns a loop; -KV_EBUSY or -KV_ENOMEM when it could not be
 * started; -KV_ETIMEOUT when the loop did not come to it by the deadline. After each of these codes fn never runs. */
int kvc_block_run(struct kvc_client *c, uint64_t deadline_ns, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg,
		  int64_t *out_rc);

/* kvc_block_run_all -- the same on the first n clients of a pool at once. They share `arg`, and may not write it
 * without care. Blocks until all have returned, or did not begin by the deadline. Returns the first failure, of those
 * above or of fn. */
int kvc_block_run_all(struct kvc_pool *pool, unsigned n, uint64_t deadline_ns,
		      int64_t (*fn)(struct kvc_client *c, void *arg), void *arg);

/* kvc_job_begin -- post fn(client, arg) to the client's loop, to run there as a coroutine. Not on a thread that turns a
 * loop. Does not block. Returns 0 and *out, which kvc_job_end must end; or a code: fn never runs.
 * kvc_job_end -- wait for the job, and free it. Returns 0 and what fn returned; or why fn never ran: -KV_ETIMEOUT when
 * the loop did not come to it by the deadline, -KV_EBUSY or -KV_ENOMEM. */
struct kvc_job;
int kvc_job_begin(struct kvc_client *c, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg,
		  struct kvc_job **out);
int kvc_job_end(struct kvc_job *j, uint64_t deadline_ns, int64_t *out_rc);

/* kvc_block_now -- the time by the pool's clock, for deadlines. Any thread. */
uint64_t kvc_block_now(const struct kvc_pool *pool);

#endif
