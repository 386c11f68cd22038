/* SPDX-License-Identifier: Apache-2.0 */
/* session.c -- a client's session on one shard: OPEN, then ENDING, then freed.
 *
 * OPEN: frames with its number and seal are read. ENDING: nothing is read or sent any more; transfers are stopped, and
 * those that were posted keep request, block and peer until the engine says that they are over (the blocks count as
 * quarantined). With the last request the peer is closed and the session freed. The peer stays open until then so that
 * a fence can still be aimed at it. Its memory stays a little longer if the engine still has reply frames of it (GONE).
 *
 * A request id is judged by its link's window before anything else looks at the request: what was seen, or is too old
 * to know, is dropped and counted, without a reply (its one reply was given or will be). Requests over the link's
 * credits are answered BUSY; CANCEL is not counted against credits, as it is what frees them. A RELEASE is no request:
 * it has neither id nor reply.
 *
 * Whose a request is, the session's own or a further one's on its connection, says the SESSION record before it
 * (owner.c). */
#include "kvserver/shard/session.h"

#include <stdlib.h>

#include "kvserver/ops/lease.h"
#include "kvserver/ops/pack.h"
#include "kvserver/shard/reply.h"
#include "kvserver/shard/shard.h"

/* ---- open ---- */

/* With its links, and the bits of their windows. */
static size_t struct_bytes(unsigned links, uint32_t width)
{
	return sizeof(struct session) + links * (sizeof(struct link) + link_words(width) * sizeof(uint64_t));
}

size_t session_bytes(unsigned links, unsigned shards)
{
	return struct_bytes(links, kv_window_width(links * shards)) + answers_bytes(links, shards);
}

/* Whoever uses all the credits of a link has so many ids under way. */
static uint32_t window_width(const struct shard *shard, unsigned links)
{
	uint32_t width = kv_window_width(links * KV_MAX(shard->opt.shards, 1u));

	while (width < shard->opt.credits && width < KV_WINDOW_WIDTH)
		width *= 2;
	return width;
}

static struct session *session_alloc(struct shard *shard, const struct session_args *a, struct te_peer *peer)
{
	unsigned links = te_peer_links(peer);
	uint32_t width = window_width(shard, links);
	struct session *s = calloc(1, struct_bytes(links, width));

	if (!s || answers_init(&s->answers, links, KV_MAX(shard->opt.shards, 1u))) {
		free(s);
		return NULL;
	}
	s->shard = shard;
	s->number = a->number;
	s->mark = a->mark;
	s->client_id = a->client_id;
	s->peer = peer;
	s->received = a->received;
	s->anew = a->anew;
	s->links = links;
	s->window_width = width;
	kv_list_init(&s->node);
	kv_list_init(&s->requests);
	kv_list_init(&s->stages);
	kv_list_init(&s->leases);
	s->own = (struct owner){.session = s, .credits = UINT32_MAX};
	pins_init(&s->own.pins);
	for (unsigned i = 0; i < REGION_BUCKETS; i++)
		kv_list_init(&s->regions[i]);
	return s;
}

static void links_close(struct session *s)
{
	for (unsigned i = 0; i < s->links; i++)
		link_close(&s->link[i]);
	kv_macs_fini(&s->macs);
	answers_fini(&s->answers);
}

static int links_open(struct session *s, const struct session_args *a)
{
	int rc = boot_frame_macs(a->frame_secret, s->number, s->shard->opt.index, true, &s->macs);

	for (unsigned i = 0; rc == 0 && i < s->links; i++)
		rc = link_open(&s->link[i], s, i);
	return rc;
}

