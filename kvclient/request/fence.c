/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c -- fences make the memory of given-up requests safe.
 *
 * Until all writes are counted, a fence is made or the engine ends, a peer may touch a request's memory. A piece waits
 * for that in quarantine, at most a quarter of the buffer; a caller's memory is fenced.
 *
 * If the engine can fence one peer (te_info.peer_fence: tcp behind a doorkeeper), a fence ends one attachment, and only
 * its node attaches again. Such an attachment leaves no quarantine and no zombies; the next WELCOME confirms that the
 * server kept nothing of it (conn/serve.c).
 *
 * Any other fence rebuilds the endpoints: every request ends with -KV_ERESET, the quarantine is emptied, and every node
 * attaches with new addresses. While an old endpoint closes slowly (EFA, dead host), its pieces and callers' memory
 * wait in limbo, past deadlines if necessary. */
#include "kvclient/request/fence.h"

#include "kvclient/request/admission.h"
#include "kvclient/request/attachment.h"
#include "kvclient/request/link.h"
#include "kvclient/request/private.h"

#define RECLAIM_IDLE_NS 3000000000ull
#define RECLAIM_BUSY_NS 30000000000ull

bool kc_zombies_room(const struct kvc_client *c, unsigned n)
{
	return c->requests->unsafe.num_zombies + n <= KC_ZOMBIES_MAX;
}

void kc_zombie_keep(struct kvc_client *c, struct te_peer *peer)
{
	te_peer_local_end(peer);
	c->requests->unsafe.zombie[c->requests->unsafe.num_zombies++] = peer;
}

void kc_zombies_close(struct kvc_client *c)
{
	while (c->requests->unsafe.num_zombies > 0)
		te_peer_close(&c->requests->unsafe.zombie[--c->requests->unsafe.num_zombies]);
}

/* Endpoints are new or gone. End all requests with -KV_ERESET, free the quarantine, redo all nodes; memory of unclosed
 * endpoints waits in limbo. */
static void client_reset(struct kvc_client *c)
{
	bool limbo = te_fencing(c->te);
	for (unsigned i = 0; i < c->num_nodes; i++) {
		struct kc_node *n = &c->node[i];
		if (n->attachment && limbo)
			kc_attachment_limbo(n->attachment, -KV_ERESET);
		else if (n->attachment)
			kc_attachment_fail(n->attachment, -KV_ERESET, true);
		kc_link_redo(n, "our endpoints were rebuilt");
	}
	if (limbo)
		kc_buffer_limbo(&c->buffer);
	else
		kc_buffer_amnesty(&c->buffer);
	kc_zombies_close(c);
	kc_client_quarantine_count(c);
	kc_room_feed(c);
}

/* The old endpoints are closed: their limbo is safe. */
void kc_fence_over(void *arg)
{
	struct kvc_client *c = arg;
	struct kv_list *n;
	while ((n = kv_list_pop(&c->requests->unsafe.limbo)))
		kc_limbo_end(c, KV_LIST_ENTRY(n, struct kc_req, node));
	kc_buffer_limbo_end(&c->buffer);
	kc_client_quarantine_count(c);
	kc_room_feed(c);
	c->requests->unsafe.times_over++;
	co_queue_wake_all(&c->requests->unsafe.over);
}

void kc_client_fenced_await(struct kvc_client *c)
{
	uint64_t before = c->requests->unsafe.times_over;
	/* another call's fence may have begun */
	while (te_fencing(c->te) && c->requests->unsafe.times_over == before)
		co_queue_wait_await(&c->requests->unsafe.over, KV_NEVER);
}

struct client_fence {
	struct kvc_client *client;
	struct kc_attachment *attachment;
	unsigned shard;
};

/* One fence suffices if it rebuilds all endpoints. */
static int shards_fence(const struct client_fence *f, struct kv_error *err)
{
	struct kc_attachment *s = f->attachment;
	int rc = te_peer_fence(s->peer[f->shard], err);
	for (unsigned i = 0; i < s->shards && rc == 0 && f->client->info.peer_fence && !te_reset_due(f->client->te);
	     i++)
		if (s->peer[i])
			rc = te_peer_fence(s->peer[i], err);
	return rc;
}

static void cut_tell(struct kvc_client *c, const struct kc_node *n)
{
	if (n->state != KC_NODE_UP)
		return;
	kv_info(kc_client_log(c),
		"client %u: server %s was cut off, and is connected again: after a call's deadline it did "
		"not confirm within the grace that it no longer uses the call's memory. It hangs or is "
		"busy; if this happens often, raise grace_ns of struct kvc_options",
		c->index, kc_node_name(n));
}

