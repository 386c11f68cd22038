/* SPDX-License-Identifier: Apache-2.0 */
/* votes.c -- the view of the cluster a client follows: the one more than half of its servers announce. Each server
 * votes for the digest it announced last, or for none. At exactly half nothing changes. Numbers decide only how soon a
 * majority is followed:
 *
 *   more than half announce it                                         followed
 *   no view is in force; or newer, by the source in force              at once
 *   not newer, and no answering server announces another               after KC_VOTE_ALL_NS
 *   not newer: another source, or numbers that began anew              KC_VOTE_RESET_NS after most began to differ
 *
 * "Newer" also needs more than half: one clock ahead of time raises no epoch. The times bound how often servers that
 * name each other in turn can change the view. Where no server of the view in force answers, the view most answering
 * servers announce is followed. */
#include "kvclient/core/votes.h"

#include <stdlib.h>

int kc_votes_init(struct kc_votes *v, unsigned room)
{
	*v = (struct kc_votes){.room = room};
	v->vote = calloc(room, sizeof(*v->vote));
	v->epochs = calloc(room, sizeof(*v->epochs));
	if (v->vote && v->epochs)
		return 0;
	kc_votes_fini(v);
	return -KV_ENOMEM;
}

void kc_votes_fini(struct kc_votes *v)
{
	free(v->vote);
	free(v->epochs);
	*v = (struct kc_votes){0};
}

void kc_votes_cast(struct kc_votes *v, unsigned i, uint64_t source, uint64_t epoch, kv_u128 digest)
{
	if (i >= v->room)
		return;
	v->vote[i] = (struct kc_vote){source, epoch, epoch ? digest : 0, KV_NEVER, false};
	v->used = KV_MAX(v->used, i + 1);
}

void kc_votes_own(struct kc_votes *v, unsigned i)
{
	if (i < v->used)
		v->vote[i].own = true;
}

void kc_votes_lost(struct kc_votes *v, unsigned i, uint64_t now_ns)
{
	if (i < v->used && v->vote[i].until_ns == KV_NEVER)
		v->vote[i].until_ns = kv_deadline(now_ns, KC_VOTE_LOST_NS);
}

void kc_votes_drop(struct kc_votes *v, unsigned i)
{
	if (i < v->used)
		v->vote[i].until_ns = 0;
}

static bool counts(const struct kc_vote *b, uint64_t now_ns)
{
	return b->until_ns > now_ns;
}

unsigned kc_votes_for(const struct kc_votes *v, kv_u128 digest, uint64_t now_ns)
{
	unsigned n = 0;
	for (unsigned i = 0; i < v->used; i++)
		n += counts(&v->vote[i], now_ns) && v->vote[i].digest == digest;
	return n;
}

unsigned kc_votes_views(const struct kc_votes *v, uint64_t now_ns)
{
	unsigned n = 0;
	for (unsigned i = 0; i < v->used; i++) {
		bool first = counts(&v->vote[i], now_ns) && v->vote[i].digest;
		for (unsigned k = 0; k < i && first; k++)
			first = !counts(&v->vote[k], now_ns) || v->vote[k].digest != v->vote[i].digest;
		n += first;
	}
	return n;
}

static bool newer(const struct kc_vote *b, const struct kc_votes_now *now)
{
	return b->source == now->source &&
	       (b->epoch > now->epoch || (b->epoch == now->epoch && b->digest > now->digest));
}

/* Whether it is for another view, or for the one in force with lower numbers or another source. */
static bool differs(const struct kc_vote *b, const struct kc_votes_now *now)
{
	return b->digest && (b->source != now->source || b->digest != now->digest || b->epoch < now->epoch);
}

/* ---- all votes ---- */

/* The only digest that can have more than half of the votes (Boyer and Moore); 0: none can. */
static kv_u128 leader(const struct kc_votes *v, uint64_t now_ns)
{
	kv_u128 digest = 0;
	unsigned lead = 0;
	for (unsigned i = 0; i < v->used; i++) {
		const struct kc_vote *b = &v->vote[i];
		if (!counts(b, now_ns))
			continue;
		if (lead == 0)
			digest = b->digest;
		lead += b->digest == digest ? 1u : -1u;
	}
	return lead ? digest : 0;
}

/* Whether the server answers. Without a view in force a server lost just now counts: attempts end soon and repeat, and
 * the first one would decide alone. */
static bool answers(const struct kc_vote *b, const struct kc_votes_now *now)
{
	return b->until_ns == KV_NEVER ||
	       (!now->digest && b->until_ns > now->now_ns + KC_VOTE_LOST_NS - KC_VOTE_JUST_NS);
}

/* Of the answering servers: those that announce the digest, and those of them their view names. */
struct share {
	unsigned votes, own;
};

static struct share share_of(const struct kc_votes *v, const struct kc_votes_now *now, kv_u128 digest)
{
	struct share s = {0};
	for (unsigned i = 0; i < v->used; i++) {
		bool is = v->vote[i].digest == digest && answers(&v->vote[i], now);
		s.votes += is;
		s.own += is && v->vote[i].own && !now->digest;
	}
	return s;
}

/* The digest most answering servers announce. Without a view in force, prefer views that name their announcers (stale
 * ones rarely do), then votes, then the highest digest, so that clients agree. 0: none beats the view in force. */
