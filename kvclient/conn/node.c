/* SPDX-License-Identifier: Apache-2.0 */
/* node.c -- a node: one client's side of one server, and its functions for others on the loop (its coroutine: serve.c).
 *
 *   NEW --kc_node_start--> CONNECTING --attempt succeeds--> UP --redo--> CONNECTING
 *   CONNECTING --attempt fails; a call has waited too long--> DOWN --a later attempt succeeds--> UP
 *   UP --the server is lost, or says goodbye--> DOWN      any --the client closes, and the coroutine ends--> CLOSED
 *   node.goodbye   NONE --the server's--> HEARD --no call under way: ours--> SAID      both --up, refused--> NONE
 *   control.stage  DIALLED --WELCOME--> WELCOMED --the attachment is up--> USED, until the next dial
 *
 * A redo is a break without the server's loss (rebuilt endpoints, an unsendable frame, a silent link). Calls wait for
 * the next attempt: at most kc_node_silence_ns, 0 after a silent link, if another server may stand in; then waiting
 * calls make the node DOWN (attempt_await). After a goodbye the values are gone: without a stand-in, keys are misses.
 * The attachment lives until its calls end. Only a USED connection may break without the server's fault (the next
 * attempt dials, calls wait on). From WELCOMED on it may bring messages about an earlier attachment. */
#include "kvclient/conn/node.h"

#include <stdlib.h>

#include "kvclient/conn/deletes_owed.h"
#include "kvclient/conn/private.h"
#include "kvclient/core/waits.h"
#include "kvclient/request/attachment.h"

void kc_node_shun(struct kc_node *n, bool shun)
{
	struct kvc_client *c = n->client;
	uint64_t settle_ns = c->pool->options.settle_ns;
	if (!kc_place_set_put(&c->nodes.shunned, n->index, shun) || settle_ns <= 1)
		return;
	kc_place_set_put(&c->cluster.absent, n->index, true);
	n->present_ns = shun ? UINT64_MAX : kv_deadline(loop_now(c->loop), settle_ns);
}

void kc_node_set(struct kc_node *n, enum kc_node_state state)
{
	KV_ASSERT(n->state != KC_NODE_CLOSED || state == KC_NODE_CONNECTING || state == KC_NODE_DOWN);
	if (kc_place_set_put(&n->client->nodes.avoided, n->index, state == KC_NODE_DOWN))
		n->own->down_ns = loop_now(n->client->loop);
	if (state == KC_NODE_CONNECTING && n->state != KC_NODE_CONNECTING) {
		n->own->patience_ns = loop_now(n->client->loop) + (n->own->link_silent ? 0 : kc_node_silence_ns(n));
		n->own->link_silent = false;
	}
	if (state != KC_NODE_UP && n->state == KC_NODE_UP && n->goodbye != KC_GOODBYE_NONE)
		kc_votes_drop(&n->client->cluster.votes, n->index);
	else if (state != KC_NODE_UP)
		kc_votes_lost(&n->client->cluster.votes, n->index, loop_now(n->client->loop));
	kc_node_shun(n, state == KC_NODE_DOWN || kc_place_set_has(&n->client->cluster.draining, n->index));
	n->client->nodes.up += (state == KC_NODE_UP) - (n->state == KC_NODE_UP);
	if ((state == KC_NODE_DOWN) != (n->state == KC_NODE_DOWN))
		atomic_fetch_add(&n->client->pool->loads.down[n->client->index], state == KC_NODE_DOWN ? 1u : -1u);
	if (n->state == KC_NODE_UP && state != KC_NODE_UP)
		kc_owed_left(n);
	n->state = state;
	co_queue_wake_all(&n->changed);
}

void kc_printable(char *out, size_t cap, const char *text)
{
	snprintf(out, cap, "%s", text);
	for (char *t = out; *t; t++)
		if (*t < ' ' || *t > '~')
			*t = '?';
}

