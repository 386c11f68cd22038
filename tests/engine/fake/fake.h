/* SPDX-License-Identifier: Apache-2.0 */
/* fake.h -- a fabric that does what the test says: -EAGAIN, failures, stray events, dead endpoints, rebuilds that fail.
 *
 * fake.c implements engine/fabric/fabric.h itself, so the linker takes nothing from libfab.a. Nothing completes unless
 * the test says so; time stands still unless the test moves it. One thread, apart from registrations. */
#ifndef KVRAIL_TESTS_ENGINE_FAKE_FAKE_H
#define KVRAIL_TESTS_ENGINE_FAKE_FAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "engine/fabric/fabric.h"
#include "tests/fabric_stand_in.h"

enum { FAKE_POSTS_MAX = 4096, FAKE_HANDLES = 512, FAKE_EVENTS_MAX = 256 };

enum fake_kind { FAKE_SEND, FAKE_WRITE, FAKE_READ };

struct fake_post {
	enum fake_kind kind;
	uint64_t to, addr, key;
	size_t len;
	struct fab_ctx *ctx;
	uint32_t imm;
	bool has_imm, over;
	unsigned how; /* FAB_MORE and others */
	unsigned rail;
};

struct fab {
	bool open;
	unsigned rail, old; /* old: given up and not closed */
	struct kv_list mrs;
};
struct fab_mr {
	struct kv_list node;
	uint64_t key, len;
	uint8_t *base;
};

/* What a test tells the fabric, and what the fabric has seen; fake_clear makes all of it zero. */
struct fake {
	struct fake_post posts[FAKE_POSTS_MAX]; /* everything ever posted, receives apart */
	unsigned count, tries, recvs_posted, recvs_eagain, recvs_tries;
	struct fab_ctx *recvs[64];
	bool eagain[FAKE_HANDLES];              /* per handle */
	bool known[KV_RAILS_MAX][FAKE_HANDLES]; /* addresses that a rail has */
	int fail_next;                          /* code of the next send, write or read */
	bool half_next;                         /* of the next write the provider takes the first half only */
	struct fab_event events[FAKE_EVENTS_MAX];
	unsigned event_rail[FAKE_EVENTS_MAX];
	unsigned nevents, polls;
	unsigned rebuilds, rebuild_failures, mrs, inserts, removes, opens;
	unsigned shuts, rebuilds_of[KV_RAILS_MAX], fails_of[KV_RAILS_MAX]; /* by rail */
	bool mr_fails_of[KV_RAILS_MAX];
	uint64_t mr_room_of[KV_RAILS_MAX]; /* bytes that a rail has left for regions; 0: no end */
	uint64_t mr_takes_ns, close_takes_ns;
	bool busy[KV_RAILS_MAX];
	uint64_t mr_max; /* larger registrations fail */
	int cut_fails;   /* what fab_cut says */
	bool cut[FAKE_HANDLES];
	unsigned cuts, broken;
	struct fab_caps caps;
	uint32_t tx_depth, cq_depth;
	bool closed;                  /* what was given up is closed, ... */
	bool closed_of[KV_RAILS_MAX]; /* ... by rail */
	unsigned retires;
};
extern struct fake fake;

/* What the next engine finds when it opens; fake_clear leaves it as it is. */
struct fake_machine {
	unsigned devices;
	int node;
	bool imm_only, ordered;
	bool slow; /* endpoints take long to close */
};
extern struct fake_machine machine;

extern struct fab *fake_fabs[KV_RAILS_MAX]; /* those that are open, by rail */
extern uint64_t fake_now_ns;
extern const struct kv_clock fake_clock; /* shows fake_now_ns */

/* fake_clear -- forget what an earlier test told and saw. No engine is open. */
void fake_clear(void);

/* fake_event -- what the next fab_poll of a rail gives out. */
void fake_event(unsigned rail, struct fab_event ev);

/* fake_complete -- end the i-th post, which has not ended yet, with this status. */
void fake_complete(unsigned i, int status);

/* fake_outstanding -- how many posts have not ended. */
unsigned fake_outstanding(void);

#endif
