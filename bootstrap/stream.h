/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h -- a byte stream over one socket: plain (stream_plain.c) or TLS (tls.c). Private to bootstrap/.
 *
 * One coroutine may be in read_await and one in write_all_await at a time. Any code on the loop may call shutdown. */
#ifndef KVRAIL_BOOTSTRAP_STREAM_H
#define KVRAIL_BOOTSTRAP_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

struct boot_stream;
struct loop;

struct boot_stream_ops {
	/* read_await -- read at least one byte and at most len. Returns their number; 0 when the peer closed;
	 * -KV_ETIMEOUT (nothing is lost, call again); -KV_EPEERDOWN, -KV_EPROTO, -KV_ENOMEM. */
	ssize_t (*read_await)(struct boot_stream *s, void *buf, size_t len, uint64_t deadline_ns);
	/* write_all_await -- returns 0 or a code. After a code part of the bytes may have been sent, and the stream
	 * accepts no more. */
	int (*write_all_await)(struct boot_stream *s, const void *buf, size_t len, uint64_t deadline_ns);
	/* export -- derive len bytes by label, which only the two ends of this stream can know (RFC 8446, 7.5). Returns
	 * 0 or -KV_EPROTO. The pointer is NULL where there is no TLS. */
	int (*export)(struct boot_stream *s, const char *label, uint8_t *out, size_t len);
	/* shutdown -- make reads and writes in progress return. */
	void (*shutdown)(struct boot_stream *s);
	/* close -- close the socket and free s. No coroutine may be inside another call on it. */
	void (*close)(struct boot_stream *s);
};

struct boot_stream {
	const struct boot_stream_ops *ops;
	const char *who;         /* identity that the peer has proved; NULL: none */
	int64_t expiry_s;        /* boot_peer_expiry; 0: never */
	struct kv_error failure; /* of the last read or write that failed, as a sentence fragment; code 0: none */
};

/* stream_plain_open -- make a stream without TLS. The stream owns fd when this returns 0; otherwise the caller still
 * does. Errors: -KV_ENOMEM. */
int stream_plain_open(struct loop *loop, int fd, struct boot_stream **out, struct kv_error *err);

/* stream_lost -- translate a result of io_*_await into a stream's. KV_ETIMEOUT, KV_ENOMEM and KV_EINVAL stay;
 * KV_ECANCELED (an interrupt) becomes KV_ETIMEOUT. Everything else becomes -KV_EPEERDOWN with the cause in s->failure.
 */
int stream_lost(struct boot_stream *s, int io_error);

#endif
