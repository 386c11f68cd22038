/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_stream.h -- receiving on a connection of libfabric's, through its guard. Private to engine/fabric*. */
#ifndef KVRAIL_ENGINE_FABRIC_STREAM_H
#define KVRAIL_ENGINE_FABRIC_STREAM_H

#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "engine/fabric_guard.h"

/* The calls that libfabric would have made. */
struct stream_calls {
	ssize_t (*recv)(int fd, void *buf, size_t len, int flags);
	ssize_t (*recvmsg)(int fd, struct msghdr *msg, int flags);
};

/* One connection. Used by the thread that the provider receives on; the provider lets one at a time. */
struct stream {
	struct guard guard;
	uint8_t *held;    /* GUARD_UNIT_MAX bytes from the first receive on; NULL before. The stream's */
	uint32_t at, len; /* held[at..len) came and was not handed on */
	bool judged;      /* ... because there was no room for it; else because it is not whole */
	atomic_bool
		loose; /* payload was handed on, and the provider has not asked for more since: some of it may be in a
			  buffer of its own, on its way to memory. Written by the provider's thread, read by any */
};

void stream_init(struct stream *s, const struct guard_rules *rules, bool accepted);
void stream_fini(struct stream *s);

/* stream_recv -- as recvmsg(2) for the provider: bytes that were judged, 0 at the end, or -1 with errno (EAGAIN: the
 * unit is not whole yet). Bytes that break the rules are -1 with ECONNRESET and *why, and none of them is in the part
 * of iov that the provider was told of. A message is handed on as a whole, and so is a header. */
ssize_t stream_recv(struct stream *s, int fd, const struct iovec *iov, size_t n, int flags,
		    const struct stream_calls *calls, const char **why);

#endif
