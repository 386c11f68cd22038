/* SPDX-License-Identifier: Apache-2.0 */
/* pump.h -- posts waiting operations, and ends expired ones. Private to engine/. */
#ifndef KVRAIL_ENGINE_PUMP_H
#define KVRAIL_ENGINE_PUMP_H

#include "engine/engine.h"

/* te_pump -- post waiting operations, as credits and windows allow. te_sweep -- end queued operations past their
 * deadline. Neither runs callbacks: te_notify does. */
void te_pump(struct te *te);
void te_sweep(struct te *te);

#endif
