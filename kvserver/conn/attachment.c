/* SPDX-License-Identifier: Apache-2.0 */
/* attachment.c -- an attachment: everything that one WELCOME gives a client, from its HELLO until all shards have freed
 * it.
 *
 *   OPENING --opened on every shard--> OPEN --next HELLO, or the connection ends--> ENDING
 *           --nothing in flight on any shard--> freed
 *
 * A connection has one attachment in use; others may be ENDING, each in a coroutine that waits for the shards (conn.c).
 * Work is sent to all shards at once, and the asking coroutine waits for all answers (attachment_all_await), so an
 * attachment's control work never overlaps. A call's arguments do not change while calls are pending. Two tasks cannot
 * wait their turn: stopping a dead client, and hurrying the end for the client's next HELLO. They have calls aside, for
 * which the end waits as well. */
#include "kvserver/conn/attachment.h"

#include <stdlib.h>

#include "kvserver/conn/rights.h"
#include "kvserver/shard/attachment.h"
#include "kvserver/shard/region.h"

#define CALL_AGAIN_NS 1000000ull /* after a shard's queue was full */

/* ---- calls to all shards ---- */

static void call_answered(struct call *call)
{
	struct attachment *a = attachment_call_of(call)->attachment;
	if (--a->pending == 0)
		co_wake(a->asker);
}

int attachment_all_await(struct attachment *a, void (*run)(struct call *call), struct kv_error *err)
{
	struct loop *loop = a->server->control;
	unsigned shards = a->server->opt.shards;
	a->asker = co_self();
	a->pending = shards;
	for (unsigned i = 0; i < shards; i++) {
		struct call *call = &a->call[i].call;
		*call = (struct call){.shard = a->server->shard[i], .run = run, .done = call_answered};
		a->call[i].error.text[0] = 0;
		while (call_make(call, loop) != 0)
			co_sleep_await(loop_now(loop) + CALL_AGAIN_NS);
	}
	while (a->pending)
		co_park_await(KV_NEVER);
	for (unsigned i = 0; i < shards; i++)
		if (a->call[i].call.status)
			return kv_fail(err, a->call[i].call.status, "shard %u: %s", i,
				       a->call[i].error.text[0] ? a->call[i].error.text
								: kv_strerror(a->call[i].call.status));
	return 0;
}

static struct attachment_call *attachment_of_aside_call(struct call *call)
{
	return KV_CONTAINER(call, struct attachment_call, aside);
}

/* The end may wait for this call as well. */
static void answered_aside(struct call *call)
{
	struct attachment *a = attachment_of_aside_call(call)->attachment;
	if (--a->aside.pending > 0)
		return;
	if (a->aside.asker)
		co_wake(a->aside.asker);
	if (a->ending)
		co_wake(a->asker);
}

static struct call *aside(struct attachment *a, unsigned shard, void (*run)(struct call *call))
{
	struct call *call = &a->call[shard].aside;
	*call = (struct call){.shard = a->server->shard[shard], .run = run, .done = answered_aside};
	return call;
}

/* Only the shard writes its part, so the shard stops it. */
static void run_stop(struct call *call)
{
	struct shard_attachment *on_shard = attachment_of_aside_call(call)->on_shard;
	if (on_shard)
		shard_attachment_stop(on_shard);
	call_finish(call, 0);
}

void attachment_stop_await(struct attachment *a)
{
	struct loop *loop = a->server->control;
	a->aside.asker = co_self();
	a->aside.pending = a->server->opt.shards;
	for (unsigned i = 0; i < a->server->opt.shards; i++) {
		struct call *call = aside(a, i, run_stop);
		while (call_make(call, loop) != 0)
			co_sleep_await(loop_now(loop) + CALL_AGAIN_NS);
	}
	while (a->aside.pending)
		co_park_await(KV_NEVER);
	a->aside.asker = NULL;
}

/* run_close took the shard's part out of the call: find it by its number, if it still exists. */
static void run_hurry(struct call *call)
{
	struct shard_attachment *on_shard =
		shard_attachment_find(call->shard, attachment_of_aside_call(call)->attachment->number);
	if (on_shard)
		shard_attachment_hurry(on_shard);
	call_finish(call, 0);
}

void attachment_hurry(struct attachment *a)
{
	if (!a->ending || a->aside.pending)
		return;
	for (unsigned i = 0; i < a->server->opt.shards; i++)
		a->aside.pending += call_make(aside(a, i, run_hurry), a->server->control) == 0;
}

/* ---- slots ---- */

static struct slot *slot_take(struct kvs_server *s, unsigned *out)
{
	for (unsigned i = 0; i < s->clients.slots; i++) {
		unsigned at = (s->clients.slot_next + i) % s->clients.slots;
		struct slot *slot = &s->clients.slot[at];
		if (slot->attachment)
			continue;
		slot->generation = slot->generation == UINT16_MAX ? 1 : slot->generation + 1;
		s->clients.slot_next = at + 1;
		*out = at;
		return slot;
	}
	return NULL;
}

