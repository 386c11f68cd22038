/* SPDX-License-Identifier: Apache-2.0 */
/* deletes_owed.c -- a ring of the client's last OWED DELETEs and TOUCHes, sent to servers that missed them.
 *
 * A DELETE succeeds although a server with the value is down. So the last step of attaching sends a server the DELETEs
 * since it was last heard, with times in its clock: newer values stay. A restarted server gets them also:
 * other clients may have copied old values to it. After a view change, and when a server begins to drain, a key's new
 * servers get them. Not covered: another client may reach the server first, and this one may end before it does. */
#include "kvclient/conn/deletes_owed.h"

#include <stdlib.h>

#include "kvclient/conn/private.h"
#include "kvclient/core/placement.h"
#include "kvclient/request/admission.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"

enum { WINDOW = 8, AIMED = 32 };

#define KEEP_NS   600000000000ull /* default time clients look for values elsewhere */
#define SLACK_NS  1000000000ull   /* a server may have heard less than we have from it */
#define RECENT_NS 5000000000ull   /* more than a view takes to spread */
#define TELL_NS   2000000000ull
#define SECOND_NS 1000000000ull

enum { OWED = 1024, NOBODY = UINT16_MAX };

struct owed {
	uint8_t key[KV_KEY_MAX], len; /* len 0: overtaken by a later call */
	uint64_t time_ns;             /* end of the call */
	uint64_t expires_ns;          /* of a TOUCH: end of the value's life; else 0 */
	uint16_t heard;               /* server told; NOBODY: the view changed during the call */
	uint16_t to[2];               /* servers to tell after a view change, or NOBODY */
};

struct kc_oweds {
	struct owed *ring; /* OWED entries; NULL: none was needed yet */
	uint32_t *digest;
	uint64_t noted; /* ever; the next one's number */
	uint64_t change_ns;
	bool due, running;
};

static struct owed *at(const struct kvc_client *c, uint64_t number)
{
	return &c->owed->ring[number % OWED];
}

static uint64_t first_since(const struct kvc_client *c, uint64_t since_ns)
{
	uint64_t i = c->owed->noted;
	while (i > 0 && c->owed->noted - i < OWED && at(c, i - 1)->time_ns >= since_ns)
		i--;
	return i;
}

/* ---- telling ---- */

static unsigned first_of(const struct kvc_client *c, const void *key, size_t len)
{
	const struct kc_place_set *draining = &c->cluster.draining;
	return draining->count ? kc_place_among(c->placement, key, len, draining)
			       : kc_place_node(c->placement, key, len);
}

static unsigned second_of(const struct kvc_client *c, const void *key, size_t len, unsigned first)
{
	struct kc_place_set others = c->cluster.draining;
	unsigned second;
	kc_place_set_put(&others, first, true);
	second = kc_place_among(c->placement, key, len, &others);
	return second == first ? NOBODY : second;
}

static void aim(struct kvc_client *c, struct owed *o, struct kc_place_set *all)
{
	uint64_t age_ns = loop_now(c->loop) - o->time_ns;
	bool recent = age_ns <= RECENT_NS;
	unsigned first, second = NOBODY;
	o->to[0] = o->to[1] = NOBODY;
	if (!o->len || age_ns > KEEP_NS)
		return;
	first = first_of(c, o->key, o->len);
	if (recent || (c->pool->options.flags & (KVC_TWO_COPIES | KVC_HOT_COPIES)))
		second = second_of(c, o->key, o->len, first);
	o->to[0] = (uint16_t)(first == o->heard ? NOBODY : first);
	o->to[1] = (uint16_t)(second == o->heard ? NOBODY : second);
	for (unsigned i = 0; i < 2; i++)
		if (o->to[i] != NOBODY)
			kc_place_set_put(all, o->to[i], true);
	if (c->node[first].state == KC_NODE_UP)
		o->heard = (uint16_t)first;
}

static uint64_t oldest(const struct kvc_client *c)
{
	return c->owed->noted - KV_MIN(c->owed->noted, (uint64_t)OWED);
}

/* *all: servers to tell of anything. */
static void aim_all_await(struct kvc_client *c, struct kc_place_set *all)
{
	*all = (struct kc_place_set){0};
	for (uint64_t i = oldest(c); i < c->owed->noted && !c->closing; i = KV_MAX(i + 1, oldest(c))) {
		aim(c, at(c, i), all);
		if (i % AIMED == 0)
			co_yield_await();
	}
}