static void fence_run(void *arg)
{
	struct client_fence *f = arg;
	struct kvc_client *c = f->client;
	struct kv_error err = {0};
	int rc;
	/* Another coroutine may have fenced or ended it during the wait for the thread's stack. */
	if (!f->attachment->open || !f->attachment->peer[f->shard])
		return;
	kc_add(&c->count.fences, 1);
	f->attachment->node->fences++;
	rc = shards_fence(f, &err);
	if (rc == 0 && c->info.peer_fence && !te_reset_due(c->te)) {
		cut_tell(c, f->attachment->node);
		kc_attachment_fail(f->attachment, -KV_ERESET, true);
		kc_link_redo(f->attachment->node, "it hangs or is busy: after a call's deadline it did not "
						  "confirm that it no longer uses the call's memory");
		return;
	}
	if (rc < 0)
		kv_warn(kc_client_log(c),
			"client %u: server %s did not confirm after a call's deadline that it no longer uses the "
			"call's memory, so the client closed its endpoints. It cannot open new ones: %s. Calls fail "
			"until an attempt in the background succeeds; if none does, check the NIC, and restart this "
			"process",
			c->index, kc_node_name(f->attachment->node), err.text);
	else
		c->requests->unsafe.fenced = true;
	client_reset(c);
}

void kc_client_fence_await(struct kvc_client *c, struct kc_attachment *s, unsigned shard)
{
	struct client_fence f = {c, s, shard};
	s->refs++;
	kc_main_await(c, fence_run, &f);
	kc_attachment_unref(s);
}

/* NULL: the node is attaching again. */
static struct kc_node *orphan_node(const struct kc_req *r)
{
	struct kc_node *n = r->link->attachment->node;
	return n->state == KC_NODE_UP && n->attachment == r->link->attachment ? n : NULL;
}

/* The attachment to fence for memory of orphans older than before_ns, or the quarantine; `any` if a fence concerns all.
 * Otherwise nodes with old orphans, whose replies were lost, attach again. */
static struct kc_attachment *reclaim_unsafe(struct kvc_client *c, uint64_t before_ns, struct kc_attachment *any)
{
	if (c->buffer.quarantined_bytes > 0 && c->requests->unsafe.quarantine_ns < before_ns)
		return any;
	KV_LIST_EACH (i, &c->requests->unsafe.orphans) {
		const struct kc_req *r = KV_LIST_ENTRY(i, const struct kc_req, orphan.node);
		if (r->orphan.since_ns >= before_ns)
			break;
		if (orphan_node(r) && kc_req_unsafe(r))
			return c->info.peer_fence ? r->link->attachment : any;
	}
	KV_LIST_EACH (i, &c->requests->unsafe.orphans) {
		const struct kc_req *r = KV_LIST_ENTRY(i, const struct kc_req, orphan.node);
		if (r->orphan.since_ns >= before_ns)
			break;
		if (orphan_node(r))
			kc_link_redo(orphan_node(r), "requests were never answered");
	}
	return NULL;
}

void kc_client_reclaim_await(struct kvc_client *c, struct kc_attachment *s)
{
	uint64_t now = loop_turn_now(c->loop), limit = c->calls > 0 ? RECLAIM_BUSY_NS : RECLAIM_IDLE_NS;
	/* Random, so that clients of a lost server do not all disturb the others at once. */
	limit += kv_prng_below(loop_prng(c->loop), limit);
	if (c->closing || now < limit)
		return;
	s = reclaim_unsafe(c, now - limit, s);
	if (!s || !s->open)
		return;
	kv_event(kc_client_log(c), KV_LOG_INFO,
		 KV_EVENT("client_fence", KV_NUMBER("client", c->index),
			  KV_NUMBER("bytes", c->buffer.quarantined_bytes + c->requests->unsafe.orphan_bytes)),
		 "client %u: lost requests may still write to %llu bytes of its buffer; it fences to use them again",
		 c->index, (unsigned long long)(c->buffer.quarantined_bytes + c->requests->unsafe.orphan_bytes));
	kc_client_fence_await(c, s, 0);
}

void kc_fence_reset(void *arg, int status)
{
	struct kvc_client *c = arg;
	bool ours = c->requests->unsafe.fenced;
	struct te_info info;
	c->requests->unsafe.fenced = false;
	/* New endpoints may have other queue sizes. */
	te_info(c->te, &info);
	c->info.peer_fence = info.peer_fence;
	kc_room_limit(c, kc_room_imm_limit(&info));
	/* Our own fence has reset everything already. No attachment is newer, since peers open with addresses announced
	 * after this call, even if an endpoint failed in between. */
	if (ours && status == 0)
		return;
	if (status < 0)
		kv_warn(kc_client_log(c), "client %u: rebuilding its endpoints failed (%s); it is tried again",
			c->index, kv_strerror(status));
	client_reset(c);
}
