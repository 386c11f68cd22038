/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h -- a shard with a real engine, and a client made by hand: frames are built record by record and sent over tcp
 * in this process. One thread turns both. Everything that waits gives up after some seconds and fails the test. */
#ifndef KVRAIL_TESTS_KVSERVER_RIG_H
#define KVRAIL_TESTS_KVSERVER_RIG_H

#include <sys/socket.h>

#include "tests/check.h"

#include "host/host.h"
#include "kvserver/ops/lease.h"
#include "kvserver/ops/ops.h"
#include "kvserver/ops/stage.h"
#include "kvserver/ops/work.h"
#include "kvserver/shard/attachment.h"
#include "kvserver/shard/loopcall.h"
#include "kvserver/shard/private.h"
#include "kvserver/shard/reply.h"
#include "kvserver/shard/request.h"
#include "kvserver/shard/stat.h"
#include "kvserver/tenant/tenants.h"

enum {
	RIG_MEMORY = 32 << 20, /* of the shard */
	RIG_BUFFER = 24 << 20, /* of the client, registered and announced as region 1 */
	RIG_CREDITS = 8,
	RIG_REPLIES = 256,
	RIG_SLOTS = 64,
	RIG_MARK = 0x4D41524B,
	RIG_TINY = 1024,
	RIG_TINIES = RIG_MEMORY / RIG_TINY
};

/* A reply, with the bytes that it pointed to. */
struct rig_reply {
	struct wire_reply reply;
	struct wire_frame frame;
	uint8_t data[KV_MSG_MAX];
};

struct rig {
	struct loop *loop;
	struct shard *shard;
	struct te *te; /* the client's */
	struct kv_area area;
	struct te_region *region;
	struct te_remote announced;
	struct te_peer *server;
	struct shard_attachment *attachment;
	uint32_t number;
	uint8_t secret[BOOT_FRAME_SECRET];
	struct kv_macs macs;
	struct kv_seal seal; /* of link 0 */
	uint64_t seen[KV_WINDOW_WIDTH / 64];
	uint64_t strays; /* frames of sessions that are not its own */
	uint64_t next_id;
	struct wire_region wire_region;
	struct region *mem;
	struct rig_reply reply[RIG_REPLIES];
	unsigned replies;
	uint64_t immediates; /* and replies that follow their write, which has none: */
	uint64_t follows;
	uint64_t locals; /* frames by the channel */
	uint32_t last_immediate;
	uint16_t generation;
	char logged[1024]; /* the last warning of the shard */
	unsigned lines;    /* warnings of the shard */
};

extern struct rig rig;
extern uint64_t rig_part_bytes; /* set before rig_up: of the regions of both sides; 0: 1 GiB */
extern uint64_t rig_lease_ns;   /* set before rig_up: clients may pull, for so long; 0: they may not */

extern uint64_t rig_landing_bytes; /* set before rig_up: for landing areas; 0: there are none */

extern bool rig_arena_private; /* set before rig_up: the memory for values is private */

extern const struct evict_policy *rig_policy; /* set before rig_up: of eviction; NULL: clock2g */

extern uint64_t rig_memory_bytes; /* set before rig_up: 0: RIG_MEMORY */

extern const struct tier_files *rig_tier; /* set before rig_up: of the tier, with segments of 1 MiB; NULL: none */

extern struct grant rig_grant; /* set before rig_open or rig_session_open: of the session */

int rig_up(void **state); /* group set-up: shard and client engine */
int rig_down(void **state);
int rig_open(void **state);            /* per test: a fresh session whose link is proven, empty store */
int rig_session_open(uint32_t number); /* a further session */
int rig_open_unproven(void **state);
int rig_close(void **state);
void rig_attachment_end(void);

/* What the shard is asked to do, which may take it a while. rig_call -- what the test gives to a function of the shard;
 * c->done says when it is done. rig_call_run -- have the shard run it, and wait. */
struct rig_call {
	struct call call;
	bool done;
};
struct call *rig_call(struct rig_call *c);
void rig_call_run(void (*run)(struct call *c));

uint8_t *rig_memory(uint64_t offset);
void rig_turn(void);
/* rig_until -- turn until the condition holds. */
#define rig_until(condition)                                                                                           \
	do {                                                                                                           \
		uint64_t until_ = kv_clock_now(&kv_clock_monotonic) + 10000000000ull;                                  \
		while (!(condition)) {                                                                                 \
			if (kv_clock_now(&kv_clock_monotonic) > until_)                                                \
				fail_msg("not within 10 s: " #condition);                                              \
			rig_turn();                                                                                    \
		}                                                                                                      \
	} while (0)
void rig_quiet(void); /* turn until nothing has happened for a while: what must not come had its chance */

/* Requests. rig_request fills id and deadline; the caller sets the rest. */
struct wire_request rig_request(enum wire_type type, const char *key);
struct wire_request rig_get(const char *key, uint64_t offset, uint64_t length);
struct wire_request rig_put(const char *key, uint64_t total, uint64_t offset, uint64_t length, uint64_t checksum,
			    uint8_t flags);
/* rig_send_records -- sealed as link 0's next frame, whatever the header says; rig_send_raw -- as it is. rig_seal -- a
 * frame that was ended. */
void rig_seal(void *frame, uint32_t len);
void rig_send_records(const struct wire_frame *frame, const struct wire_request *q, unsigned n);
void rig_send_raw(const void *data, uint32_t len);
struct wire_frame rig_frame(void);
void rig_send(const struct wire_request *q);
void rig_prove(uint64_t nonce);                                 /* send a PROVE */
const struct wire_reply *rig_find(uint64_t id);                 /* NULL: no reply yet */
const struct wire_reply *rig_ask(const struct wire_request *q); /* send, and wait for the reply */

/* rig_store -- put a value of n bytes made from seed, whole, through the fabric; rig_fill -- what its bytes are. */
uint64_t rig_store(const char *key, uint64_t n, uint64_t seed);
void rig_fill(uint8_t *at, uint64_t n, uint64_t seed);
uint64_t rig_stat(enum wire_stat id);

/* rig_tiny_fill -- put values of RIG_TINY bytes into the store until one has no place at once, RIG_TINIES at most; how
 * many it were. rig_tiny -- the i-th of them, NULL: it is gone; rig_tiny_key -- its key. */
unsigned rig_tiny_fill(void);
struct block *rig_tiny(unsigned i);
void rig_tiny_key(char key[16], unsigned i);

struct sockaddr_storage rig_loopback(void);

#endif
