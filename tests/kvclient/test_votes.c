/* SPDX-License-Identifier: Apache-2.0 */
/* test_votes.c -- which view the servers of a client decide for: the rules by example, and at random against a stupid
 * model that sorts and counts everything anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kvclient/core/votes.h"

enum { SERVERS = 9 };

#define SECOND 1000000000ull

static struct kc_votes votes;
static struct kc_votes_now at;
static struct kc_choice choice;

static void begin(unsigned room)
{
	assert_int_equal(kc_votes_init(&votes, room), 0);
	at = (struct kc_votes_now){.now_ns = 100 * SECOND};
}

static void end(void)
{
	kc_votes_fini(&votes);
}

/* Each server of [from, to) announces this. */
static void cast(unsigned from, unsigned to, uint64_t source, uint64_t epoch, kv_u128 digest)
{
	for (unsigned i = from; i < to; i++)
		kc_votes_cast(&votes, i, source, epoch, digest);
}

/* What is decided comes into force. Returns its digest; 0: everything stays. */
static uint64_t decide(void)
{
	kc_votes_decide(&votes, &at, &choice);
	if (!choice.digest)
		return 0;
	if (choice.digest != at.digest)
		kc_votes_adopted(&votes, &choice, at.now_ns);
	at.source = choice.source;
	at.epoch = choice.epoch;
	at.digest = choice.digest;
	return choice.digest;
}

static uint64_t decide_after(uint64_t ns)
{
	at.now_ns += ns;
	return decide();
}

static void more_than_half_decide_and_half_do_not(void **state)
{
	(void)state;
	begin(4);
	cast(0, 4, 1, 5, 77);
	assert_int_equal(decide(), 77);
	cast(0, 2, 1, 900, 88);
	assert_int_equal(decide(), 0);
	assert_int_equal(choice.present, 2);
	assert_int_equal(choice.voters, 4);
	assert_int_equal(decide_after(10000 * SECOND), 0);
	cast(2, 3, 1, 6, 88);
	assert_int_equal(decide(), 88);
	assert_int_equal(at.epoch, 6); /* what more than half have reached */
	assert_false(choice.reset);
	end();
}

static void servers_that_may_answer_soon_count_for_nothing(void **state)
{
	(void)state;
	begin(3);
	cast(0, 1, 1, 5, 77);
	at.pending = 2;
	assert_int_equal(decide(), 0);
	at.pending = 0;
	assert_int_equal(decide(), 77);
	end();
}

static void no_view_is_a_vote(void **state)
{
	(void)state;
	begin(3);
	cast(0, 2, 0, 0, 0);
	cast(2, 3, 1, 5, 77);
	assert_int_equal(decide_after(1000 * SECOND), 0);
	cast(1, 2, 1, 5, 77);
	assert_int_equal(decide(), 77);
	cast(0, 3, 0, 0, 0); /* and nobody goes back to it */
	assert_int_equal(decide_after(1000 * SECOND), 0);
	end();
}

static void the_vote_of_a_server_that_was_lost_counts_for_a_while(void **state)
{
	(void)state;
	begin(3);
	cast(0, 3, 1, 5, 77);
	assert_int_equal(decide(), 77);
	kc_votes_lost(&votes, 0, at.now_ns);
	kc_votes_lost(&votes, 1, at.now_ns);
	cast(2, 3, 1, 6, 88);
	assert_int_equal(decide_after(KC_VOTE_LOST_NS - 1), 0);
	assert_int_equal(choice.voters, 3);
	kc_votes_lost(&votes, 0, at.now_ns); /* as each attempt that fails says again */
	assert_int_equal(decide_after(1), 88);
	end();
}

static void a_server_that_said_goodbye_has_no_vote(void **state)
{
	(void)state;
	begin(3);
	cast(0, 3, 1, 5, 77);
	assert_int_equal(decide(), 77);
	kc_votes_drop(&votes, 0);
	cast(1, 2, 1, 6, 88);
	assert_int_equal(decide(), 0);
	cast(2, 3, 1, 6, 88);
	assert_int_equal(decide(), 88);
	end();
}

/* A source that was wiped, and another source. */
static void numbers_that_began_anew_are_followed_when_all_agree(void **state)
{
	(void)state;
	for (uint64_t source = 1; source <= 2; source++) {
		begin(3);
		cast(0, 3, 1, 500, 77);
		assert_int_equal(decide(), 77);
		cast(0, 3, source, 5, 88);
		assert_int_equal(decide(), 0);
		assert_int_equal(decide_after(KC_VOTE_ALL_NS - 1), 0);
		assert_int_equal(decide_after(1), 88);
		assert_true(choice.reset);
		assert_int_equal(at.source, source);
		assert_int_equal(at.epoch, 5);
		/* The next one within ten minutes takes longer. */
		cast(0, 3, source, 3, 99);
		assert_int_equal(decide(), 0);
		assert_int_equal(decide_after(KC_VOTE_RESET_NS - 1), 0);
		assert_int_equal(decide_after(1), 99);
		/* A newer one does not. */
		cast(0, 2, source, 4, 77);
		assert_int_equal(decide(), 77);
		end();
	}
}

