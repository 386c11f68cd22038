/* SPDX-License-Identifier: Apache-2.0 */
/* route.c -- the walk of a call from server to server; owner.c, second.c and former.c give a key's servers.
 *
 * READ and LOOK: the first; after a miss the other of two, then at most KC_FORMERS_ASKED former ones. DELETE and TOUCH:
 * the first; after success or a miss every other that may have the value. Except for FIXED, a stand-in replaces a lost
 * server.
 *
 * A reported deletion is a miss: another server may have a later value. If a server asked after a miss fails, that
 * counts as a miss. */
#include "kvclient/route/route.h"

#include "kvclient/core/placement.h"
#include "kvclient/logical/pins.h"
#include "kvclient/route/former.h"
#include "kvclient/route/hot.h"
#include "kvclient/route/owner.h"
#include "kvclient/route/repair.h"
#include "kvclient/route/second.h"

void route_begin(struct route *r, struct kvc_client *c, struct kvc_key key, enum route_kind kind, unsigned flags,
		 uint64_t deadline_ns)
{
	*r = (struct route){.c = c, .key = key, .kind = kind, .deadline_ns = deadline_ns};
	if (kind == ROUTE_READ)
		r->twice = route_twice(c, flags, key);
	else if (kind != ROUTE_ONE)
		r->twice = route_two_places(c, flags);
	r->n = kind == ROUTE_READ ? route_read_first(c, flags, key) : route_first(c, key);
}

/* ---- after a miss ---- */

/* The other of two servers, once. If r->n is neither now, both may be left. */
static bool other_next(struct route *r)
{
	struct kc_node *next = r->twice && !r->other && r->former == 0 ? route_other(r->c, r->key, r->n) : NULL;
	if (!next)
		return false;
	r->other = route_of_two(r->c, r->key, r->n);
	r->n = next;
	return true;
}

static bool former_next(struct route *r)
{
	struct kc_node *next = NULL;
	if (KV_LIKELY(!route_formers(r->c)))
		return false;
	while (r->former < KC_FORMERS_ASKED && (next = route_former(r->c, r->key, r->twice, r->former)) == r->n)
		r->former++; /* asked before the view changed */
	if (!next || r->former == KC_FORMERS_ASKED)
		return false;
	r->former++;
	r->n = next;
	return true;
}

/* ---- every server ---- */

static bool answered(int rc)
{
	return rc == 0 || rc == -KV_ENOTFOUND;
}

/* Add an answer. A miss or loss of a later server is ignored; the first failure stays, since a GET and a repair could
 * restore the value from that server. */
static void answer_add(struct route *r, int rc)
{
	if (r->kind == ROUTE_DELETE && answered(rc))
		kc_pins_deleted(r->n, r->key);
	if (r->told->count == 0)
		r->said = rc;
	else if (rc != -KV_ENOTFOUND && rc != -KV_EPEERDOWN && rc != -KV_ELEFT && answered(r->said))
		r->said = rc;
}

/* A server with a pin of the key; a lost one has no pins. */
static struct kc_node *pin_next(struct route *r)
{
	struct kc_node *n;
	while ((n = kc_pin_elsewhere(r->c, r->key, r->told)) != NULL) {
		kc_place_set_put(r->told, n->index, true);
		if (n->state != KC_NODE_DOWN)
			return n;
	}
	return NULL;
}

/* Fast check for the usual case: no other server can have the value. */
static bool no_other(const struct route *r)
{
	struct kvc_client *c = r->c;
	return !r->twice && !route_formers(c) && !route_absent(c, r->key) && !kc_pins_any(c) &&
	       route_first(c, r->key) == r->n;
}

static bool every_next(struct route *r, int rc)
{
	struct kc_node *next;
	if (r->told->count == 0 && route_moved(&r->n, r->key, rc, r->deadline_ns))
		return true;
	answer_add(r, rc);
	if (r->told->count == 0 && (!answered(rc) || no_other(r)))
		return false;
	kc_place_set_put(r->told, r->n->index, true);
	next = route_every(r->c, r->key, r->twice, r->told);
	if (!next && r->kind == ROUTE_DELETE)
		next = pin_next(r);
	if (next)
		r->n = next;
	return next;
}

/* ---- the walk ---- */