static void redo(struct kc_node *n, const char *why, bool redial)
{
	n->control.spent |= redial || n->client->closing || kc_node_answers_wait(n);
	n->redo = why;
	if (n->state == KC_NODE_UP)
		kc_node_set(n, KC_NODE_CONNECTING);
	else if (n->attachment && n->attachment->open && !n->attachment->served)
		kc_attachment_fail(n->attachment, -KV_ERESET, false); /* an attempt: only PINGs are out */
	if (n->control.conn && n->control.spent)
		boot_shutdown(n->control.conn);
	else if (n->control.conn)
		boot_interrupt(n->control.conn);
	else if (n->own->attempt.dialer && n->client->closing)
		io_interrupt(n->own->attempt.dialer, true); /* else closing waits for the connect timeout */
	if (n->own->attempt.joiner)
		io_interrupt(n->own->attempt.joiner, true);
	co_queue_wake_all(&n->kick);
}

void kc_node_redo(struct kc_node *n, const char *why)
{
	redo(n, why, false);
}

void kc_node_redial(struct kc_node *n, const char *why)
{
	redo(n, why, true);
}

void kc_node_view_take(struct kc_node *n, const struct wire_view *w)
{
	struct kv_view view;
	if (wire_view_take(w, &view) == 0)
		n->client->hooks->view_came(n, &view, w->draining);
}

int kc_node_drain_take(struct kc_node *n, const struct wire_drain *w)
{
	if (n->drain.asked == 0)
		return kv_fail(&n->error, -KV_EPROTO, "it reports a drain that this client did not request");
	n->drain.asked--;
	n->drain.answered = true;
	n->drain.time_ms = w->time_ms;
	co_queue_wake_all(&n->changed);
	return 0;
}

int kc_node_drained_take(struct kc_node *n, const struct kv_drained *d)
{
	if (!n->drain.answered)
		return kv_fail(&n->error, -KV_EPROTO,
			       "it reports the result of a drain that this client did not request");
	n->drain.done = true;
	n->drain.drained = *d;
	return 0;
}

/* upper bound of a server's announced silence */
enum { QUIET_MS_MAX = 10000 };

void kc_node_quiet_take(struct kc_node *n, uint64_t quiet_ms)
{
	n->own->pulse.quiet_ns = KV_MAX(KV_MIN(quiet_ms, (uint64_t)QUIET_MS_MAX) * 1000000, n->own->pulse.beat_ns);
}

int kc_node_aside(struct kc_node *n, const struct wire_ctrl_msg *m)
{
	switch (m->type) {
	case WIRE_CTRL_VIEW_NEWS:
		n->client->hooks->view_announced(n, &m->view_news);
		return 0;
	case WIRE_CTRL_VIEW:
		kc_node_view_take(n, &m->view);
		return 0;
	case WIRE_CTRL_HEARTBEAT:
		kc_node_quiet_take(n, m->heartbeat.quiet_ms);
		return 0;
	case WIRE_CTRL_DRAIN_OK:
		return kc_node_drain_take(n, &m->drain);
	case WIRE_CTRL_DRAIN_DONE:
		return kc_node_drained_take(n, &m->drained);
	case WIRE_CTRL_ADDRESS:
		return -KV_ERESET;
	case WIRE_CTRL_GOODBYE:
		return -KV_ELEFT;
	default:
		return 0;
	}
}

/* Whether another server is not avoided. */
static bool has_stand_in(const struct kc_node *n)
{
	const struct kvc_client *c = n->client;
	for (unsigned i = 0; i < c->num_nodes; i++)
		if (i != n->index && !c->node[i].retired && kc_node_running(&c->node[i]) &&
		    !kc_place_set_has(&c->nodes.avoided, i))
			return true;
	return false;
}

/* Wait until the state of a CONNECTING node may have changed. After the time of silence it becomes DOWN if another
 * server may stand in. 0; -KV_ETIMEOUT. */
