/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h -- rebuilding the endpoints. Private to engine/. */
#ifndef KVRAIL_ENGINE_FENCE_H
#define KVRAIL_ENGINE_FENCE_H

#include "engine/engine.h"

/* te_reset -- rebuild all endpoints: a fence of everybody. The owner is told by te_reset_turn. 0, or the code of a
 * rebuild that failed, with *err (NULL: nobody wants it): endpoints are closed then. Runs no callbacks. */
int te_reset(struct te *te, struct kv_error *err);

/* te_reset_turn -- once per te_poll: rebuild what died or is due, tell the owner. Runs callbacks. */
void te_reset_turn(struct te *te);

#endif