/* A life is sent in whole seconds. Values put since the call are spared. */
static void request_fill(const struct kc_node *n, struct kc_req *r, const struct owed *o, const uint8_t *key,
			 uint64_t now)
{
	r->wire.key = (struct wire_bytes){key, o->len};
	if (o->expires_ns >= now + SECOND_NS) {
		r->wire.type = WIRE_TOUCH;
		r->wire.flags = WIRE_TOUCH_MARK | WIRE_TOUCH_AT;
		r->wire.touch.ttl_s = (uint32_t)((o->expires_ns - now) / SECOND_NS);
		r->wire.touch.young_ns = kc_clock_at(&n->clock, o->time_ns);
	} else {
		r->wire.type = WIRE_DELETE;
		r->wire.flags = WIRE_DELETE_AT;
		r->wire.drop.which = kc_clock_at(&n->clock, o->time_ns);
	}
}

/* WINDOW at most, from *next on. Returns the number sent, or a code. */
static int some_send_await(struct kc_node *n, uint64_t *next, bool all, uint64_t deadline_ns, struct kc_wait *wait,
			   struct kc_req **req, uint8_t (*key)[KV_KEY_MAX])
{
	struct kvc_client *c = n->client;
	int sent = 0;
	*next = KV_MAX(*next, oldest(c));
	for (; *next < c->owed->noted && sent < WINDOW; ++*next) {
		const struct owed *o = at(c, *next);
		uint64_t now = loop_now(c->loop);
		struct kc_attachment *s;
		int rc;
		if (!o->len || now - o->time_ns > KEEP_NS || (!all && n->index != o->to[0] && n->index != o->to[1]))
			continue;
		rc = kc_room_await(c, &(struct kc_need){.urgent = true, .node = n}, deadline_ns, &req[sent]);
		if (rc < 0)
			return sent ? sent : rc;
		s = n->attachment;
		if (!s || !s->open || (all ? n->redo != NULL : n->state != KC_NODE_UP)) {
			kc_req_release(c, req[sent]);
			return sent ? sent : -KV_ERESET;
		}
		memcpy(key[sent], o->key, o->len);
		request_fill(n, req[sent], o, key[sent], now);
		req[sent]->deadline_ns = deadline_ns;
		kc_req_submit(kc_link_pick(s, kc_place_shard(s->shard_seed, s->shards, o->key, o->len)), req[sent],
			      wait);
		sent++;
	}
	return sent;
}

static bool answered(struct kc_req *const *req, int n)
{
	for (int i = 0; i < n; i++)
		if (req[i]->state != KC_REQ_DONE)
			return false;
	return true;
}

/* 0, -KV_ETIMEOUT, a refusal's code, or -KV_ERESET: the attachment has ended. */
static int answers_await(struct kc_node *n, struct kc_req **req, int sent, uint64_t deadline_ns)
{
	struct kvc_client *c = n->client;
	int rc = 0;
	while (!answered(req, sent) && !c->closing && loop_now(c->loop) < deadline_ns)
		(void)co_park_await(deadline_ns);
	for (int i = 0; i < sent; i++) {
		if (req[i]->state != KC_REQ_DONE) {
			kc_req_cancel(req[i], -KV_ETIMEOUT);
			rc = -KV_ETIMEOUT;
		} else if (req[i]->status == 0 || req[i]->status == -KV_ENOTFOUND || req[i]->status == -KV_EDELETED) {
			kc_add(&c->count.deletes_owed, 1);
		} else {
			rc = req[i]->status;
		}
		kc_req_release(c, req[i]);
	}
	return rc;
}

/* From `next` on; `all`: also keys the server does not have. */
static int tell_await(struct kc_node *n, uint64_t next, bool all, uint64_t deadline_ns)
{
	struct kc_wait wait = {.co = co_self()};
	struct kc_req *req[WINDOW];
	uint8_t key[WINDOW][KV_KEY_MAX];
	int rc = 0;
	while (rc == 0 && next < n->client->owed->noted) {
		int sent = some_send_await(n, &next, all, deadline_ns, &wait, req, key);
		rc = sent < 0 ? sent : answers_await(n, req, sent, deadline_ns);
	}
	return rc;
}

