/* SPDX-License-Identifier: Apache-2.0 */
/* test_load.c -- the schedule of the open loop under a simulated clock, the parts of a mix, when rates are steady, what
 * runs are summed up to, and the search for a rate. */
#include <math.h>
#include <stdlib.h>

#include "kvbench/load/arrivals.h"
#include "kvbench/load/mix.h"
#include "kvbench/load/recorded.h"
#include "kvbench/measure/runs.h"
#include "kvbench/measure/slo.h"
#include "kvbench/measure/steady.h"
#include "tests/kvbench/check.h"

enum { ARRIVALS = 1000000 };

/* ---- the schedule ---- */

static void even_arrivals_do_not_drift(void **state)
{
	static const double rates[] = {1, 3, 1000, 333333, 1e6, 7e8};
	struct bench_arrivals a;
	(void)state;
	for (unsigned r = 0; r < KV_COUNT(rates); r++) {
		bench_arrivals_init(&a, rates[r], false, 0, 1);
		for (uint64_t i = 0; i <= ARRIVALS; i += i < 1000 ? 1 : 997) {
			uint64_t want = (uint64_t)((unsigned __int128)i * 1000000000 / (uint64_t)rates[r]);
			uint64_t got = bench_arrivals_due(&a, i);
			assert_true(got == want || got + 1 == want); /* a double's last bit at a whole number */
		}
	}
}

/* 0 arrives at once; the next is years away, and no number has run over. */
static void a_rate_near_0_is_not_all_at_once(void **state)
{
	static const double rates[] = {1e-6, 1e-12, 1e-300, 5e-324};
	(void)state;
	for (unsigned r = 0; r < KV_COUNT(rates); r++)
		for (int poisson = 0; poisson < 2; poisson++) {
			struct bench_arrivals a;
			uint64_t last = 0;
			bench_arrivals_init(&a, rates[r], poisson, 0, 1);
			for (uint64_t i = 0; i < 100000; i++) {
				uint64_t due = bench_arrivals_due(&a, i);
				assert_true(due >= last && due <= (uint64_t)1e18);
				assert_true(i == 0 || due > (uint64_t)1e10);
				last = due;
			}
		}
}

/* Recorded arrivals keep the proportions of the gaps, have the rate in the mean, and begin again without a seam. */
static void recorded_arrivals_come_at_the_rate_over_and_over(void **state)
{
	struct check_file file = check_file_make("Timestamp,Model\n10,a\n11,b\n11,c\n14,d\n16,e\n");
	static const double at[] = {0, 1, 1, 4, 6, 7.5, 8.5, 8.5, 11.5, 13.5, 15}; /* a round takes 6 * 5 / 4 seconds */
	struct bench_recorded r;
	struct bench_arrivals a;
	struct kv_error err;
	(void)state;
	assert_int_equal(bench_recorded_load(file.path, &r, &err), 0);
	assert_true(r.count == 5 && fabs(bench_recorded_rate(&r) - 5 / 7.5) < 1e-12);
	for (double scale = 1; scale < 5000; scale *= 10) {
		bench_arrivals_init(&a, bench_recorded_rate(&r) * scale, false, 0, 1);
		a.recorded = &r;
		for (unsigned i = 0; i < KV_COUNT(at); i++)
			assert_true(fabs((double)bench_arrivals_due(&a, i) - at[i] * 1e9 / scale) <= 1);
		assert_true(fabs((double)bench_arrivals_last(&a, 5) - 6e9 / scale) <= 1);
	}
	bench_arrivals_init(&a, 1000, false, 2000000000, 1); /* with a ramp, as uniform ones */
	a.recorded = &r;
	assert_true(bench_arrivals_due(&a, 5 * 2000) == 11000000000ull);
	bench_recorded_free(&r);
	check_file_remove(&file);
}

static void arrivals_without_times_are_refused(void **state)
{
	static const char *const bad[] = {"Timestamp,Model\n10,a\n10,b\n", "Timestamp,Model\n10,a\n",
					  "Timestamp,Model\n", "{\"hash_ids\": [1]}\n{\"hash_ids\": [1]}\n"};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		struct check_file file = check_file_make(bad[i]);
		struct bench_recorded r = {0};
		struct kv_error err = {0};
		assert_int_equal(bench_recorded_load(file.path, &r, &err), -KV_EINVAL);
		check_contains(err.text, "have different times: name a trace with time stamps");
		check_file_remove(&file);
	}
}

