/* SPDX-License-Identifier: Apache-2.0 */
/* handle.c -- the host's handle of a session: opened, closed and asked about, by a worker or by any other thread. */
#include "kvclient/conn/node.h"
#include "kvclient/copy.h"
#include "kvclient/core/block.h"
#include "kvclient/core/sized.h"
#include "kvclient/logical/pins.h"
#include "kvclient/logical/sessions.h"

static int options_take(const struct kvc_session_options *given, struct kvc_session_options *out, struct kv_error *err)
{
	return kc_sized_take(out, sizeof(*out), given, sizeof(size_t), "struct kvc_session_options", err);
}

static bool here(const struct kvc_client *c)
{
	return c && loop_current() == c->loop && co_self();
}

static uint64_t time_of(const struct kvc_pool *p, uint64_t timeout_ns)
{
	return kc_pool_time(p, &(struct kvc_call){.timeout_ns = timeout_ns}, 0);
}

/* space: NULL: the pool's. */
static int open_await(struct kvc_client *client, const struct kvc_session_options *options, const char *space,
		      struct kvc_session **out, struct kv_error *err)
{
	struct kvc_session_options o;
	int rc;
	if (client && kc_pool_alien(client->pool))
		return kv_fail(err, -KV_ECLOSED, "the pool is the parent's, and this is a child of fork()");
	if (!here(client) || !out)
		return kv_fail(err, -KV_EINVAL,
			       "kvc_session_open_await needs a worker of the client, and a place for the session");
	rc = options_take(options, &o, err);
	if (rc < 0)
		return rc;
	if (client->closing || !client->opened)
		return kv_fail(err, -KV_ECLOSED, "the client is closed");
	kc_client_hold(client);
	rc = kc_session_begin_await(client, &o, space,
				    kv_deadline(loop_now(client->loop), time_of(client->pool, o.timeout_ns)), out, err);
	kc_client_unhold(client);
	return rc;
}

int kvc_session_open_await(struct kvc_client *client, const struct kvc_session_options *options,
			   struct kvc_session **out, struct kv_error *err)
{
	return open_await(client, options, NULL, out, err);
}

int kvc_session_close_await(struct kvc_client *client, struct kvc_session **handle, uint64_t timeout_ns)
{
	struct kvc_session *session = handle ? *handle : NULL;
	uint64_t deadline_ns;
	int rc;
	if (client && kc_pool_alien(client->pool))
		return -KV_ECLOSED;
	if (!here(client) || !handle || (session && session->client != client))
		return -KV_EINVAL;
	if (!session)
		return 0;
	if (session->users > 0 || session->parting)
		return -KV_EBUSY;
	deadline_ns = kv_deadline(loop_now(client->loop), time_of(client->pool, timeout_ns));
	kc_client_hold(client);
	rc = kc_pins_part_await(session, deadline_ns);
	rc = rc == -KV_ETIMEOUT ? -KV_EBUSY : rc;
	if (rc == 0) {
		*handle = NULL;
		rc = kc_session_end_await(session, deadline_ns);
	}
	kc_client_unhold(client);
	return rc;
}

/* ---- the same from any other thread ---- */

struct session_args {
	struct kvc_session_options options;
	const char *space;
	struct kvc_session *session;
	struct kv_error err;
	uint64_t deadline_ns;
	unsigned server;
	struct kvc_session_info info;
};

static uint64_t time_left(const struct kvc_client *c, const struct session_args *a)
{
	uint64_t now = loop_now(c->loop);
	return a->deadline_ns > now ? a->deadline_ns - now : 1;
}

static int64_t do_open(struct kvc_client *c, void *arg)
{
	struct session_args *a = arg;
	a->options.size = sizeof(a->options);
	a->options.timeout_ns = time_left(c, a);
	return open_await(c, &a->options, a->space, &a->session, &a->err);
}

