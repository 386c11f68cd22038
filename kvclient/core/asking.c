/* SPDX-License-Identifier: Apache-2.0 */
/* asking.c -- when a client asks a server for its view of the cluster.
 * Servers announce a view in 40 bytes; the view of a thousand members has 90 KB. A client asks once more than half of
 * its servers announce a view (votes.c): one server at a time, another after KVC_ASK_PATIENCE_NS. All clients of a
 * large cluster reach that moment together, often by the same server's announcement. So a client asks a server with
 * chance ASKED / servers, when that server announces the view or at a beat of its connection (conn/serve.c), and the
 * load spreads over the servers. */
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
