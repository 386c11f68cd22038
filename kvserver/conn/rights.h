/* SPDX-License-Identifier: Apache-2.0 */
/* rights.h -- the rights of a client's sessions, by its identity (--tenants). Control loop only; nothing parks. */
#ifndef KVRAIL_KVSERVER_CONN_RIGHTS_H
#define KVRAIL_KVSERVER_CONN_RIGHTS_H

#include "kvserver/shard/session.h"

struct conn;
struct kvs_server;
struct tenants;

#define GRANT_UNKNOWN                                                                                                  \
	"the server's --tenants does not list the client's identity: add it there, and send the server SIGHUP"

/* grant_find -- the rights of an identity (boot_peer_names) in a namespace. generation: to which the client has cleared
 * it; without the right to clear it counts as 0. Without --tenants: all rights. 0, or -KV_EDENIED: unknown identity. */
int grant_find(const struct kvs_server *s, const char *names, const char *space, uint64_t generation,
	       struct grant *out);

/* grant_names -- the names of an identity that a further session has proved; "": those of its connection. */
const char *grant_names(const struct conn *c, const char *identity, char *buf, size_t cap);

/* grant_reads -- whether the client of this connection may read a namespace; len: of its name, without an end. */
bool grant_reads(const struct conn *c, const void *space, size_t len);

/* grant_audit -- with --tenants: log a session that begins. grant_refused -- ... or one that does not, and count it.
 * identity: of a further session; or NULL. */
void grant_audit(const struct conn *c, const char *identity, const struct grant *g);
void grant_refused(const struct conn *c, const char *identity, const char *space, const char *reason,
		   enum wire_stat count);

/* grant_room -- whether the tenant may have one more session: within its sessions_max, and without the places that are
 * kept for others. conn: with a connection of its own. 0, or -KV_EFULL, which is logged and counted. */
int grant_room(const struct conn *c, const char *identity, const struct grant *g, bool conn, struct kv_error *err);

/* grants_renew -- the server has another table: clients whose rights have changed begin anew, and those of no tenant
 * are cut. *fresh becomes NULL. */
void grants_renew(struct kvs_server *s, struct tenants **fresh);

#endif
