/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c -- a control connection: control messages over a byte stream.
 *
 * Reading. `in` holds what has come: from `first`, `taken` bytes of the message handed out last, whose pointers the
 * caller may still use, then up to `end` what follows it. The next call drops the former. A timeout leaves everything
 * as it is. The buffer starts at IN_SMALL and doubles as bytes really arrive, never on the word of a length prefix
 * alone, up to one whole message; before a read that may wait long it shrinks again, so that hundreds of idle
 * connections stay small. Bytes are moved only to make room for the rest of a message, so that a peer that packs many
 * small messages behind a large one causes no quadratic work.
 *
 * Writing. A message is encoded before the caller waits for its turn, so that nothing it points to needs to outlive
 * changes by others; writers go one after the other: `writing` says that somebody has the turn, `writers` wait for it.
 * A write that fails may have sent half a message: the stream is shut down at once and nothing is written after it.
 *
 * An interrupt is a deadline that comes early: the reader's I/O is cancelled while `reader` says who reads, and a
 * result that was there wins. It is meant for the read that is under way and is taken back when that returns, so who
 * interrupts first says elsewhere why, and the reader looks there.
 *
 * Ends. A failed read is remembered, since framing is lost with it; boot_shutdown sets `shut`, which turns every
 * further result into -KV_EPEERDOWN. Neither frees anything: boot_close does. */
#include "bootstrap/conn.h"
#include "bootstrap/context.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	IN_SMALL = 512,     /* the input buffer to begin with */
	IN_KEEP = 16 << 10, /* a larger one is given back after its message */
	OUT_SMALL = 1024,
	MSG_MAX = KV_CTRL_MAX + 4 /* a message with its length prefix */
};

struct boot_conn {
	struct boot_stream *stream;
	char peer[64];
	bool local, shut;
	bool writing, broken; /* broken: part of a message may be out */
	bool begun;           /* a message has been received */
	bool plain;           /* no TLS */
	int read_error;       /* sticky */
	unsigned limit;       /* of a message that is received, in bytes */
	struct co *reader;    /* in boot_recv_await */
	struct co_queue writers;
	uint8_t *in;
	size_t in_cap, first, taken, end; /* see the top of this file */
	struct kv_error failure;
};

/* ---- opening ---- */

/* An open socket, and what its handshake needs to know. */
struct opening {
	struct loop *loop;
	int fd;
	const struct sockaddr_storage *addr;
	const char *name; /* of a server, as it is dialled; or NULL */
	unsigned user_timeout_ms;
	uint64_t deadline_ns;
};

static int stream_open_await(struct boot_context *ctx, const struct opening *o, const char *address,
			     struct boot_stream **out, struct kv_error *err)
{
	const struct tls_peer peer = {.address = address, .name = o->name, .source = kv_sockaddr_source(o->addr)};
	return ctx->tls ? tls_open_await(ctx->tls, o->loop, o->fd, &peer, o->deadline_ns, out, err)
			: stream_plain_open(o->loop, o->fd, out, err);
}

static int conn_make(struct boot_context *ctx, const struct opening *o, struct boot_conn **out, struct kv_error *err)
{
	int rc = -KV_ENOMEM;
	struct boot_conn *c = calloc(1, sizeof(*c));
	if (!c)
		return kv_fail(err, rc, "no memory for a connection");
	co_queue_init(&c->writers);
	kv_sockaddr_format(o->addr, c->peer, sizeof(c->peer));
	c->local = kv_sockaddr_is_loopback(o->addr);
	c->plain = !ctx->tls;
	c->limit = MSG_MAX;
	c->in_cap = IN_SMALL;
	c->in = malloc(c->in_cap);
	if (!c->in) {
		kv_fail(err, rc, "no memory for a connection");
		goto free_conn;
	}
	rc = stream_open_await(ctx, o, c->peer, &c->stream, err);
	if (rc)
		goto free_in;
	*out = c;
	return 0;

free_in:
	free(c->in);
free_conn:
	free(c);
	return rc;
}

