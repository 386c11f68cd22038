/* SPDX-License-Identifier: Apache-2.0 */
/* pin.c -- the calls that pin and unpin a value.
 *
 * PIN asks the key's server. After a miss, a value at another server that a GET would ask is copied to the key's server
 * first. UNPIN asks every server where the session pinned it. */
#include "kvclient/call/keyed.h"
#include "kvclient/copies/copies.h"
#include "kvclient/logical/pins.h"
#include "kvclient/route/former.h"
#include "kvclient/route/hot.h"
#include "kvclient/transfer/ask.h"
#include "kvclient/transfer/call.h"

/* A PIN at r->n ended with *rc. After the first miss, copy the value to the key's server. True: pin at r->n again. Else
 * *rc is the call's code. */
static bool pin_brought_await(struct route *r, unsigned flags, bool *brought, int *rc, struct kc_trace *t)
{
	bool twice = route_two_places(r->c, flags);
	if (*rc != -KV_ENOTFOUND || *brought || (!twice && !route_formers(r->c)))
		return false;
	*brought = true;
	*rc = kc_pin_bring_await(r->n, r->key, twice, r->deadline_ns, t);
	r->n = route_first(r->c, r->key);
	return *rc == 0;
}

/* A pin is noted at its node before the request is sent (logical/pins.c). */
static int pin_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, struct kc_trace *t)
{
	struct wire_request wire = {.type = WIRE_PIN, .key = {key.data, (uint32_t)key.len}};
	struct kc_node *asked;
	struct route r;
	bool brought = false;
	int rc;
	route_begin(&r, c, key, ROUTE_ONE, call->flags, kc_call_deadline(c, call, 0));
	route_count(r.n, key);
	do {
		struct kc_pin *pin;
		asked = r.n;
		rc = kc_pin_begin(asked, t->session, key, &pin);
		if (rc < 0)
			return rc;
		rc = kc_ask_node_await(asked, &wire, r.deadline_ns, t);
		kc_pin_end(asked, pin, rc);
	} while (route_next(&r, rc) || pin_brought_await(&r, call->flags, &brought, &rc, t));
	return (int)route_down(asked, call->flags, rc);
}

static int unpin_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, struct kc_trace *t)
{
	struct wire_request wire = {.type = WIRE_PIN, .flags = WIRE_PIN_RELEASE, .key = {key.data, (uint32_t)key.len}};
	struct kc_node *at;
	struct route r;
	bool released = false;
	unsigned tries;
	int rc;
	route_begin(&r, c, key, ROUTE_ONE, call->flags, kc_call_deadline(c, call, 0));
	/* Servers that left and returned may hold further pins. A lost server's pin has ended. */
	while ((rc = kc_pin_drop_await(c, t->session, key, r.deadline_ns, &at)) == 1)
		if (at != route_first(c, key) && at->state != KC_NODE_DOWN)
			released |= kc_ask_node_await(at, &wire, r.deadline_ns, t) == 0;
	if (rc < 0)
		return rc;
	r.n = route_first(c, key);
	rc = kc_ask_route_await(&r, &wire, NULL, &tries, t);
	return rc == -KV_ENOTFOUND && released ? 0 : (int)route_down(r.n, call->flags, rc);
}

int kvc_pin_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call)
{
	return kc_keyed_await(client, key, call, KVC_OP_PIN, pin_await);
}

int kvc_unpin_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call)
{
	return kc_keyed_await(client, key, call, KVC_OP_PIN, unpin_await);
}