int session_open(struct shard *shard, const struct session_args *a, struct session **out, struct kv_error *err)
{
	unsigned slot = a->number & 0xFFFF;
	struct te_peer *peer;
	struct session *s;
	int rc;

	if (!shard->te || shard->draining)
		return kv_fail(err, -KV_ECLOSED, "the server is closing");
	if (slot >= shard->slots || shard->slot[slot])
		return kv_fail(err, -KV_EFULL, "no session slot is free");
	rc = te_peer_open(shard->te, a->addrs, a->rails, &peer, err);
	if (rc)
		return rc;
	s = session_alloc(shard, a, peer);
	if (!s) {
		te_peer_close(&peer);
		return kv_fail(err, -KV_ENOMEM, "no memory for a session");
	}
	rc = links_open(s, a);
	if (rc) {
		links_close(s);
		free(s);
		te_peer_close(&peer);
		return kv_fail(err, rc, "no keys or no nonces for the links of a session: %s", kv_strerror(rc));
	}
	shard->slot[slot] = s;
	shard->session_count++;
	*out = s;
	return 0;
}

/* ---- end ---- */

static void session_free(struct session *s)
{
	struct shard *shard = s->shard;
	struct call *gone = s->gone;

	kv_list_del(&s->node);
	for (unsigned i = 0; i < REGION_BUCKETS; i++) {
		struct kv_list *n;
		while ((n = kv_list_pop(&s->regions[i])) != NULL) {
			struct region_use *u = KV_LIST_ENTRY(n, struct region_use, node);
			if (u->revoked)
				call_finish(u->revoked, 0);
			free(u);
		}
	}
	if (shard->te)
		te_peer_close(&s->peer);
	owners_fini(s);
	shard->slot[s->number & 0xFFFF] = NULL;
	shard->session_count--;
	s->state = SESSION_GONE;
	links_close(s);
	if (s->frames == 0)
		free(s);
	call_finish(gone, 0);
	shard_settle(shard);
}

void session_frame_sent(struct session *s)
{
	if (--s->frames == 0 && s->state == SESSION_GONE)
		free(s);
}

void session_settle(struct session *s)
{
	if (s->request_count)
		return;
	if (s->idle) {
		struct call *idle = s->idle;
		s->idle = NULL;
		call_finish(idle, 0);
	}
	if (s->state == SESSION_ENDING && s->gone)
		session_free(s);
	else
		shard_settle(s->shard);
}

/* Stop every request; those with nothing in flight are over at once. */
static void requests_stop(struct session *s)
{
	KV_LIST_EACH_SAFE (n, &s->requests) {
		struct request *r = KV_LIST_ENTRY(n, struct request, node);
		request_stop(r);
		r->canceled = true;
		if (!r->answered)
			request_answer(r, WIRE_CANCELED);
	}
	KV_LIST_EACH_SAFE (n, &s->requests) {
		struct request *r = KV_LIST_ENTRY(n, struct request, node);
		if (!request_running(r))
			request_free(r);
	}
}

void session_stop(struct session *s)
{
	if (s->state != SESSION_OPEN)
		return;
	s->state = SESSION_ENDING;
	s->ended_ns = loop_turn_now(s->shard->loop);
	kv_list_add_tail(&s->shard->ending, &s->node);
	for (unsigned i = 0; i < s->links; i++)
		reply_drop(&s->link[i]);
	stages_drop(s);
	requests_stop(s); /* `gone` is not set yet: the session stays */
	pins_clear(&s->shard->store, &s->own.pins);
	owners_drop(s);
	leases_leave(s);
}

/* Nothing that was asked from the old address goes to the new one, which is whose it says only once it is proven. */
int session_readdress(struct session *s, const struct te_address *addrs, unsigned rails, struct kv_error *err)
{
	int rc = 0;

	if (!s->shard->te)
		return kv_fail(err, -KV_ECLOSED, "the server is closing");
	stages_drop(s);
	requests_stop(s);
	for (unsigned i = 0; i < s->links; i++) {
		int failed = link_unprove(&s->link[i]);
		reply_drop(&s->link[i]);
		rc = rc ? rc : failed;
	}
	if (rc)
		return kv_fail(err, rc, "no entropy for the nonces of a session: %s", kv_strerror(rc));
	return te_peer_readdress(s->peer, addrs, rails, err);
}

