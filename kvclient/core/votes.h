/* SPDX-License-Identifier: Apache-2.0 */
/* votes.h -- counts the views a client's servers announce, one vote each. Plain data; private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_VOTES_H
#define KVRAIL_KVCLIENT_CORE_VOTES_H

#include "base/base.h"

#define KC_VOTE_LOST_NS  30000000000ull
#define KC_VOTE_JUST_NS  2000000000ull   /* for a lost server to answer again */
#define KC_VOTE_RESET_NS 60000000000ull  /* for a majority of a view, if not newer */
#define KC_VOTE_ALL_NS   3000000000ull   /* the same, if no answering server announces another */
#define KC_VOTE_CALM_NS  600000000000ull /* and none was followed within this time */

/* A server's last announcement. digest 0: no view. */
struct kc_vote {
	uint64_t source, epoch;
	kv_u128 digest;
	uint64_t until_ns; /* end of the vote; KV_NEVER: the server answers; 0: none */
	bool own;          /* the view names its announcer */
};

struct kc_votes {
	struct kc_vote *vote;
	uint64_t *epochs;    /* scratch for sorting */
	unsigned room, used; /* used: no votes from there on */
	uint64_t differ_ns;  /* since when most differ from the view in force; 0: no */
	uint64_t reset_ns;   /* last adoption of such a view; 0: never */
};

struct kc_votes_now {
	uint64_t source, epoch;
	kv_u128 digest;
	uint64_t now_ns;
	unsigned pending; /* servers that may announce soon */
	bool alone;       /* no server of the view in force answers, or there is no usable one */
};

/* The view to follow. */
struct kc_choice {
	uint64_t source, epoch;
	kv_u128 digest; /* 0: no change */
	bool reset;     /* not newer by one source's numbers */
	unsigned votes, voters, present, answering;
	/* votes for it; servers with a vote or pending; votes for the view in force; answering servers */
};

/* kc_votes_init -- for servers 0 to room - 1. 0 or -KV_ENOMEM. kc_votes_fini -- also of a zeroed one. */
int kc_votes_init(struct kc_votes *v, unsigned room);
void kc_votes_fini(struct kc_votes *v);

/* kc_votes_cast -- answering server i announces this view. kc_votes_lost -- it no longer answers: its vote counts for
 * KC_VOTE_LOST_NS. kc_votes_drop -- at once. */
void kc_votes_cast(struct kc_votes *v, unsigned i, uint64_t source, uint64_t epoch, kv_u128 digest);
void kc_votes_lost(struct kc_votes *v, unsigned i, uint64_t now_ns);
void kc_votes_drop(struct kc_votes *v, unsigned i);

/* kc_votes_own -- server i's view names it: matters without a majority at opening. */
void kc_votes_own(struct kc_votes *v, unsigned i);

unsigned kc_votes_views(const struct kc_votes *v, uint64_t now_ns);
unsigned kc_votes_for(const struct kc_votes *v, kv_u128 digest, uint64_t now_ns);

/* kc_votes_decide -- the view to follow. Call it after each change of a vote and from time to time. */
void kc_votes_decide(struct kc_votes *v, const struct kc_votes_now *now, struct kc_choice *out);

void kc_votes_adopted(struct kc_votes *v, const struct kc_choice *choice, uint64_t now_ns);

#endif