/* Planned once more by hand, in a number with 64 bits behind the point: after a million arrivals it is the same to the
 * nanosecond. */
static void poisson_arrivals_are_as_planned_after_a_million(void **state)
{
	struct bench_arrivals a;
	long double planned = 0;
	uint64_t due = 0, before = 0;
	(void)state;
	bench_arrivals_init(&a, 12345, true, 0, 42);
	for (uint64_t i = 0; i < ARRIVALS; i++) {
		uint64_t bits = bench_random(a.seed, i, 0) >> 11;
		planned += -log((double)(bits + 1) * 0x1p-53) * (1e9 / 12345);
		due = bench_arrivals_due(&a, i);
		assert_true(fabsl((long double)due - planned) <= 1);
		assert_true(due >= before);
		before = due;
	}
	/* The millionth is due after some 81 seconds, three deviations of 81 ms. */
	assert_true(fabs((double)due / 1e9 - ARRIVALS / 12345.0) < 3 * sqrt(ARRIVALS) / 12345.0);
}

/* Gaps have the quantiles of an exponential distribution: chi square over 100 cells of the same probability. */
static void poisson_gaps_are_exponential(void **state)
{
	enum { CELLS = 100, GAPS = 100000 };
	static uint64_t count[CELLS];
	struct bench_arrivals a;
	uint64_t before = 0;
	double chi = 0;
	(void)state;
	memset(count, 0, sizeof(count));
	bench_arrivals_init(&a, 1000, true, 0, 7);
	for (uint64_t i = 0; i < GAPS; i++) {
		uint64_t due = bench_arrivals_due(&a, i);
		double below = 1 - exp(-(double)(due - before) / 1e6);
		unsigned cell = (unsigned)(below * CELLS);
		count[KV_MIN(cell, (unsigned)CELLS - 1)]++;
		before = due;
	}
	for (unsigned i = 0; i < CELLS; i++)
		chi += ((double)count[i] - GAPS / CELLS) * ((double)count[i] - GAPS / CELLS) / (GAPS / CELLS);
	print_message("# chi square %.1f of %d degrees of freedom\n", chi, CELLS - 1);
	assert_true(chi > 55 && chi < 155); /* four deviations */
}

static void another_seed_has_another_schedule(void **state)
{
	struct bench_arrivals a, b, c;
	unsigned same = 0;
	(void)state;
	bench_arrivals_init(&a, 1000, true, 0, 1);
	bench_arrivals_init(&b, 1000, true, 0, 1);
	bench_arrivals_init(&c, 1000, true, 0, 2);
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t due = bench_arrivals_due(&a, i);
		assert_int_equal(due, bench_arrivals_due(&b, i));
		same += due == bench_arrivals_due(&c, i);
	}
	assert_true(same < 10);
}

/* The rate at each moment of the ramp is the part of it that has passed, of either kind of arrivals; behind it, all of
 * it. */
static void a_ramp_rises_evenly(void **state)
{
	enum { RATE = 100000, RAMP_S = 10, PARTS = 15 };
	(void)state;
	for (unsigned poisson = 0; poisson < 2; poisson++) {
		struct bench_arrivals a;
		uint64_t count[PARTS] = {0}, before = 0, due = 0;
		bench_arrivals_init(&a, RATE, poisson, RAMP_S * 1000000000ull, 3);
		for (uint64_t i = 0; due < PARTS * 1000000000ull; i++) {
			due = bench_arrivals_due(&a, i);
			assert_true(due >= before);
			before = due;
			count[KV_MIN(due / 1000000000, (uint64_t)PARTS - 1)]++;
		}
		for (unsigned i = 0; i < PARTS; i++) {
			double want = i < RAMP_S ? RATE * (i + 0.5) / RAMP_S : RATE;
			assert_true(fabs((double)count[i] - want) <= (poisson ? 5 * sqrt(want) : 2));
		}
	}
}

/* A clock that stands until somebody sets it. */
struct set_clock {
	struct kv_clock clock;
	uint64_t now_ns;
};

static uint64_t set_now(const struct kv_clock *clock)
{
	return ((const struct set_clock *)clock)->now_ns;
}

/* One worker whose operations take 1.5 of the mean gap: it falls behind without end, and stalls once for a second. What
 * is due does not move with it; latencies from the intended start are exactly those of such a queue. */
