/* SPDX-License-Identifier: Apache-2.0 */
/* env.h -- the provider settings of our programs. Private to engine/. */
#ifndef KVRAIL_ENGINE_ENV_H
#define KVRAIL_ENGINE_ENV_H

#include "engine/engine.h"

/* rxm's queues of each connection, and the connections of an endpoint. fixed: set by the user. */
struct te_rxm {
	uint64_t rx, tx, peers;
	bool rx_fixed, tx_fixed, peers_fixed;
};
/* te_rxm_fit -- reduce (rx + tx) * peers to entries_max, as far as the fixed values allow. */
void te_rxm_fit(struct te_rxm *r, uint64_t entries_max);

#endif
