/* SPDX-License-Identifier: Apache-2.0 */
/* ring_files.h -- reads and writes of files by threads, for a ring whose kernel cannot do them in the background.
 * Private to loop/ring_*.c. */
#ifndef KVRAIL_LOOP_RING_FILES_H
#define KVRAIL_LOOP_RING_FILES_H

#include "loop/ring.h"

struct ring_files;

/* ring_files_submit -- start a transfer (RING_READ_AT, RING_WRITE_AT); creates *files with the first one. bell_fd: an
 * eventfd, written to when one has ended. 0, or -errno: no thread, and nothing was started. */
int ring_files_submit(struct ring_files **files, int bell_fd, struct ring_op *op);

/* ring_files_ended -- move the ended ones to this list. NULL: there were none. */
void ring_files_ended(struct ring_files *files, struct kv_list *out);

/* ring_files_destroy -- wait for those that a thread has begun; the others never are. NULL is accepted. */
void ring_files_destroy(struct ring_files **files);

#endif