static void a_slow_worker_moves_no_arrival(void **state)
{
	struct set_clock sim = {.clock = {.now_ns = set_now}};
	struct bench_arrivals a, plan;
	uint64_t free_at = 0, stall_ns = 1000000000, service_ns = 1500000;
	(void)state;
	bench_arrivals_init(&a, 1000, true, 0, 5);
	bench_arrivals_init(&plan, 1000, true, 0, 5);
	for (uint64_t i = 0; i < 10000; i++) {
		uint64_t planned = bench_arrivals_due(&plan, i), due = bench_arrivals_due(&a, i), begin;
		assert_int_equal(due, planned);
		sim.now_ns = KV_MAX(kv_clock_now(&sim.clock), due); /* waits if it is early */
		begin = kv_clock_now(&sim.clock);
		assert_int_equal(begin, KV_MAX(free_at, planned)); /* Lindley */
		sim.now_ns += service_ns + (i == 500 ? stall_ns : 0);
		free_at = sim.now_ns;
		assert_true(sim.now_ns - due >= service_ns);
	}
	/* 10,000 arrivals in 10 s, 15 s of work and the stall. */
	assert_int_equal(sim.now_ns > 15900000000ull && sim.now_ns < 16200000000ull, 1);
}

struct left {
	struct bench_arrivals plan; /* asked for each by itself */
	uint64_t count, calls, next, end_ns;
	double age_sum, plan_sum;
};

static void left_take(void *arg, uint64_t number, uint64_t due_ns, uint64_t count)
{
	struct left *l = arg;
	assert_int_equal(number, l->next);
	assert_true(due_ns < l->end_ns);
	l->calls++;
	l->count += count;
	l->age_sum += (double)count * (double)(l->end_ns - due_ns);
	for (uint64_t i = 0; i < count; i++, l->next++) {
		uint64_t planned = bench_arrivals_due(&l->plan, l->next);
		l->plan_sum += (double)l->end_ns - (double)planned;
		if (l->calls <= 1 << 20)
			assert_int_equal(planned, due_ns);
	}
}

/* Those that are due from any number on until the end are all there, with the time at which each was due. */
static void what_is_left_of_a_schedule_is_all_that_was_due(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 4; kind++) {
		struct left l = {.next = 700, .end_ns = 8000000000ull};
		struct bench_arrivals a;
		uint64_t due = 0;
		bench_arrivals_init(&a, 2000, kind & 1, kind & 2 ? 3000000000ull : 0, 5);
		for (uint64_t i = 0; i < l.next; i++)
			bench_arrivals_due(&a, i);
		l.plan = a;
		due = bench_arrivals_left(&a, l.next, UINT64_MAX, l.end_ns, left_take, &l);
		assert_int_equal(due, l.count);
		/* The first that is missing is due later. */
		bench_arrivals_init(&a, 2000, kind & 1, kind & 2 ? 3000000000ull : 0, 5);
		for (uint64_t i = 0; i < l.next; i++)
			assert_true((due = bench_arrivals_due(&a, i)) < l.end_ns);
		assert_true(bench_arrivals_due(&a, l.next) >= l.end_ns);
		if (kind == 0)
			assert_int_equal(l.count, 16000 - 700);
	}
}

static void no_more_are_left_than_there_are(void **state)
{
	struct left l = {.next = 10, .end_ns = KV_NEVER};
	struct bench_arrivals a;
	(void)state;
	bench_arrivals_init(&a, 2000, false, 0, 5);
	l.plan = a;
	assert_int_equal(bench_arrivals_left(&a, 10, 25, KV_NEVER, left_take, &l), 15);
	assert_int_equal(bench_arrivals_left(&a, 25, 25, KV_NEVER, left_take, &l), 0);
	assert_int_equal(bench_arrivals_left(&a, 0, 25, 0, left_take, &l), 0);
}

/* More than a computer could have begun: the work is bounded, their number is exact where they come evenly, and so are
 * their ages but for a millionth. */
static void a_great_many_are_left_in_bounded_time(void **state)
{
	(void)state;
	for (unsigned poisson = 0; poisson < 2; poisson++) {
		struct left l = {.next = 0, .end_ns = 10000000000ull};
		struct bench_arrivals a;
		bench_arrivals_init(&a, 1e6, poisson, 0, 5);
		l.plan = a;
		bench_arrivals_left(&a, 0, UINT64_MAX, l.end_ns, left_take, &l);
		assert_true(l.calls < 4u << 20);
		assert_true(fabs((double)l.count - 1e7) <= (poisson ? 4e3 : 0));
		assert_true(fabs(l.age_sum / 5e16 - 1) < 1e-3);
		assert_true(fabs(l.age_sum / l.plan_sum - 1) < 1e-3);
	}
}

