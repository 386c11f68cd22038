/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h -- receive on a connection of libfabric through its guard. Private to engine/fabric/ and engine/door/. */
#ifndef KVRAIL_ENGINE_DOOR_STREAM_H
#define KVRAIL_ENGINE_DOOR_STREAM_H

#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "engine/door/guard.h"

/* libfabric's original calls. */
struct stream_calls {
	ssize_t (*recv)(int fd, void *buf, size_t len, int flags);
	ssize_t (*recvmsg)(int fd, struct msghdr *msg, int flags);
};

/* One connection, used by the provider's receiving thread, one at a time. */
struct stream {
	struct door_guard guard;
	uint8_t *held;     /* GUARD_UNIT_MAX bytes, from the first receive on. The stream's */
	uint32_t at, len;  /* held[at..len) was received and not passed on */
	bool judged;       /* ... for lack of room; else it is incomplete */
	atomic_bool loose; /* payload was passed on, and the provider has not asked for more since: some may still be on
			      its way to memory. Written by the provider's thread, read by any */
};

void stream_init(struct stream *s, const struct guard_rules *rules, bool accepted);
void stream_fini(struct stream *s);

/* stream_recv -- as recvmsg(2) for the provider: judged bytes, 0 at the end, or -1 with errno (EAGAIN: incomplete
 * unit). Bytes that break the rules cause -1 with ECONNRESET and *why, and the provider sees none of them. Messages and
 * headers are passed on whole. */
ssize_t stream_recv(struct stream *s, int fd, const struct iovec *iov, size_t n, int flags,
		    const struct stream_calls *calls, const char **why);

#endif
