/* SPDX-License-Identifier: Apache-2.0 */
/* cut.h -- the fence of one peer alone. Private to engine/. */
#ifndef KVRAIL_ENGINE_CUT_H
#define KVRAIL_ENGINE_CUT_H

#include "engine/engine.h"

/* cut_able -- whether every rail's provider can fence one peer alone. */
bool cut_able(const struct te *te);

/* peer_cut -- fence one peer alone. True: the peer is fenced and void. False: it needs a rebuild, and no peer is
 * affected. */
bool peer_cut(struct te_peer *peer);

#endif
