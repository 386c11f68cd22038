/* SPDX-License-Identifier: Apache-2.0 */
/* second.c -- the two servers of a key whose value is kept twice (KVC_TWO_COPIES).
 *
 * They are the first two in the key's order that are neither down nor draining. So when the first one is lost, the
 * second has the value and is the first of what is left; when a server joins in front of them, one of the two of before
 * is still one of the two. Nothing has to be known of a key for that: no list, no bit at a server.
 *
 * A GET asks the one with fewer requests of this client under way. Where they have as many, a bit of the key's hash
 * decides: else all items of a batch would go to one side before the first of them is under way. (Of a hot key, hot.c,
 * they take turns: else all clients that make one call after the other would ask the same one.) After a miss the other
 * one is asked. What it has is copied to the one that missed (repair.c), which was full, away or behind when the value
 * was put. */
#include "kvclient/call/second.h"

#include "kvclient/call/call.h"
#include "kvclient/core/pool.h"
#include "kvclient/core/placement.h"

unsigned kvc_second_client(const struct kvc_pool *pool, struct kvc_key key)
{
	enum { SEED = 2 }; /* keys are spread over clients otherwise than over servers */
	return kvc_key_valid(key) ? kvc_digest_shard(kv_hash_key(key.data, key.len, SEED), pool->num_clients) : 0;
}

struct kvc_node *kvc_second(struct kvc_client *c, struct kvc_key key)
{
	const struct kvc_node *first = kvc_call_node(c, key);
	struct kvc_place_set others = c->shunned;
	struct kvc_node *n;
	kvc_place_set_put(&others, first->index, true);
	n = &c->node[kvc_place_among(c->placement, key.data, key.len, &others)];
	return kvc_place_set_has(&others, n->index) ? NULL : n; /* all are in the set: it is the owner */
}

bool kvc_second_one_of(struct kvc_client *c, struct kvc_key key, const struct kvc_node *n)
{
	return n == kvc_call_node(c, key) || n == kvc_second(c, key);
}

struct kvc_node *kvc_second_undown(struct kvc_client *c, struct kvc_key key, const struct kvc_node *asked)
{
	struct kvc_node *first = kvc_call_node(c, key), *n = asked == first ? kvc_second(c, key) : first;
	return n && n->state != KVC_NODE_DOWN ? n : NULL;
}

/* (For the first one, calls about values that are kept once wait, too, until it is connected.) */
struct kvc_node *kvc_second_beside(struct kvc_client *c, struct kvc_key key, const struct kvc_node *asked)
{
	struct kvc_node *n = kvc_second_undown(c, key, asked);
	return n && (n->state == KVC_NODE_UP || n == kvc_call_node(c, key)) ? n : NULL;
}

/* Each is chosen as often as the other, also if only every k-th choice counts: steps of the golden ratio. */
static bool first_turn(struct kvc_client *c)
{
	c->hot.turn += 0x9E3779B97F4A7C15u;
	return c->hot.turn >> 63;
}

struct kvc_node *kvc_second_reader(struct kvc_client *c, struct kvc_key key, bool turns)
{
	struct kvc_node *first = kvc_call_node(c, key), *second = kvc_second(c, key);
	if (!second || second->state != KVC_NODE_UP)
		return first;
	if (first->state != KVC_NODE_UP)
		return second;
	if (first->share.reqs != second->share.reqs)
		return first->share.reqs < second->share.reqs ? first : second;
	if (turns)
		return first_turn(c) ? first : second;
	return kv_hash_key(key.data, key.len, 0) & 1 ? first : second; /* (placement takes the other end of the hash) */
}

bool kvc_second_next(struct kvc_client *c, struct kvc_key key, int64_t rc, bool *other, struct kvc_node **n)
{
	struct kvc_node *next;
	if (rc != -KV_ENOTFOUND || *other)
		return false;
	next = kvc_second_beside(c, key, *n);
	if (!next)
		return false;
	*other = kvc_second_one_of(c, key, *n);
	*n = next;
	return true;
}
