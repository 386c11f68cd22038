/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h -- a byte stream over one socket: plain (stream_plain.c) or TLS (tls.c). Private to bootstrap/.
 *
 * One coroutine may be in read_await and one in write_all_await at a time; shutdown comes from anywhere on the loop. */
#ifndef KVRAIL_BOOTSTRAP_STREAM_H
#define KVRAIL_BOOTSTRAP_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

struct boot_stream;
struct loop;

struct boot_stream_ops {
	/* read_await -- some bytes (at most len). 0: the peer closed. -KV_ETIMEOUT: nothing lost, call again.
	 * -KV_EPEERDOWN, -KV_EPROTO, -KV_ENOMEM. */
	ssize_t (*read_await)(struct boot_stream *s, void *buf, size_t len, uint64_t deadline_ns);
	/* write_all_await -- 0, or a code; after a code part of the bytes may be out and the stream takes no more. */
	int (*write_all_await)(struct boot_stream *s, const void *buf, size_t len, uint64_t deadline_ns);
	/* export -- len bytes that only the two ends of this stream can know, by label (RFC 8446, 7.5). 0 or
	 * -KV_EPROTO. NULL: there is no such thing (no TLS). */
	int (*export)(struct boot_stream *s, const char *label, uint8_t *out, size_t len);
	/* shutdown -- reads and writes in progress return. */
	void (*shutdown)(struct boot_stream *s);
	/* close -- closes the socket and frees s. Nobody may be inside of another call. */
	void (*close)(struct boot_stream *s);
};

struct boot_stream {
	const struct boot_stream_ops *ops;
	const char *who;         /* the peer has proved to be; NULL: nobody in particular */
	struct kv_error failure; /* the last failure of a read or write, as a sentence fragment; code 0: none yet */
};

/* stream_plain_open -- no TLS. The stream owns fd when this returns 0; else the caller still does. Errors: -KV_ENOMEM.
 */
int stream_plain_open(struct loop *loop, int fd, struct boot_stream **out, struct kv_error *err);

/* stream_lost -- turn what io_*_await returned into what a stream returns: KV_ETIMEOUT, KV_ENOMEM and KV_EINVAL as they
 * are, KV_ECANCELED (an interrupt) as KV_ETIMEOUT, everything else is -KV_EPEERDOWN with the cause in s->failure. */
int stream_lost(struct boot_stream *s, int io_error);

#endif
