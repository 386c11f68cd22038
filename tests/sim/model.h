/* SPDX-License-Identifier: Apache-2.0 */
/* model.h -- workers that use a simulated cache at random, and a model that knows what each call may answer.
 *
 * Each worker owns keys of its own, for which the model is exact: the value that is there, or the few that may be there
 * after a call whose outcome is unknown. All workers share some keys that are written and never deleted (whatever is
 * seen once must be seen for ever), and some that are deleted too (what is seen must have been written). Anything else
 * is said to world_wrong: wrong bytes, a code that cannot be, a call that returned too late, memory touched after its
 * call. */
#ifndef KVRAIL_TESTS_SIM_MODEL_H
#define KVRAIL_TESTS_SIM_MODEL_H

#include "tests/sim/world.h"

struct model;

enum { MODEL_SESSIONS = 4 };

struct model_options {
	unsigned workers;    /* over all pools and clients; 0: 16 */
	unsigned calls;      /* of each worker at most; 0: 60 */
	uint64_t len_max;    /* 0: 20 MiB */
	bool registered;     /* some calls use registered memory */
	bool evicts;         /* the server may be too small: any value may be missing, a PUT may find no room */
	bool trouble;        /* calls may fail, and have short deadlines; servers may be restarted */
	unsigned calls_min;  /* of all workers together, if until_ns is earlier */
	bool mostly_small;   /* values: few of more than some KiB */
	uint64_t pause_ns;   /* at most, after some calls and when a server is down; 0: 1 ms, with trouble 30 ms */
	uint64_t slab_bytes; /* of registered memory per worker; 0: 1 MiB */
	unsigned sessions;   /* further ones that each worker opens, uses and closes, MODEL_SESSIONS at most; 0: none */
	uint64_t until_ns;   /* trouble: workers go on till then (and `calls` is not looked at) */
};

struct model_counts {
	uint64_t calls, bytes, failed, misses, timeouts, downs, closed;
	uint64_t opened, refused; /* further sessions; that could not be opened */
};

struct model *model_create(struct world *w, const struct model_options *options);
/* model_end -- registered memory is unregistered, so no call may be in progress. model_destroy -- the same, if that was
 * not done, and everything is freed: after world_close when a pool was killed, whose workers end only there. */
void model_end(struct model *m);
void model_destroy(struct model **m);

/* model_start -- workers begin; world_join waits for them. Workers of a pool that is stopped meanwhile end; what those
 * of one that is killed find is not looked at. */
void model_start(struct model *m);

/* model_lost -- a server has just lost all its values. */
void model_lost(struct model *m);

/* model_check -- all keys are read through each pool, without tolerance: every call succeeds and agrees with the model.
 * Then all are deleted: servers must be empty and clients at rest, with nothing of theirs lost. */
void model_check(struct model *m);

const struct model_counts *model_counts(const struct model *m);

#endif