void session_end(struct session *s, struct call *gone)
{
	session_stop(s);
	s->gone = gone;
	session_settle(s);
}

static bool all_proven(const struct session *s)
{
	for (unsigned i = 0; i < s->links; i++)
		if (!s->link[i].proven)
			return false;
	return true;
}

/* Where a fence would cost others something, the provider's own end of the transfers is waited for, within the
 * quarantine budget: a provider without fences of one peer, and a client that has named an address without proving that
 * it is there, which may be somebody else's. */
void session_hurry(struct session *s)
{
	const struct shard *shard = s->shard; /* the fence may end the session */
	struct kv_error err;
	struct te_info info;

	if (s->state != SESSION_ENDING || !shard->te || s->request_count == 0 || !all_proven(s))
		return;
	te_info(shard->te, &info);
	if (!info.peer_fence)
		return;
	kv_info(shard->opt.log, "shard %u: the old connections of client %llu, which is back, are cut",
		shard->opt.index, (unsigned long long)s->client_id);
	if (te_peer_fence(s->peer, &err))
		kv_error_log(shard->opt.log, "shard %u: %s", shard->opt.index, err.text);
}

void session_when_idle(struct session *s, struct call *idle)
{
	s->idle = idle;
	leases_drop(s);
	session_settle(s);
}

/* ---- regions ---- */

struct region_use *session_region_find(const struct session *s, uint32_t id)
{
	KV_LIST_EACH (n, &s->regions[id % REGION_BUCKETS]) {
		struct region_use *u = KV_LIST_ENTRY(n, struct region_use, node);
		if (u->region->id == id)
			return u;
	}
	return NULL;
}

int session_region_add(struct session *s, const struct region *region)
{
	struct region_use *u;

	if (session_region_find(s, region->id))
		return -KV_EEXIST;
	if (s->region_count == REGIONS_MAX)
		return -KV_ELIMIT;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -KV_ENOMEM;
	u->region = region;
	kv_list_add_tail(&s->regions[region->id % REGION_BUCKETS], &u->node);
	s->region_count++;
	return 0;
}

static void region_use_free(struct region_use *u)
{
	struct call *revoked = u->revoked;

	kv_list_del(&u->node);
	free(u);
	call_finish(revoked, 0);
}

void session_region_revoke(struct session *s, uint32_t id, struct call *revoked)
{
	struct region_use *u = session_region_find(s, id);

	if (!u || u->revoked) {
		call_finish(revoked, 0);
		return;
	}
	s->region_count--;
	u->revoked = revoked;
	if (u->refs == 0)
		region_use_free(u);
}

void region_use_release(struct region_use *u)
{
	if (--u->refs == 0 && u->revoked)
		region_use_free(u);
}

/* ---- requests ---- */

typedef void begin_fn(struct link *l, const struct wire_request *q, uint64_t now_ns);

static begin_fn *const begin[] = {
	[WIRE_GET] = get_begin,       [WIRE_PUT] = put_begin,       [WIRE_EXISTS] = exists_begin,
	[WIRE_DELETE] = delete_begin, [WIRE_TOUCH] = touch_begin,   [WIRE_PIN] = pin_begin,
	[WIRE_STAT] = stat_begin,     [WIRE_CANCEL] = cancel_begin, [WIRE_PING] = ping_begin,
	[WIRE_BENCH] = bench_begin,
};

static void refuse(struct link *l, const struct wire_request *q, int32_t status)
{
	struct wire_reply r = {.type = q->type, .status = status, .id = q->id};

	reply_put(l, &r, NULL);
}

/* Types that begin nothing: a server that drains goes on answering them. */
static bool harmless(uint8_t type)
{
	return type == WIRE_CANCEL || type == WIRE_PING || type == WIRE_STAT;
}

/* No request: it begins nothing and has no answer, and whoever sends it twice has released twice. */
static void release_take(struct session *s, const struct wire_request *q)
{
	for (uint32_t i = 0; i < q->release.count; i++)
		lease_release(s, wire_release_lease(q->release.leases, i));
}

