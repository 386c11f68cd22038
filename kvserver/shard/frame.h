/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h -- from a frame of the engine to its session, and from its records to the operations. The shard's thread. */
#ifndef KVRAIL_KVSERVER_SHARD_FRAME_H
#define KVRAIL_KVSERVER_SHARD_FRAME_H

#include <stddef.h>
#include <stdint.h>

/* frame_message -- te_handlers.message: `arg` is the shard. Everything in `data` may be a stranger's until its tag was
 * right. Nothing of it is kept. */
void frame_message(void *arg, unsigned rail, const uint8_t *data, size_t len);

#endif