/* Owns fd, also on failure. */
static int conn_open_await(struct boot_context *ctx, const struct opening *o, struct boot_conn **out,
			   struct kv_error *err)
{
	int rc = o->user_timeout_ms ? io_user_timeout(o->loop, o->fd, o->user_timeout_ms) : 0;
	if (rc)
		kv_fail(err, rc, "cannot set the TCP timeouts of a connection: %s", kv_strerror(rc));
	else
		rc = conn_make(ctx, o, out, err);
	if (rc)
		io_close(o->loop, o->fd);
	return rc;
}

static int connect_fail(const struct sockaddr_storage *addr, int rc, struct kv_error *err)
{
	char peer[64];
	kv_sockaddr_format(addr, peer, sizeof(peer));
	switch (-rc) {
	case KV_ETIMEOUT:
		return kv_fail(err, rc,
			       "%s: no answer to the TCP connection by the deadline: is the host up, and does a "
			       "firewall drop the port?",
			       peer);
	case ECONNREFUSED:
		return kv_fail(err, -KV_EPEERDOWN, "%s: connection refused: is kv-server running there, on this port?",
			       peer);
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ENETUNREACH:
	case ENETDOWN:
	case ECONNRESET:
	case ECONNABORTED:
	case EPIPE:
		return kv_fail(err, -KV_EPEERDOWN, "%s: cannot connect: %s", peer, kv_strerror(rc));
	default: /* of this machine: files, ports, a rule, an address that is none */
		return kv_fail(err, rc, "%s: cannot open a TCP connection: %s", peer, kv_strerror(rc));
	}
}

int boot_connect_await(struct boot_context *ctx, const struct boot_server *server, unsigned user_timeout_ms,
		       uint64_t deadline_ns, struct boot_conn **out, struct kv_error *err)
{
	struct opening o = {.loop = loop_current(),
			    .addr = server->addr,
			    .name = server->name,
			    .user_timeout_ms = user_timeout_ms,
			    .deadline_ns = deadline_ns};
	if (!o.loop || !co_self() || ctx->server)
		return kv_fail(err, -KV_EINVAL, "boot_connect_await needs a coroutine and a context of a client");
	int rc = io_connect_await(server->addr, server->addr_len, &o.fd, deadline_ns);
	if (rc)
		return connect_fail(server->addr, rc, err);
	return conn_open_await(ctx, &o, out, err);
}

int boot_accept_await(struct boot_context *ctx, int fd, const struct sockaddr_storage *peer, unsigned user_timeout_ms,
		      uint64_t deadline_ns, struct boot_conn **out, struct kv_error *err)
{
	const struct opening o = {.loop = loop_current(),
				  .fd = fd,
				  .addr = peer,
				  .user_timeout_ms = user_timeout_ms,
				  .deadline_ns = deadline_ns};
	if (!o.loop || !co_self() || !ctx->server) {
		if (o.loop)
			io_close(o.loop, fd);
		else
			close(fd);
		return kv_fail(err, -KV_EINVAL, "boot_accept_await needs a coroutine and a context of a server");
	}
	return conn_open_await(ctx, &o, out, err);
}

/* ---- sending ---- */

static int shut_fail(struct boot_conn *c)
{
	return kv_fail(&c->failure, -KV_EPEERDOWN, "%s: the connection was shut down on this side", c->peer);
}

/* The stream's failure becomes the connection's, with the peer's name. */
static int stream_fail(struct boot_conn *c, int rc)
{
	if (c->shut)
		return shut_fail(c);
	if (rc == -KV_ETIMEOUT)
		return rc;
	return kv_fail(&c->failure, rc, "%s: %s", c->peer,
		       c->stream->failure.code ? c->stream->failure.text : kv_strerror(rc));
}

/* The bytes of a message on the heap. Returns their number or a code. */
static int msg_encode(const struct wire_ctrl_msg *msg, uint8_t **out)
{
	for (size_t cap = OUT_SMALL;; cap = KV_MIN(cap * 8, (size_t)MSG_MAX)) {
		uint8_t *buf = malloc(cap);
		if (!buf)
			return -KV_ENOMEM;
		int len = wire_ctrl_encode(msg, buf, cap);
		if (len > 0) {
			*out = buf;
			return len;
		}
		secret_wipe(buf, cap);
		free(buf);
		if (len != -KV_ETOOBIG || cap == MSG_MAX)
			return len == -KV_ETOOBIG ? -KV_EINVAL : len;
	}
}

