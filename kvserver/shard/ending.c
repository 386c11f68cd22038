/* SPDX-License-Identifier: Apache-2.0 */
/* ending.c -- an attachment stops, ends, becomes idle, or gets other addresses: its requests are stopped first.
 *
 * A request without posted operations ends at once. Posted transfers keep request, block and peer until the engine
 * reports their end (the blocks count as quarantined). Operations release an attachment's other resources (struct
 * shard_ops). */
#include "kvserver/shard/attachment.h"

#include "kvserver/shard/local_client.h"
#include "kvserver/shard/reply.h"
#include "kvserver/shard/request.h"

static void requests_stop(struct shard_attachment *s)
{
	KV_LIST_EACH_SAFE (n, &s->requests) {
		struct request *r = KV_LIST_ENTRY(n, struct request, node);
		request_stop(r);
		if (r->state != REQUEST_ANSWERED)
			request_answer(r, WIRE_CANCELED);
	}
	KV_LIST_EACH_SAFE (n, &s->requests) {
		struct request *r = KV_LIST_ENTRY(n, struct request, node);
		if (!request_running(r))
			request_free(r);
	}
}

void shard_attachment_stop(struct shard_attachment *s)
{
	if (s->state != ATTACHMENT_OPEN)
		return;
	s->state = ATTACHMENT_ENDING;
	s->ended_ns = loop_turn_now(s->shard->loop);
	kv_list_add_tail(&s->shard->attachments.ending, &s->node);
	for (unsigned i = 0; i < s->links; i++)
		reply_drop(&s->link[i]);
	s->shard->opt.ops->attachment_stop(s);
	requests_stop(s); /* `gone` is not set yet, so the attachment stays */
	shard_local_leave(s);
	pins_leave(&s->shard->store, &s->own.pins);
	sessions_drop(s);
	s->shard->opt.ops->attachment_left(s);
}

/* No answer to a request from the old address may reach the new one, which may be another client's until it is proven.
 */
int shard_attachment_readdress(struct shard_attachment *s, const struct te_address *addrs, unsigned rails,
			       struct kv_error *err)
{
	int rc = 0;
	if (!s->shard->te)
		return kv_fail(err, -KV_ECLOSED, "the server is closing");
	s->shard->opt.ops->attachment_stop(s);
	requests_stop(s);
	shard_local_leave(s);
	for (unsigned i = 0; i < s->links; i++) {
		int failed = link_unprove(&s->link[i]);
		reply_drop(&s->link[i]);
		rc = rc ? rc : failed;
	}
	if (rc)
		return kv_fail(err, rc, "no entropy for the nonces of a session: %s", kv_strerror(rc));
	return te_peer_readdress(s->peer, addrs, rails, err);
}

void shard_attachment_end(struct shard_attachment *s, struct call *gone)
{
	shard_attachment_stop(s);
	s->gone = gone;
	shard_attachment_request_freed(s);
}

static bool all_proven(const struct shard_attachment *s)
{
	for (unsigned i = 0; i < s->links; i++)
		if (!s->link[i].proven)
			return false;
	return true;
}

/* Two kinds of fence would harm others: a provider's that cannot fence one peer alone, and that of an address not
 * proven by the client, since it may be another client's. Then the transfers end by the provider, within the quarantine
 * budget. */
void shard_attachment_hurry(struct shard_attachment *s)
{
	const struct shard *shard = s->shard;
	struct te_info info;
	if (s->state != ATTACHMENT_ENDING || !shard->te || s->request_count == 0 || !all_proven(s))
		return;
	te_info(shard->te, &info);
	if (!info.peer_fence)
		return;
	kv_event(shard->opt.log, KV_LOG_INFO,
		 KV_EVENT("peer_cut", KV_NUMBER("shard", shard->opt.index), KV_NUMBER("client_id", s->client_id)),
		 "shard %u: client %llu is back: its old connections are cut", shard->opt.index,
		 (unsigned long long)s->client_id);
	shard_attachment_fence(s);
}

void shard_attachment_when_idle(struct shard_attachment *s, struct call *idle)
{
	s->idle = idle;
	s->parting = true;
	s->shard->opt.ops->attachment_idle(s);
	shard_attachment_request_freed(s);
}