static int attempt_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct loop *loop = n->client->loop;
	int rc;
	if (loop_now(loop) >= n->own->patience_ns) {
		if (has_stand_in(n)) {
			kc_node_set(n, KC_NODE_DOWN);
			return 0;
		}
		n->own->patience_ns = loop_now(loop) + kc_node_silence_ns(n);
	}
	rc = kc_wait_queue_await(n->client, &n->changed, KV_MIN(deadline_ns, n->own->patience_ns));
	return rc == -KV_ETIMEOUT && loop_now(loop) < deadline_ns ? 0 : rc;
}

int kc_node_ready_await(struct kc_node *n, uint64_t deadline_ns, struct kc_attachment **out)
{
	for (;;) {
		int rc;
		if (n->client->closing)
			return -KV_ECLOSED;
		if (n->state == KC_NODE_UP) {
			*out = n->attachment;
			return 0;
		}
		if (n->state != KC_NODE_CONNECTING && n->goodbye == KC_GOODBYE_NONE)
			return n->refusal ? n->refusal : -KV_EPEERDOWN;
		if (n->state != KC_NODE_CONNECTING) {
			co_yield_await(); /* misses cost nothing: do not let a caller of many block the loop */
			return -KV_ELEFT;
		}
		rc = attempt_await(n, deadline_ns);
		if (rc < 0)
			return rc;
	}
}

bool kc_node_down(const struct kc_node *n, int64_t rc)
{
	return rc == -KV_EPEERDOWN || (rc < 0 && rc == n->refusal && n->state == KC_NODE_DOWN);
}

int kc_node_send_await(struct kc_node *n, const struct wire_ctrl_msg *m, uint64_t deadline_ns)
{
	int rc;
	if (!n->control.conn)
		return -KV_EPEERDOWN;
	n->control.senders++;
	n->own->pulse.said_ns = loop_now(n->client->loop);
	rc = boot_send_await(n->control.conn, m, deadline_ns);
	if (--n->control.senders == 0)
		co_queue_wake_all(&n->kick);
	return rc;
}

/* All else is 0. */
static void node_begin(struct kc_node *n)
{
	n->own = &n->client->nodes.own[n->index];
	co_queue_init(&n->changed);
	co_queue_init(&n->kick);
	kc_sessions_init(&n->sessions);
}

int kc_nodes_make(struct kvc_client *c)
{
	unsigned n = c->pool->room;
	c->node = calloc(n, sizeof(*c->node));
	c->nodes.own = calloc(n, sizeof(*c->nodes.own));
	if (!c->node || !c->nodes.own)
		return -KV_ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		c->node[i].client = c;
		c->node[i].index = i;
		node_begin(&c->node[i]);
	}
	return 0;
}

void kc_node_renew(struct kc_node *n)
{
	*n = (struct kc_node){.client = n->client, .index = n->index, .pins = n->pins};
	node_begin(n);
	memset(n->own, 0, sizeof(*n->own));
}

void kc_nodes_free(struct kvc_client *c)
{
	free(c->node);
	free(c->nodes.own);
	c->node = NULL;
	c->nodes.own = NULL;
}

void kc_node_info(const struct kc_node *n, struct kvc_server_info *out)
{
	static const enum kvc_server_state states[] = {[KC_NODE_NEW] = KVC_SERVER_CONNECTING,
						       [KC_NODE_CONNECTING] = KVC_SERVER_CONNECTING,
						       [KC_NODE_UP] = KVC_SERVER_UP,
						       [KC_NODE_DOWN] = KVC_SERVER_DOWN,
						       [KC_NODE_CLOSED] = KVC_SERVER_CLOSED};
	uint64_t now_ns = loop_now(n->client->loop), heard_ns = n->own->pulse.heard_ns;
	out->state = states[n->state];
	out->incarnation = n->incarnation;
	out->heard_ns = heard_ns ? now_ns - heard_ns : UINT64_MAX;
	out->ping_ns = n->own->ping_ns;
	out->connects = n->own->connects;
	out->attaches = n->attaches;
	out->attempts_failed = n->own->attempt.failures;
	out->fences = n->fences;
	out->avoided_ns = n->state == KC_NODE_DOWN ? now_ns - n->own->down_ns : 0;
}
