/* SPDX-License-Identifier: Apache-2.0 */
/* local_attach.c -- a step of attaching: a server on the same host shares its memory (local/local.h). Its links have
 * answered over the fabric before.
 *
 *   LOCAL_ASK with our boot id --> LOCAL --> its Unix socket, with the nonce --> each shard --> messages use channels
 *   --> one byte: the server uses them as well
 *
 * After a failure the attachment uses the fabric alone; it is logged once per server. No client of the pool asks that
 * server again for AGAIN_NS, unless it refused: a failure costs both sides the making of channels. The step takes
 * TIME_NS at most, and ends an attempt only if the control connection or the attachment itself ended. */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "host/host.h"
#include "kvclient/conn/node.h"
#include "kvclient/conn/private.h"
#include "kvclient/core/local_server.h"
#include "kvclient/request/attachment.h"
#include "kvclient/request/landing.h"
#include "kvclient/request/requests.h"

#define TIME_NS           2000000000ull
#define AGAIN_NS          60000000000ull
#define ALIVE_NS          1000000ull           /* for a look at the socket */
#define LANDING_BYTES_MAX ((uint64_t)64 << 20) /* of an area that we use: its table grows with it */

/* ---- reports ---- */

/* A server on another host is the usual case. The first report about a server is logged, and each other code. */
static void refused_tell(const struct kc_node *n, int rc, const char *why)
{
	bool told = atomic_exchange(&n->client->pool->server[n->index].local_told, rc) == rc;
	enum kv_log_level level = rc == -KV_ENOTSUP || rc == -KV_EBUSY ? KV_LOG_INFO : KV_LOG_WARN;
	kv_event(kc_node_log(n), rc == -KV_EDENIED || told ? KV_LOG_DEBUG : level,
		 KV_EVENT("server_not_local", KV_NUMBER("client", n->client->index),
			  KV_FIELD("server", kc_node_name(n)), KV_FIELD("reason", why)),
		 "client %u, server %s: its values come over the fabric, not from its memory: %s", n->client->index,
		 kc_node_name(n), why);
}

static void joined_tell(const struct kc_node *n)
{
	bool told = atomic_exchange(&n->client->pool->server[n->index].local_told, 1) == 1;
	kv_event(kc_node_log(n), told ? KV_LOG_DEBUG : KV_LOG_INFO,
		 KV_EVENT("server_local", KV_NUMBER("client", n->client->index), KV_FIELD("server", kc_node_name(n))),
		 "client %u: server %s is on this host: values are read in its memory", n->client->index,
		 kc_node_name(n));
}

static bool join_pauses(const struct kc_node *n)
{
	const struct kc_server *s = &n->client->pool->server[n->index];
	return loop_now(n->client->loop) < atomic_load(&s->local_again_ns) &&
	       atomic_load(&s->local_failed) == n->incarnation;
}

static void join_pause(const struct kc_node *n)
{
	struct kc_server *s = &n->client->pool->server[n->index];
	if (n->redo || n->client->closing || !n->attachment->open)
		return; /* the attempt ends anyway */
	atomic_store(&s->local_failed, n->incarnation);
	atomic_store(&s->local_again_ns, loop_now(n->client->loop) + AGAIN_NS);
}

static int no_descriptors(unsigned shards, struct kv_error *err)
{
	struct rlimit limit = {0};
	getrlimit(RLIMIT_NOFILE, &limit);
	return kv_fail(
		err, -KV_ELIMIT,
		"the limit of %llu open files leaves too few for its %u shards; raise it (ulimit -n, LimitNOFILE)",
		(unsigned long long)limit.rlim_cur, shards);
}

static int unreached(const char *name, bool own, int rc, struct kv_error *err)
{
	bool absent = rc == -ENOENT || rc == -ECONNREFUSED;
	if (absent && name[0] == '@')
		return kv_fail(err, rc,
			       "its Unix socket %s cannot be reached from this network namespace; start it with "
			       "--local-socket PATH, and mount PATH in both containers",
			       name);
	return kv_fail(err, rc, "its Unix socket %s%s cannot be reached: %s%s", name, own ? " (--local-socket)" : "",
		       kv_strerror(rc), absent ? "; is it mounted in this container?" : "");
}

