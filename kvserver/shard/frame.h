/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h -- a frame from the engine: to its session, and its records to their operations. The shard's thread. */
#ifndef KVRAIL_KVSERVER_SHARD_FRAME_H
#define KVRAIL_KVSERVER_SHARD_FRAME_H

#include <stddef.h>
#include <stdint.h>

/* frame_message -- te_handlers.message: `arg` is the shard. Everything in `data` is a stranger's until its tag was
 * right. Nothing of it is kept. */
void frame_message(void *arg, unsigned rail, const uint8_t *data, size_t len);

#endif
