/* SPDX-License-Identifier: Apache-2.0 */
/* ring_kernel.h -- shared by the rings of the kernel. Private to loop/ring_*.c. */
#ifndef KVRAIL_LOOP_RING_KERNEL_H
#define KVRAIL_LOOP_RING_KERNEL_H

#include "loop/ring.h"

enum { RING_FD_LISTS = 1024 /* a power of two */ };

/* struct ring_calls -- one kind of ring: the functions of ring.h. */
struct ring_calls {
	/* create -- all but the bell. 0, a negative code, or 1: the machine forbids this kind, with the reason in *err.
	 */
	int (*create)(const struct ring_options *options, int bell_fd, struct ring **out, struct kv_error *err);
	void (*destroy)(struct ring *ring); /* the bell is closed afterwards */
	int (*adopt)(struct ring *ring);
	void (*settle)(struct ring *ring);
	void (*unsettle)(struct ring *ring);
	void (*submit)(struct ring *ring, struct ring_op *op);
	void (*cancel)(struct ring *ring, struct ring_op *op);
	void (*flush)(struct ring *ring);
	void (*wait)(struct ring *ring, uint64_t wait_ns);
	int (*reap)(struct ring *ring);
	void (*close)(struct ring *ring, int fd); /* all but close(2) */
};

extern const struct ring_calls ring_uring, ring_epoll;

/* struct ring -- the first member of each kind's own struct. */
struct ring {
	const struct ring_calls *kind;
	const struct kv_log *log;
	int bell_fd;              /* an eventfd: ring_wake writes to it */
	struct kv_error fallback; /* why this is not the first kind, or code 0 */
};

/* ring_refuse_files -- the sentence for a missing descriptor; `what` failed with rc. Returns a code. */
int ring_refuse_files(int rc, const char *what, struct kv_error *err);

#endif
