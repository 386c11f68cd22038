/* SPDX-License-Identifier: Apache-2.0 */
/* route.h -- which servers a call about one key asks: the first one, the next ones, and what their answers are to the
 * caller. Private to kvclient/. On the client's loop; none parks.
 *
 *   route_begin -> ask r->n -> its code -> route_next: true -> ask r->n again
 *                                                      false -> route_code -> the caller's code
 *
 * To ask the same server again, after a pause, is the call's own matter (kvc_call_next_await). */
#ifndef KVRAIL_KVCLIENT_ROUTE_ROUTE_H
#define KVRAIL_KVCLIENT_ROUTE_ROUTE_H

#include "kvclient/core/client.h"

/* Which servers a route has. Of each kind, a server that is lost is replaced by the one that stands in for it. */
enum route_kind {
	ROUTE_READ,   /* the value: one of its key's servers, after a miss the other one, then former servers */
	ROUTE_LOOK,   /* the same, and the first copy is asked first */
	ROUTE_ONE,    /* the key's server: PUT, PIN */
	ROUTE_DELETE, /* every server that may have the value or a pin of it */
	ROUTE_TOUCH,  /* every server that may have the value */
	ROUTE_FIXED   /* one server, which the caller sets, and no other */
};

/* In `tries`: a checksum was wrong before. */
enum { KVC_TRIED_CORRUPT = 1 << 30 };

struct route {
	struct kvc_client *c;
	struct kvc_key key;
	struct kvc_node *n; /* the server to ask */
	uint64_t deadline_ns;
	uint64_t deleted_ns; /* a server said that the key was deleted then, or earlier; 0: none did */
	enum route_kind kind;
	unsigned tries; /* of kvc_call_again_await */
	uint8_t former; /* former servers that were asked; n is the last of them */
	bool twice;     /* the value is kept at two servers */
	bool other;     /* one of the two missed it, and the other one was asked */
	int said;       /* ROUTE_DELETE, ROUTE_TOUCH: the code of all servers together */
	/* ROUTE_DELETE, ROUTE_TOUCH: servers that have answered. The caller's, empty at first. */
	struct kvc_place_set *told;
};

/* route_begin -- fill *r; r->n is the first server to ask. flags: the call's. The caller sets r->n of ROUTE_FIXED, and
 * r->told of the kinds that have it. */
void route_begin(struct route *r, struct kvc_client *c, struct kvc_key key, enum route_kind kind, unsigned flags,
		 uint64_t deadline_ns);

/* route_next -- r->n ended with rc: whether another server is to be asked, which is r->n then.
 * route_deleted -- r->n said that the key was deleted age_ns ago: only values that were put since are asked for.
 * route_code -- no other server is asked; the last one ended with rc: the code of the call. A value that was found at
 * another server than its own is copied there in the background. */
bool route_next(struct route *r, int64_t rc);
void route_deleted(struct route *r, uint64_t age_ns);
int64_t route_code(const struct route *r, int64_t rc);

/* How far the route of a batch's item is, which has no struct route while it waits to be made again. */
enum route_mark {
	ROUTE_FRESH,   /* not asked for yet */
	ROUTE_AGAIN,   /* to be asked for again, as if it was fresh ... */
	ROUTE_CORRUPT, /* ... after a wrong checksum: the server shall look at its memory; another wrong one is final */
	ROUTE_AT_FIRST,  /* the second server missed it: the first one is next */
	ROUTE_AT_SECOND, /* the other way round */
	ROUTE_AT_FORMER, /* both missed it: the first former server is next */
	ROUTE_MARK_BITS = 3
};

/* route_mark -- the mark of a route that goes on. route_resume -- after route_begin: go on at a mark. moved: the view
 * has changed since, so which one of two servers was asked is unknown. */
enum route_mark route_mark(const struct route *r);
void route_resume(struct route *r, enum route_mark mark, bool moved);

/* route_step -- for a walk over many keys, which asks all their servers at once: the server to ask after `step` misses
 * of the key, or NULL. step: from 1 (twice: or 0) to route_steps. (Step 0 is the second server of a value.) */
struct kvc_node *route_step(struct kvc_client *c, struct kvc_key key, bool twice, unsigned step);
unsigned route_steps(const struct kvc_client *c);

#endif
