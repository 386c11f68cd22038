/* SPDX-License-Identifier: Apache-2.0 */
/* stream_plain.c -- the byte stream without TLS. */
#include "bootstrap/stream.h"

#include <stdlib.h>

#include "base/base.h"
#include "loop/loop.h"

struct plain {
	struct boot_stream base;
	struct loop *loop;
	int fd;
};

static struct plain *plain_of(struct boot_stream *s)
{
	return KV_CONTAINER(s, struct plain, base);
}

int stream_lost(struct boot_stream *s, int io_error)
{
	if (io_error == -KV_ECANCELED)
		return -KV_ETIMEOUT;
	if (io_error == -KV_ETIMEOUT || io_error == -KV_ENOMEM || io_error == -KV_EINVAL)
		return io_error;
	return kv_fail(&s->failure, -KV_EPEERDOWN, "the connection was lost (%s)", kv_strerror(io_error));
}

static ssize_t plain_read_await(struct boot_stream *s, void *buf, size_t len, uint64_t deadline_ns)
{
	ssize_t n = io_read_await(plain_of(s)->fd, buf, len, deadline_ns);
	return n >= 0 ? n : stream_lost(s, (int)n);
}

static int plain_write_all_await(struct boot_stream *s, const void *buf, size_t len, uint64_t deadline_ns)
{
	int rc = io_write_all_await(plain_of(s)->fd, buf, len, deadline_ns);
	return rc == 0 ? 0 : stream_lost(s, rc);
}

static void plain_shutdown(struct boot_stream *s)
{
	io_shutdown(plain_of(s)->loop, plain_of(s)->fd);
}

static void plain_close(struct boot_stream *s)
{
	struct plain *p = plain_of(s);
	io_close(p->loop, p->fd);
	free(p);
}

static const struct boot_stream_ops plain_ops = {
	.read_await = plain_read_await,
	.write_all_await = plain_write_all_await,
	.shutdown = plain_shutdown,
	.close = plain_close,
};

int stream_plain_open(struct loop *loop, int fd, struct boot_stream **out, struct kv_error *err)
{
	struct plain *p = calloc(1, sizeof(*p));
	if (!p)
		return kv_fail(err, -KV_ENOMEM, "no memory for a connection");
	p->base.ops = &plain_ops;
	p->loop = loop;
	p->fd = fd;
	*out = &p->base;
	return 0;
}
