/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c -- fences: how the memory of requests that were given up is made safe.
 *
 * While a request is out, its peer may read or write the memory that the request names. Three things end that: all
 * writes were counted, the engine made a fence, or the engine ended. A piece of the buffer may wait for them in
 * quarantine (at most a quarter of the buffer). Memory of a caller may not: its call fences.
 *
 * Where the engine can fence one peer alone (te_info.peer_fence: tcp behind a doorkeeper), a fence concerns one
 * attachment. The shards of that server are cut, its requests end as safe and are made again, its node attaches again,
 * and nobody else notices. Such a fence costs no one else anything. So an attachment that ends with memory in question
 * is always fenced: there is no quarantine and there are no zombies. What comes after the cut is kept out until the
 * next WELCOME, by which the server says that nothing of the prior attachment is left (conn/serve.c).
 *
 * What was lost for good (a server that crashed, a write that failed) would make the buffer smaller for ever, because
 * nothing counts it in. So the beats of an attachment look at it and make a fence for it alone: soon while no call is
 * in progress, since the fence then costs nobody anything, and after half a minute or more in any case. (Rejected:
 * using it again after some time. No time is long enough to prove that a write has landed or never will.)
 *
 * Any other fence rebuilds the endpoints under everybody, so a reset follows. Every request of every node ends with
 * -KV_ERESET (its call makes it anew, transfer/call.c), the quarantine is emptied, and every node makes a new
 * attachment with our new addresses, on the control connection that it has.
 *
 * Where an endpoint takes long to close (EFA, while a host is dead), the next one is in use before, and none of the
 * above holds until the old one is closed. Pieces that the old one knows wait in limbo. So do the calls whose own
 * memory it knows, past their deadline if need be. All others go on. */
#include "kvclient/request/fence.h"

#include "kvclient/request/admission.h"
#include "kvclient/request/attachment.h"
#include "kvclient/request/end.h"
#include "kvclient/request/link.h"
#include "kvclient/request/private.h"
#include "kvclient/request/quarantine.h"

#define RECLAIM_IDLE_NS 3000000000ull
#define RECLAIM_BUSY_NS 30000000000ull

bool kvc_zombies_room(const struct kvc_client *c, unsigned n)
{
	return c->requests->unsafe.num_zombies + n <= KVC_ZOMBIES_MAX;
}

void kvc_zombie_keep(struct kvc_client *c, struct te_peer *peer)
{
	c->requests->unsafe.zombie[c->requests->unsafe.num_zombies++] = peer;
}

void kvc_zombies_close(struct kvc_client *c)
{
	while (c->requests->unsafe.num_zombies > 0)
		te_peer_close(&c->requests->unsafe.zombie[--c->requests->unsafe.num_zombies]);
}

/* The endpoints are gone or new; memory is safe, or will be when the old ones are closed. End all requests with
 * -KV_ERESET, free the quarantine, redo all nodes. What is not safe yet waits in limbo. */
static void client_reset(struct kvc_client *c)
{
	bool limbo = te_fencing(c->te);
	for (unsigned i = 0; i < c->num_nodes; i++) {
		struct kvc_node *n = &c->node[i];
		if (n->attachment && limbo)
			kvc_attachment_limbo(n->attachment, -KV_ERESET);
		else if (n->attachment)
			kvc_attachment_fail(n->attachment, -KV_ERESET, true);
		kvc_link_redo(n, "our endpoints were rebuilt");
	}
	if (limbo)
		kvc_buffer_limbo(&c->buffer);
	else
		kvc_buffer_amnesty(&c->buffer);
	kvc_zombies_close(c);
	kvc_client_quarantine_count(c);
	kvc_room_feed(c);
}

/* The endpoints that were given up are closed: what was in limbo because of them is safe. */
void kvc_fence_over(void *arg)
{
	struct kvc_client *c = arg;
	struct kv_list *n;
	while ((n = kv_list_pop(&c->requests->unsafe.limbo)))
		kvc_limbo_end(c, KV_LIST_ENTRY(n, struct kvc_req, node));
	kvc_buffer_limbo_end(&c->buffer);
	kvc_client_quarantine_count(c);
	kvc_room_feed(c);
	c->requests->unsafe.times_over++;
	co_queue_wake_all(&c->requests->unsafe.over);
}

void kvc_client_fenced_await(struct kvc_client *c)
{
	uint64_t before = c->requests->unsafe.times_over;
	/* Another call's fence may have begun when we are woken. */
	while (te_fencing(c->te) && c->requests->unsafe.times_over == before)
		co_queue_wait_await(&c->requests->unsafe.over, KV_NEVER);
}

struct fence {
	struct kvc_client *client;
	struct kvc_attachment *attachment;
	unsigned shard;
};

/* One fence is enough where it rebuilds all endpoints. */
static int shards_fence(const struct fence *f, struct kv_error *err)
{
	struct kvc_attachment *s = f->attachment;
	int rc = te_peer_fence(s->peer[f->shard], err);
	for (unsigned i = 0; i < s->shards && rc == 0 && f->client->info.peer_fence && !te_reset_due(f->client->te);
	     i++)
		if (s->peer[i])
			rc = te_peer_fence(s->peer[i], err);
	return rc;
}

/* Of an attachment that ends because its server or a link is lost, which was said, there is no more to say. */
static void cut_tell(struct kvc_client *c, const struct kvc_node *n)
{
	if (n->state != KVC_NODE_UP)
		return;
	kv_info(kvc_client_log(c),
		"client %u: server %s was cut off, and is connected anew: it did not confirm within the grace "
		"that it has stopped to use memory of calls that were given up; it stands still or is busy; "
		"where that is often so, raise grace_ns of struct kvc_options",
		c->index, kvc_node_name(n));
}

