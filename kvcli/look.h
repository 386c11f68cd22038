/* SPDX-License-Identifier: Apache-2.0 */
/* look.h -- the figures of all servers known to the pool: those of the list, and the members of the view. */
#ifndef KVRAIL_KVCLI_LOOK_H
#define KVRAIL_KVCLI_LOOK_H

#include "kvcli/command.h"

enum { LOOK_MAX = 1024 }; /* servers of a pool */

enum look_number {
	LOOK_GETS,
	LOOK_HITS,
	LOOK_MISSES,
	LOOK_PUTS,
	LOOK_OUT,
	LOOK_IN,
	LOOK_EVICTIONS,
	LOOK_REPLIES,
	LOOK_SERVE_NS,
	LOOK_USED,
	LOOK_LIMIT,
	LOOK_BLOCKS,
	LOOK_SESSIONS,
	LOOK_VERSION,
	LOOK_UPTIME_NS,
	LOOK_LEASED,
	LOOK_LEASE_AGE_NS,
	LOOK_NUMBERS
};

struct look {
	bool known;
	struct kvc_server_info info;
	int code; /* result of asking it; if negative, the numbers are zeroed */
	uint64_t at_ns, number[LOOK_NUMBERS];
};

/* look_all -- ask all servers at the same time, each for a second at most. out has LOOK_MAX entries, by the pool's
 * number of a server. Returns how many of them are used. Blocks. */
unsigned look_all(struct cli *cli, struct look *out);

/* look_next -- the next server known to the pool, from number *at on, which moves behind it. False: there is none. */
bool look_next(struct cli *cli, unsigned *at, struct kvc_server_info *out);

/* The question of look_each to one server; server: valid until the next look_each. Returns a number from 0 on, or a
 * code; -KV_ENOMEM: this program has no memory. */
typedef int (*look_ask)(struct cli *cli, const struct kvc_call *call, const struct kvc_server_info *server, void *arg);

/* look_each -- ask every server that answers, one after the other. Returns how many servers do not answer, or
 * -KV_ENOMEM, which ends it; *err says that those of `what` are missing, and why. Blocks. Thread: main. */
int look_each(struct cli *cli, const char *what, look_ask ask, void *arg, struct kv_error *err);

/* look_answers -- whether the server answers: it may still refuse its numbers to this client's tenant. look_why -- why
 * it does not. */
bool look_answers(const struct look *l);
const char *look_why(const struct look *l);

/* look_percent -- part of whole, in percent, into buf; "-": of nothing. Returns buf. */
const char *look_percent(uint64_t part, uint64_t whole, char buf[16]);

/* look_brief -- a number in seven characters: 12.3k. Returns buf. */
const char *look_brief(double v, char buf[16]);

#endif
