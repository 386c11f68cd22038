/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h -- a byte stream over one socket: plain or TLS. Private to bootstrap/. One coroutine may read and one write
 * at a time; any code on the loop may call shutdown. */
#ifndef KVRAIL_BOOTSTRAP_STREAM_H
#define KVRAIL_BOOTSTRAP_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

struct boot_stream;
struct loop;

struct boot_stream_ops {
	/* read_await -- read 1 to len bytes. Returns the number; 0: closed by the peer; -KV_ETIMEOUT (nothing is lost),
	 * -KV_EPEERDOWN, -KV_EPROTO, -KV_ENOMEM. */
	ssize_t (*read_await)(struct boot_stream *s, void *buf, size_t len, uint64_t deadline_ns);
	/* write_all_await -- 0 or a code: then a part may be sent, and the stream accepts no more. */
	int (*write_all_await)(struct boot_stream *s, const void *buf, size_t len, uint64_t deadline_ns);
	/* export -- derive len bytes by label that only the two ends know (RFC 8446, 7.5). 0 or -KV_EPROTO. NULL
	 * without TLS. */
	int (*export)(struct boot_stream *s, const char *label, uint8_t *out, size_t len);
	/* shutdown -- end reads and writes in progress. */
	void (*shutdown)(struct boot_stream *s);
	/* close -- close the socket and free s. No coroutine may be inside another call. */
	void (*close)(struct boot_stream *s);
};

struct boot_stream {
	const struct boot_stream_ops *ops;
	const char *who;
	const char *names;       /* boot_peer_names, or NULL */
	int64_t expiry_s;        /* boot_peer_expiry; 0: never */
	struct kv_error failure; /* fragment of a sentence about the last failed read or write; code 0: none */
};

/* stream_plain_open -- a stream without TLS, which owns fd after 0. Errors: -KV_ENOMEM. */
int stream_plain_open(struct loop *loop, int fd, struct boot_stream **out, struct kv_error *err);

/* stream_lost -- translate a result of io_*_await: KV_ETIMEOUT, KV_ENOMEM and KV_EINVAL stay, KV_ECANCELED (interrupt)
 * becomes KV_ETIMEOUT, all else -KV_EPEERDOWN with the cause in s->failure. */
int stream_lost(struct boot_stream *s, int io_error);

#endif
