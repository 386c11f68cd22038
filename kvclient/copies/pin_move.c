/* SPDX-License-Identifier: Apache-2.0 */
/* pin_move.c -- pins follow their keys.
 *
 * After a view, or when a server is up, one coroutine looks at all pins, LOOK_STEP in a turn. A pin at its key's server
 * or stand-in stays; if the key's server is not up, it moves later. Else PIN there, then UNPIN at the former one.
 * Without a value there, the repair coroutine copies it, known to DELETE and TOUCH, and PIN is repeated; after a few
 * failures the pin is lost. */
#include "kvclient/copies/copies.h"

#include <errno.h>

#include "kvclient/core/placement.h"
#include "kvclient/core/waits.h"
#include "kvclient/logical/pins.h"
#include "kvclient/route/owner.h"
#include "kvclient/route/repair.h"
#include "kvclient/transfer/ask.h"
#include "kvclient/transfer/call.h"

enum { LOOK_STEP = 64 };

/* ---- copies ---- */

/* In the background, by the repair coroutine; over, with or without success, on return. */
static void copied_await(struct kvc_client *c, struct kvc_key key, const struct kc_node *from)
{
	repair_ready(c);
	repair_note(c, key, from, NULL);
	while (repair_waits(c, key) && repair_wait_await(c, KV_NEVER) == 0)
		;
}

static bool has_await(struct kc_node *n, struct kvc_key key, uint64_t deadline_ns, struct kc_trace *t)
{
	uint64_t left_ms;
	return kc_left_await(n, key, deadline_ns, &left_ms, t) == 0;
}

/* NULL: none. */
static struct kc_node *holder_await(struct kc_node *n, struct kvc_key key, bool twice, uint64_t deadline_ns,
				    struct kc_trace *t)
{
	struct route r;
	route_begin(&r, n->client, key, ROUTE_LOOK, 0, deadline_ns);
	r.n = n;
	r.twice = twice;
	while (route_next(&r, -KV_ENOTFOUND))
		if (has_await(r.n, key, deadline_ns, t))
			return r.n;
	return NULL;
}

int kc_pin_bring_await(struct kc_node *n, struct kvc_key key, bool twice, uint64_t deadline_ns, struct kc_trace *t)
{
	struct kvc_client *c = n->client;
	struct kc_node *from = holder_await(n, key, twice, deadline_ns, t);
	bool noted = false;
	int rc = 0;
	if (!from)
		return -KV_ENOTFOUND;
	repair_ready(c);
	if (!c->repairs)
		return -KV_ENOTFOUND;
	do {
		if (!noted && (repair_waits(c, key) || repair_room(c))) {
			repair_note(c, key, from, twice ? route_first(c, key) : NULL);
			noted = true;
		}
		if (noted && !repair_waits(c, key))
			return 0;
		rc = repair_wait_await(c, deadline_ns);
	} while (rc == 0);
	return rc;
}

/* ---- moving ---- */

static struct kc_node *home_of(struct kvc_client *c, struct kvc_key key)
{
	const struct kc_place_set *draining = &c->cluster.draining;
	struct kc_node *n = route_owner(c, key);
	return kc_place_set_has(draining, n->index)
		       ? &c->node[kc_place_among(c->placement, key.data, key.len, draining)]
		       : n;
}

/* Whether the pin stays for now. After a server's return its next attachment pins again. */
static bool stays(struct kvc_client *c, const struct kc_pin_name *name, struct kvc_key key, const struct kc_node *home)
{
	return name->at == home || name->at == route_first(c, key) || name->at->state != KC_NODE_UP ||
	       kc_place_set_has(&c->cluster.draining, home->index);
}

static bool gone_await(const struct kc_pin_name *name, struct kvc_key key)
{
	struct kvc_client *c = name->at->client;
	uint64_t left_ms, deadline_ns = kv_deadline(loop_now(c->loop), c->pool->options.timeout_ns);
	struct kc_trace t;
	kc_trace_own(&t, KVC_OP_PIN, NULL, true);
	return kc_left_await(name->at, key, deadline_ns, &left_ms, &t) == -KV_ENOTFOUND;
}

static void one_await(struct kvc_client *c, const struct kc_pin_name *name)
{
	struct kvc_key key = {name->key, name->len};
	struct kc_node *home = home_of(c, key);
	bool up = home->state == KC_NODE_UP, gone = false;
	int rc = -KV_EPEERDOWN;
	if (stays(c, name, key, home)) {
		kc_pin_placed(c, name);
		return;
	}
	if (up)
		rc = kc_pin_move_await(c, name, home);
	if (rc == -KV_ENOTFOUND) {
		copied_await(c, key, name->at);
		rc = kc_pin_move_await(c, name, home);
		gone = rc == -KV_ENOTFOUND && gone_await(name, key);
	}
	if (rc >= 0 || c->closing)
		return;
	if (gone || !kc_pin_later(c, name, up && rc != -EAGAIN && home->state == KC_NODE_UP))
		kc_pin_lose_await(c, name, rc);
}

void kc_pins_move_main(void *client)
{
	struct kvc_client *c = client;
	struct kc_pin_name name;
	for (unsigned i = 1; !c->closing && kc_pin_next(c, &name); i++) {
		one_await(c, &name);
		if (i % LOOK_STEP == 0)
			co_yield_await();
	}
	kc_pins_moved(c);
	kc_pins_told(c);
	kc_client_ended(c);
}
