/* SPDX-License-Identifier: Apache-2.0 */
/* places.h -- the places of each tenant among a server's clients: its connections, attachments and sessions. Control
 * loop only, except places_read. */
#ifndef KVRAIL_KVSERVER_TENANT_PLACES_H
#define KVRAIL_KVSERVER_TENANT_PLACES_H

#include <pthread.h>
#include <stdatomic.h>

#include "kvserver/tenant/tenants.h"

enum place_kind {
	PLACE_CONN,       /* a connection */
	PLACE_ATTACHMENT, /* an attachment: it may outlive its connection while it has transfers in flight */
	PLACE_SESSION,    /* a session: each connection has one, and perhaps further ones */
	PLACE_KINDS
};

/* Those of a tenant. It stays while anything refers to it. */
struct tenant_places {
	struct kv_list node;
	char name[KV_SPACE_MAX + 1];
	bool listed; /* in the present table */
	uint64_t sessions_max;
	_Atomic uint64_t taken[PLACE_KINDS], refused;
};

struct places {
	pthread_mutex_t lock; /* of the list, for places_read */
	struct kv_list all;   /* in the order of the table; then those of former ones */
	unsigned listed;
};

/* places_init -- of no tenant. places_fini -- all places are free. */
void places_init(struct places *p);
void places_fini(struct places *p);

/* places_follow -- the tenants are those of this table. 0, or -KV_ENOMEM: nothing has changed. */
int places_follow(struct places *p, const struct tenants *table);

/* places_find -- by the tenant's name; NULL: it is not in the present table. */
struct tenant_places *places_find(const struct places *p, const char *tenant);

/* places_left -- whether a tenant may take one more of `limit` places, of which `open` are taken by all. Half of them
 * are kept for the tenants in equal parts; the others are for whoever comes first. */
bool places_left(const struct places *p, const struct tenant_places *t, enum place_kind kind, uint64_t open,
		 uint64_t limit);

/* places_take, places_give -- one place more, or less. t may be NULL: without tenants. */
void places_take(struct tenant_places *t, enum place_kind kind);
void places_give(struct places *p, struct tenant_places *t, enum place_kind kind);

struct place_row {
	char name[KV_SPACE_MAX + 1];
	uint64_t sessions, refused;
};

/* places_read -- the first tenants of the present table, `max` at most, and in *rest the sum of all others. Returns how
 * many. Any thread. */
unsigned places_read(struct places *p, struct place_row *out, unsigned max, struct place_row *rest);

#endif