bool route_next(struct route *r, int64_t rc)
{
	rc = rc == -KV_EDELETED ? -KV_ENOTFOUND : rc;
	switch (r->kind) {
	case ROUTE_READ:
	case ROUTE_LOOK:
		if (rc == -KV_ENOTFOUND && (other_next(r) || former_next(r)))
			return true;
		break;
	case ROUTE_DELETE:
	case ROUTE_TOUCH:
		return every_next(r, (int)rc);
	case ROUTE_FIXED:
		return false;
	case ROUTE_ONE:
		break;
	}
	return route_moved(&r->n, r->key, rc, r->deadline_ns);
}

/* A second server gives no reason to doubt the first one, where every PUT goes: its copy may be late. */
void route_deleted(struct route *r, uint64_t age_ns)
{
	uint64_t now_ns = loop_now(r->c->loop);
	if (r->kind == ROUTE_READ && r->former == 0 && r->n != route_first(r->c, r->key))
		return;
	r->deleted_ns = KV_MAX(r->deleted_ns, now_ns > age_ns ? now_ns - age_ns : 1);
}

/* ---- the end ---- */

/* The code of a server asked after a miss. */
static int64_t later_code(int64_t rc)
{
	switch (rc) {
	case -KV_ETIMEOUT:
	case -KV_EPEERDOWN:
	case -KV_ELEFT:
	case -KV_EBUSY:
	case -KV_EPROVIDER:
	case -KV_EDENIED:
		return -KV_ENOTFOUND;
	default:
		return rc;
	}
}

/* The other server missed the value: copy it there. */
static void other_mend(const struct route *r)
{
	const struct kc_node *to = route_other(r->c, r->key, r->n);
	kc_add(&r->c->count.second_hits, 1);
	if (!to || to->state != KC_NODE_UP)
		return;
	repair_ready(r->c);
	repair_note(r->c, r->key, r->n, to);
}

int64_t route_code(const struct route *r, int64_t rc)
{
	bool former = r->former > 0;
	if (KV_UNLIKELY(r->told != NULL))
		return r->said;
	if (KV_LIKELY(!former && !r->other))
		return rc;
	if (former || r->n != route_first(r->c, r->key))
		rc = later_code(rc);
	if (r->kind != ROUTE_READ)
		return rc;
	if (rc >= 0 && former) {
		kc_add(&r->c->count.settle_hits, 1);
		repair_note(r->c, r->key, r->n, NULL);
	} else if (rc >= 0) {
		other_mend(r);
	} else if (rc == -KV_ENOTFOUND && former) {
		kc_add(&r->c->count.settle_misses, 1);
	}
	return rc;
}

/* ---- items of batches ---- */

enum route_mark route_mark(const struct route *r)
{
	if (r->tries & KC_TRIED_CORRUPT)
		return ROUTE_CORRUPT;
	if (r->deleted_ns) /* marks have no time: begin again */
		return ROUTE_AGAIN;
	if (r->former)
		return ROUTE_AT_FORMER;
	if (!r->other)
		return ROUTE_AGAIN;
	return r->n == route_first(r->c, r->key) ? ROUTE_AT_FIRST : ROUTE_AT_SECOND;
}

void route_resume(struct route *r, enum route_mark mark, bool moved)
{
	struct kc_node *n;
	if (mark == ROUTE_CORRUPT)
		r->tries |= KC_TRIED_CORRUPT;
	if (mark < ROUTE_AT_FIRST || (moved && mark != ROUTE_AT_FORMER))
		return;
	r->other = r->twice;
	if (mark == ROUTE_AT_FORMER)
		n = route_former(r->c, r->key, r->twice, 0);
	else
		n = mark == ROUTE_AT_SECOND ? route_second(r->c, r->key) : route_first(r->c, r->key);
	if (!n)
		return;
	r->n = n;
	r->former = mark == ROUTE_AT_FORMER;
}

/* ---- many keys at once ---- */

struct kc_node *route_step(struct kvc_client *c, struct kvc_key key, bool twice, unsigned step)
{
	if (step > 0)
		return route_former(c, key, twice, step - 1);
	return twice ? route_other(c, key, route_first(c, key)) : NULL;
}

unsigned route_steps(const struct kvc_client *c)
{
	return route_formers(c) ? KC_FORMERS_ASKED : 0;
}