static int64_t do_close(struct kvc_client *c, void *arg)
{
	struct session_args *a = arg;
	return kvc_session_close_await(c, &a->session, time_left(c, a));
}

static int on_client(struct kvc_client *c, uint64_t timeout_ns, int64_t (*fn)(struct kvc_client *c, void *arg),
		     struct session_args *a)
{
	return (int)kc_block_call(c, time_of(c->pool, timeout_ns), fn, a, &a->deadline_ns);
}

static int open_wait(struct kvc_pool *pool, unsigned w, const struct kvc_session_options *options, const char *space,
		     struct kvc_session **out, struct kv_error *err)
{
	struct session_args a = {.space = space};
	int rc;
	if (!pool || !out)
		return kv_fail(err, -KV_EINVAL, "kvc_session_open needs a pool and a place for the session");
	rc = options_take(options, &a.options, err);
	if (rc < 0)
		return rc;
	rc = on_client(pool->client[w % pool->num_clients], a.options.timeout_ns, do_open, &a);
	if (rc == 0)
		*out = a.session;
	else
		kv_fail(err, rc, "%s", a.err.code ? a.err.text : kv_strerror(rc));
	return rc;
}

int kvc_session_open(struct kvc_pool *pool, unsigned w, const struct kvc_session_options *options,
		     struct kvc_session **out, struct kv_error *err)
{
	return open_wait(pool, w, options, NULL, out, err);
}

int kc_session_open_in(struct kvc_pool *pool, const char *space, struct kvc_session **out, struct kv_error *err)
{
	return open_wait(pool, 0, NULL, space, out, err);
}

int kvc_session_close(struct kvc_pool *pool, struct kvc_session **session, uint64_t timeout_ns)
{
	struct session_args a = {0};
	int rc;
	if (!pool || !session)
		return -KV_EINVAL;
	if (!*session)
		return 0;
	if ((*session)->client->pool != pool)
		return -KV_EINVAL;
	a.session = *session;
	rc = on_client(a.session->client, timeout_ns, do_close, &a);
	*session = a.session; /* NULL, unless nothing was done */
	return rc;
}

/* ---- session info ---- */

static void info_take(struct kvc_session *session, unsigned server, struct kvc_session_info *o)
{
	static const struct kc_session_at none;
	const struct kc_session_at *part = kc_session_part(session, server), *at = part ? part : &none;
	const struct kc_node *n = &session->client->node[server];
	*o = (struct kvc_session_info){.client = session->client->index,
				       .open = at->state == KC_SESSION_OPEN,
				       .status = at->state == KC_SESSION_REFUSED ? at->status : 0,
				       .number = at->number,
				       .credits = at->credits,
				       .requests = session->requests,
				       .replies = session->replies};
	for (unsigned i = 0; at->lane && n->attachment && i < n->attachment->shards; i++) {
		o->credits_in_use += at->lane[i].active;
		KV_LIST_EACH (e, &at->lane[i].queue)
			o->queued++;
	}
}

static int64_t do_info(struct kvc_client *c, void *arg)
{
	struct session_args *a = arg;
	if (!c->opened || c->closing)
		return -KV_ECLOSED;
	if (a->server >= c->num_nodes)
		return -KV_EINVAL;
	info_take(a->session, a->server, &a->info);
	return 0;
}

int kvc_session_info(struct kvc_pool *pool, struct kvc_session *session, unsigned server, struct kvc_session_info *out)
{
	struct session_args a = {.session = session, .server = server};
	int rc;
	if (!pool || !session || session->client->pool != pool || !kc_sized(out) || server >= pool->room)
		return -KV_EINVAL;
	if (kc_pool_alien(pool))
		return -KV_ECLOSED;
	rc = loop_current() == session->client->loop ? (int)do_info(session->client, &a)
						     : on_client(session->client, 0, do_info, &a);
	if (rc < 0)
		return rc;
	kc_sized_give(out, &a.info, sizeof(a.info));
	return 0;
}