static void one_server_that_disagrees_delays_them_and_no_more(void **state)
{
	(void)state;
	begin(5);
	cast(0, 5, 1, 500, 77);
	assert_int_equal(decide(), 77);
	cast(0, 4, 1, 5, 88);
	assert_int_equal(decide(), 0);
	assert_int_equal(decide_after(KC_VOTE_RESET_NS - 2), 0);
	cast(0, 4, 1, 6, 99); /* meanwhile the members change */
	assert_int_equal(decide_after(1), 0);
	assert_int_equal(decide_after(1), 99);
	/* A majority that breaks begins anew. */
	cast(0, 4, 1, 2, 77);
	assert_int_equal(decide(), 0);
	assert_int_equal(decide_after(KC_VOTE_RESET_NS - 1), 0);
	cast(0, 3, 1, 6, 99);
	assert_int_equal(decide(), 0);
	cast(0, 4, 1, 2, 77);
	assert_int_equal(decide_after(1), 0);
	assert_int_equal(decide_after(KC_VOTE_RESET_NS), 77);
	end();
}

/* One server's clock is an hour ahead: its epoch is that of nobody else. */
static void a_clock_that_is_ahead_raises_no_epoch(void **state)
{
	(void)state;
	begin(3);
	cast(0, 2, 1, 1000, 77);
	cast(2, 3, 1, 3601000, 77);
	assert_int_equal(decide(), 77);
	assert_int_equal(at.epoch, 1000);
	cast(0, 2, 1, 1001, 88);
	assert_int_equal(decide(), 88);
	assert_int_equal(at.epoch, 1001);
	/* All were ahead, and are set right: the same members under lower numbers. */
	cast(0, 3, 1, 900, 88);
	assert_int_equal(decide(), 0);
	assert_int_equal(decide_after(KC_VOTE_ALL_NS), 88);
	assert_int_equal(at.epoch, 900);
	end();
}

/* Clocks differ by seconds, and changes come faster: all announce it, and it is not newer by most numbers. */
static void what_all_announce_is_followed_whatever_their_clocks(void **state)
{
	(void)state;
	begin(2);
	cast(0, 1, 1, 1000, 77);
	cast(1, 2, 1, 6000, 77);
	assert_int_equal(decide(), 77);
	at.epoch = 6000; /* as if others that had reached it were there before */
	cast(0, 1, 1, 2000, 88);
	cast(1, 2, 1, 7000, 88);
	assert_int_equal(decide(), 0);
	assert_int_equal(decide_after(KC_VOTE_ALL_NS), 88);
	end();
}

static void where_no_server_of_the_view_answers_most_of_those_that_do_decide(void **state)
{
	(void)state;
	begin(5);
	cast(0, 3, 1, 5, 77);
	assert_int_equal(decide(), 77);
	for (unsigned i = 0; i < 3; i++)
		kc_votes_lost(&votes, i, at.now_ns);
	cast(3, 4, 9, 1, 66);
	assert_int_equal(decide(), 0);
	at.alone = true;
	cast(4, 5, 1, 5, 77); /* it announces the view that is no use */
	assert_int_equal(decide(), 0);
	kc_votes_drop(&votes, 4);
	assert_int_equal(decide(), 66);
	end();
}

/* Two sets of servers name each other: each has all votes as soon as it is followed. */
static void views_that_name_each_other_change_twice_a_minute_at_most(void **state)
{
	unsigned changes = 0;
	(void)state;
	begin(4);
	cast(0, 2, 1, 5, 77);
	assert_int_equal(decide(), 77);
	for (uint64_t s = 0; s < 3600; s++) {
		bool first = at.digest == 77;
		for (unsigned i = 0; i < 4; i++)
			kc_votes_drop(&votes, i);
		cast(first ? 0 : 2, first ? 2 : 4, 1, 5, first ? 66 : 77);
		changes += decide_after(SECOND) != 0;
	}
	assert_in_range(changes, 2, 2 * 3600 / 60 + 10);
	end();
}

/* ---- at random, against a model ---- */

static struct model {
	struct kc_vote vote[SERVERS];
	uint64_t differ_ns, reset_ns;
} model;

static unsigned model_count(uint64_t now_ns, bool (*is)(const struct kc_vote *b, kv_u128 arg), kv_u128 arg)
{
	unsigned n = 0;
	for (unsigned i = 0; i < SERVERS; i++)
		n += model.vote[i].until_ns > now_ns && is(&model.vote[i], arg);
	return n;
}

static bool is_any(const struct kc_vote *b, kv_u128 arg)
{
	(void)b, (void)arg;
	return true;
}

static bool is_digest(const struct kc_vote *b, kv_u128 digest)
{
	return b->digest == digest;
}

static bool answers_otherwise(const struct kc_vote *b, kv_u128 digest)
{
	return b->digest != digest && b->until_ns == KV_NEVER;
}

