/* SPDX-License-Identifier: Apache-2.0 */
/* churn.h -- a cluster whose servers come, go, drain, die and stand still while clients make calls of all kinds. */
#ifndef KVRAIL_TESTS_SIM_CHURN_H
#define KVRAIL_TESTS_SIM_CHURN_H

#include "tests/sim/members.h"

/* Whether values are kept at two servers: all (KVC_TWO_COPIES), or hot ones (KVC_HOT_COPIES). */
enum churn_copies { CHURN_BY_SEED, CHURN_ONCE, CHURN_TWICE, CHURN_HOT };

/* churn_run -- one such world, to its end: no call fails because of what happens, no wrong byte is read, and nothing is
 * left. It is members.world. */
void churn_run(uint64_t seed, enum churn_copies copies);

/* churn_user -- a worker that makes calls about the keys of members.h until members.stop. */
void churn_user(struct kvc_client *c, void *arg);

#endif
