/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- a client's data and functions private to kvclient/request/ (and tests). On the client's loop. */
#ifndef KVRAIL_KVCLIENT_REQUEST_PRIVATE_H
#define KVRAIL_KVCLIENT_REQUEST_PRIVATE_H

#include "kvclient/core/client.h"

enum { KC_ZOMBIES_MAX = 64 }; /* peers kept open for a later fence */

/* Our reads (pull.c). */
struct kc_pulls {
	struct kc_pull *pull; /* NULL until a server allows reads */
	struct kv_list free;
	uint32_t used;
};

/* Our writes (landing.c). */
struct kc_pushes {
	struct kc_push *push; /* NULL until a server has a landing area */
	struct kv_list free;
};

struct kc_packs {
	struct kc_pack *pack; /* NULL: the fabric has no ordered writes */
	struct kv_area area;
	struct te_region *region; /* closed with the engine */
	struct kv_list free;
	uint32_t used;
};

/* Limits of all requests together (admission.c). */
struct kc_room {
	uint32_t imm_limit, imm_used;
	struct kc_room_share nobody; /* share of borrowed pieces */
	uint64_t servers_bytes;      /* of pieces, in all servers' shares */
	uint64_t scans;
	struct kv_list starving; /* struct kc_starving: coroutines that wait for room, in order */
	struct kv_list behind;   /* the same, for background requests not yet passed often enough */
	uint32_t num_starving;
	/* Totals of the background, and passes of its waiting requests. */
	struct {
		uint64_t bytes;
		uint32_t reqs, imms, passed;
	} background;
};

/* Sending (frames.c, release.c). */
struct kc_out {
	struct kv_list dirty;
	struct kc_link *follow_link; /* the link of the frame that follows its writes */
	struct te_msg *follow_msg;   /* that frame; NULL: sent */
	uint32_t frames;             /* frames in the engine */
	struct co *flusher;
	bool flusher_stop;
	struct kv_list releasing; /* links with leases to return */
	struct loop_timer release_timer;
	struct loop_timer again; /* for links that are stuck (landing.c) */
};

/* Memory of given-up requests that peers may still touch, besides the buffer's quarantine (life.c, end.c, fence.c). */
struct kc_unsafe {
	struct kv_list orphans; /* requests without calls, not over, oldest first */
	uint64_t orphan_bytes;  /* of their pieces */
	uint64_t quarantine_ns; /* start of the buffer's quarantine */
	struct te_peer *zombie[KC_ZOMBIES_MAX];
	unsigned num_zombies;
	bool fenced;          /* our fence is done, the engine's report is not */
	struct kv_list limbo; /* requests into callers' memory, until an endpoint is closed */
	struct co_queue over; /* coroutines that wait for endpoints to close, and the number of closings */
	uint64_t times_over;
};

struct kc_requests {
	struct kvc_client *client;
	struct kc_pulls pulls;
	struct kc_pushes pushes;
	struct kc_packs packs;
	struct kc_room room;
	struct kc_out out;
	struct kc_unsafe unsafe;
};

/* ---- order.c ---- */

/* kc_queue_in -- add a request to `queue`, `parked` or a lane's queue, before the background unless it belongs to it.
 * kc_queue_kept -- whether a waiting one comes before it. */
void kc_queue_in(struct kc_link *l, struct kv_list *queue, struct kc_req *r);
bool kc_queue_kept(const struct kv_list *queue, const struct kc_req *r);
struct kv_list *kc_queue_front_end(const struct kv_list *queue);

/* ---- release.c ---- */

/* kc_release_add -- return a lease with the link's next frame, or soon. kc_release_write -- write a frame's RELEASE.
 * kc_release_end -- forget leases of an ended attachment. kc_release_fire -- the timer. */
void kc_release_add(struct kc_link *l, uint64_t lease);
void kc_release_write(struct kc_link *l, struct wire_writer *w);
void kc_release_end(struct kc_link *l);
void kc_release_fire(struct loop_timer *t);

#endif
