/* SPDX-License-Identifier: Apache-2.0 */
/* view.h -- the view of the cluster that a server announces to its clients. Control loop only, except
 * kvs_server_view_set. */
#ifndef KVRAIL_KVSERVER_CONN_VIEW_H
#define KVRAIL_KVSERVER_CONN_VIEW_H

#include "base/base.h"
#include "wire/wire.h"

struct conn;
struct kvs_server;

struct views {
	struct kv_view now; /* announced to clients: control loop only, with the next four */
	uint8_t *packed;
	uint32_t packed_len;
	kv_u128 digest;  /* 0: none */
	bool draining;   /* as announced; the control loop's copy of `drains` */
	uint64_t number; /* of changes so far */
	_Atomic bool drains;
	struct kv_view next; /* under the server's lock, with its packed form: to be taken by the control loop */
	uint8_t *next_packed;
	uint32_t next_packed_len;
	kv_u128 next_digest;
	bool next_lacked; /* a view since the last one taken lacked this server */
};

/* views_announced -- the announcement: the view, and whether the server drains. */
static inline struct wire_view_news views_announced(const struct views *v)
{
	return (struct wire_view_news){v->now.source, v->now.epoch, v->digest, v->draining};
}

/* view_answer_await -- the client of a connection asked for the view and has one with this digest. 0, or why the
 * connection ends. From then on it hears of changes (conn.c). */
int view_answer_await(struct conn *c, kv_u128 digest);

/* view_fini -- free the rest of kvs_server_view_set. No loop runs any more. */
void view_fini(struct kvs_server *s);

#endif
