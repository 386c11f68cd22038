/* SPDX-License-Identifier: Apache-2.0 */
/* tenant.h -- the tenants of a shard: who is charged for blocks, whose blocks are evicted. */
#ifndef KVRAIL_STORE_TENANT_H
#define KVRAIL_STORE_TENANT_H

#include "base/base.h"
#include "store/evict.h"
#include "store/space.h"

struct block;
struct store;

enum { STORE_TENANTS_MAX = 512 }; /* of the table, and those that still have blocks of a former one */

/* Memory that evictions leave: of values pinned by a tenant's sessions, or put by them and not whole yet; both. */
enum tenant_kept { KEPT_PINS, KEPT_STAGES, KEPT_ALL, KEPT_KINDS };

/* kept_part -- how much of a shard's memory all pins, all stages, or both together may keep. kept_own -- how much of it
 * other tenants' pins and stages leave to a tenant with this share. Stages pass, so half of them is for whoever comes
 * first. Both together have as much as pins alone. Leases belong to no tenant and may leave less (shard_keep_left). */
static inline uint64_t kept_part(enum tenant_kept kind, uint64_t memory)
{
	static const uint8_t eighths[] = {[KEPT_PINS] = 4, [KEPT_STAGES] = 6, [KEPT_ALL] = 7};
	return memory / 8 * eighths[kind];
}

static inline uint64_t kept_own(enum tenant_kept kind, uint64_t share)
{
	static const uint8_t eighths[] = {[KEPT_PINS] = 4, [KEPT_STAGES] = 3, [KEPT_ALL] = 4};
	return share / 8 * eighths[kind];
}

/* The parts of a tenant's limits that this shard keeps by itself; UINT64_MAX: none. */
struct tenant_part {
	uint64_t share, cap; /* bytes charged */
	uint64_t tier;       /* bytes charged for values on the tier */
	uint64_t pins, requests, read_rate;
};

/* A tenant of one shard. It stays while anything refers to it. */
struct tenant {
	char name[KV_SPACE_MAX + 1]; /* "": of all namespaces without an owner, always there */
	bool listed;                 /* in the present table */
	unsigned place;              /* in tenancy.at */
	struct evict evict;          /* of its blocks; of "": store.evict is used instead */
	struct tenant_part limit;
	uint64_t bytes;                    /* charged for its blocks in every state, from the stage on: store_charge */
	uint64_t tier_bytes, tier_charged; /* its values on the tier; each at least with its part of the index */
	uint64_t kept[KEPT_KINDS];         /* by its sessions; each pin by itself, and by store_charge */
	uint64_t spaces, users;            /* namespaces that it is charged for; sessions */
	uint64_t active;                   /* unanswered requests of its sessions that outlive their frames */
	uint64_t tier_gets;                /* GETs of its sessions that wait for the tier */
	uint64_t read_free_ns;             /* until then its sessions have read more than read_rate */
	/* Counters: evictions of its blocks; requests and values beyond a limit; bytes that its sessions read. */
	uint64_t evicted, denied, read_bytes;
};

struct tenancy {
	struct tenant none; /* at[0] */
	struct tenant *at[STORE_TENANTS_MAX];
	int64_t excess[STORE_TENANTS_MAX];   /* bytes - limit.share, in the order of `at` */
	uint64_t shares, beyond[KEPT_KINDS]; /* the sum of limit.share; what tenants keep beyond their kept_own */
	unsigned count;
	bool trims;      /* some have more than their caps (tenancy_step) */
	unsigned moving; /* namespaces that wait for another tenant: they still have blocks */
	/* owner -- the name of the tenant that is charged for a namespace; NULL: none. */
	const char *(*owner)(void *arg, const char *space);
	void *owner_arg;
};

/* tenancy_init -- with "" alone. tenancy_fini -- the store has no blocks any more. */
void tenancy_init(struct store *s);
void tenancy_fini(struct store *s);

/* tenant_find -- by name, or NULL. tenant_set -- a tenant of the table: it may begin now. 0, -KV_ENOMEM, or -KV_EFULL.
 * tenancy_begin -- another table follows, and no tenant is listed before tenant_set; blocks of namespaces without an
 * owner are dropped from now on. tenancy_end -- the table is complete: namespaces get their owners. Where one has
 * another owner than before, and blocks, these are dropped as by a clear, and it moves when the last one is freed. */