/* ---- joining ---- */

/* The proof shows that the socket is that of the server which answered LOCAL_ASK: the name may be another process's by
 * now. */
static int shards_take_await(struct kc_local *l, const uint8_t *proof, uint64_t deadline_ns, struct kv_error *err)
{
	for (unsigned i = 0; i < l->shards; i++) {
		struct local_shard received;
		int rc = local_take_await(l->fd, &received, deadline_ns);
		if (rc == -KV_ELIMIT)
			return no_descriptors(l->shards, err);
		if (rc == -ECONNRESET)
			return kv_fail(err, rc,
				       "it closed the Unix socket instead of passing its shard %u: all its places for "
				       "clients on this host are taken, or its log has the reason",
				       i);
		if (rc < 0)
			return kv_fail(err, rc, "it did not pass its shard %u over the Unix socket: %s", i,
				       kv_strerror(rc));
		rc = kc_local_shard_take(l, i, proof, &received, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- switching over ---- */

static int landings_make(const struct kc_local *l, struct kc_landing **out)
{
	struct kc_landing *all = calloc(l->shards, sizeof(*all));
	int rc = all ? 0 : -KV_ENOMEM;
	for (unsigned i = 0; rc == 0 && i < l->shards; i++)
		if (l->shard[i].landing)
			rc = kc_buffer_init(&all[i].pieces, l->shard[i].landing,
					    KV_MIN(l->shard[i].landing_bytes, LANDING_BYTES_MAX));
	if (rc < 0)
		kc_landings_free(&all, l->shards);
	*out = all;
	return rc;
}

static void switch_back(struct kc_attachment *s)
{
	for (unsigned i = 0; i < s->shards; i++)
		if (s->peer[i])
			te_peer_local_end(s->peer[i]);
	kc_landings_free(&s->landing, s->shards);
	s->local = NULL;
}

/* The server sends nothing into a channel before our byte. Without it nothing has changed for the server. */
static int switch_over_await(struct kc_attachment *s, struct kc_local *l, uint64_t deadline_ns)
{
	int rc = landings_make(l, &s->landing);
	if (rc < 0)
		return rc;
	s->local = l;
	for (unsigned i = 0; rc == 0 && i < s->shards; i++)
		rc = te_peer_local(s->peer[i], l->shard[i].channel);
	if (rc == 0)
		rc = local_ready_send_await(l->fd, deadline_ns);
	if (rc < 0)
		switch_back(s);
	return rc;
}

/* ---- the step ---- */

static int join_await(struct kc_node *n, const struct wire_local *w, struct kc_local *l, uint64_t deadline_ns,
		      struct kv_error *err)
{
	const struct kvc_options *o = &n->client->pool->options;
	const char *name = o->local_socket ? o->local_socket : w->name;
	int fd, rc = local_connect_await(name, w->nonce, &fd, deadline_ns);
	if (rc < 0)
		return unreached(name, o->local_socket != NULL, rc, err);
	kc_local_fd(l, fd);
	rc = shards_take_await(l, w->proof, deadline_ns, err);
	if (rc < 0)
		return rc;
	if (n->redo || !n->attachment->open)
		return kv_fail(err, -KV_ERESET, "the attachment has ended");
	rc = switch_over_await(n->attachment, l, deadline_ns);
	return rc < 0 ? kv_fail(err, rc, "the channel to it cannot be used: %s", kv_strerror(rc)) : 0;
}

static int answer_await(struct kc_node *n, const struct wire_local *w, struct kc_local *l, uint64_t deadline_ns,
			struct kv_error *err)
{
	char text[sizeof(w->text)];
	int rc = w->status == WIRE_OK ? 0 : wire_status_error(w->status);
	if (rc < 0) {
		kc_printable(text, sizeof(text), w->text);
		return kv_fail(err, rc, "it refuses: %s", text);
	}
	n->own->attempt.joiner = co_self();
	rc = join_await(n, w, l, deadline_ns, err);
	n->own->attempt.joiner = NULL;
	io_interrupt(co_self(), false);
	if (rc < 0)
		join_pause(n);
	return rc;
}

static int ask_await(struct kc_node *n, struct wire_ctrl_msg *m, uint64_t deadline_ns)
{
	int rc;
	*m = (struct wire_ctrl_msg){.type = WIRE_CTRL_LOCAL_ASK};
	kv_boot_id(m->local.boot_id);
	n->attachment->local_asked = true;
	rc = kc_node_send_await(n, m, deadline_ns);
	return rc < 0 ? rc : kc_node_told_await(n, WIRE_CTRL_LOCAL, m, deadline_ns);
}

static int unanswered(struct kc_node *n, struct kv_error *err)
{
	join_pause(n);
	return kv_fail(err, -KV_ETIMEOUT, "it did not answer within %.0f s", TIME_NS / 1e9);
}

/* Descriptors for servers on this host: those that all connections of the pool over the fabric leave. */
static uint64_t files_max(const struct kc_node *n)
{
	const struct kvc_pool *p = n->client->pool;
	uint64_t nodes = (uint64_t)p->num_clients * n->client->num_nodes;
	uint64_t fabric = p->files + nodes * n->attachment->num_links + KV_FILES_MARGIN;
	struct rlimit limit;
	if (p->files == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return KV_UNKNOWN;
	return limit.rlim_cur - KV_MIN((uint64_t)limit.rlim_cur, fabric);
}

static int connection_make(struct kc_node *n, struct kc_local **out, struct kv_error *err)
{
	unsigned shards = n->attachment->shards;
	int rc = kc_local_make(n->client->pool->home, shards, files_max(n), out);
	if (rc == 0)
		return 0;
	join_pause(n);
	return rc == -KV_ELIMIT ? no_descriptors(shards, err) : kv_fail(err, rc, "no memory for the connection to it");
}

int kc_local_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct wire_ctrl_msg m;
	struct kv_error err = {0};
	struct kc_local *l = NULL;
	int rc;
	if (!(n->attachment->flags & WIRE_WELCOME_LOCAL) || n->client->pool->options.local == KVC_LOCAL_OFF ||
	    join_pauses(n))
		return 0;
	deadline_ns = KV_MIN(deadline_ns, loop_now(n->client->loop) + TIME_NS);
	rc = connection_make(n, &l, &err);
	if (rc == 0) {
		rc = ask_await(n, &m, deadline_ns);
		if (rc < 0 && rc != -KV_ETIMEOUT) {
			kc_local_unref(l);
			return kv_fail(&n->error, rc, "asking for its memory on this host: %s", kv_strerror(rc));
		}
		rc = rc == 0 ? answer_await(n, &m.local, l, deadline_ns, &err) : unanswered(n, &err);
		explicit_bzero(m.local.nonce, sizeof(m.local.nonce));
		explicit_bzero(m.local.proof, sizeof(m.local.proof));
	}
	if (rc == 0)
		joined_tell(n);
	else if (!n->redo && !n->client->closing)
		refused_tell(n, rc, err.text);
	if (rc < 0 && l)
		kc_local_unref(l);
	return 0;
}

/* ---- the end ---- */

bool kc_local_ended_await(struct kc_node *n)
{
	struct kc_local *l = n->attachment->local;
	return l && local_end_await(l->fd, loop_now(n->client->loop) + ALIVE_NS) == 0;
}

void kc_local_leave(struct kc_attachment *s)
{
	struct kc_local *l = s->local;
	if (!l)
		return;
	for (unsigned i = 0; i < s->shards; i++)
		if (s->peer[i])
			te_peer_local_end(s->peer[i]);
	s->local = NULL;
	kc_local_left(l);
}
