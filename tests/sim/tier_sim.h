/* SPDX-License-Identifier: Apache-2.0 */
/* tier_sim.h -- devices of simulated servers' tiers: kvserver/tier/tier_device.c under virtual time. The bytes are in
 * the file that the server opened and locked; transfers take a random time, overtake each other, and may fail. */
#ifndef KVRAIL_TESTS_SIM_TIER_SIM_H
#define KVRAIL_TESTS_SIM_TIER_SIM_H

#include "kvserver/tier/tier_file.h"
#include "tests/sim/ring_sim.h"

/* tier_sim_begin -- devices that are opened from now on are of this world. fail_ppm: so many transfers fail. */
void tier_sim_begin(struct sim_world *world, uint64_t seed, unsigned fail_ppm);

/* tier_sim_crash -- the process with this loop is killed: of each write under way nothing, all or the front is in the
 * file, and what it submits from now on fails, as does what is under way, once its loop turns again. Its files can be
 * locked by others. */
void tier_sim_crash(const struct loop *loop);
void tier_sim_unlock(const struct tier_files *files);

#endif
