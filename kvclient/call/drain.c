/* SPDX-License-Identifier: Apache-2.0 */
/* drain.c -- ask a server to drain, and wait for its goodbye.
 *
 * The question uses the control connection; DRAIN_OK says how long the drain may take (conn/serve.c reads it). If the
 * attachment breaks afterwards, the client attaches again and keeps waiting. The wait ends when the node is DOWN: after
 * a goodbye, after its removal from the view, or because it was lost. */
#include "kvclient/conn/alias.h"
#include "kvclient/conn/node.h"
#include "kvclient/core/sized.h"
#include "kvclient/core/waits.h"
#include "kvclient/transfer/call.h"

enum { DRAIN_MS_MAX = 2 * 86400000 /* upper limit for a server's figure */ };

#define DRAIN_GRACE_NS 5000000000ull /* after the end that the server names */

/* 1: a new attachment; the question may have been lost with the old one. */
static int answer_await(struct kc_node *n, uint64_t attaches, uint64_t deadline_ns)
{
	while (n->drain.time_ms == 0) {
		int rc;
		if (n->state == KC_NODE_DOWN || n->state == KC_NODE_CLOSED)
			return n->goodbye != KC_GOODBYE_NONE ? 0 : -KV_EPEERDOWN;
		if (n->attaches != attaches)
			return 1;
		rc = kc_wait_queue_await(n->client, &n->changed, deadline_ns);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int ask_await(struct kc_node *n, const struct kvc_drain *drain, uint64_t deadline_ns)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_DRAIN,
				  .drain = {.time_ms = drain->time_ns / 1000000 + (drain->time_ns % 1000000 != 0),
					    .bytes_s = drain->bytes_s}};
	struct kc_attachment *s;
	uint64_t attaches;
	bool again = false;
	int rc;
	n->drain.time_ms = 0;
	n->drain.done = false;
	do { /* a draining server answers again */
		rc = kc_node_ready_await(n, deadline_ns, &s);
		if (rc < 0)
			return again && rc == -KV_ELEFT ? 0 : rc;
		if (!(s->flags & WIRE_WELCOME_DRAIN))
			return -KV_ENOTSUP;
		n->drain.asked++;
		again = true;
		attaches = n->attaches;
		rc = kc_node_send_await(n, &m, deadline_ns);
		if (rc == 0 || !kc_node_uses(n, attaches))
			rc = answer_await(n, attaches, deadline_ns);
	} while (rc == 1);
	return rc;
}

static bool parted(const struct kc_node *n)
{
	return n->state != KC_NODE_UP && n->state != KC_NODE_CONNECTING;
}

static int goodbye_await(struct kc_node *n, uint64_t deadline_ns)
{
	while (!parted(n)) {
		int rc;
		rc = kc_wait_queue_await(n->client, &n->changed, deadline_ns);
		if (rc < 0)
			return rc;
	}
	return n->goodbye != KC_GOODBYE_NONE ? 0 : -KV_EPEERDOWN;
}

_Static_assert((int)KVC_LEFT_REASONS == (int)KV_LEFT_REASONS && (int)KVC_LEFT_STUCK == (int)KV_LEFT_STUCK &&
		       (int)KVC_LEFT_FULL == (int)KV_LEFT_FULL,
	       "kvclient.h has the reasons of base/drained.h");

static void report_give(const struct kc_node *n, struct kvc_drained *out)
{
	const struct kv_drained *d = &n->drain.drained;
	struct kvc_drained own = {.size = sizeof(own), .known = n->drain.done};
	if (n->drain.done) {
		own.values = d->values;
		own.bytes = d->bytes;
		own.of = d->of;
		own.gone = d->gone;
		memcpy(own.left, d->left, sizeof(own.left));
	}
	kc_sized_give(out, &own, sizeof(own));
}

static int drain_await(struct kvc_client *c, const struct kvc_drain *drain, const struct kvc_call *call)
{
	uint64_t asked_ns = loop_now(c->loop), deadline_ns = kc_call_deadline(c, call, 0);
	struct kc_node *n = kc_alias_node_await(c, call->server, deadline_ns);
	int rc = ask_await(n, drain, deadline_ns);
	if (rc < 0)
		return rc;
	if (!call->timeout_ns)
		deadline_ns = kv_deadline(asked_ns,
					  KV_MIN(n->drain.time_ms, (uint64_t)DRAIN_MS_MAX) * 1000000 + DRAIN_GRACE_NS);
	rc = goodbye_await(n, deadline_ns);
	if (rc == 0 && drain->drained)
		report_give(n, drain->drained);
	return rc;
}

int kvc_drain_await(struct kvc_client *client, const struct kvc_drain *drain, const struct kvc_call *call)
{
	struct kvc_drain own;
	struct kvc_call how;
	int rc = kc_call_allowed(client);
	if (rc == 0)
		rc = kc_call_check(call, &how);
	if (rc == 0)
		rc = kc_sized_take(&own, sizeof(own), drain, offsetof(struct kvc_drain, bytes_s), "struct kvc_drain",
				   NULL);
	if (rc == 0 && (how.server >= client->num_nodes || (own.drained && !kc_sized(own.drained))))
		rc = -KV_EINVAL;
	if (rc < 0)
		return rc;
	kc_client_hold(client);
	rc = drain_await(client, &own, &how);
	kc_client_unhold(client);
	return rc;
}
