/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h -- from a frame of the engine to its attachment, and from its records to the operations. The shard's thread.
 */
#ifndef KVRAIL_KVSERVER_SHARD_FRAME_H
#define KVRAIL_KVSERVER_SHARD_FRAME_H

#include <stddef.h>
#include <stdint.h>

/* frame_message -- te_handlers.message: `arg` is the shard. `data` is untrusted until its tag is verified; nothing of
 * it is kept. */
void frame_message(void *arg, unsigned rail, const uint8_t *data, size_t len);

#endif
