/* SPDX-License-Identifier: Apache-2.0 */
/* landing.h -- landing areas: memory of a shard that one client alone may write, for the bytes of its PUTs. The shard's
 * thread. */
#ifndef KVRAIL_KVSERVER_SHARD_LANDING_H
#define KVRAIL_KVSERVER_SHARD_LANDING_H

#include "engine/engine.h"
#include "store/store.h"
#include "wire/wire.h"

struct session;
struct shard;

/* Of a shard. */
struct landings {
	struct kv_area area; /* pages come with use */
	struct arena room;
	struct kv_rate lines;   /* about areas that could not be made */
	struct kv_list leaving; /* struct landing: nobody's, and its client may still be writing */
};

/* Of a session; NULL there: it asked for none, or there was none. */
struct landing {
	struct kv_list node; /* landings.leaving */
	struct shard *shard;
	struct te_region *region;  /* its own, with a key of its own */
	struct arena_block *place; /* of landings.room: its offset is one in landings.area */
	uint64_t free_ns;          /* leaving: not to be used again before */
	uint64_t turn, turn_bytes; /* bytes that were copied in that turn of the loop */
};

/* landings_allowed -- whether clients are better off writing their PUTs than having them read: where a message stays
 * behind the writes before it, a peer can be cut alone, and the client's processor would answer our reads. */
bool landings_allowed(const struct te_info *info);

/* landings_open -- for at most limit_bytes at a time. 0, -KV_ENOMEM. landings_close -- the engine is closed. */
int landings_open(struct shard *s, uint64_t limit_bytes, struct kv_error *err);
void landings_close(struct shard *s);

/* landings_offered -- whether there are any; it never changes. Thread: any. */
bool landings_offered(const struct shard *s);

/* landing_open -- give this session an area, once. Few clients get LANDING_MAX each; the more there are, the less.
 * Returns 0, also when there is none left, or it cannot be registered (session->landing stays NULL); -KV_EPROTO: it
 * has one; -KV_ENOMEM. */
int landing_open(struct session *s);

/* landing_leave -- the session ends. If its client has said goodbye, nothing is under way. If its connection has ended,
 * it is cut, where that harms nobody. Else the area rests for a while: what was sent may still be on its way. */
void landing_leave(struct session *s);

/* landings_tick -- areas that have rested are free. */
void landings_tick(struct shard *s, uint64_t now_ns);

/* landing_announce -- what a LANDING says of it, whether it is there or not; *out_keys is to be freed. 0, -KV_ENOMEM.
 */
int landing_announce(const struct session *s, struct wire_region *out, uint8_t **out_keys);

/* landing_at -- the bytes that a LANDED request names, or NULL: they lie outside, or there is no area. */
const uint8_t *landing_at(const struct session *s, const struct wire_dest *d);

/* landing_spend -- n bytes of its area are to be copied in this turn. False: too many were; the session has an area. */
bool landing_spend(const struct session *s, uint64_t n);

/* landings_bytes -- that areas take now. */
uint64_t landings_bytes(const struct shard *s);

#endif