static kv_u128 most(const struct kc_votes *v, const struct kc_votes_now *now, unsigned *out_votes)
{
	struct share best = now->digest ? share_of(v, now, now->digest) : (struct share){0};
	kv_u128 digest = 0;
	for (unsigned i = 0; i < v->used; i++) {
		const struct kc_vote *b = &v->vote[i];
		struct share s;
		if (!answers(b, now) || !b->digest || b->digest == now->digest || b->digest == digest)
			continue;
		s = share_of(v, now, b->digest);
		if (s.own > best.own ||
		    (s.own == best.own &&
		     (s.votes > best.votes || (digest && s.votes == best.votes && b->digest > digest)))) {
			digest = b->digest;
			best = s;
		}
	}
	*out_votes = best.votes;
	return digest;
}

struct ballot {
	unsigned voters, answering, present, leads; /* present: for the view in force; leads: for the leader */
	unsigned others_answer;                     /* answering servers not for the leader */
	unsigned newer;                             /* for the leader with newer numbers */
	unsigned differ;                            /* not for the view in force */
};

static void tally_one(struct ballot *t, const struct kc_vote *b, const struct kc_votes_now *now, kv_u128 digest)
{
	t->voters++;
	t->answering += b->until_ns == KV_NEVER;
	t->present += b->digest == now->digest;
	t->leads += b->digest == digest;
	t->others_answer += b->digest != digest && b->until_ns == KV_NEVER;
	t->newer += b->digest == digest && (now->digest == 0 || newer(b, now));
	t->differ += differs(b, now);
}

static struct ballot tally_make(const struct kc_votes *v, const struct kc_votes_now *now, kv_u128 digest)
{
	struct ballot t = {.voters = now->pending};
	for (unsigned i = 0; i < v->used; i++) {
		const struct kc_vote *b = &v->vote[i];
		if (counts(b, now->now_ns))
			tally_one(&t, b, now, digest);
	}
	return t;
}

static int descending(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return (*x < *y) - (*x > *y);
}

/* The majority source of the choice's votes, and that source's highest epoch reached by more than `half` votes, else
 * its lowest. */
static void number_of(struct kc_votes *v, struct kc_choice *c, uint64_t now_ns, unsigned half)
{
	unsigned lead = 0, n = 0;
	for (unsigned i = 0; i < v->used; i++) {
		const struct kc_vote *b = &v->vote[i];
		if (!counts(b, now_ns) || b->digest != c->digest)
			continue;
		if (lead == 0)
			c->source = b->source;
		lead += b->source == c->source ? 1u : -1u;
	}
	for (unsigned i = 0; i < v->used; i++)
		if (counts(&v->vote[i], now_ns) && v->vote[i].digest == c->digest && v->vote[i].source == c->source)
			v->epochs[n++] = v->vote[i].epoch;
	qsort(v->epochs, n, sizeof(*v->epochs), descending);
	c->epoch = n ? v->epochs[KV_MIN(half, n - 1)] : 0;
}

static uint64_t differ_for_ns(struct kc_votes *v, const struct kc_votes_now *now, const struct ballot *t)
{
	if (2 * t->differ <= t->voters)
		v->differ_ns = 0;
	else if (v->differ_ns == 0)
		v->differ_ns = now->now_ns;
	return v->differ_ns ? now->now_ns - v->differ_ns : 0;
}

static uint64_t patience_ns(const struct kc_votes *v, const struct kc_votes_now *now, const struct ballot *t)
{
	bool calm = v->reset_ns == 0 || now->now_ns - v->reset_ns > KC_VOTE_CALM_NS;
	return t->others_answer == 0 && calm ? KC_VOTE_ALL_NS : KC_VOTE_RESET_NS;
}

/* Another view, or other numbers. */
static bool is_change(const struct kc_choice *c, const struct kc_votes_now *now)
{
	return c->digest != now->digest || c->source != now->source || c->epoch != now->epoch;
}

static bool is_due(struct kc_votes *v, const struct kc_votes_now *now, const struct ballot *t)
{
	uint64_t ns = differ_for_ns(v, now, t);
	return 2 * t->newer > t->voters || (v->differ_ns && ns >= patience_ns(v, now, t));
}

void kc_votes_decide(struct kc_votes *v, const struct kc_votes_now *now, struct kc_choice *out)
{
	struct kc_choice c = {.digest = leader(v, now->now_ns)};
	struct ballot t = tally_make(v, now, c.digest);
	bool due = is_due(v, now, &t), majority = !now->alone && c.digest && 2 * t.leads > t.voters;
	bool known = majority && 2 * t.newer > t.voters; /* to be newer */
	*out = (struct kc_choice){.voters = t.voters, .present = t.present, .answering = t.answering};
	if (!majority) {
		c.digest = now->alone ? most(v, now, &t.leads) : 0;
		due = true;
	}
	if (!c.digest || !due)
		return;
	number_of(v, &c, now->now_ns, known ? t.voters / 2 : t.leads / 2);
	if (!is_change(&c, now))
		return;
	c.reset = now->digest && !newer(&(struct kc_vote){c.source, c.epoch, c.digest, 0, false}, now);
	c.votes = t.leads;
	c.voters = t.voters;
	c.present = t.present;
	c.answering = t.answering;
	*out = c;
}

void kc_votes_adopted(struct kc_votes *v, const struct kc_choice *choice, uint64_t now_ns)
{
	v->differ_ns = 0;
	if (choice->reset)
		v->reset_ns = now_ns;
}
