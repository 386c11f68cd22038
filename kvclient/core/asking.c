/* SPDX-License-Identifier: Apache-2.0 */
/* asking.c -- when a client asks a server for its view of the cluster.
 *
 * A server announces a view in 40 bytes, with a heartbeat. The view of a thousand members has 90 KB, and a client asks
 * for it once more than half of its servers announce it (votes.c): one server at a time, and another one when there was
 * no answer for KVC_ASK_PATIENCE_NS.
 *
 * All clients of a large cluster reach that moment within some milliseconds, and where servers hear of a change one
 * after the other it is the same server's announcement that completes the majority for all of them. So a client asks a
 * server with a chance of ASKED / servers when that one announces the view or a beat of its connection is over
 * (conn/serve.c). A thousand connections have a beat each 0.5 s, so a client waits for some 15 ms, and each server
 * answers its share of clients. With up to ASKED servers the first one is asked. */
#include "kvclient/core/asking.h"

enum { ASKED = 32 };

bool kvc_asking_now(struct kvc_asking *a, unsigned servers, uint64_t now_ns, uint64_t random)
{
	if (a->asked_ns && now_ns - a->asked_ns < KVC_ASK_PATIENCE_NS)
		return false;
	if ((random >> 32) * KV_MAX(servers, 1u) >> 32 >= ASKED)
		return false;
	a->asked_ns = now_ns;
	return true;
}
