/* SPDX-License-Identifier: Apache-2.0 */
/* view.c -- the view of the cluster that a server announces to its clients.
 *
 * A copy of kvs_server_view_set's argument waits under the server's lock until the control loop takes it; a later one
 * replaces it. A connection that asked for the view gets news with a heartbeat (conns_news), and asks again if needed:
 * a change costs 32 bytes per client. Answers are sent from a copy of the packed form: the send may park, and another
 * view may arrive. */
#include "kvserver/conn/view.h"

#include <stdlib.h>
#include <string.h>

#include "kvserver/conn/conn.h"

static int pack(const struct kv_view *v, uint8_t **out, uint32_t *out_len)
{
	size_t cap = v->count * (size_t)WIRE_MEMBER_BYTES + 1;
	uint8_t *packed = malloc(cap);
	int len = packed ? wire_view_pack(v, packed, cap) : -KV_ENOMEM;
	if (len < 0) {
		free(packed);
		return len;
	}
	*out = packed;
	*out_len = (uint32_t)len;
	return 0;
}

/* On the control loop. */
static void view_adopt(void *arg)
{
	struct kvs_server *s = arg;
	struct views *v = &s->views;
	struct kv_view next;
	kv_u128 digest;
	uint8_t *packed;
	uint32_t len;
	bool lacked;
	pthread_mutex_lock(&s->lock);
	next = v->next;
	packed = v->next_packed;
	digest = v->next_digest;
	len = v->next_packed_len;
	v->next = (struct kv_view){0};
	v->next_packed = NULL;
	lacked = v->next_lacked;
	v->next_lacked = false;
	pthread_mutex_unlock(&s->lock);
	if (!packed) { /* another call has taken it */
		if (atomic_load(&v->drains) != v->draining) {
			v->draining = true;
			v->number++;
			conns_news(s);
		}
		return;
	}
	v->draining = atomic_load(&v->drains);
	kv_view_fini(&v->now);
	free(v->packed);
	v->now = next;
	v->packed = packed;
	v->packed_len = len;
	v->digest = digest;
	v->number++;
	doubt_view(s, lacked);
	conns_news(s);
}

int kvs_server_view_set(struct kvs_server *s, const struct kv_view *view)
{
	struct views *v = &s->views;
	struct kv_view copy;
	uint8_t *packed = NULL;
	uint32_t len = 0;
	kv_u128 digest = kv_view_digest(view);
	int rc;
	if (view->epoch == 0 && view->count > 0)
		return -KV_EINVAL;
	if (view->count > 0 && !digest)
		return -KV_ENOMEM;
	rc = pack(view, &packed, &len);
	if (rc)
		return rc;
	rc = kv_view_copy(view, &copy);
	if (rc) {
		free(packed);
		return rc;
	}
	pthread_mutex_lock(&s->lock);
	kv_view_fini(&v->next);
	free(v->next_packed);
	v->next = copy;
	v->next_packed = packed;
	v->next_packed_len = len;
	v->next_digest = digest;
	v->next_lacked |= view->epoch && !kv_view_find(view, s->node_id);
	pthread_mutex_unlock(&s->lock);
	return loop_post(s->control, view_adopt, s);
}

int kvs_server_drains(struct kvs_server *s)
{
	atomic_store(&s->views.drains, true);
	return loop_post(s->control, view_adopt, s);
}

void kvs_server_drained(struct kvs_server *s, const struct kv_drained *drained)
{
	pthread_mutex_lock(&s->lock);
	s->life.drained = *drained;
	s->life.drained_known = true;
	pthread_mutex_unlock(&s->lock);
}

int view_answer_await(struct conn *c, kv_u128 digest)
{
	const struct views *v = &c->server->views;
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_VIEW};
	uint8_t *members;
	int rc;
	c->view_asked = true;
	c->view_announced = v->number;
	if (digest == v->digest && v->now.epoch) {
		m.type = WIRE_CTRL_VIEW_NEWS;
		m.view_news = views_announced(v);
		return conn_send_await(c, &m);
	}
	members = malloc(v->packed_len + 1);
	if (!members)
		return -KV_ENOMEM;
	if (v->packed_len)
		memcpy(members, v->packed, v->packed_len);
	m.view = (struct wire_view){v->now.source, v->now.epoch,  v->now.count,  v->draining,
				    members,       v->packed_len, .packed = true};
	rc = conn_send_await(c, &m);
	free(members);
	return rc;
}

void view_fini(struct kvs_server *s)
{
	struct views *v = &s->views;
	kv_view_fini(&v->now);
	kv_view_fini(&v->next);
	free(v->packed);
	free(v->next_packed);
}
