/* SPDX-License-Identifier: Apache-2.0 */
/* pin.c -- the calls that pin a value and let it go.
 *
 * PIN asks the key's server. After a miss the other servers that a GET would ask may have the value: then it is copied
 * to the key's server first. UNPIN goes to every server where the session has pinned it. */
#include "kvclient/call/call.h"
#include "kvclient/call/former.h"
#include "kvclient/call/hot.h"
#include "kvclient/call/pin_move.h"
#include "kvclient/call/small.h"
#include "kvclient/logical/pins.h"

/* A PIN at *n has ended with *rc. After a miss the value is copied to the key's server, once, if another server has it:
 * then it is to be pinned at *n again. Else *rc is the code of the call. */
static bool pin_brought_await(struct kvc_node **n, const struct kvc_call *call, struct kvc_key key, bool *brought,
			      int *rc, uint64_t deadline_ns, struct kvc_trace *t)
{
	struct kvc_client *c = (*n)->client;
	bool twice = kvc_two_places(c, call->flags);
	if (*rc != -KV_ENOTFOUND || *brought || (!twice && !kvc_formers(c)))
		return false;
	*brought = true;
	*rc = kvc_pin_bring_await(*n, key, twice, deadline_ns, t);
	*n = kvc_call_node(c, key);
	return *rc == 0;
}

/* A pin is remembered from before its request goes out (logical/pins.c), at the node that is asked. */
static int pin_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, struct kvc_trace *t)
{
	struct wire_request wire = {.type = WIRE_PIN, .key = {key.data, (uint32_t)key.len}};
	struct kvc_node *n, *asked;
	struct kvc_call own;
	uint64_t deadline;
	bool brought = false;
	int rc;
	if (!kvc_key_valid(key) || kvc_call_check(call, &own) < 0)
		return -KV_EINVAL;
	deadline = kvc_call_deadline(c, &own, 0);
	kvc_trace_key(t, key.data, key.len);
	n = kvc_call_node(c, key);
	kvc_call_count(n, key);
	do {
		struct kvc_pin *pin;
		asked = n;
		rc = kvc_pin_begin(n, t->session, key, &pin);
		if (rc < 0)
			return rc;
		rc = kvc_ask_node_await(n, &wire, deadline, t);
		kvc_pin_end(n, pin, rc);
	} while (kvc_call_moved(&n, key, rc, deadline) || pin_brought_await(&n, &own, key, &brought, &rc, deadline, t));
	return (int)kvc_call_down(asked, own.flags, rc);
}

static int unpin_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, struct kvc_trace *t)
{
	struct wire_request wire = {.type = WIRE_PIN, .flags = WIRE_PIN_RELEASE};
	struct kvc_call own;
	struct kvc_node *at;
	uint64_t deadline;
	bool released = false;
	int rc = kvc_key_valid(key) ? kvc_call_check(call, &own) : -KV_EINVAL;
	if (rc < 0)
		return rc;
	deadline = kvc_call_deadline(c, &own, 0);
	wire.key = (struct wire_bytes){key.data, (uint32_t)key.len};
	kvc_trace_key(t, key.data, key.len);
	/* It may be pinned at several, if servers went and came back. What was pinned at one that is lost is not. */
	while ((rc = kvc_pin_drop_await(c, t->session, key, deadline, &at)) == 1)
		if (at != kvc_call_node(c, key) && at->state != KVC_NODE_DOWN)
			released |= kvc_ask_node_await(at, &wire, deadline, t) == 0;
	if (rc < 0)
		return rc;
	at = kvc_call_node(c, key);
	rc = kvc_ask_key_await(&at, &wire, deadline, t);
	return rc == -KV_ENOTFOUND && released ? 0 : (int)kvc_call_down(at, own.flags, rc);
}

static int plain_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, enum kvc_op op,
		       int (*fn)(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call,
				 struct kvc_trace *t))
{
	struct kvc_trace t;
	int rc = kvc_call_begin(c, &t, op, call);
	return rc < 0 ? rc : (int)kvc_call_end(c, &t, fn(c, key, call, &t));
}

int kvc_pin_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call)
{
	return plain_await(client, key, call, KVC_OP_PIN, pin_await);
}

int kvc_unpin_await(struct kvc_client *client, struct kvc_key key, const struct kvc_call *call)
{
	return plain_await(client, key, call, KVC_OP_PIN, unpin_await);
}
