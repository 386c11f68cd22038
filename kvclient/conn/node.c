/* SPDX-License-Identifier: Apache-2.0 */
/* node.c -- a node: one client's side of one server, and what others on the loop may ask of it. The node's own
 * coroutine, which connects, serves the control connection and reconnects, is in serve.c. To reconnect is to attach
 * anew: by a redo (a HELLO again, as a rule on the same connection), or after the server was lost.
 *
 *   node.state    event                                                     becomes
 *   NEW           kvc_node_start                                            CONNECTING
 *   CONNECTING    the attempt succeeds                                      UP
 *                 the attempt fails                                         DOWN
 *                 a call has waited for it for too long                     DOWN
 *                 the attempt is overtaken by a redo                        CONNECTING
 *   UP            a redo                                                    CONNECTING
 *                 the server is lost, or says goodbye                       DOWN
 *   DOWN          an attempt, after a pause, succeeds                       UP
 *                 such an attempt fails, or is overtaken by a redo          DOWN
 *   any           the client closes, and the coroutine ends                 CLOSED
 *
 * An attempt: dial, HELLO and WELCOME, regions acknowledged, links answered a PING (connect.c, health.c).
 *
 * While CONNECTING, calls wait. A redo is a break without a loss of the server: endpoints of ours or of the server were
 * rebuilt, a frame could not be sent, a link stays silent. The next attempt begins at once, and calls wait for its
 * outcome.
 *
 * A server may be the reason why attempts are redone, and not answer: it was stopped, and calls that timed out there
 * had our endpoints rebuilt; or the fabric alone is cut. So calls wait for the time of silence (kvc_node_silence_ns)
 * from the end of UP on, and then the node is DOWN, while its attempt goes on; at once, if it was a silent link that
 * ended UP. Who waits sees to that: without a call that waits nobody needs to know. Where no other server may stand in,
 * calls wait until the attempt ends.
 *
 * While DOWN, the server is avoided: calls go to the next one in the order of their key (transfer/call.c), and fail at
 * once where all are DOWN. Attempts go on in the background. An attempt that is overtaken changes nothing: calls must
 * not wait for a server that is not there because an endpoint of ours was rebuilt.
 *
 *   node.goodbye  NONE --the server says goodbye--> HEARD --nothing of ours is under way: we say it--> SAID
 *                 HEARD, SAID --up again, or the server refuses us--> NONE
 *
 * A server that said goodbye is DOWN from then on. What it held went with it, so its keys are misses until it is back,
 * where no other server stands in. The attachment lives until all that was under way has ended; then we say goodbye,
 * too.
 *
 *   control.stage  DIALLED --WELCOME--> WELCOMED --the attachment is up--> USED, until the next dial
 *
 * Only a connection that was USED may break without a fault of the server: then the next attempt dials, and calls wait
 * on. Only one that was WELCOMED may bring messages about an earlier attachment. */
#include "kvclient/conn/node.h"

#include "kvclient/conn/owed.h"
#include "kvclient/core/waits.h"
#include "kvclient/request/end.h"

void kvc_node_shun(struct kvc_node *n, bool shun)
{
	struct kvc_client *c = n->client;
	uint64_t settle_ns = c->pool->options.settle_ns;
	if (!kvc_place_set_put(&c->shunned, n->index, shun) || settle_ns <= 1)
		return;
	kvc_place_set_put(&c->cluster.absent, n->index, true);
	n->present_ns = shun ? UINT64_MAX : kv_deadline(loop_now(c->loop), settle_ns);
}

void kvc_node_set(struct kvc_node *n, enum kvc_node_state state)
{
	if (kvc_place_set_put(&n->client->avoided, n->index, state == KVC_NODE_DOWN))
		n->down_ns = loop_now(n->client->loop);
	if (state == KVC_NODE_CONNECTING && n->state != KVC_NODE_CONNECTING) {
		n->patience_ns = loop_now(n->client->loop) + (n->link_silent ? 0 : kvc_node_silence_ns(n));
		n->link_silent = false;
	}
	if (state != KVC_NODE_UP && n->state == KVC_NODE_UP && n->goodbye != KVC_GOODBYE_NONE)
		kvc_votes_drop(&n->client->cluster.votes, n->index);
	else if (state != KVC_NODE_UP)
		kvc_votes_lost(&n->client->cluster.votes, n->index, loop_now(n->client->loop));
	kvc_node_shun(n, state == KVC_NODE_DOWN || kvc_place_set_has(&n->client->cluster.draining, n->index));
	n->client->nodes_up += (state == KVC_NODE_UP) - (n->state == KVC_NODE_UP);
	if ((state == KVC_NODE_DOWN) != (n->state == KVC_NODE_DOWN))
		atomic_fetch_add(&n->client->pool->down[n->client->index], state == KVC_NODE_DOWN ? 1u : -1u);
	if (n->state == KVC_NODE_UP && state != KVC_NODE_UP)
		kvc_owed_left(n);
	n->state = state;
	co_queue_wake_all(&n->changed);
}

void kvc_printable(char *out, size_t cap, const char *text)
{
	snprintf(out, cap, "%s", text);
	for (char *t = out; *t; t++)
		if (*t < ' ' || *t > '~')
			*t = '?';
}

static void redo(struct kvc_node *n, const char *why, bool redial)
{
	n->control.spent |= redial || n->client->closing || kvc_node_answers_wait(n);
	n->redo = why;
	if (n->state == KVC_NODE_UP)
		kvc_node_set(n, KVC_NODE_CONNECTING);
	else if (n->attachment && n->attachment->open && !n->attachment->served)
		kvc_attachment_fail(n->attachment, -KV_ERESET, false); /* an attempt: only PINGs are out */
	if (n->control.conn && n->control.spent)
		boot_shutdown(n->control.conn);
	else if (n->control.conn)
		boot_interrupt(n->control.conn);
	else if (n->attempt.dialer && n->client->closing)
		io_interrupt(n->attempt.dialer, true); /* or closing would wait for the connect timeout */
	co_queue_wake_all(&n->kick);
}

