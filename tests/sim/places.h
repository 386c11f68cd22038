/* SPDX-License-Identifier: Apache-2.0 */
/* places.h -- worlds about places of a landing area, for test_sim_rules.c: who may use one again, and when. */
#ifndef KVRAIL_TESTS_SIM_PLACES_H
#define KVRAIL_TESTS_SIM_PLACES_H

#include "tests/sim/world.h"

/* places_run -- PUTs that are given up all the time share an area with hardly any room; their CANCELs overtake their
 * bytes. */
void places_run(struct world *w, uint64_t seed);

#endif