struct tenant *tenant_find(const struct store *s, const char *name);
int tenant_set(struct store *s, const char *name, const struct tenant_part *limit);
void tenancy_begin(struct store *s, const char *(*owner)(void *arg, const char *space), void *arg);
void tenancy_end(struct store *s, uint64_t now_ns);

/* tenancy_space_take -- the space of a valid name, for a session: as space_take. A tenant has an equal part of the
 * places: if it has so many spaces, another one takes the place of one that it does not use, or is -KV_EFULL. */
int tenancy_space_take(struct store *s, const char *name, uint64_t now_ns, struct space **out);

/* tenancy_step -- evict of tenants that have more than their caps, `budget` blocks at most; move namespaces; forget
 * unused tenants. Returns whether there is more to evict. */
bool tenancy_step(struct store *s, unsigned budget);

/* tenant_of_space -- the tenant of a namespace that begins. */
struct tenant *tenant_of_space(struct store *s, const char *space);

/* tenant_trim -- evict blocks of the tenant until `size` more bytes are within its cap. As tenant_charge. */
int tenant_trim(struct store *s, struct tenant *t, uint64_t size, unsigned *budget);

/* tenant_excess -- bytes or share have changed. */
static inline void tenant_excess(struct tenancy *y, const struct tenant *t)
{
	y->excess[t->place] = (int64_t)(t->bytes - t->limit.share);
}

/* tenant_charge -- the tenant of the present namespace has these bytes, if its cap allows it; evicts its own blocks for
 * that, and lowers *budget. 0; -EAGAIN: the budget is spent; -KV_ENOMEM: none of its blocks may go. tenant_fits
 * -- whether the cap allows it at once. tenant_add, tenant_sub -- charge, or give back, without a condition. */
int tenant_charge(struct store *s, struct tenant *t, uint64_t size, unsigned *budget);
static inline bool tenant_fits(const struct tenant *t, uint64_t size)
{
	return t->bytes <= t->limit.cap && size <= t->limit.cap - t->bytes;
}

/* tenant_may_keep -- whether the tenant may keep `more` bytes: within kept_own, or of the rest, which no tenant has for
 * itself. tenant_keep -- it does. tenant_release -- it does no longer. tenant_share -- it has another share. */
bool tenant_may_keep(const struct store *s, const struct tenant *t, enum tenant_kept kind, uint64_t more);
void tenant_keep(struct tenancy *y, struct tenant *t, enum tenant_kept kind, uint64_t bytes);
void tenant_release(struct tenancy *y, struct tenant *t, enum tenant_kept kind, uint64_t bytes);
void tenant_share(struct tenancy *y, struct tenant *t, uint64_t share);

void tenant_add(struct store *s, struct tenant *t, uint64_t size);
void tenant_sub(struct store *s, struct tenant *t, uint64_t size);

/* tenant_tier_add, tenant_tier_sub -- values of the namespace are on the tier, or not any more. charge: with which they
 * count for the cap. tenant_tier_forget -- none of its former values counts. */
static inline void tenant_tier_add(struct space *sp, uint64_t bytes, uint64_t charge)
{
	sp->tier_bytes += bytes;
	sp->tier_charged += charge;
	sp->tenant->tier_bytes += bytes;
	sp->tenant->tier_charged += charge;
}

static inline void tenant_tier_sub(struct space *sp, uint64_t bytes, uint64_t charge)
{
	bytes = KV_MIN(bytes, sp->tier_bytes); /* the last bits of its generation may repeat (tier_item.age) */
	charge = KV_MIN(charge, sp->tier_charged);
	sp->tier_bytes -= bytes;
	sp->tier_charged -= charge;
	sp->tenant->tier_bytes -= bytes;
	sp->tenant->tier_charged -= charge;
}

static inline void tenant_tier_forget(struct space *sp)
{
	tenant_tier_sub(sp, sp->tier_bytes, sp->tier_charged);
}

/* store_victim -- the next block to be evicted for a value of this tenant: of the tenant furthest above its share;
 * where none is above, of `t` itself, and if `t` is within its share, else of the one closest to its share. NULL: no
 * block may go. store_may_evict -- whether a block may be evicted out of turn for a value of this tenant: it is its
 * own, or of a tenant above its share. */
struct evict_node *store_victim(struct store *s, const struct tenant *t);
bool store_may_evict(const struct store *s, const struct tenant *t, const struct block *b);

#endif
