/* SPDX-License-Identifier: Apache-2.0 */
/* node.c -- one client's view of one server, and what others on the loop may ask of it. The node's own coroutine, which
 * connects, serves the control connection and begins again, is in serve.c.
 *
 *   CONNECTING --dial, hello, regions acknowledged, links answered a PING (health.c)--> UP --lost--> DOWN
 *       --back-off--> attempt ... --> UP
 *   UP --redo--> CONNECTING (calls wait) --hello, regions, links--> UP
 *
 * DOWN means that the server is gone: calls fail at once while attempts go on in the background. If it said goodbye
 * (`left`) its keys are misses instead, until it is back: what it held went with it. It is DOWN from its goodbye on,
 * and the session lives until all that was under way has come to its end; then we say goodbye, too. A break that is
 * ours (the endpoints were rebuilt, a frame could not be sent, a link stays silent) is a redo: the first new attempt
 * begins at once and calls wait for its outcome. */
#include "kvclient/conn/node.h"

#include "kvclient/request/end.h"

void kvc_node_set(struct kvc_node *n, enum kvc_node_state state)
{
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
	n->redial |= redial || n->client->closing || kvc_node_answers_wait(n);
	n->redo = true;
	n->redo_why = why;
	if (n->state == KVC_NODE_UP)
		kvc_node_set(n, KVC_NODE_CONNECTING);
	else if (n->session && n->session->open && !n->session->served)
		kvc_session_fail(n->session, -KV_ERESET, false); /* an attempt: only PINGs are out */
	if (n->conn && n->redial)
		boot_shutdown(n->conn);
	else if (n->conn)
		boot_interrupt(n->conn);
	else if (n->dialer && n->client->closing)
		io_interrupt(n->dialer, true); /* or closing would wait for the connect timeout */
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

int kvc_node_ready_await(struct kvc_node *n, uint64_t deadline_ns, struct kvc_session **out)
{
	for (;;) {
		if (n->client->closing)
			return -KV_ECLOSED;
		if (n->state == KVC_NODE_UP) {
			*out = n->session;
			return 0;
		}
		if (n->state != KVC_NODE_CONNECTING && !n->left)
			return n->refusal ? n->refusal : -KV_EPEERDOWN;
		if (n->state != KVC_NODE_CONNECTING) {
			co_yield_await(); /* misses cost nothing: one who makes many leaves the loop to others */
			return -KV_ELEFT;
		}
		if (co_queue_wait_await(&n->changed, deadline_ns) < 0)
			return -KV_ETIMEOUT;
	}
}

bool kvc_node_down(const struct kvc_node *n, int64_t rc)
{
	return rc == -KV_EPEERDOWN || (rc < 0 && rc == n->refusal && n->state == KVC_NODE_DOWN);
}

int kvc_node_send_await(struct kvc_node *n, const struct wire_ctrl_msg *m, uint64_t deadline_ns)
{
	int rc;
	if (!n->conn)
		return -KV_EPEERDOWN;
	n->senders++;
	rc = boot_send_await(n->conn, m, deadline_ns);
	if (--n->senders == 0)
		co_queue_wake_all(&n->kick);
	return rc;
}

void kvc_node_init(struct kvc_node *n, struct kvc_client *c, unsigned index)
{
	n->client = c;
	n->index = index;
	co_queue_init(&n->changed);
	co_queue_init(&n->kick);
	kvc_subs_init(&n->subs);
	kv_list_init(&n->pins.all);
}