/* ---- mix ---- */

static void parts_of_a_mix_are_exact(void **state)
{
	struct bench_options o = {.load.seed = 9};
	struct kv_error err;
	uint64_t seen[3] = {0};
	(void)state;
	assert_int_equal(bench_mix_parse("70:25:5", &o.load.mix, &err), 0);
	for (uint64_t i = 0; i < 10000; i++) {
		uint64_t number = i;
		unsigned kind = mix_kind_of(&o, &number);
		assert_in_range(kind, 0, 2);
		seen[kind]++;
		/* Every number of a kind comes once: it is in the round's range. */
		assert_true(number < (i / 100 + 1) * (kind == MIX_GET ? 70 : kind == MIX_PUT ? 25 : 5));
		assert_true(number >= (i / 100) * (kind == MIX_GET ? 70 : kind == MIX_PUT ? 25 : 5));
		if (i % 100 == 99) {
			assert_int_equal(seen[MIX_GET], (i + 1) / 100 * 70);
			assert_int_equal(seen[MIX_PUT], (i + 1) / 100 * 25);
			assert_int_equal(seen[MIX_EXISTS], (i + 1) / 100 * 5);
		}
	}
}

static void no_put_of_a_mix_has_the_key_of_another(void **state)
{
	static uint8_t used[2500];
	struct bench_options o = {.load.seed = 9};
	struct kv_error err;
	(void)state;
	memset(used, 0, sizeof(used));
	assert_int_equal(bench_mix_parse("70:25:5", &o.load.mix, &err), 0);
	for (uint64_t i = 0; i < 10000; i++) {
		uint64_t number = i;
		if (mix_kind_of(&o, &number) != MIX_PUT)
			continue;
		assert_true(number < sizeof(used));
		assert_int_equal(used[number]++, 0);
	}
}

/* With poisson arrivals kinds know nothing of each other: the parts of a hundred operations scatter as draws do, and
 * what one is says nothing of the next. */
static void drawn_kinds_are_independent(void **state)
{
	enum { OPS = 200000, EACH = 100 };
	struct bench_options o = {.load.seed = 9};
	struct kv_error err;
	double count[3] = {0}, in_row[3] = {0}, pairs[3][3] = {{0}}, scatter = 0, chi = 0;
	static const double part[3] = {0.7, 0.25, 0.05};
	unsigned before = 0;
	(void)state;
	assert_int_equal(bench_mix_parse("70:25:5", &o.load.mix, &err), 0);
	for (uint64_t i = 0; i < OPS; i++) {
		unsigned kind = mix_kind_drawn(&o, i);
		assert_in_range(kind, 0, 2);
		count[kind]++;
		in_row[kind]++;
		if (i > 0)
			pairs[before][kind]++;
		before = kind;
		if (i % EACH == EACH - 1) {
			scatter += (in_row[MIX_PUT] - 25) * (in_row[MIX_PUT] - 25);
			memset(in_row, 0, sizeof(in_row));
		}
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_true(fabs(count[i] - part[i] * OPS) < 4 * sqrt(part[i] * (1 - part[i]) * OPS));
		for (unsigned k = 0; k < 3; k++)
			chi += pow(pairs[i][k] - part[i] * part[k] * OPS, 2) / (part[i] * part[k] * OPS);
	}
	print_message("# variance of PUTs in 100: %.2f, chi square of pairs %.1f\n", scatter / OPS * EACH, chi);
	assert_true(fabs(scatter / OPS * EACH - 100 * 0.25 * 0.75) < 4 * 18.75 * sqrt(2.0 * EACH / OPS));
	assert_true(chi < 27); /* of 8 degrees of freedom: one in 1,000 */
}

/* ---- steady ---- */

static void rates_are_steady_when_four_agree(void **state)
{
	struct bench_steady s = {.within = 0.05};
	(void)state;
	assert_false(bench_steady_add(&s, 50));
	assert_false(bench_steady_add(&s, 80));
	assert_false(bench_steady_add(&s, 99));
	assert_false(bench_steady_add(&s, 100));
	assert_false(bench_steady_add(&s, 101));
	assert_true(bench_steady_add(&s, 102)); /* 99 to 102 */
	assert_true(s.spread > 0.029 && s.spread < 0.031);
	assert_int_equal(s.windows, 6);
}

