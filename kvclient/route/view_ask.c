/* SPDX-License-Identifier: Apache-2.0 */
/* view_ask.c -- when a client asks a server for its view: once more than half of its servers announce it (votes.c), one
 * server at a time, another after KC_ASK_PATIENCE_NS. All clients of a large cluster reach that moment together, so a
 * client asks with chance ASKED / servers at each announcement and each beat (conn/serve.c), which spreads the load. */
#include "kvclient/route/view_ask.h"

enum { ASKED = 32 };

bool kc_asking_now(struct kc_asking *a, unsigned servers, uint64_t now_ns, uint64_t random)
{
	if (a->asked_ns && now_ns - a->asked_ns < KC_ASK_PATIENCE_NS)
		return false;
	if ((random >> 32) * KV_MAX(servers, 1u) >> 32 >= ASKED)
		return false;
	a->asked_ns = now_ns;
	return true;
}
