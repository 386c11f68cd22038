/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h -- void peers, and the end of their queued operations. Private to engine/. */
#ifndef KVRAIL_ENGINE_PEER_H
#define KVRAIL_ENGINE_PEER_H

#include "engine/link.h"

/* peer_void -- its addresses are invalid: no link of it posts before te_peer_readdress. peer_fail_queued -- end all its
 * queued operations with this status; te_notify reports them. */
void peer_void(struct te_peer *peer);
void peer_fail_queued(struct te_peer *peer, int status);

/* peers_well -- whether any peer has working connections. */
bool peers_well(const struct te *te);

#endif
