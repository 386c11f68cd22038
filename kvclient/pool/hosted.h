/* SPDX-License-Identifier: Apache-2.0 */
/* hosted.h -- a pool over loops that its caller turns: for a host with its own event loop, and for the simulation. Not
 * part of the public API.
 *
 *   kc_pool_start(options, loops, n, clock, &pool, err);
 *   while (kc_pool_status(pool, err) == 1) turn the loops;
 *   ... spawn coroutines that use kc_pool_client(pool, w) on its loop ...
 *   kc_pool_stop(pool);
 *   while (!kc_pool_stopped(pool)) turn the loops;
 *   kc_pool_free(&pool);
 *
 * Blocking calls, kvc_run, kvc_register and kvc_unregister work from another thread while the loops are turned. */
#ifndef KVRAIL_KVCLIENT_POOL_HOSTED_H
#define KVRAIL_KVCLIENT_POOL_HOSTED_H

#include "base/base.h"
#include "kvclient/kvclient.h"

struct loop;

/* kc_pool_start -- client i lives on loops[i % num_loops]. Loops and clock (NULL: monotonic) must outlive the pool. 0
 * or a code with *err. */
int kc_pool_start(const struct kvc_options *options, struct loop **loops, unsigned num_loops,
		  const struct kv_clock *clock, struct kvc_pool **out, struct kv_error *err);

/* kc_pool_status -- 1: opening; 0: open (with KVC_OPEN_WAIT: all first attempts are decided, and every client has a
 * server); or a code with *err: stop and free it. */
int kc_pool_status(struct kvc_pool *pool, struct kv_error *err);

/* kc_pool_stop -- begin to close, once every client is open or failed. kc_pool_stopped -- then call kc_pool_free. */
void kc_pool_stop(struct kvc_pool *pool);
bool kc_pool_stopped(struct kvc_pool *pool);
void kc_pool_free(struct kvc_pool **pool);

struct kvc_client *kc_pool_client(struct kvc_pool *pool, unsigned w);
struct loop *kc_pool_client_loop(struct kvc_pool *pool, unsigned w);

#endif
