/* SPDX-License-Identifier: Apache-2.0 */
/* notify.h -- where callbacks of the owner run. Private to engine/. */
#ifndef KVRAIL_ENGINE_NOTIFY_H
#define KVRAIL_ENGINE_NOTIFY_H

#include "engine/engine.h"

/* te_notify -- run the callbacks that are due. Returns whether there were any; they may have made others due. Only
 * where no list is being walked. */
bool te_notify(struct te *te);

/* te_follow -- rail_events.follow: let the owner send what goes behind its ordered writes. */
void te_follow(struct te *te);

#endif
