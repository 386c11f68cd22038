/* SPDX-License-Identifier: Apache-2.0 */
/* route.h -- the servers that a call about one key asks in turn, and the code of their answers. Private to kvclient/.
 * On the client's loop; none parks.
 *
 * route_begin, then ask r->n until route_next is false; route_code gives the caller's code. kc_call_next_await repeats
 * requests to the same server after a pause. */
#ifndef KVRAIL_KVCLIENT_ROUTE_ROUTE_H
#define KVRAIL_KVCLIENT_ROUTE_ROUTE_H

#include "kvclient/core/client.h"

/* The servers of a route. A stand-in replaces a lost server. */
enum route_kind {
	ROUTE_READ,   /* one of the key's servers, after a miss the other one, then former ones */
	ROUTE_LOOK,   /* the same, beginning with the first copy */
	ROUTE_ONE,    /* the key's server: PUT, PIN */
	ROUTE_DELETE, /* every server that may have the value or its pin */
	ROUTE_TOUCH,  /* every server that may have the value */
	ROUTE_FIXED   /* one server, set by the caller */
};

/* In `tries`: a checksum was wrong before. */
enum { KC_TRIED_CORRUPT = 1 << 30 };

struct route {
	struct kvc_client *c;
	struct kvc_key key;
	struct kc_node *n; /* the server to ask */
	uint64_t deadline_ns;
	uint64_t deleted_ns; /* upper bound of a reported deletion time; 0: none */
	enum route_kind kind;
	unsigned tries;
	uint8_t former; /* former servers asked; n is the last */
	bool twice;     /* kept at two servers */
	bool other;     /* one of the two missed, and the other was asked */
	int said;       /* ROUTE_DELETE, ROUTE_TOUCH: the code of all servers */
	/* ROUTE_DELETE, ROUTE_TOUCH: servers that answered. The caller's, empty at first. */
	struct kc_place_set *told;
};

/* route_begin -- fill *r; r->n is the first server to ask. flags: the call's. The caller sets r->n of ROUTE_FIXED, and
 * r->told of DELETE and TOUCH. */
void route_begin(struct route *r, struct kvc_client *c, struct kvc_key key, enum route_kind kind, unsigned flags,
		 uint64_t deadline_ns);

/* route_next -- r->n ended with rc: whether to ask again, at the new r->n. route_deleted -- r->n reports a deletion
 * age_ns ago: only later values count. route_code -- the call's code, after the last server ended with rc; a value
 * found elsewhere is copied to its server in the background. */
bool route_next(struct route *r, int64_t rc);
void route_deleted(struct route *r, uint64_t age_ns);
int64_t route_code(const struct route *r, int64_t rc);

/* The state of a batch item's route between passes. */
enum route_mark {
	ROUTE_FRESH,     /* not asked yet */
	ROUTE_AGAIN,     /* ask again from the beginning ... */
	ROUTE_CORRUPT,   /* ... after a wrong checksum: the server checks its memory; another wrong one is final */
	ROUTE_AT_FIRST,  /* the second server missed: ask the first */
	ROUTE_AT_SECOND, /* the first server missed: ask the second */
	ROUTE_AT_FORMER, /* both missed: ask the first former server */
	ROUTE_MARK_BITS = 3
};

/* route_mark -- the mark of a pending route. route_resume -- after route_begin: continue at a mark. moved: the view has
 * changed, so the asked one of two servers is unknown. */
enum route_mark route_mark(const struct route *r);
void route_resume(struct route *r, enum route_mark mark, bool moved);

/* route_step -- for many keys at once: the server to ask after `step` misses, or NULL. step: from 1 (twice: from 0, the
 * second server) to route_steps. */
struct kc_node *route_step(struct kvc_client *c, struct kvc_key key, bool twice, unsigned step);
unsigned route_steps(const struct kvc_client *c);

#endif