void kvc_node_redo(struct kvc_node *n, const char *why)
{
	redo(n, why, false);
}

void kvc_node_redial(struct kvc_node *n, const char *why)
{
	redo(n, why, true);
}

void kvc_node_view_take(struct kvc_node *n, const struct wire_view *w)
{
	struct kv_view view;
	if (wire_view_take(w, &view) == 0)
		n->client->node_events->view(n, &view, w->draining);
}

int kvc_node_drain_take(struct kvc_node *n, const struct wire_drain *w)
{
	if (n->drain.asked == 0)
		return kv_fail(&n->error, -KV_EPROTO, "it says that it drains, and we did not ask for that");
	n->drain.asked--;
	n->drain.answered = true;
	n->drain.time_ms = w->time_ms;
	co_queue_wake_all(&n->changed);
	return 0;
}

int kvc_node_drained_take(struct kvc_node *n, const struct kv_drained *d)
{
	if (!n->drain.answered)
		return kv_fail(&n->error, -KV_EPROTO, "it says what came of a drain that we did not ask for");
	n->drain.done = true;
	n->drain.drained = *d;
	return 0;
}

/* That a server may be silent, whatever it says. */
enum { QUIET_MS_MAX = 10000 };

void kvc_node_quiet_take(struct kvc_node *n, uint64_t quiet_ms)
{
	n->pulse.quiet_ns = KV_MAX(KV_MIN(quiet_ms, (uint64_t)QUIET_MS_MAX) * 1000000, n->pulse.beat_ns);
}

int kvc_node_aside(struct kvc_node *n, const struct wire_ctrl_msg *m)
{
	switch (m->type) {
	case WIRE_CTRL_VIEW_NEWS: /* the first beat of the attachment asks (serve.c) */
		n->client->node_events->told(n, &m->view_news);
		return 0;
	case WIRE_CTRL_VIEW:
		kvc_node_view_take(n, &m->view);
		return 0;
	case WIRE_CTRL_HEARTBEAT:
		kvc_node_quiet_take(n, m->heartbeat.quiet_ms);
		return 0;
	case WIRE_CTRL_DRAIN_OK: /* of a question in an earlier attachment */
		return kvc_node_drain_take(n, &m->drain);
	case WIRE_CTRL_DRAIN_DONE:
		return kvc_node_drained_take(n, &m->drained);
	case WIRE_CTRL_ADDRESS:
		return -KV_ERESET;
	case WIRE_CTRL_GOODBYE:
		return -KV_ELEFT;
	default:
		return 0;
	}
}

/* Whether another server is not avoided. */
static bool has_stand_in(const struct kvc_node *n)
{
	const struct kvc_client *c = n->client;
	for (unsigned i = 0; i < c->num_nodes; i++)
		if (i != n->index && !c->node[i].retired && kvc_node_running(&c->node[i]) &&
		    !kvc_place_set_has(&c->avoided, i))
			return true;
	return false;
}

int kvc_node_attempt_await(struct kvc_node *n, uint64_t deadline_ns)
{
	struct loop *loop = n->client->loop;
	int rc;
	if (loop_now(loop) >= n->patience_ns) {
		if (has_stand_in(n)) {
			kvc_node_set(n, KVC_NODE_DOWN);
			return 0;
		}
		n->patience_ns = loop_now(loop) + kvc_node_silence_ns(n);
	}
	rc = kvc_wait_queue_await(n->client, &n->changed, KV_MIN(deadline_ns, n->patience_ns));
	return rc == -KV_ETIMEOUT && loop_now(loop) < deadline_ns ? 0 : rc;
}

int kvc_node_ready_await(struct kvc_node *n, uint64_t deadline_ns, struct kvc_attachment **out)
{
	for (;;) {
		int rc;
		if (n->client->closing)
			return -KV_ECLOSED;
		if (n->state == KVC_NODE_UP) {
			*out = n->attachment;
			return 0;
		}
		if (n->state != KVC_NODE_CONNECTING && n->goodbye == KVC_GOODBYE_NONE)
			return n->refusal.code ? n->refusal.code : -KV_EPEERDOWN;
		if (n->state != KVC_NODE_CONNECTING) {
			co_yield_await(); /* misses cost nothing: a caller of many leaves the loop to others */
			return -KV_ELEFT;
		}
		rc = kvc_node_attempt_await(n, deadline_ns);
		if (rc < 0)
			return rc;
	}
}

bool kvc_node_down(const struct kvc_node *n, int64_t rc)
{
	return rc == -KV_EPEERDOWN || (rc < 0 && rc == n->refusal.code && n->state == KVC_NODE_DOWN);
}

int kvc_node_send_await(struct kvc_node *n, const struct wire_ctrl_msg *m, uint64_t deadline_ns)
{
	int rc;
	if (!n->control.conn)
		return -KV_EPEERDOWN;
	n->control.senders++;
	n->pulse.said_ns = loop_now(n->client->loop);
	rc = boot_send_await(n->control.conn, m, deadline_ns);
	if (--n->control.senders == 0)
		co_queue_wake_all(&n->kick);
	return rc;
}

void kvc_node_init(struct kvc_node *n, struct kvc_client *c, unsigned index)
{
	n->client = c;
	n->index = index;
	co_queue_init(&n->changed);
	co_queue_init(&n->kick);
	kvc_sessions_init(&n->sessions);
	kv_list_init(&n->pins.all);
}
