/* SPDX-License-Identifier: Apache-2.0 */
/* asking.c -- when a client asks a server for its view of the cluster.
 *
 * A server tells that it has another view with a heartbeat, in 24 bytes. The view of a thousand members has 90 KB, and
 * a client hears of it from a thousand servers within half a second. So a client asks one server at a time, and another
 * one when there was no answer for KVC_ASK_PATIENCE_NS.
 *
 * Nor may all clients ask the server that knows first: ten thousand of them would take a gigabyte from it. So a client
 * asks a server with a chance of ASKED / servers when that tells the news, and again at each beat (conn/serve.c) after
 * it. Where all know, each server answers its share of clients; and the one that knows first answers ASKED of
 * `servers` clients with a view of `servers` members, as many bytes whatever the size of the cluster: for ten
 * thousand clients those of 320 views of a thousand members.
 *
 * ASKED is as large so that a change reaches all within a second of the servers. Of a thousand servers with thousands
 * of clients a client hears a hundred in a second: with a chance of 8 in 1,000 some of ten thousand clients had not
 * asked after 1.4 s, with 32 all have after 1.0 s (tests/sim/test_sim_thousand.c).
 *
 * Where few servers know, the chance must rise, or clients would wait for minutes: by as much again every
 * KVC_ASK_PATIENCE_NS. It rises evenly, since a chance that doubles sends half of all clients to that server at once.
 * With up to ASKED servers the first news is asked for. */
#include "kvclient/core/asking.h"

enum { ASKED = 32 };

bool kvc_asking_now(struct kvc_asking *a, unsigned servers, uint64_t now_ns, uint64_t random)
{
	uint64_t chance;
	if (a->heard_ns == 0)
		a->heard_ns = now_ns;
	if (a->asked_ns && now_ns - a->asked_ns < KVC_ASK_PATIENCE_NS)
		return false;
	chance = ASKED * (1 + (now_ns - a->heard_ns) / KVC_ASK_PATIENCE_NS);
	if ((random >> 32) * KV_MAX(servers, 1u) >> 32 >= chance)
		return false;
	a->asked_ns = now_ns;
	return true;
}
