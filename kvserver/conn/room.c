/* SPDX-License-Identifier: Apache-2.0 */
/* room.c -- whether a tenant may have one more session: its own limit, and the places that are kept for others
 * (tenant/places.c). A refusal is logged and counted. */
#include "kvserver/conn/conn.h"
#include "kvserver/conn/rights.h"

static int room_refuse(const struct conn *c, const char *identity, const struct grant *g, struct tenant_places *t,
		       const struct kv_error *err)
{
	atomic_fetch_add_explicit(&t->refused, 1, memory_order_relaxed);
	grant_refused(c, identity, g->space, err->text, WIRE_STAT_OVER_QUOTA);
	return -KV_EFULL;
}

static bool room_left(const struct kvs_server *s, const struct tenant_places *t, bool conn)
{
	const struct clients *all = &s->clients;
	uint64_t conns = KV_MIN((unsigned)all->limit.clients, all->max);
	return places_left(&s->places, t, PLACE_SESSION, all->open, s->opt.max_clients) &&
	       (!conn || places_left(&s->places, t, PLACE_CONN, all->count, conns));
}

int grant_room(const struct conn *c, const char *identity, const struct grant *g, bool conn, struct kv_error *err)
{
	const struct kvs_server *s = c->server;
	struct tenant_places *t = places_find(&s->places, g->tenant);
	unsigned long long has = t ? t->taken[PLACE_SESSION] : 0;
	if (!t)
		return 0;
	if (has >= t->sessions_max) {
		kv_fail(err, -KV_EFULL, "tenant \"%s\" has %llu session%s at this server, as many as its sessions_max",
			t->name, has, has == 1 ? "" : "s");
		return room_refuse(c, identity, g, t, err);
	}
	if (g->reads_all || room_left(s, t, conn))
		return 0;
	kv_fail(err, -KV_EFULL,
		"tenant \"%s\" has %llu session%s, and the server keeps its last places for other tenants; it has more "
		"with a higher --max-clients",
		t->name, has, has == 1 ? "" : "s");
	return room_refuse(c, identity, g, t, err);
}
