/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h -- the choice of an engine's NICs. Private to engine/; pure, so tests try it with invented machines. */
#ifndef KVRAIL_ENGINE_PLAN_H
#define KVRAIL_ENGINE_PLAN_H

#include "engine/engine.h"
#include "engine/fabric/fabric.h"

/* te_plan_devices -- choose the devices for the rails of engine o->engine of o->engines: out[0 .. *out_rails) are
 * indices into d. count is at least 1. Reads o->nic (only whether it is set), rails, engine, engines. Returns 0,
 * -KV_EINVAL (more rails than an engine can have) or -KV_ELIMIT (more than NICs). */
int te_plan_devices(const struct te_options *o, const struct fab_device *d, unsigned count, unsigned *out,
		    unsigned *out_rails, struct kv_error *err);

/* te_plan_fill -- the same as a te_plan. */
void te_plan_fill(const struct fab_device *d, unsigned count, const unsigned *at, unsigned rails, struct te_plan *out);

#endif
