/* SPDX-License-Identifier: Apache-2.0 */
/* landing.h -- landing areas: memory of a shard that one client alone may write, for the bytes of its PUTs. The shard's
 * thread. */
#ifndef KVRAIL_KVSERVER_SHARD_LANDING_H
#define KVRAIL_KVSERVER_SHARD_LANDING_H

#include "engine/engine.h"
#include "store/store.h"
#include "wire/wire.h"

struct shard_attachment;
struct shard;

struct landings {
	struct kv_area area; /* pages appear with use */
	struct arena room;
	struct kv_rate lines;
	struct kv_list leaving; /* struct landing: without an attachment; its client may still be writing */
};

struct landing_turn {
	uint64_t turn, bytes;
};

/* Of an attachment; NULL there: not requested, or not available. */
struct landing {
	struct kv_list node; /* landings.leaving */
	struct shard *shard;
	struct te_region *region;  /* its own, with a key of its own */
	struct arena_block *place; /* of landings.room: its offset applies to landings.area */
	uint64_t free_ns;          /* leaving: not reused before */
	struct landing_turn turn;
};

/* landings_allowed -- whether PUTs by client writes are better than reads: messages stay behind earlier writes, one
 * peer can be cut alone, and reads would cost the client's processor. */
bool landings_allowed(const struct te_info *info);

/* landings_open -- areas of at most limit_bytes together. 0, -KV_ENOMEM. landings_close -- the engine is closed. */
int landings_open(struct shard *s, uint64_t limit_bytes, struct kv_error *err);
void landings_close(struct shard *s);

/* landings_offered -- whether there are any; constant. Thread: any. */
bool landings_offered(const struct shard *s);

/* landing_open -- give this attachment an area, once; the more clients, the smaller. Returns 0, also without room or if
 * registering fails (attachment->landing stays NULL); -KV_EPROTO: it has one; -KV_ENOMEM. */
int landing_open(struct shard_attachment *s);

/* landing_leave -- the attachment ends. After a goodbye nothing is in flight. If its connection ended, the client is
 * cut, where that harms no others. Else the area rests for a while: sent bytes may still arrive. */
void landing_leave(struct shard_attachment *s);

/* landings_tick -- free the rested areas. */
void landings_tick(struct shard *s, uint64_t now_ns);

/* landing_announce -- the content of a LANDING message, with or without an area; free *out_keys. 0, -KV_ENOMEM. */
int landing_announce(const struct shard_attachment *s, struct wire_region *out, uint8_t **out_keys);

/* landing_at -- the bytes named by a LANDED request: in the area of its channel (local_client.c), if it has one. NULL:
 * outside, or no area. */
const uint8_t *landing_at(const struct shard_attachment *s, const struct wire_dest *d);

/* landing_spend -- account n bytes to copy in this turn. False: too many. The attachment has an area. */
bool landing_spend(const struct shard_attachment *s, uint64_t n);

/* landing_size -- of a new area, at most `most`: an eighth of `free`, as a power of two; 0: too little is free. */
uint64_t landing_size(uint64_t free, uint64_t most);

/* landings_bytes -- bytes of all areas now. */
uint64_t landings_bytes(const struct shard *s);

#endif
