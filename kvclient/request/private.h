/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- a client's data private to kvclient/request/ (and tests). */
#ifndef KVRAIL_KVCLIENT_REQUEST_PRIVATE_H
#define KVRAIL_KVCLIENT_REQUEST_PRIVATE_H

#include "kvclient/core/client.h"

enum { KVC_ZOMBIES_MAX = 64 }; /* peers kept open for a later fence */

/* Our reads (pull.c). */
struct kvc_pulls {
	struct kvc_pull *pull; /* NULL until a server allows reads */
	struct kv_list free;
	uint32_t used;
};

/* Our writes (landing.c). */
struct kvc_pushes {
	struct kvc_push *push; /* NULL until a server has a landing area */
	struct kv_list free;
};

/* Packs of small PUTs (pack.c). */
struct kvc_packs {
	struct kvc_pack *pack; /* NULL: the fabric has no ordered writes */
	struct kv_area area;
	struct te_region *region; /* closed with the engine */
	struct kv_list free;
	uint32_t used;
};

/* Limits of all requests together (admission.c). */
struct kvc_room {
	uint32_t imm_limit, imm_used;
	struct kvc_room_share nobody; /* share of borrowed pieces */
	uint64_t servers_bytes;       /* of pieces, in all servers' shares */
	uint64_t scans;
	struct kv_list starving; /* struct kvc_starving: coroutines that wait for room, in order */
	struct kv_list behind;   /* the same, for background requests not yet passed often enough */
	uint32_t num_starving;
	/* Totals of the background, and passes of its waiting requests. */
	struct {
		uint64_t bytes;
		uint32_t reqs, imms, passed;
	} background;
};

/* Sending (link.h, frames.c, release.c). */
struct kvc_out {
	struct kv_list dirty;         /* links with something to send */
	struct kvc_link *follow_link; /* the link of the frame that follows its writes */
	struct te_msg *follow_msg;    /* that frame; NULL: sent */
	uint32_t frames;              /* frames in the engine */
	struct co *flusher;
	bool flusher_stop;
	struct kv_list releasing; /* links with leases to return */
	struct loop_timer release_timer;
	struct loop_timer again; /* for links that are stuck (landing.c) */
};

/* Memory of given-up requests that peers may still touch, besides the buffer's quarantine (life.c, end.c, fence.c). */
struct kvc_unsafe {
	struct kv_list orphans; /* requests without calls, not over, oldest first */
	uint64_t orphan_bytes;  /* of their pieces */
	uint64_t quarantine_ns; /* start of the buffer's quarantine */
	struct te_peer *zombie[KVC_ZOMBIES_MAX];
	unsigned num_zombies;
	bool fenced;          /* our fence is done, the engine's report is not */
	struct kv_list limbo; /* requests into callers' memory, until an endpoint is closed */
	struct co_queue over; /* coroutines that wait for endpoints to close, and the number of closings */
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