/* A tenant whose transfers never end leaves the others' slots. */
static bool slot_left(const struct attachment *a)
{
	const struct clients *all = &a->server->clients;
	return !a->places || a->own.reads_all ||
	       places_left(&a->server->places, a->places, PLACE_ATTACHMENT, all->slots_taken, all->slots);
}

struct attachment *attachment_find(const struct kvs_server *s, const struct wire_prior *prior)
{
	unsigned slot = prior->session & 0xFFFF;
	struct attachment *a = slot < s->clients.slots ? s->clients.slot[slot].attachment : NULL;
	return a && a->number == prior->session && kv_equal_secret(a->token, prior->token, KV_TOKEN_LEN) ? a : NULL;
}

bool attachment_meets(const struct attachment *a, const struct wire_hello *h)
{
	if (a->moved)
		return true;
	for (unsigned i = 0; i < a->rails; i++)
		for (unsigned k = 0; k < h->rails; k++)
			if (a->addr[i].len == h->addr[k].len &&
			    memcmp(a->addr[i].data, h->addr[k].data, h->addr[k].len) == 0)
				return true;
	return false;
}

/* ---- making and opening ---- */

void attachment_addresses(struct attachment *a, const struct wire_blob_addr *addr, unsigned rails)
{
	a->moved |= a->rails != 0;
	a->rails = rails;
	for (unsigned i = 0; i < rails; i++) {
		a->addr[i].len = addr[i].len;
		memcpy(a->addr[i].data, addr[i].data, addr[i].len);
	}
}

static void attachment_free(struct attachment *a)
{
	free(a->call);
	free(a->shard_addr);
	explicit_bzero(a->token, sizeof(a->token));
	explicit_bzero(a->frame_secret, sizeof(a->frame_secret));
	explicit_bzero(&a->offer, sizeof(a->offer));
	free(a);
}

static int secrets_make(struct attachment *a, struct boot_conn *boot, struct kv_error *err)
{
	int rc = kv_entropy_fill(a->server->opt.entropy, a->token, sizeof(a->token));
	if (rc)
		return kv_fail(err, rc, "no entropy for a session token: %s", kv_strerror(rc));
	rc = boot_frame_secret(boot, a->token, a->frame_secret);
	return rc ? kv_fail(err, rc, "no keys for the frames of a session: %s", kv_strerror(rc)) : 0;
}

static int calls_make(struct attachment *a)
{
	const struct kvs_server *s = a->server;
	struct te_address *addr;
	unsigned rails = 0;
	for (unsigned i = 0; i < s->opt.shards; i++)
		rails += s->shard[i]->info.rails;
	a->call = calloc(s->opt.shards, sizeof(a->call[0]));
	a->shard_addr = addr = calloc(rails, sizeof(*addr));
	if (!a->call || !addr)
		return -KV_ENOMEM;
	for (unsigned i = 0; i < s->opt.shards; i++) {
		a->call[i].attachment = a;
		a->call[i].addr = addr;
		addr += s->shard[i]->info.rails;
	}
	return 0;
}

static int attachment_make(struct attachment *a, struct boot_conn *boot, const struct wire_hello *h,
			   struct kv_error *err)
{
	int rc = grant_find(a->server, boot_peer_names(boot), h->space, h->generation, &a->own);
	kv_list_init(&a->regions.all);
	kv_list_init(&a->watchers);
	kv_list_init(&a->offer.node);
	a->mark = h->mark;
	a->client_id = h->client_id;
	attachment_addresses(a, h->addr, h->rails);
	if (rc)
		return kv_fail(err, rc, GRANT_UNKNOWN);
	a->grant = a->own;
	return calls_make(a) < 0 ? kv_fail(err, -KV_ENOMEM, "the server has no memory for another client")
				 : secrets_make(a, boot, err);
}

int attachment_create(struct conn *conn, struct kvs_server *s, struct boot_conn *boot, const struct wire_hello *h,
		      struct attachment **out, struct kv_error *err)
{
	struct attachment *a = calloc(1, sizeof(*a));
	struct slot *slot;
	int rc;
	if (!a)
		return kv_fail(err, -KV_ENOMEM, "the server has no memory for another client");
	a->server = s;
	a->conn = conn;
	rc = attachment_make(a, boot, h, err);
	if (rc)
		goto free_attachment;
	a->places = places_find(&s->places, a->own.tenant);
	slot = slot_left(a) ? slot_take(s, &a->slot) : NULL;
	if (!slot) {
		rc = kv_fail(err, -KV_EFULL, "sessions of earlier clients still have transfers in flight; try again");
		goto free_attachment;
	}
	slot->attachment = a;
	s->clients.slots_taken++;
	places_take(a->places, PLACE_ATTACHMENT);
	a->number = (uint32_t)slot->generation << 16 | a->slot;
	*out = a;
	return 0;

free_attachment:
	attachment_free(a);
	return rc;
}

