/* SPDX-License-Identifier: Apache-2.0 */
/* drive.h -- waiting threads turn the loop of a pool without threads (KVC_NO_THREADS). Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_DRIVE_H
#define KVRAIL_KVCLIENT_CORE_DRIVE_H

#include "kvclient/core/pool.h"

/* kc_drive -- wait, *wait_ns at most. True: the thread has turned the loop for a moment; check again. False: sleep for
 * *wait_ns, shortened where another thread turns the loop. Host thread, without the pool's lock. */
bool kc_drive(struct kvc_pool *pool, uint64_t *wait_ns);

/* kc_drive_nap -- a turn or a millisecond's sleep, for polling. */
void kc_drive_nap(struct kvc_pool *pool);

#endif
