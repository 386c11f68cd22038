/* SPDX-License-Identifier: Apache-2.0 */
/* page.c -- parts of a snapshot: the live blocks of a shard, from a place in its walk on.
 *
 * A shard keeps no state between two parts: the place travels with the question. Each question costs the shard at most
 * PAGE_BLOCKS blocks, about 0.1 ms. */
#include <errno.h>

#include "kvserver/events/events.h"
#include "kvserver/server/server.h"

enum { PAGE_BLOCKS = 1024 };

#define AGAIN_NS 1000000ull /* after a shard's queue was full */

struct page {
	struct call call;
	struct co *asker; /* NULL: answered */
	struct wire_events *out;
	uint8_t *buf;
};

static bool block_add(void *arg, const struct block *b)
{
	struct page *p = arg;
	const struct store *s = &p->call.shard->store;
	const char *space = s->spaces.at[b->space]->name;
	const struct wire_event e = {.what = WIRE_EVENT_STORED,
				     .tier = WIRE_TIER_MEMORY,
				     .key_len = b->item.key_len,
				     .space_len = (uint8_t)strlen(space),
				     .bytes = b->len,
				     .key = b->item.key,
				     .space = (const uint8_t *)space};
	if (!block_current(s, b))
		return true;
	if (wire_event_pack(p->buf, WIRE_EVENTS_BYTES, &p->out->events_len, &e))
		return false;
	p->out->count++;
	return true;
}

static void run_page(struct call *call)
{
	struct page *p = KV_CONTAINER(call, struct page, call);
	store_walk(&call->shard->store, &p->out->at, PAGE_BLOCKS, block_add, p);
	call_finish(call, 0);
}

static void page_done(struct call *call)
{
	struct page *p = KV_CONTAINER(call, struct page, call);
	struct co *asker = p->asker;
	p->asker = NULL;
	co_wake(asker);
}

int events_page_await(struct kvs_server *s, const struct wire_events *ask, uint8_t *buf, struct wire_events *out)
{
	struct page p = {.asker = co_self(), .out = out, .buf = buf};
	if (ask->shard >= s->opt.shards)
		return -KV_EPROTO;
	*out = (struct wire_events){.epoch = s->events.epoch,
				    .first = s->events.next,
				    .next = s->events.next,
				    .flags = WIRE_EVENTS_SNAPSHOT,
				    .shard = ask->shard,
				    .at = ask->at,
				    .events = buf,
				    .packed = true};
	p.call = (struct call){.shard = s->shard[ask->shard], .run = run_page, .done = page_done};
	while (call_make(&p.call, s->control) != 0)
		co_sleep_await(loop_now(s->control) + AGAIN_NS);
	while (p.asker)
		co_park_await(KV_NEVER);
	if (out->at == 0 && out->shard + 1 < s->opt.shards) {
		out->shard++;
		out->at = UINT32_MAX;
	}
	return 0;
}
