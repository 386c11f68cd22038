/* SPDX-License-Identifier: Apache-2.0 */
/* links.h -- a client of one server and an attachment with its links, without a server: nothing is sent, and a test
 * answers the PINGs. Time stands still unless the test moves it. */
#ifndef KVRAIL_TESTS_KVCLIENT_LINKS_H
#define KVRAIL_TESTS_KVCLIENT_LINKS_H

#include "tests/check.h"

#include "kvclient/conn/node.h"
#include "kvclient/conn/private.h"
#include "kvclient/request/link.h"

enum { LINK_CREDITS = 8, LINK_RESERVE = 2 };

#define MS 1000000ull

extern struct links {
	struct kvc_pool pool;
	_Atomic uint32_t down; /* of the pool */
	struct kc_server server;
	struct kvc_client client;
	struct kc_node node;
	struct kc_node_own own;           /* the node's */
	struct kc_attachment *attachment; /* also the node's */
	struct kc_link *link;             /* all of them, shard-major */
	uint64_t now_ns;
	char logged[1024]; /* the last line */
} links;

/* links_up -- so many shards, and so many links to each; none is up. links_engine -- and an engine with a peer for each
 * shard, which is told what links are in use. links_down -- ends all of it; a tear-down of cmocka. */
void links_up(unsigned shards, unsigned per_shard);
void links_engine(void);
int links_down(void **state);

/* links_run -- run fn in a coroutine until it returns, a millisecond of our time in each turn. Between the turns
 * `meanwhile` does what the world does; NULL: nothing. */
void links_run(void (*fn)(void), void (*meanwhile)(void));

/* links_ping -- the PING that waits in the queue of a link; NULL: none. links_answer -- it is over with this status,
 * and has left the queue. */
struct kc_req *links_ping(const struct kc_link *l);
void links_answer(struct kc_link *l, int status);

#endif
