/* SPDX-License-Identifier: Apache-2.0 */
/* drive.h -- who turns the loop of a pool that has no thread of its own (KVC_NO_THREADS): any thread that waits for it.
 * Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_DRIVE_H
#define KVRAIL_KVCLIENT_CORE_DRIVE_H

#include "kvclient/core/pool.h"

/* kvc_drive -- a thread has something to wait for, *wait_ns long at most. True: the pool has no thread, this one has
 * turned the loop for a moment, and looks again. False: sleep, *wait_ns at most, which is cut short where another
 * thread turns the loop, since that one may stop to do so. Host thread, with no lock of the pool held. */
bool kvc_drive(struct kvc_pool *pool, uint64_t *wait_ns);

/* kvc_drive_nap -- the same for a wait that nothing ends but a look again: after a turn, or a millisecond. */
void kvc_drive_nap(struct kvc_pool *pool);

#endif
