/* SPDX-License-Identifier: Apache-2.0 */
/* small.h -- pinning again, for pins that were made on an earlier connection, and DELETE as batches make it. Private to
 * kvclient/. */
#ifndef KVRAIL_KVCLIENT_CALL_SMALL_H
#define KVRAIL_KVCLIENT_CALL_SMALL_H

#include "kvclient/request/trace.h"

/* kvc_ask_node_await -- a request about a key to node n, one that needs no more than a code, made again while the
 * deadline allows. kvc_ask_key_await -- the same to *n, and those that stand in for it; *n becomes the one that
 * answered. */
int kvc_ask_node_await(struct kvc_node *n, const struct wire_request *wire, uint64_t deadline_ns, struct kvc_trace *t);
int kvc_ask_key_await(struct kvc_node **n, const struct wire_request *wire, uint64_t deadline_ns, struct kvc_trace *t);

/* What a server says of a value. */
struct kvc_look {
	uint64_t left_ms;  /* as kvc_ttl_await */
	uint64_t age_ns;   /* since it was put, or more, ... */
	uint64_t asked_ns; /* ... when we asked, by our clock */
	uint64_t checksum;
};

/* kvc_look_await -- look at the value of a key at node n, as a part of call t. 0 or a code; -KV_EDELETED: it is not
 * there, and was deleted lately. kvc_left_await -- how long it has to live. */
int kvc_look_await(struct kvc_node *n, struct kvc_key key, uint64_t deadline_ns, struct kvc_look *out,
		   struct kvc_trace *t);
int kvc_left_await(struct kvc_node *n, struct kvc_key key, uint64_t deadline_ns, uint64_t *out_left_ms,
		   struct kvc_trace *t);

/* kvc_there_await -- whether a key has a value that was not deleted, at any server that may have it, as a part of call
 * t, which has these flags. 0 or a code. */
int kvc_there_await(struct kvc_client *c, struct kvc_key key, unsigned flags, uint64_t deadline_ns,
		    struct kvc_trace *t);

/* kvc_tombs_await -- as kvc_tombs, of call->server and shard call->shard - 1. */
int kvc_tombs_await(struct kvc_client *c, uint64_t from, struct kvc_tombs *out, const struct kvc_call *call);

/* kvc_yield_await -- node n has a value of this generation that is older than what another server has of the key, or
 * knows of it: have it deleted there. */
void kvc_yield_await(struct kvc_node *n, struct kvc_key key, uint64_t generation, uint64_t deadline_ns,
		     struct kvc_trace *t);

/* kvc_pin_again_await, kvc_pin_release_await -- struct kvc_pin_ops. */
int kvc_pin_again_await(struct kvc_node *n, struct kvc_session *session, struct kvc_key key);
void kvc_pin_release_await(struct kvc_node *n, struct kvc_session *session, struct kvc_key key);

/* kvc_delete_at_await -- as kvc_delete_at. */
int kvc_delete_at_await(struct kvc_client *c, struct kvc_key key, uint64_t time_ns, const struct kvc_call *call);

/* kvc_delete_begin -- ask node n to delete a key, without parking. 0 and *out, which the caller releases; -KV_EBUSY: no
 * room now.
 * kvc_drop_next -- the next server that may have the value of a key, or a pin of it; twice: it is kept at two. *told:
 * those that were asked; the next one is among them from now on. NULL: there is none left.
 * kvc_delete_item_await -- make the whole DELETE, as a part of call t, which has these flags. again: it was asked for
 * before, in vain. 0 or a code. */
int kvc_delete_begin(struct kvc_node *n, struct kvc_key key, uint64_t deadline_ns, struct kvc_wait *wait,
		     struct kvc_req **out);
struct kvc_node *kvc_drop_next(struct kvc_client *c, struct kvc_key key, bool twice, struct kvc_place_set *told);
int kvc_delete_item_await(struct kvc_client *c, struct kvc_key key, unsigned flags, uint64_t deadline_ns, bool again,
			  struct kvc_trace *t);

#endif