static bool is_newer(const struct kc_vote *b, kv_u128 digest)
{
	return b->digest == digest &&
	       (!at.digest ||
		(b->source == at.source && (b->epoch > at.epoch || (b->epoch == at.epoch && digest > at.digest))));
}

static bool is_different(const struct kc_vote *b, kv_u128 arg)
{
	(void)arg;
	return b->digest && !(b->digest == at.digest && b->source == at.source && b->epoch >= at.epoch);
}

/* The digest that is due by the rules of votes.c, without `alone`; also one that is in force under other numbers. */
static uint64_t model_decide(void)
{
	unsigned voters = model_count(at.now_ns, is_any, 0) + at.pending;
	bool differs = 2 * model_count(at.now_ns, is_different, 0) > voters;
	model.differ_ns = !differs ? 0 : model.differ_ns ? model.differ_ns : at.now_ns;
	for (kv_u128 digest = 1; digest < 5; digest++) {
		bool calm = !model.reset_ns || at.now_ns - model.reset_ns > KC_VOTE_CALM_NS;
		bool all = model_count(at.now_ns, answers_otherwise, digest) == 0;
		uint64_t patience = all && calm ? KC_VOTE_ALL_NS : KC_VOTE_RESET_NS;
		if (2 * model_count(at.now_ns, is_digest, digest) <= voters)
			continue;
		if (2 * model_count(at.now_ns, is_newer, digest) > voters)
			return digest;
		return differs && at.now_ns - model.differ_ns >= patience ? digest : 0;
	}
	return 0;
}

static void random_step(struct kv_prng *p)
{
	unsigned i = (unsigned)kv_prng_below(p, SERVERS), pick = (unsigned)kv_prng_below(p, 10);
	at.now_ns += kv_prng_below(p, pick == 0 ? 100 * SECOND : SECOND);
	at.pending = kv_prng_below(p, 8) ? 0 : (unsigned)kv_prng_below(p, 4);
	if (pick < 8) {
		/* Most servers announce the same. */
		kv_u128 digest = kv_prng_below(p, 3) ? 1 + at.now_ns / (20 * SECOND) % 4 : kv_prng_below(p, 5);
		uint64_t epoch = digest ? 1 + kv_prng_below(p, 4) : 0;
		uint64_t source = kv_prng_below(p, 6) == 0;
		kc_votes_cast(&votes, i, source, epoch, digest);
		model.vote[i] = (struct kc_vote){source, epoch, digest, KV_NEVER, false};
	} else if (pick == 8) {
		kc_votes_lost(&votes, i, at.now_ns);
		if (model.vote[i].until_ns == KV_NEVER)
			model.vote[i].until_ns = at.now_ns + KC_VOTE_LOST_NS;
	} else {
		kc_votes_drop(&votes, i);
		model.vote[i].until_ns = 0;
	}
}

static void random_run(uint64_t seed)
{
	struct kv_prng p;
	unsigned changes = 0;
	kv_prng_seed(&p, seed);
	memset(&model, 0, sizeof(model));
	begin(SERVERS);
	for (unsigned step = 0; step < 4000; step++) {
		uint64_t before = at.digest, due;
		random_step(&p);
		due = model_decide();
		kc_votes_decide(&votes, &at, &choice);
		if (choice.digest != due && (choice.digest || due != at.digest)) /* the same numbers are no change */
			fail_msg("seed %llu, step %u: %llu, not %llu", (unsigned long long)seed, step,
				 (unsigned long long)choice.digest, (unsigned long long)due);
		(void)decide();
		if (at.digest == before)
			continue;
		changes++;
		model.differ_ns = 0;
		model.reset_ns = choice.reset ? at.now_ns : model.reset_ns;
	}
	assert_true(changes > 10);
	end();
}

static void at_random_it_does_what_the_model_does(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 50; seed++)
		random_run(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_than_half_decide_and_half_do_not),
		cmocka_unit_test(servers_that_may_answer_soon_count_for_nothing),
		cmocka_unit_test(no_view_is_a_vote),
		cmocka_unit_test(the_vote_of_a_server_that_was_lost_counts_for_a_while),
		cmocka_unit_test(a_server_that_said_goodbye_has_no_vote),
		cmocka_unit_test(numbers_that_began_anew_are_followed_when_all_agree),
		cmocka_unit_test(one_server_that_disagrees_delays_them_and_no_more),
		cmocka_unit_test(a_clock_that_is_ahead_raises_no_epoch),
		cmocka_unit_test(what_all_announce_is_followed_whatever_their_clocks),
		cmocka_unit_test(where_no_server_of_the_view_answers_most_of_those_that_do_decide),
		cmocka_unit_test(views_that_name_each_other_change_twice_a_minute_at_most),
		cmocka_unit_test(at_random_it_does_what_the_model_does),
	};
	return cmocka_run_group_tests_name("kvclient/votes", tests, NULL, NULL);
}
