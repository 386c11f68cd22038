/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c -- a control connection: control messages over a byte stream.
 *
 * Reading: in[first] starts with `taken` bytes of the last message, still the caller's until the next call. The buffer
 * starts at IN_SMALL, grows with received bytes, never by a length prefix alone, and shrinks before a long wait.
 *
 * Writing: messages are encoded before the caller waits for its turn (`writing`, `writers`). After a failed write,
 * which may have sent half a message, the stream is shut down.
 *
 * An interrupt cancels the I/O of the coroutine in `reader`, for this read only; a result wins. Its caller stores the
 * reason elsewhere first.
 *
 * A failed read is remembered, since framing is lost. After boot_shutdown (`shut`) every result is -KV_EPEERDOWN. */
#include "bootstrap/conn.h"
#include "bootstrap/context.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	IN_SMALL = 512,     /* first size of the input buffer */
	IN_KEEP = 16 << 10, /* larger buffers are freed after their message */
	OUT_SMALL = 1024,
	OUT_BOTH = 4096,          /* of two short messages */
	MSG_MAX = KV_CTRL_MAX + 4 /* with length prefix */
};

struct boot_conn {
	struct boot_stream *stream;
	char peer[64];
	bool shut;
	bool writing, broken; /* broken: a part of a message may be sent */
	bool begun;           /* a message has been received */
	bool plain;           /* no TLS */
	int read_error;       /* sticky */
	unsigned limit;       /* bytes of a received message */
	struct co *reader;    /* in boot_recv_await */
	struct co_queue writers;
	uint8_t *in;
	size_t in_cap, first, taken, end; /* see above */
	struct kv_error failure;
};

/* ---- opening ---- */

struct opening {
	struct loop *loop;
	int fd;
	const struct sockaddr_storage *addr;
	const char *name; /* of a server, as dialled; or NULL */
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
			       "%s: no answer to the TCP connection by the deadline: "
			       "is the host up, and does a firewall drop the port?",
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
	case EMFILE:
	case ENFILE:
		return kv_fail(err, rc,
			       "%s: cannot open a TCP connection: %s; raise the limit of open files (ulimit -n)", peer,
			       kv_strerror(rc));
	default: /* errors of this machine: files, ports, a firewall rule, an invalid address */
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

static int stream_fail(struct boot_conn *c, int rc)
{
	if (c->shut)
		return shut_fail(c);
	if (rc == -KV_ETIMEOUT)
		return rc;
	return kv_fail(&c->failure, rc, "%s: %s", c->peer,
		       c->stream->failure.code ? c->stream->failure.text : kv_strerror(rc));
}

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

/* Wait for the turn. Each writer hands it to the next, so a writer that sends all the time cannot starve the others. */
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

static int encode_fail(struct boot_conn *c, const struct wire_ctrl_msg *msg, int rc)
{
	return kv_fail(&c->failure, rc, "%s: a control message of type %d cannot be encoded: %s", c->peer,
		       (int)msg->type, kv_strerror(rc));
}

int boot_send_await(struct boot_conn *conn, const struct wire_ctrl_msg *msg, uint64_t deadline_ns)
{
	uint8_t *buf = NULL;
	int len = msg_encode(msg, &buf);
	if (len < 0)
		return encode_fail(conn, msg, len);
	int rc = bytes_send_await(conn, buf, (size_t)len, deadline_ns);
	secret_wipe(buf, (size_t)len); /* it may hold tokens */
	free(buf);
	return rc;
}

int boot_send_both_await(struct boot_conn *conn, const struct wire_ctrl_msg *first, const struct wire_ctrl_msg *second,
			 uint64_t deadline_ns)
{
	uint8_t buf[OUT_BOTH];
	int len = wire_ctrl_encode(first, buf, sizeof(buf));
	if (len < 0)
		return encode_fail(conn, first, len);
	int more = wire_ctrl_encode(second, buf + len, sizeof(buf) - (size_t)len);
	int rc = more < 0 ? encode_fail(conn, second, more)
			  : bytes_send_await(conn, buf, (size_t)len + (size_t)more, deadline_ns);
	secret_wipe(buf, sizeof(buf));
	return rc;
}

/* ---- receiving ---- */

/* Not realloc, which would leave a copy of old messages. `first` is 0. */
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

/* Make room for at least one more byte of a message of `want` bytes, with no more memory than that needs. */
static int in_room(struct boot_conn *c, size_t want)
{
	if (c->first) { /* at most once per message, and less than it */
		c->end -= c->first;
		memmove(c->in, c->in + c->first, c->end);
		c->first = 0;
	}
	if (c->in_cap > IN_KEEP && c->end < IN_SMALL && want <= IN_SMALL)
		(void)in_resize(c, IN_SMALL); /* without memory, keep the large buffer */
	if (c->end < c->in_cap)
		return 0;
	return in_resize(c, KV_MIN(c->in_cap * 2, want));
}

/* Whether these bytes are a TLS record, handshake or alert: type, version 3.x, length, and a byte that a control
 * message has for types from 256 on. */
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

/* Wait for one whole message at in[first]. Returns its length or a code. */
static int in_message_await(struct boot_conn *c, uint64_t deadline_ns)
{
	for (;;) {
		size_t have = c->end - c->first;
		if (c->plain && !c->begun && looks_like_tls(c->in, have))
			return kv_fail(&c->failure, -KV_EPROTO,
				       "%s: the peer speaks TLS, and this side does not: "
				       "give both sides the same PSK or certificates, or none",
				       c->peer);
		int len = wire_ctrl_length(c->in + c->first, have);
		if (len < 0 || (unsigned)len > c->limit)
			return kv_fail(&c->failure, -KV_EPROTO,
				       "%s: the peer sent no valid control message (its length is out of bounds)",
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
			     "%s: the peer sent an invalid control message (type %u, %zu bytes)", c->peer,
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
	conn->stream->ops->shutdown(conn->stream); /* the current writer fails, and wakes the next */
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

const char *boot_peer_names(const struct boot_conn *conn)
{
	return conn->stream->names ? conn->stream->names : "";
}

int64_t boot_peer_expiry(const struct boot_conn *conn)
{
	return conn->stream->expiry_s ? conn->stream->expiry_s : INT64_MAX;
}

const char *boot_failure(const struct boot_conn *conn)
{
	return conn->failure.text;
}
