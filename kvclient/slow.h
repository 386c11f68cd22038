/* SPDX-License-Identifier: Apache-2.0 */
/* slow.h -- where the time of a call went: stamps of its requests, and a line in the log when it was slow. Private to
 * kvclient/. */
#ifndef KVRAIL_KVCLIENT_SLOW_H
#define KVRAIL_KVCLIENT_SLOW_H

#include "base/base.h"
#include "kvclient/kvclient.h"

struct kvc_client;
struct kvc_req;

enum { KVC_SLOW_LINES = 10 }; /* lines per second and client */

/* When things happened to a request, on the loop's clock; 0: they did not. In this order. */
struct kvc_stamps {
	uint64_t asked_ns;   /* the call wanted to make it: now it waits for a connection and for room */
	uint64_t made_ns;    /* it has room, and waits for a credit */
	uint64_t sent_ns;    /* its frame was handed to the engine */
	uint64_t replied_ns; /* its reply arrived */
	uint64_t done_ns;    /* its last data write arrived, or it was given up */
	uint32_t server_posted_ns, server_replied_ns; /* what the server says that it spent; see wire.h */
	uint16_t server, shard, link;
	uint8_t type;        /* enum wire_type */
	uint8_t key_len;
	uint64_t bytes;      /* asked for, or sent */
};

/* One call. On the stack of its coroutine; requests point to it until they are released, which is before the call ends. */
struct kvc_trace {
	enum kvc_op op;
	bool on; /* slow calls are logged: without that nothing else here is kept */
	bool batch;
	uint64_t called_ns, last_done_ns;
	unsigned requests; /* that it made */
	struct kvc_stamps worst; /* of the request that took longest */
	uint8_t key[KV_KEY_SHOWN]; /* of that request, or of the call */
	uint8_t key_len;
};

/* What the time of a call consisted of, in nanoseconds: they add up to `total`. */
struct kvc_phases {
	uint64_t total;
	uint64_t room;   /* of the worst request: asked -> made */
	uint64_t queue;  /* made -> sent */
	uint64_t server; /* arrived there -> its reply made; `post` is the part until the last data operation was posted */
	uint64_t post;
	uint64_t wire;   /* sent -> replied, less `server`: both ways, and what waited in both engines */
	uint64_t data;   /* replied -> the last data write arrived */
	uint64_t wake;   /* after the call's last request was done: waking up, checksum, copies */
	uint64_t other;  /* the rest: other requests of the call, pauses before it was tried again */
};

void kvc_trace_begin(struct kvc_trace *t, struct kvc_client *c, enum kvc_op op);
/* kvc_trace_key -- the key it is about, as far as it is shown. */
void kvc_trace_key(struct kvc_trace *t, const void *key, size_t len);
/* kvc_trace_note -- a request of the call is released: keep its stamps if it is the longest so far. */
void kvc_trace_note(struct kvc_trace *t, const struct kvc_req *r, uint64_t now_ns);
/* kvc_trace_phases -- of a call that ends at now_ns. */
void kvc_trace_phases(const struct kvc_trace *t, uint64_t now_ns, struct kvc_phases *out);
/* kvc_trace_end -- the call ends with rc: log it if it was slow. */
void kvc_trace_end(struct kvc_trace *t, struct kvc_client *c, int64_t rc);

#endif
