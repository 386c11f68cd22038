/* SPDX-License-Identifier: Apache-2.0 */
/* pump.h -- which operation is posted next, and which waited too long. Private to engine/. */
#ifndef KVRAIL_ENGINE_PUMP_H
#define KVRAIL_ENGINE_PUMP_H

#include "engine/engine.h"

/* te_pump -- post the operations that wait, as credits and windows allow. te_sweep -- end those that are queued past
 * their deadline. Neither runs callbacks: te_notify tells. */
void te_pump(struct te *te);
void te_sweep(struct te *te);

#endif