static int broken_fail(struct boot_conn *c)
{
	return kv_fail(&c->failure, -KV_EPEERDOWN, "%s: an earlier message could not be sent", c->peer);
}

/* The turn is handed from writer to writer, so that one that sends all the time cannot starve the others. */
static int write_turn_await(struct boot_conn *c, uint64_t deadline_ns)
{
	if (c->writing)
		return co_queue_wait_await(&c->writers, deadline_ns);
	c->writing = true;
	return 0;
}

static void write_turn_end(struct boot_conn *c)
{
	if (!co_queue_wake_one(&c->writers))
		c->writing = false;
}

static int bytes_send_await(struct boot_conn *c, const uint8_t *buf, size_t len, uint64_t deadline_ns)
{
	int rc = write_turn_await(c, deadline_ns);
	if (rc)
		return rc;
	if (c->shut || c->broken) {
		rc = c->shut ? shut_fail(c) : broken_fail(c);
		goto end_turn;
	}
	rc = c->stream->ops->write_all_await(c->stream, buf, len, deadline_ns);
	if (rc) {
		rc = stream_fail(c, rc);
		c->broken = true;
		c->stream->ops->shutdown(c->stream);
	}
end_turn:
	write_turn_end(c);
	return rc;
}

int boot_send_await(struct boot_conn *conn, const struct wire_ctrl_msg *msg, uint64_t deadline_ns)
{
	uint8_t *buf = NULL;
	int len = msg_encode(msg, &buf);
	if (len < 0)
		return kv_fail(&conn->failure, len, "%s: a control message of type %d cannot be encoded: %s",
			       conn->peer, (int)msg->type, kv_strerror(len));
	int rc = bytes_send_await(conn, buf, (size_t)len, deadline_ns);
	secret_wipe(buf, (size_t)len); /* tokens */
	free(buf);
	return rc;
}

/* ---- receiving ---- */

/* Without realloc, which would leave a copy of what the messages held. `first` is 0. */
static int in_resize(struct boot_conn *c, size_t cap)
{
	uint8_t *in = malloc(cap);
	if (!in)
		return -KV_ENOMEM;
	memcpy(in, c->in, c->end);
	secret_wipe(c->in, c->in_cap);
	free(c->in);
	c->in = in;
	c->in_cap = cap;
	return 0;
}

/* Room for at least one more byte of a message of `want` bytes, and no more memory than that needs. */
static int in_room(struct boot_conn *c, size_t want)
{
	if (c->first) { /* less than a message is moved, and once per message at most */
		c->end -= c->first;
		memmove(c->in, c->in + c->first, c->end);
		c->first = 0;
	}
	if (c->in_cap > IN_KEEP && c->end < IN_SMALL && want <= IN_SMALL)
		(void)in_resize(c, IN_SMALL); /* without memory the large one serves as well */
	if (c->end < c->in_cap)
		return 0;
	return in_resize(c, KV_MIN(c->in_cap * 2, want));
}

/* Whether the first bytes are a TLS record, handshake or alert: type, version 3.x, length, and a byte that in a control
 * message is the high byte of a type below 256. */
static bool looks_like_tls(const uint8_t *p, size_t n)
{
	return n >= 6 && (p[0] == 0x16 || p[0] == 0x15) && p[1] == 3 && p[2] <= 4 && p[5] != 0;
}

static int in_more_await(struct boot_conn *c, size_t want, uint64_t deadline_ns)
{
	if (in_room(c, want))
		return kv_fail(&c->failure, -KV_ENOMEM, "%s: no memory for a control message of %zu bytes", c->peer,
			       want);
	ssize_t n = c->stream->ops->read_await(c->stream, c->in + c->end, c->in_cap - c->end, deadline_ns);
	if (n < 0)
		return stream_fail(c, (int)n);
	if (c->shut)
		return shut_fail(c);
	if (n == 0 && c->broken)
		return broken_fail(c);
	if (n == 0)
		return kv_fail(&c->failure, -KV_EPEERDOWN, "%s: the peer closed the connection%s", c->peer,
			       c->end ? " in the middle of a message"
			       : c->plain && !c->begun
				       ? " before its first message: does it want TLS (a PSK or certificates)?"
				       : "");
	c->end += (size_t)n;
	return 0;
}

