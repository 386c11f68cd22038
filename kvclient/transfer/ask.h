/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h -- questions to servers: one request and one reply each, repeated while the deadline allows. Private to
 * kvclient/. On the client's loop; all park. */
#ifndef KVRAIL_KVCLIENT_TRANSFER_ASK_H
#define KVRAIL_KVCLIENT_TRANSFER_ASK_H

#include "kvclient/request/trace.h"
#include "kvclient/route/route.h"

struct kc_look {
	uint64_t left_ms;  /* as kvc_ttl_await */
	uint64_t age_ns;   /* upper bound of the value's age ... */
	uint64_t asked_ns; /* ... at this time of our clock */
	uint64_t checksum;
};

/* kc_ask_await -- ask node n about the request's key, as a part of call t. *out_look: of a TOUCH; or NULL. *tries:
 * requests before the last one. 0 or a code; -KV_EDELETED: deleted lately. kc_ask_shard_await -- ask one shard. into:
 * struct kc_stats of a STAT, struct kc_tombs of a TOMBS, struct kc_rows of a SPACES, TENANTS or LEASES, a generation of
 * a CLEAR, else NULL. 0; 1: no such shard; or a code. kc_ask_route_await -- ask the route's servers in turn: the code
 * of the call. */
int kc_ask_await(struct kc_node *n, const struct wire_request *wire, uint64_t deadline_ns, struct kc_look *out_look,
		 unsigned *tries, struct kc_trace *t);
int kc_ask_shard_await(struct kc_node *n, const struct wire_request *wire, uint32_t shard, uint64_t deadline_ns,
		       void *into, struct kc_trace *t);
int kc_ask_route_await(struct route *r, struct wire_request *wire, struct kc_look *out_look, unsigned *tries,
		       struct kc_trace *t);

/* kc_ask_node_await -- kc_ask_await for a request answered by a code alone; returns the API call's code. */
int kc_ask_node_await(struct kc_node *n, const struct wire_request *wire, uint64_t deadline_ns, struct kc_trace *t);

/* kc_look_await -- look at the value of a key at node n. 0 or a code; -KV_EDELETED: as kc_ask_await. kc_left_await
 * -- its remaining time to live. */
int kc_look_await(struct kc_node *n, struct kvc_key key, uint64_t deadline_ns, struct kc_look *out, struct kc_trace *t);
int kc_left_await(struct kc_node *n, struct kvc_key key, uint64_t deadline_ns, uint64_t *out_left_ms,
		  struct kc_trace *t);

/* kc_yield_await -- delete the value of this generation at node n: another server has a younger value or tombstone. */
void kc_yield_await(struct kc_node *n, struct kvc_key key, uint64_t generation, uint64_t deadline_ns,
		    struct kc_trace *t);

/* kc_pin_again_await, kc_pin_release_await -- kc_hooks. */
int kc_pin_again_await(struct kc_node *n, struct kvc_session *session, struct kvc_key key);
void kc_pin_release_await(struct kc_node *n, struct kvc_session *session, struct kvc_key key);

#endif