int kc_owed_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct kvc_client *c = n->client;
	int rc = 0;
	/* A process the client never met may have been a member, and have missed as much. */
	if (c->owed->noted > 0)
		rc = tell_await(n, n->own->owed_from, true, deadline_ns);
	if (rc == 0) /* else the next attempt starts over */
		n->own->owed_from = c->owed->noted;
	c->owed->change_ns = loop_now(c->loop);
	return rc < 0 ? kv_fail(&n->error, rc, "it refuses the deletes that it missed: %s", kv_strerror(rc)) : 0;
}

void kc_owed_left(struct kc_node *n)
{
	uint64_t heard_ns = n->own->pulse.heard_ns;
	if (n->client->owed->noted > 0)
		n->own->owed_from =
			KV_MIN(n->client->owed->noted, first_since(n->client, heard_ns - KV_MIN(heard_ns, SLACK_NS)));
}

/* ---- in the background ---- */

static void main_await(void *client)
{
	struct kvc_client *c = client;
	struct kc_place_set all;
	while (c->owed->due && !c->closing) {
		c->owed->due = false;
		aim_all_await(c, &all);
		for (unsigned i = 0; i < c->num_nodes && !c->closing; i++) {
			struct kc_node *n = &c->node[i];
			uint64_t until = loop_now(c->loop) + TELL_NS;
			if (kc_place_set_has(&all, i) && n->state == KC_NODE_UP && !n->retired)
				(void)tell_await(n, 0, false, until);
		}
	}
	c->owed->running = false;
	kc_client_ended(c);
}

static void start(struct kvc_client *c)
{
	c->owed->due = true;
	if (c->owed->running || c->closing || co_spawn(c->loop, main_await, c, "kvc owed") < 0)
		return;
	c->owed->running = true;
	kc_client_began(c);
}

void kc_owed_view(struct kvc_client *c)
{
	c->owed->change_ns = loop_now(c->loop);
	if (c->owed->noted > 0)
		start(c);
}

/* Forget earlier entries of the key. A TOUCH does not replace a DELETE. */
static void overtake(struct kvc_client *c, struct kvc_key key, uint32_t digest, bool touch)
{
	uint64_t n = KV_MIN(c->owed->noted, (uint64_t)OWED);
	for (uint64_t i = 0; i < n; i++) {
		struct owed *o = &c->owed->ring[i];
		if (c->owed->digest[i] == digest && o->len == key.len && memcmp(o->key, key.data, key.len) == 0 &&
		    (!touch || o->expires_ns))
			o->len = 0;
	}
}

static bool ring_make(struct kvc_client *c)
{
	if (!c->owed->ring)
		c->owed->ring = calloc(OWED, sizeof(*c->owed->ring) + sizeof(*c->owed->digest));
	if (c->owed->ring)
		c->owed->digest = (uint32_t *)(c->owed->ring + OWED);
	return c->owed->ring != NULL;
}

void kc_owed_note(struct kvc_client *c, struct kvc_key key, uint64_t begun_ns, uint32_t ttl_s)
{
	bool changed = c->owed->change_ns >= begun_ns;
	uint64_t now = loop_now(c->loop);
	uint32_t digest;
	if (c->num_nodes < 2 || !ring_make(c))
		return;
	digest = (uint32_t)kv_hash_key(key.data, key.len, 0);
	overtake(c, key, digest, ttl_s > 0);
	c->owed->digest[c->owed->noted % OWED] = digest;
	*at(c, c->owed->noted) = (struct owed){.len = (uint8_t)key.len,
					       .time_ns = now,
					       .expires_ns = ttl_s ? kv_deadline(now, ttl_s * 1000000000ull) : 0,
					       .heard = (uint16_t)(changed ? NOBODY : first_of(c, key.data, key.len)),
					       .to = {NOBODY, NOBODY}};
	memcpy(at(c, c->owed->noted)->key, key.data, key.len);
	c->owed->noted++;
	if (changed)
		start(c);
}

uint64_t kc_owed_noted(const struct kvc_client *c)
{
	return c->owed->noted;
}

int kc_owed_init(struct kvc_client *c)
{
	c->owed = calloc(1, sizeof(*c->owed));
	return c->owed ? 0 : -KV_ENOMEM;
}

void kc_owed_fini(struct kvc_client *c)
{
	if (c->owed)
		free(c->owed->ring);
	free(c->owed);
	c->owed = NULL;
}