static void request_take(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *shard = l->session->shard;
	struct owner *o = l->owner;

	if (KV_UNLIKELY(!l->proven) && !link_admits(l, q->type, now_ns))
		return;
	if (q->type == WIRE_RELEASE) {
		release_take(l->session, q);
		return;
	}
	o->received++;
	if (kv_window_mark(&l->window, q->id) != KV_WINDOW_NEW) {
		shard_count(shard, WIRE_STAT_DUPLICATE_REQUESTS);
		return;
	}
	link_answered(l, q->id, 0);
	if (q->type == WIRE_CANCEL) {
		cancel_begin(l, q, now_ns);
	} else if (l->active + l->held >= shard->opt.credits || o->active >= o->credits) {
		shard_count(shard, WIRE_STAT_OVER_CREDIT);
		refuse(l, q, WIRE_BUSY);
	} else if (q->time_left_us == 0) {
		shard_count(shard, WIRE_STAT_EXPIRED_REQUESTS);
		refuse(l, q, WIRE_TIMEOUT);
	} else if (shard->draining && !harmless(q->type)) {
		refuse(l, q, WIRE_CLOSING);
	} else {
		begin[q->type](l, q, now_ns);
	}
}

/* A record of the frame. Returns how many requests it was. */
static unsigned record_take(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	if (KV_UNLIKELY(q->type == WIRE_SESSION)) {
		pack_close(l->session->shard); /* it is one owner's */
		l->owner = owner_switch(l->session, q);
		return 0;
	}
	if (KV_UNLIKELY(q->type == WIRE_PROVE)) {
		link_prove(l, q->prove.nonce);
		return 0;
	}
	if (KV_LIKELY(l->owner != NULL))
		request_take(l, q, now_ns);
	return 1;
}

/* Records of a frame that are looked at together. */
enum { GROUP = 8 };

/* Among many keys the look-up of a GET is a chain of cache misses: those of a group are waited for at the same time. */
static void group_ahead(const struct store *store, const struct wire_request *q, unsigned n)
{
	const struct block *b[GROUP];
	uint64_t hash[GROUP];

	for (unsigned i = 0; i < n; i++)
		hash[i] = q[i].type == WIRE_GET ? store_ahead(store, q[i].key.data, q[i].key.len) : 0;
	for (unsigned i = 0; i < n; i++)
		b[i] = q[i].type == WIRE_GET ? store_ahead_block(store, hash[i]) : NULL;
	for (unsigned i = 0; i < n; i++)
		store_ahead_data(store, b[i]);
}

void session_frame(struct session *s, unsigned link, struct wire_reader *records, uint64_t now_ns)
{
	struct wire_request q[GROUP];
	uint64_t taken = 0;
	unsigned n;
	int rc;

	do {
		for (n = 0, rc = 1; n < GROUP && (rc = wire_request_next(records, &q[n])) == 1;)
			n++;
		if (n > 1)
			group_ahead(&s->shard->store, q, n);
		for (unsigned i = 0; i < n; i++)
			taken += record_take(&s->link[link], &q[i], now_ns);
	} while (rc == 1);
	pack_close(s->shard);
	s->link[link].owner = &s->own;
	if (rc < 0)
		shard_count(s->shard, WIRE_STAT_BAD_FRAMES);
	if (s->received)
		atomic_store_explicit(s->received, atomic_load_explicit(s->received, memory_order_relaxed) + taken,
				      memory_order_relaxed);
}

void session_lost(struct session *s, uint32_t writes)
{
	struct shard *shard = s->shard;

	shard->stat[WIRE_STAT_LOST_WRITES] += writes;
	if (s->state != SESSION_OPEN || !shard->te || !s->anew || atomic_exchange(s->anew, true))
		return;
	shard_lost(shard);
}

void session_tick(struct session *s, uint64_t now_ns)
{
	stages_tick(s, now_ns);
}
