/* SPDX-License-Identifier: Apache-2.0 */
/* env.h -- the provider settings that programs get. Private to engine/. */
#ifndef KVRAIL_ENGINE_ENV_H
#define KVRAIL_ENGINE_ENV_H

#include "engine/engine.h"

/* rxm's queues of each connection, and the connections of an endpoint. fixed: the user chose it. */
struct te_rxm {
	uint64_t rx, tx, peers;
	bool rx_fixed, tx_fixed, peers_fixed;
};
/* te_rxm_fit -- make (rx + tx) * peers at most entries_max, as far as what is fixed allows. */
void te_rxm_fit(struct te_rxm *r, uint64_t entries_max);

#endif
