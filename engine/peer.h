/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h -- peers that become void, and the end of the operations that are queued for them. Private to engine/. */
#ifndef KVRAIL_ENGINE_PEER_H
#define KVRAIL_ENGINE_PEER_H

#include "engine/link.h"

/* peer_void -- its addresses are good no longer: no link of it posts before te_peer_readdress. peer_fail_queued -- all
 * that is queued for it ends with this status; te_notify tells. */
void peer_void(struct te_peer *peer);
void peer_fail_queued(struct te_peer *peer, int status);

/* peers_well -- rail_events.any_well: whether there is a peer that has no trouble. */
bool peers_well(const struct te *te);

#endif