/* One whole message at in[first]. Returns its length or a code. */
static int in_message_await(struct boot_conn *c, uint64_t deadline_ns)
{
	for (;;) {
		size_t have = c->end - c->first;
		if (c->plain && !c->begun && looks_like_tls(c->in, have))
			return kv_fail(&c->failure, -KV_EPROTO,
				       "%s: the peer speaks TLS, and this side does not: give both sides the same PSK "
				       "or certificates, or none",
				       c->peer);
		int len = wire_ctrl_length(c->in + c->first, have);
		if (len < 0 || (unsigned)len > c->limit)
			return kv_fail(&c->failure, -KV_EPROTO,
				       "%s: what the peer sent is no control message (its length is out of bounds)",
				       c->peer);
		if (len > 0 && have >= (size_t)len)
			return len;
		int rc = in_more_await(c, len ? (size_t)len : WIRE_CTRL_HEADER, deadline_ns);
		if (rc)
			return rc;
	}
}

static int message_decode(struct boot_conn *c, size_t len, struct wire_ctrl_msg *out)
{
	int rc = wire_ctrl_decode(c->in + c->first, len, out);
	if (rc == -KV_EVERSION)
		kv_fail(&c->failure, rc, "%s: the peer speaks another version of the control protocol", c->peer);
	else if (rc)
		rc = kv_fail(&c->failure, -KV_EPROTO,
			     "%s: the peer sent a control message of type %u, %zu bytes, that makes no sense", c->peer,
			     (unsigned)kv_get16(c->in + c->first + 4), len);
	return rc;
}

void boot_limit(struct boot_conn *conn, unsigned bytes)
{
	conn->limit = KV_MIN(bytes, (unsigned)MSG_MAX);
}

int boot_recv_await(struct boot_conn *conn, struct wire_ctrl_msg *out, uint64_t deadline_ns)
{
	if (conn->shut)
		return shut_fail(conn);
	if (conn->read_error)
		return conn->read_error;
	conn->first += conn->taken;
	conn->taken = 0;
	conn->reader = co_self();
	int rc = in_message_await(conn, deadline_ns);
	if (conn->reader)
		io_interrupt(conn->reader, false);
	conn->reader = NULL;
	if (rc > 0) {
		conn->begun = true;
		conn->taken = (size_t)rc;
		rc = message_decode(conn, conn->taken, out);
	}
	if (rc && rc != -KV_ETIMEOUT && rc != -KV_EVERSION)
		conn->read_error = rc;
	return rc;
}

void boot_interrupt(struct boot_conn *conn)
{
	if (conn->reader)
		io_interrupt(conn->reader, true);
}

bool boot_sound(const struct boot_conn *conn)
{
	return !conn->shut && !conn->broken && !conn->read_error;
}

/* ---- the end ---- */

void boot_shutdown(struct boot_conn *conn)
{
	if (conn->shut)
		return;
	conn->shut = true;
	conn->stream->ops->shutdown(
		conn->stream); /* the writer in progress fails, and hands its turn on to those who wait */
}

void boot_close(struct boot_conn **conn)
{
	struct boot_conn *c = *conn;
	if (!c)
		return;
	c->stream->ops->close(c->stream);
	secret_wipe(c->in, c->in_cap);
	free(c->in);
	free(c);
	*conn = NULL;
}

int conn_export(struct boot_conn *conn, const char *label, uint8_t *out, size_t len)
{
	const struct boot_stream *s = conn->stream;
	return s->ops->export ? s->ops->export(conn->stream, label, out, len) : -KV_ENOTSUP;
}

const char *boot_peer_name(const struct boot_conn *conn)
{
	return conn->peer;
}

const char *boot_peer_who(const struct boot_conn *conn)
{
	return conn->stream->who ? conn->stream->who : "no credential";
}

bool boot_peer_local(const struct boot_conn *conn)
{
	return conn->local;
}

const char *boot_failure(const struct boot_conn *conn)
{
	return conn->failure.text;
}
