/* SPDX-License-Identifier: Apache-2.0 */
/* node.h -- a node: one client's side of one server. Private to kvclient/. On the client's loop; only _await functions
 * park. */
#ifndef KVRAIL_KVCLIENT_CONN_NODE_H
#define KVRAIL_KVCLIENT_CONN_NODE_H

#include "kvclient/core/client.h"

static inline bool kc_node_running(const struct kc_node *n)
{
	return n->state != KC_NODE_NEW && n->state != KC_NODE_CLOSED;
}

void kc_printable(char *out, size_t cap, const char *text);

/* kc_nodes_make -- all nodes of the client, none of which runs: 0 or -KV_ENOMEM. kc_node_renew -- make an ended one
 * new. kc_nodes_free -- free them, if made. */
int kc_nodes_make(struct kvc_client *c);
void kc_node_renew(struct kc_node *n);
void kc_nodes_free(struct kvc_client *c);

/* kc_node_info -- fill what concerns the connection. */
void kc_node_info(const struct kc_node *n, struct kvc_server_info *out);

void kc_node_set(struct kc_node *n, enum kc_node_state state);

/* kc_node_shun -- set or end that calls about keys pass it by. Its stand-ins count as such for settle_ns more
 * (route/former.c). */
void kc_node_shun(struct kc_node *n, bool shun);

/* kc_node_redo -- attach anew at once while calls wait, on the same control connection if sound. why: a constant, for
 * the log. kc_node_redial -- on a new control connection. */
void kc_node_redo(struct kc_node *n, const char *why);
void kc_node_redial(struct kc_node *n, const char *why);
/* kc_node_send_await -- send on its control connection. 0; -KV_EPEERDOWN: there is none; -KV_ETIMEOUT; or why the
 * connection broke. */
int kc_node_send_await(struct kc_node *n, const struct wire_ctrl_msg *m, uint64_t deadline_ns);
/* kc_node_quiet_take -- the time the server may be silent from now on; 0: a beat. */
void kc_node_quiet_take(struct kc_node *n, uint64_t quiet_ms);
/* kc_node_aside -- take an unexpected message while attaching; the server sends news of view, drain or silence once.
 * 0; -KV_EPROTO; -KV_ERESET: the attachment is void; -KV_ELEFT: a goodbye. */
int kc_node_aside(struct kc_node *n, const struct wire_ctrl_msg *m);
/* kc_node_view_take -- without memory the view is skipped until the next news. */
void kc_node_view_take(struct kc_node *n, const struct wire_view *w);
/* kc_node_drain_take -- the server drains. 0; -KV_EPROTO: we did not ask. */
int kc_node_drain_take(struct kc_node *n, const struct wire_drain *w);

int kc_node_drained_take(struct kc_node *n, const struct kv_drained *d);
/* kc_node_ready_await -- wait until UP or DOWN. 0 and *out; -KV_ELEFT: a goodbye; n->refusal; -KV_EPEERDOWN;
 * -KV_ETIMEOUT, -KV_ECLOSED. */
int kc_node_ready_await(struct kc_node *n, uint64_t deadline_ns, struct kc_attachment **out);
/* kc_node_down -- whether rc of a call means that the server cannot be reached. */
bool kc_node_down(const struct kc_node *n, int64_t rc);
#endif