static void fence_run(void *arg)
{
	struct fence *f = arg;
	struct kvc_client *c = f->client;
	struct kv_error err = {0};
	int rc;
	/* Another coroutine may have fenced or ended the attachment while this one waited for the thread's stack. */
	if (!f->attachment->open || !f->attachment->peer[f->shard])
		return;
	kvc_add(&c->count.fences, 1);
	f->attachment->node->fences++;
	rc = shards_fence(f, &err);
	if (rc == 0 && c->info.peer_fence && !te_reset_due(c->te)) {
		cut_tell(c, f->attachment->node);
		kvc_attachment_fail(f->attachment, -KV_ERESET, true);
		kvc_link_redo(f->attachment->node, "it stands still or is busy: it did not confirm that it has stopped "
						   "to use memory of calls that were given up");
		return;
	}
	if (rc < 0)
		kv_warn(kvc_client_log(c),
			"client %u: server %s has not said that it has stopped to use memory of calls that were given "
			"up, so our endpoints were closed, and opening new ones failed: %s; calls fail until it "
			"succeeds, and it is tried again by itself; if that goes on, look at the NIC, and start this "
			"process again",
			c->index, kvc_node_name(f->attachment->node), err.text);
	else
		c->requests->unsafe.fenced = true;
	client_reset(c);
}

void kvc_client_fence_await(struct kvc_client *c, struct kvc_attachment *s, unsigned shard)
{
	struct fence f = {c, s, shard};
	s->refs++;
	kvc_main_await(c, fence_run, &f);
	kvc_attachment_unref(s);
}

/* The node of an orphan, if its attachment is in use. Else the node attaches anew already. */
static struct kvc_node *orphan_node(const struct kvc_req *r)
{
	struct kvc_node *n = r->link->attachment->node;
	return n->state == KVC_NODE_UP && n->attachment == r->link->attachment ? n : NULL;
}

/* The attachment to fence because orphans older than before_ns, or the quarantine, hold memory that a peer may still
 * touch. Where a fence concerns all, that is `any`. If there is no such memory, nodes with old orphans attach anew: a
 * reply that is so late was lost. Every beat of every attachment asks, so the walk ends at the first orphan that is not
 * old. */
static struct kvc_attachment *reclaim_unsafe(struct kvc_client *c, uint64_t before_ns, struct kvc_attachment *any)
{
	if (c->buffer.quarantined_bytes > 0 && c->requests->unsafe.quarantine_ns < before_ns)
		return any;
	KV_LIST_EACH (i, &c->requests->unsafe.orphans) {
		const struct kvc_req *r = KV_LIST_ENTRY(i, const struct kvc_req, orphan.node);
		if (r->orphan.since_ns >= before_ns)
			break;
		if (orphan_node(r) && kvc_req_unsafe(r))
			return c->info.peer_fence ? r->link->attachment : any;
	}
	KV_LIST_EACH (i, &c->requests->unsafe.orphans) {
		const struct kvc_req *r = KV_LIST_ENTRY(i, const struct kvc_req, orphan.node);
		if (r->orphan.since_ns >= before_ns)
			break;
		if (orphan_node(r))
			kvc_link_redo(orphan_node(r), "requests were never answered");
	}
	return NULL;
}

void kvc_client_reclaim_await(struct kvc_client *c, struct kvc_attachment *s)
{
	uint64_t now = loop_turn_now(c->loop), limit = c->calls > 0 ? RECLAIM_BUSY_NS : RECLAIM_IDLE_NS;
	/* At random, so that the clients of a lost server do not all come to the other servers at once. */
	limit += kv_prng_below(loop_prng(c->loop), limit);
	if (c->closing || now < limit)
		return;
	s = reclaim_unsafe(c, now - limit, s);
	if (!s || !s->open)
		return;
	kv_event(kvc_client_log(c), KV_LOG_INFO,
		 KV_EVENT("client_fence", KV_NUMBER("client", c->index),
			  KV_NUMBER("bytes", c->buffer.quarantined_bytes + c->requests->unsafe.orphan_bytes)),
		 "client %u: %llu bytes of its buffer may still be written by requests that were lost; fencing to use "
		 "them again",
		 c->index, (unsigned long long)(c->buffer.quarantined_bytes + c->requests->unsafe.orphan_bytes));
	kvc_client_fence_await(c, s, 0);
}

void kvc_fence_reset(void *arg, int status)
{
	struct kvc_client *c = arg;
	bool ours = c->requests->unsafe.fenced;
	struct te_info info;
	c->requests->unsafe.fenced = false;
	/* New endpoints may have smaller queues, or larger ones again. */
	te_info(c->te, &info);
	c->info.peer_fence = info.peer_fence;
	kvc_room_limit(c, kvc_room_imm_limit(&info));
	/* After a fence of ours everything was reset at once. No attachment was made since, because peers are opened
	 * only with addresses that are told after this call. (That holds if an endpoint failed in between, too: nodes
	 * ask for our addresses when they have a connection, turns later.) */
	if (ours && status == 0)
		return;
	if (status < 0)
		kv_warn(kvc_client_log(c), "client %u: rebuilding its endpoints failed (%s); it is tried again",
			c->index, kv_strerror(status));
	client_reset(c);
}
