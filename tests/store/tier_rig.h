/* SPDX-License-Identifier: Apache-2.0 */
/* tier_rig.h -- a store with a tier on devices in memory, whose transfers end when a test says so, and how it says. */
#ifndef KVRAIL_TESTS_STORE_TIER_RIG_H
#define KVRAIL_TESTS_STORE_TIER_RIG_H

#include "tests/store/rig.h"

enum { FAKE_QUEUE = 256, FAKES_MAX = 3 };

/* A device. Its bytes survive a restart. */
struct fake {
	struct tier_device dev; /* first */
	uint8_t *disk;
	struct tier_io *io[FAKE_QUEUE];
	unsigned pending;
	unsigned short_of, fail_of; /* of this many transfers one is short, with a page at least, or fails; 0: none */
	bool stuck;                 /* nothing ends */
	bool gone;                  /* everything fails, reopen too */
	uint64_t writes;            /* transfers */
};

struct tier_rig {
	struct kv_prng prng;
	struct fake fake[FAKES_MAX];
	unsigned fakes;
	struct tier *tier;
	struct tier_options options;
	uint64_t now_ns, wall_us;
};

/* tier_rig_open -- devices of these bytes each, and a store; then rig_start. memory: of the store. */
void tier_rig_open(struct tier_rig *r, unsigned fakes, uint64_t bytes, uint64_t memory);
void tier_rig_start(struct tier_rig *r);

/* tier_rig_stop -- end the process: crash: pending writes reach the device in part. tier_rig_close -- all. */
void tier_rig_stop(struct tier_rig *r, bool crash);
void tier_rig_close(struct tier_rig *r);

/* tier_rig_step -- one turn: some transfers end, time passes. tier_rig_settle -- until nothing is in flight. */
void tier_rig_step(struct tier_rig *r);
void tier_rig_settle(struct tier_rig *r);

/* tier_rig_put -- store a value. False: no room now. tier_rig_get -- from memory or tier, to the end. -1: a miss; else
 * the seed that its bytes were made of. tier_rig_delete -- as the server does it; steps: whether it waits for the end.
 */
bool tier_rig_put(struct tier_rig *r, const char *key, uint64_t len, uint32_t seed, uint64_t ttl_ns);
int64_t tier_rig_get(struct tier_rig *r, const char *key);
bool tier_rig_delete(struct tier_rig *r, const char *key, bool wait);

/* tier_rig_space -- keys are of this namespace from now on. tier_rig_clear -- clear it; wait: whether it waits for the
 * end. True: safe. */
void tier_rig_space(struct tier_rig *r, const char *name);
bool tier_rig_clear(struct tier_rig *r, bool wait);

#endif
