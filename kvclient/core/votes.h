/* SPDX-License-Identifier: Apache-2.0 */
/* votes.h -- what the servers of a client announce, counted: one vote each. Plain data; private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_VOTES_H
#define KVRAIL_KVCLIENT_CORE_VOTES_H

#include "base/base.h"

#define KVC_VOTE_LOST_NS  30000000000ull  /* the last vote of a server that was lost counts for this time */
#define KVC_VOTE_JUST_NS  2000000000ull   /* a server that was lost may answer again within this time */
#define KVC_VOTE_RESET_NS 60000000000ull  /* a majority for a view that is not newer must last ... */
#define KVC_VOTE_ALL_NS   3000000000ull   /* ... this long if no server that answers announces another one, ... */
#define KVC_VOTE_CALM_NS  600000000000ull /* ... and if none was followed within this time */

/* What a server last announced. digest 0: it has no view. */
struct kvc_vote {
	uint64_t source, epoch;
	kv_u128 digest;
	uint64_t until_ns; /* the vote counts until then; KV_NEVER: the server answers; 0: there is no vote */
	bool own;          /* the view names the server that announces it */
};

struct kvc_votes {
	struct kvc_vote *vote; /* by the number of the server */
	uint64_t *epochs;      /* room for sorting */
	unsigned room, used;   /* used: servers from there on have no vote */
	uint64_t differ_ns;    /* most announce something else than the view in force, since then; 0: they do not */
	uint64_t reset_ns;     /* when the last such view was adopted; 0: never */
};

/* What a decision depends on, besides the votes. */
struct kvc_votes_now {
	uint64_t source, epoch;
	kv_u128 digest; /* of the view in force; digest 0: there is none */
	uint64_t now_ns;
	unsigned pending; /* servers that may still announce something soon */
	bool alone;       /* no server of the view in force answers, or none can be used without a view */
};

/* The view that is to be in force. epoch: the highest that enough of its servers have reached. */
struct kvc_choice {
	uint64_t source, epoch;
	kv_u128 digest; /* digest 0: everything stays as it is */
	bool reset;     /* it is not newer by the numbers of one source */
	unsigned votes, voters, present, answering;
	/* of all: votes for this view; servers that have a vote, or are pending; votes for the view in force; servers
	 * that answer */
};

/* kvc_votes_init -- for servers 0 to room - 1; none has a vote. 0 or -KV_ENOMEM. kvc_votes_fini -- free it; one that
 * was zeroed is fine. */
int kvc_votes_init(struct kvc_votes *v, unsigned room);
void kvc_votes_fini(struct kvc_votes *v);

/* kvc_votes_cast -- server i, which answers, announces this view. kvc_votes_lost -- it does not answer any more: its
 * vote counts for KVC_VOTE_LOST_NS. kvc_votes_drop -- its vote does not count any more. */
void kvc_votes_cast(struct kvc_votes *v, unsigned i, uint64_t source, uint64_t epoch, kv_u128 digest);
void kvc_votes_lost(struct kvc_votes *v, unsigned i, uint64_t now_ns);
void kvc_votes_drop(struct kvc_votes *v, unsigned i);

/* kvc_votes_own -- the view that server i announces names this server: this matters where no view has a majority at
 * opening. */
void kvc_votes_own(struct kvc_votes *v, unsigned i);

/* kvc_votes_for -- how many votes a view has now. kvc_votes_views -- how many views have one. */
unsigned kvc_votes_views(const struct kvc_votes *v, uint64_t now_ns);
unsigned kvc_votes_for(const struct kvc_votes *v, kv_u128 digest, uint64_t now_ns);

/* kvc_votes_decide -- which view is to be in force. Time matters: it is called after each change of a vote, and now and
 * then. It looks at each vote some times. */
void kvc_votes_decide(struct kvc_votes *v, const struct kvc_votes_now *now, struct kvc_choice *out);

/* kvc_votes_adopted -- that choice is in force. */
void kvc_votes_adopted(struct kvc_votes *v, const struct kvc_choice *choice, uint64_t now_ns);

#endif