static void run_open(struct call *call)
{
	struct attachment_call *ac = attachment_call_of(call);
	struct attachment *a = ac->attachment;
	struct shard_attachment_args args = {.number = a->number,
					     .mark = a->mark,
					     .frame_secret = a->frame_secret,
					     .client_id = a->client_id,
					     .addrs = a->addr,
					     .rails = a->rails,
					     .anew = &a->anew,
					     .grant = &a->grant};
	int rc;
	rc = shard_attachment_open(call->shard, &args, &ac->on_shard, &ac->error);
	for (unsigned i = 0; rc == 0 && i < call->shard->info.rails; i++)
		rc = te_address(call->shard->te, i, &ac->addr[i]);
	if (rc == 0)
		session_space_read(&ac->on_shard->own, &ac->generation, &ac->cleared_ns);
	call_finish(call, rc);
}

static void run_space(struct call *call)
{
	const struct attachment *a = attachment_call_of(call)->attachment;
	struct shard *s = call->shard;
	store_space_learn(&s->store, a->grant.space, a->grant.generation, loop_turn_now(s->loop));
	call_finish(call, 0);
}

void attachment_space_await(struct attachment *a)
{
	bool lower = false;
	a->cleared_ns = 0;
	for (unsigned i = 0; i < a->server->opt.shards; i++) {
		a->grant.generation = KV_MAX(a->grant.generation, a->call[i].generation);
		a->cleared_ns = KV_MAX(a->cleared_ns, a->call[i].cleared_ns);
	}
	for (unsigned i = 0; i < a->server->opt.shards; i++)
		lower |= a->call[i].generation < a->grant.generation;
	if (!lower || !a->grant.rights)
		return;
	attachment_all_await(a, run_space, NULL);
	a->cleared_ns = loop_now(a->server->control);
}

uint64_t attachment_cleared(const struct attachment *a)
{
	return a->cleared_ns ? shard_clock(a->server->shard_seed, a->cleared_ns) : 0;
}

int attachment_open_await(struct attachment *a, struct kv_error *err)
{
	int rc = attachment_all_await(a, run_open, err);
	explicit_bzero(a->frame_secret, sizeof(a->frame_secret));
	if (rc == 0)
		attachment_space_await(a);
	return rc;
}

/* ---- regions ---- */

struct region *attachment_region_find(const struct attachment *a, uint32_t id)
{
	KV_LIST_EACH (n, &a->regions.all) {
		struct region *r = KV_LIST_ENTRY(n, struct region, node);
		if (r->id == id)
			return r;
	}
	return NULL;
}

void attachment_region_add(struct attachment *a, struct region *r)
{
	kv_list_add_tail(&a->regions.all, &r->node);
	a->regions.count++;
	a->regions.keys += r->keys;
}

void attachment_region_forget(struct attachment *a, struct region *r)
{
	kv_list_del(&r->node);
	a->regions.count--;
	a->regions.keys -= r->keys;
	free(r);
}

/* ---- the end ---- */

static void run_close(struct call *call)
{
	struct shard_attachment *on_shard = attachment_call_of(call)->on_shard;
	attachment_call_of(call)->on_shard = NULL;
	if (on_shard)
		on_shard->gone_away = attachment_call_of(call)->attachment->client_gone;
	if (on_shard)
		shard_attachment_end(on_shard, call);
	else
		call_finish(call, 0);
}

/* The waiting coroutines search for the attachment again, and do not find it. */
static void watchers_wake(struct attachment *a)
{
	struct kv_list *n;
	while ((n = kv_list_pop(&a->watchers)) != NULL)
		co_wake(KV_LIST_ENTRY(n, struct attachment_watch, node)->co);
}

void further_fini(struct attachment *a)
{
	struct further *f = &a->further;
	for (uint32_t i = 0; a->server->keys.tenants && i < f->places; i++)
		if (f->place[i].used)
			places_give(&a->server->places, f->place[i].places, PLACE_SESSION);
	a->server->clients.open -= f->count;
	free(f->place);
	explicit_bzero(f, sizeof(*f));
}

void attachment_end_await(struct attachment *a)
{
	a->ending = true;
	attachment_all_await(a, run_close, NULL);
	while (a->aside.pending)
		co_park_await(KV_NEVER);
	while (!kv_list_empty(&a->regions.all))
		attachment_region_forget(a, KV_LIST_ENTRY(a->regions.all.next, struct region, node));
	a->server->clients.slot[a->slot].attachment = NULL;
	a->server->clients.slots_taken--;
	places_give(&a->server->places, a->places, PLACE_ATTACHMENT);
	watchers_wake(a);
	attachment_free(a);
}
