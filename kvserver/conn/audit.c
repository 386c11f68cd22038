/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c -- the log of sessions by their tenants, and the sessions after another table.
 *
 * A session whose rights have changed begins anew, as after a reset of its shard: its client says HELLO again. Further
 * sessions end with their connection's attachment, so all are renewed as soon as one of them may have changed. */
#include "kvserver/conn/conn.h"
#include "kvserver/conn/rights.h"

void grant_audit(const struct conn *c, const char *identity, const struct grant *g)
{
	char name[KV_HOST_MAX];
	const char *who = identity && identity[0] ? identity : boot_peer_who(c->boot);
	if (c->server->keys.tenants && audit_allowed(c->server))
		kv_event(c->server->opt.log, KV_LOG_INFO,
			 KV_EVENT("audit_session", KV_FIELD("client", name), KV_FIELD("identity", who),
				  KV_FIELD("tenant", g->tenant), KV_FIELD("namespace", g->space),
				  KV_NUMBER("rights", g->rights)),
			 "audit: client %s (%s) of tenant \"%s\" has a session in namespace \"%s\"%s",
			 conn_name(c, name, sizeof(name)), who, g->tenant, g->space,
			 g->rights ? "" : ", where it has no rights");
}

void grant_refused(const struct conn *c, const char *identity, const char *space, const char *reason,
		   enum wire_stat count)
{
	char name[KV_HOST_MAX];
	const char *who = identity && identity[0] ? identity : boot_peer_who(c->boot);
	control_count(c->server, count);
	if (log_allowed(c->server))
		kv_event(c->server->opt.log, KV_LOG_WARN,
			 KV_EVENT("audit_refused", KV_FIELD("client", name), KV_FIELD("identity", who),
				  KV_FIELD("namespace", space), KV_FIELD("reason", reason)),
			 "audit: client %s (%s) is refused a session in namespace \"%.64s\": %s",
			 conn_name(c, name, sizeof(name)), who, space, reason);
}

/* ---- another table ---- */

static bool changed(const struct conn *c)
{
	const struct attachment *a = c->now;
	struct grant g;
	if (a->further.count)
		return true;
	return grant_find(c->server, boot_peer_names(c->boot), a->own.space, 0, &g) != 0 || g.rights != a->own.rights ||
	       g.reads_all != a->own.reads_all || strcmp(g.tenant, a->own.tenant) != 0;
}

void grants_renew(struct kvs_server *s, struct tenants **fresh)
{
	unsigned cut = 0, anew = 0;
	if (places_follow(&s->places, *fresh)) {
		kv_event(s->opt.log, KV_LOG_ERROR, KV_EVENT("tenants_failed"),
			 "no memory for the new tenants; the former ones stay in force until SIGHUP");
		tenants_unref(fresh);
		return;
	}
	tenants_unref(&s->keys.tenants);
	s->keys.tenants = *fresh;
	*fresh = NULL;
	tenants_order(&s->tenant_orders, s->keys.tenants);
	KV_LIST_EACH (n, &s->clients.conns) {
		struct conn *c = KV_LIST_ENTRY(n, struct conn, node);
		if (!c->now || c->closing)
			continue;
		if (!tenants_find(s->keys.tenants, boot_peer_names(c->boot))) {
			grant_refused(c, NULL, c->now->own.space, "its identity is not in --tenants any more",
				      WIRE_STAT_IDENTITIES_REFUSED);
			conn_cut(c);
			cut++;
		} else if (changed(c)) {
			conn_anew(c);
			anew++;
		}
	}
	kv_event(s->opt.log, KV_LOG_INFO, KV_EVENT("tenants_read", KV_NUMBER("cut", cut), KV_NUMBER("anew", anew)),
		 "the tenants were reread: %u %s cut, and %u must begin anew", cut,
		 cut == 1 ? "client was" : "clients were", anew);
}
