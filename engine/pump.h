/* SPDX-License-Identifier: Apache-2.0 */
/* pump.h -- what is posted next, and what waited too long. Private to engine/. */
#ifndef KVRAIL_ENGINE_PUMP_H
#define KVRAIL_ENGINE_PUMP_H

#include "engine/engine.h"

/* te_pump -- post what waits, as credits and windows allow. te_sweep -- what is queued and past its deadline ends.
 * Neither runs callbacks: te_notify tells. */
void te_pump(struct te *te);
void te_sweep(struct te *te);

#endif