static void a_rate_that_climbs_or_is_nothing_is_not_steady(void **state)
{
	struct bench_steady s = {.within = 0.05}, none = {.within = 0.05};
	double rate = 100;
	(void)state;
	for (unsigned i = 0; i < 100; i++, rate *= 1.02)
		assert_false(bench_steady_add(&s, rate));
	for (unsigned i = 0; i < 100; i++)
		assert_false(bench_steady_add(&none, 0));
}

/* ---- runs ---- */

static void runs_have_median_and_range(void **state)
{
	static const double odd[] = {5, 1, 9}, even[] = {4, 1, 9, 6};
	struct bench_spread s;
	(void)state;
	bench_spread_of(odd, 3, &s);
	assert_true(s.median == 5 && s.min == 1 && s.max == 9 && s.spread == 8.0 / 5);
	bench_spread_of(even, 4, &s);
	assert_true(s.median == 5 && s.min == 1 && s.max == 9);
	bench_spread_of(odd, 1, &s);
	assert_true(s.median == 5 && s.spread == 0);
}

/* ---- the search ---- */

/* A system that keeps every rate up to `limit`. */
static void check_search(double first, double limit)
{
	struct bench_slo_search s;
	const struct bench_slo_trial *best;
	double rate = 0;
	bench_slo_begin(&s, first);
	while (bench_slo_next(&s, &rate)) {
		struct bench_slo_trial t = {.rate = rate, .why = rate <= limit ? BENCH_SLO_KEPT : BENCH_SLO_LATE};
		bench_slo_tried(&s, &t);
	}
	best = bench_slo_best(&s);
	if (limit * BENCH_SLO_PART < first) {
		assert_null(best);
		return;
	}
	assert_non_null(best);
	assert_true(best->rate <= limit);
	assert_true(best->rate * BENCH_SLO_CLOSE >= limit);
	assert_true(s.trials < BENCH_SLO_TRIALS);
}

static void the_search_finds_the_highest_rate(void **state)
{
	struct kv_prng prng = check_seed();
	(void)state;
	check_search(1000, 1000);
	check_search(1000, 999);
	check_search(1000, 100000);
	check_search(1000, 20);
	check_search(1000, 10);
	check_search(1, 5);
	check_search(1, 999999); /* the longest ways up */
	check_search(1, 5.4e8);
	for (unsigned i = 0; i < 1000; i++)
		check_search((double)kv_prng_below(&prng, 100000) + 1, (double)kv_prng_below(&prng, 1000000) + 1);
}

static void the_search_ends_where_nothing_is_too_much(void **state)
{
	struct bench_slo_search s;
	double rate = 0;
	(void)state;
	bench_slo_begin(&s, 0);
	while (bench_slo_next(&s, &rate)) {
		struct bench_slo_trial t = {.rate = rate, .why = BENCH_SLO_KEPT};
		bench_slo_tried(&s, &t);
	}
	assert_int_equal(s.trials, 30);
	assert_true(s.low > 5e8 && s.low <= 1e9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(even_arrivals_do_not_drift),
		cmocka_unit_test(a_rate_near_0_is_not_all_at_once),
		cmocka_unit_test(recorded_arrivals_come_at_the_rate_over_and_over),
		cmocka_unit_test(arrivals_without_times_are_refused),
		cmocka_unit_test(poisson_arrivals_are_as_planned_after_a_million),
		cmocka_unit_test(poisson_gaps_are_exponential),
		cmocka_unit_test(another_seed_has_another_schedule),
		cmocka_unit_test(a_ramp_rises_evenly),
		cmocka_unit_test(a_slow_worker_moves_no_arrival),
		cmocka_unit_test(what_is_left_of_a_schedule_is_all_that_was_due),
		cmocka_unit_test(no_more_are_left_than_there_are),
		cmocka_unit_test(a_great_many_are_left_in_bounded_time),
		cmocka_unit_test(parts_of_a_mix_are_exact),
		cmocka_unit_test(drawn_kinds_are_independent),
		cmocka_unit_test(no_put_of_a_mix_has_the_key_of_another),
		cmocka_unit_test(rates_are_steady_when_four_agree),
		cmocka_unit_test(a_rate_that_climbs_or_is_nothing_is_not_steady),
		cmocka_unit_test(runs_have_median_and_range),
		cmocka_unit_test(the_search_finds_the_highest_rate),
		cmocka_unit_test(the_search_ends_where_nothing_is_too_much),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
