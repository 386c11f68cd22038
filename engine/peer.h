/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h -- void peers, and the end of their queued operations. Private to engine/. */
#ifndef KVRAIL_ENGINE_PEER_H
#define KVRAIL_ENGINE_PEER_H

#include "engine/link.h"

/* peer_void -- its addresses are invalid: no link of it posts before te_peer_readdress. peer_fail_queued -- end all its
 * queued operations with this status; te_notify reports them. */
void peer_void(struct te_peer *peer);
void peer_fail_queued(struct te_peer *peer, int status);

/* peer_down -- its channel failed (local_failed): nothing more is exchanged with it until te_peer_readdress. It is not
 * void, because posted operations may still touch memory: te_peer_fence works as for any peer. */
void peer_down(struct te_peer *peer);

/* peers_well -- whether any peer has working connections. */
bool peers_well(const struct te *te);

#endif
