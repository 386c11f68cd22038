/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- what the files of kvclient/request/ alone know of a client (and tests). */
#ifndef KVRAIL_KVCLIENT_REQUEST_PRIVATE_H
#define KVRAIL_KVCLIENT_REQUEST_PRIVATE_H

#include "kvclient/core/client.h"

enum { KVC_ZOMBIES_MAX = 64 }; /* peers that are kept open for a fence to come */

/* Reads of ours (pull.c). */
struct kvc_pulls {
	struct kvc_pull *pull; /* NULL until there is a server to read from */
	struct kv_list free;
	uint32_t used;
};

/* Writes of ours (landing.c). */
struct kvc_pushes {
	struct kvc_push *push; /* NULL until a server has a landing area for us */
	struct kv_list free;
};

/* Small values of PUTs, written together (pack.c). */
struct kvc_packs {
	struct kvc_pack *pack; /* NULL: the fabric has no ordered writes */
	struct kv_area area;
	struct te_region *region; /* goes with the engine */
	struct kv_list free;
	uint32_t used;
};

/* What all requests may have together (admission.c). */
struct kvc_room {
	uint32_t imm_limit, imm_used;
	struct kvc_room_share nobody; /* what borrowed pieces have */
	uint64_t servers_bytes;       /* of pieces, in all servers' shares */
	uint64_t scans;
	struct kv_list starving; /* struct kvc_starving: coroutines that wait for room, in order */
	struct kv_list behind;   /* the same, whose requests are in the background and were not passed often enough */
	uint32_t num_starving;
	/* What requests in the background have of all, and how often those that wait were passed. */
	struct {
		uint64_t bytes;
		uint32_t reqs, imms, passed;
	} background;
};

/* What is on its way out (link.h, frames.c, release.c). */
struct kvc_out {
	struct kv_list dirty;         /* links with something to send */
	struct kvc_link *follow_link; /* the link whose frame goes behind its writes now */
	struct te_msg *follow_msg;    /* that frame; NULL: it was sent */
	uint32_t frames;              /* frames that the engine has */
	struct co *flusher;
	bool flusher_stop;
	struct kv_list releasing; /* links with leases to give back */
	struct loop_timer release_timer;
	struct loop_timer again; /* for links that are stuck (landing.c) */
};

/* What peers may still touch of requests that were given up, beside the buffer's quarantine (life.c, end.c,
 * fence.c). */
struct kvc_unsafe {
	struct kv_list orphans; /* requests whose calls have gone and that are not over, oldest first */
	uint64_t orphan_bytes;  /* of their pieces */
	uint64_t quarantine_ns; /* since when the buffer's quarantine is not empty */
	struct te_peer *zombie[KVC_ZOMBIES_MAX];
	unsigned num_zombies;
	bool fenced; /* a fence of ours is done, and the engine's report of it is still to come */
	struct kv_list
		limbo; /* requests into memory of callers that may still be written to, until an endpoint is closed */
	struct co_queue over; /* coroutines that wait until endpoints are closed, and how often they were */
	uint64_t times_over;
};

struct kvc_requests {
	struct kvc_client *client;
	struct kvc_pulls pulls;
	struct kvc_pushes pushes;
	struct kvc_packs packs;
	struct kvc_room room;
	struct kvc_out out;
	struct kvc_unsafe unsafe;
};

#endif
