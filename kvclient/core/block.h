/* SPDX-License-Identifier: Apache-2.0 */
/* block.h -- run a function as a coroutine on a client's loop while the calling thread waits. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_BLOCK_H
#define KVRAIL_KVCLIENT_CORE_BLOCK_H

#include "kvclient/core/client.h"
#include "kvclient/core/pool.h"

/* kc_block_run -- run fn(client, arg) as a coroutine on the client's loop, and block until it returns *out_rc. 0; or
 * fn never runs: -KV_EINVAL on a thread that turns a loop; -KV_EBUSY, -KV_ENOMEM; -KV_ETIMEOUT: the loop did not start
 * it by the deadline. */
int kc_block_run(struct kvc_client *c, uint64_t deadline_ns, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg,
		 int64_t *out_rc);

/* kc_block_run_surely -- the same until fn ran, however long that takes.
 * kc_block_call -- kc_block_run inside kc_pool_enter. *out_deadline_ns is set before fn runs, unless NULL. Returns fn's
 * result, or why it never ran. */
void kc_block_run_surely(struct kvc_client *c, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg);
int64_t kc_block_call(struct kvc_client *c, uint64_t time_ns, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg,
		      uint64_t *out_deadline_ns);

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

/* ---- a pool without threads ---- */

/* kc_drive -- wait, *wait_ns at most. True: the thread has turned the loop for a moment; check again. False: sleep for
 * *wait_ns, shortened where another thread turns the loop. Host thread, without the pool's lock. */
bool kc_drive(struct kvc_pool *pool, uint64_t *wait_ns);

/* kc_drive_nap -- a turn or a millisecond's sleep, for polling. kc_post_surely -- loop_post, again while its queue is
 * full. */
void kc_drive_nap(struct kvc_pool *pool);
void kc_post_surely(struct kvc_pool *pool, struct loop *loop, void (*fn)(void *arg), void *arg);

#endif
