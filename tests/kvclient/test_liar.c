/* SPDX-License-Identifier: Apache-2.0 */
/* test_liar.c -- a client against a server that lies: about ids, statuses, counts, immediates, lengths, regions and
 * itself. Whatever it says, a call ends soon after its deadline with the right bytes or an error, and a server that
 * becomes honest is used again. */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "host/host.h"
#include "kvclient/kvclient.h"
#include "server.h"
#include "victim.h"

#define WAIT_NS 20000000000ull

static atomic_bool reason_seen;

static void reasons_look(void *arg, int level, const char *line)
{
	(void)arg;
	(void)level;
	if (strstr(line, ": it ends the attachment: no???[2Jyou are ? root: connecting again"))
		atomic_store(&reason_seen, true);
}

static int setup(void **state)
{
	(void)state;
	kvc_program_setup();
	victim = (struct victim){.timeout_ns = 400000000, .connect_timeout_ns = 3000000000, .wait_ns = WAIT_NS};
	victim.log = reasons_look;
	victim_start(KVC_MODE_AUTO);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	victim_stop();
	return 0;
}

/* code: what the lie ends with. */
static const struct {
	enum lie lie;
	const char *name;
	int code;
	bool counted; /* among bad_frames */
} about_gets[] = {
	{LIE_NONE, "none", 0, false},
	{LIE_WRONG_ID, "an id that was never sent", -KV_ETIMEOUT, true},
	{LIE_STATUS, "an unknown status", -KV_EPROTO, false},
	{LIE_POSTED_MORE, "more writes than were made", -KV_ETIMEOUT, false},
	{LIE_POSTED_LESS, "fewer writes than were made", VICTIM_ANY, false},
	{LIE_POSTED_NONE, "no writes at all", -KV_EPROTO, false},
	{LIE_IMM_GENERATION, "immediates of another generation", -KV_ETIMEOUT, false},
	{LIE_IMM_SLOT, "immediates of no slot", -KV_ETIMEOUT, false},
	{LIE_IMM_MORE, "one immediate more", VICTIM_ANY, false},
	{LIE_INLINE_SHORT, "too few bytes inside", -KV_EPROTO, false},
	{LIE_INLINE_LONG, "too many bytes inside", -KV_EPROTO, false},
	{LIE_BEFORE, "bytes before their destination", -KV_EPROTO, false},
	{LIE_TWICE, "two replies", 0, true},
	{LIE_TYPE, "a reply of another type", -KV_ETIMEOUT, true},
	{LIE_TAG, "a wrong tag", -KV_ETIMEOUT, true},
	{LIE_MARK, "a mark of no session", -KV_ETIMEOUT, true},
	{LIE_REPLAY, "a frame again", 0, true},
	{LIE_JUNK, "junk", 0, true},
	{LIE_LENGTH, "a length that cannot be", -KV_EPROTO, false},
	{LIE_BYTES, "bytes that do not fit the checksum", -KV_ECORRUPT, false},
	{LIE_SILENT, "no answer", -KV_ETIMEOUT, false},
	{LIE_CANCEL, "nonsense about a cancel", -KV_ETIMEOUT, false},
};

static void lies_about_a_get_give_right_bytes_or_an_error(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * KV_COUNT(about_gets); i++) {
		unsigned k = i / 2;
		struct kvc_counters before = victim_counters(victim.pool);
		atomic_store(&liar_lie, about_gets[k].lie);
		int64_t rc = victim_get(victim.pool, victim.dst[i % 2]);
		victim_tell(about_gets[k].name, i % 2, rc, about_gets[k].code);
		victim_recovers();
		if (about_gets[k].counted)
			assert_true(victim_counters(victim.pool).bad_frames > before.bad_frames);
		if (about_gets[k].lie == LIE_IMM_GENERATION || about_gets[k].lie == LIE_IMM_SLOT)
			assert_true(victim_counters(victim.pool).stale_immediates >=
				    before.stale_immediates + LIAR_CHUNKS);
		if (about_gets[k].lie == LIE_BYTES)
			assert_true(victim_counters(victim.pool).corrupt > before.corrupt);
	}
}

/* A connection that breaks again and again: a call that has time left gets the bytes, not the provider's code. */
static void a_provider_that_fails_for_a_second_is_tried_on(void **state)
{
	enum { FAILURES = 25 }; /* pauses of 2, 4, ... 64 ms: about 1.3 s */
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = 30000000000ull};
	struct kvc_item item = {.key = {"k", 1}, .data = victim.dst[0], .len = VICTIM_CAP};
	(void)state;
	atomic_store(&liar_failures, FAILURES);
	atomic_store(&liar_lie, LIE_FABRIC);
	assert_int_equal(kvc_get(victim.pool, item.key, victim.dst[0], VICTIM_CAP, &call), LIAR_VALUE);
	assert_int_equal(atomic_load(&liar_failures), 0);
	assert_true(test_same(victim.dst[0], LIAR_VALUE, LIAR_SEED));
	atomic_store(&liar_failures, FAILURES);
	assert_int_equal(kvc_get_batch(victim.pool, &item, 1, &call), 0);
	assert_int_equal(item.result, LIAR_VALUE);
	assert_int_equal(atomic_load(&liar_failures), 0);
	/* Without time left for more than a few tries: late, like any call whose connection broke. */
	for (unsigned i = 0; i < 20; i++) {
		const struct kvc_call brief = {.size = sizeof(brief), .timeout_ns = 10000000};
		atomic_store(&liar_failures, 1000);
		assert_int_equal(kvc_get(victim.pool, item.key, victim.dst[0], VICTIM_CAP, &brief), -KV_ETIMEOUT);
		assert_int_equal(kvc_get_batch(victim.pool, &item, 1, &brief), -KV_ETIMEOUT);
	}
	victim_recovers();
}

enum way { BY_CALL, BY_BATCH, BY_BORROWING, BY_BORROWING_LARGE, WAYS };

struct scripted {
	enum way way;
	int64_t result;
};

/* GET the value to victim.dst[0]. A large borrowed piece is acquired before the bytes are asked for. */
static void scripted_get(struct kvc_client *c, unsigned w, void *arg)
{
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = WAIT_NS};
	struct kvc_item item = {.key = {"k", 1}, .data = victim.dst[0], .len = VICTIM_CAP};
	struct kvc_borrowed piece;
	struct scripted *job = arg;
	(void)w;
	if (job->way == BY_CALL) {
		job->result = kvc_get_await(c, item.key, item.data, item.len, &call);
	} else if (job->way == BY_BATCH) {
		kvc_get_batch_await(c, &item, 1, &call);
		job->result = item.result;
	} else {
		job->result = kvc_get_borrowed_await(
			c, item.key, job->way == BY_BORROWING ? LIAR_VALUE : (16 << 20) + 1, &call, &piece);
		if (job->result > 0)
			memcpy(item.data, piece.data, piece.len);
		kvc_borrowed_release(c, &piece);
	}
}

/* One wrong checksum is forgiven, and the server is told to look at its memory; the second is the end. For what else a
 * call was made again changes neither. */
static void two_wrong_checksums_are_the_end_of_a_call(void **state)
{
	static const struct {
		const char *script;
		int64_t result;
		unsigned checks;
	} table[] = {
		{"c", LIAR_VALUE, 1},     {"bc", LIAR_VALUE, 1},     {"bbc", LIAR_VALUE, 1},
		{"bbbc", LIAR_VALUE, 1},  {"cb", LIAR_VALUE, 2},     {"cbbb", LIAR_VALUE, 4},
		{"cc", -KV_ECORRUPT, 1},  {"bcc", -KV_ECORRUPT, 1},  {"bbcc", -KV_ECORRUPT, 1},
		{"cbc", -KV_ECORRUPT, 2}, {"cbbc", -KV_ECORRUPT, 3},
	};
	struct kvc_options o = victim_options();
	struct kvc_pool *pool = NULL;
	(void)state;
	o.buffer_bytes = 64 << 20; /* for pieces of more than one range */
	assert_int_equal(kvc_pool_open(&o, &pool, NULL), 0);
	for (unsigned i = 0; i < KV_COUNT(table) * WAYS; i++) {
		unsigned row = i / WAYS, checks;
		struct scripted job = {.way = (enum way)(i % WAYS)};
		memset(victim.dst[0], 0, LIAR_VALUE);
		atomic_store(&liar_checks, 0);
		atomic_store(&liar_script, table[row].script);
		atomic_store(&liar_lie, LIE_SCRIPT);
		assert_int_equal(kvc_run(pool, 1, scripted_get, &job), 0);
		checks = atomic_load(&liar_checks);
		if (job.result != table[row].result || checks != table[row].checks)
			print_message("# %s, way %u: %lld, %u checks\n", table[row].script, job.way,
				      (long long)job.result, checks);
		assert_int_equal(job.result, table[row].result);
		assert_int_equal(checks, table[row].checks);
		assert_string_equal(atomic_load(&liar_script), "");
		assert_true(job.result < 0 || test_same(victim.dst[0], LIAR_VALUE, LIAR_SEED));
	}
	kvc_pool_close(&pool);
	victim_recovers();
}

/* A large piece is acquired by a call around the GET: the tries of both are one number. */
static void a_busy_server_is_asked_nine_times(void **state)
{
	static const enum way ways[] = {BY_CALL, BY_BORROWING, BY_BORROWING_LARGE};
	struct kvc_options o = victim_options();
	struct kvc_pool *pool = NULL;
	(void)state;
	o.buffer_bytes = 64 << 20;
	assert_int_equal(kvc_pool_open(&o, &pool, NULL), 0);
	for (unsigned i = 0; i < KV_COUNT(ways); i++) {
		struct scripted job = {.way = ways[i]};
		atomic_store(&liar_script, "bbbbbbbbbbb");
		atomic_store(&liar_lie, LIE_SCRIPT);
		assert_int_equal(kvc_run(pool, 1, scripted_get, &job), 0);
		assert_int_equal(job.result, -KV_EBUSY);
		assert_string_equal(atomic_load(&liar_script), "bb");
	}
	kvc_pool_close(&pool);
	victim_recovers();
}

static void nonsense_on_the_control_connection_is_survived(void **state)
{
	static const enum lie lies[] = {LIE_REGIONS, LIE_WELCOME, LIE_HELLO,
					LIE_DRAINS,  LIE_DRAINED, LIE_BYTES_CONTROL};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(lies); i++) {
		uint64_t sessions = atomic_load(&liar_sessions), until;
		atomic_store(&liar_lie, lies[i]);
		until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
		/* All but the harmless one end the session: it is made anew. */
		while (lies[i] != LIE_REGIONS && atomic_load(&liar_sessions) == sessions) {
			assert_true(kv_clock_now(&kv_clock_monotonic) < until);
			victim_get(victim.pool, victim.dst[0]);
		}
		if (lies[i] == LIE_REGIONS) {
			usleep(300000);
			assert_int_equal(atomic_load(&liar_sessions), sessions);
		}
		victim_recovers();
	}
}

/* A server whose endpoints are rebuilt while a client connects says so: the client does not wait for pings that nobody
 * will answer. */
static void a_session_void_from_the_start_is_made_anew_at_once(void **state)
{
	struct kvc_options o = victim_options();
	struct kvc_pool *other = NULL;
	struct kv_error err = {0};
	uint64_t began = kv_clock_now(&kv_clock_monotonic);
	(void)state;
	o.connect_timeout_ns = WAIT_NS;
	atomic_store(&liar_lie, LIE_VOID);
	if (kvc_pool_open(&o, &other, &err) != 0)
		fail_msg("%s", err.text);
	assert_true(kv_clock_now(&kv_clock_monotonic) - began < WAIT_NS / 2);
	assert_int_equal(kvc_get(other, (struct kvc_key){"k", 1}, victim.dst[0], VICTIM_CAP, NULL), LIAR_VALUE);
	kvc_pool_close(&other);
	victim_recovers();
}

/* ---- memory that is taken back while a client connects ---- */

enum { TAKEN_BACK = 3 * 4096 /* the length, by which it is known */ };

static struct {
	sem_t announced, go_on;
	bool answered;      /* hold up the client's attempt behind the answer, not before it */
	_Atomic bool known; /* in the last attachment */
	_Atomic uint32_t id;
} taken;

/* Of the attachment that is made after the lie. */
static void taken_forget(struct wire_ctrl_msg *m)
{
	(void)m;
	atomic_store(&liar_lie, LIE_NONE);
	atomic_store(&taken.known, false);
}

static void taken_see(const struct wire_region *w, bool answered)
{
	if (w->len_bytes != TAKEN_BACK)
		return;
	atomic_store(&taken.known, true);
	atomic_store(&taken.id, w->id);
	if (answered != taken.answered)
		return;
	sem_post(&taken.announced);
	sem_wait(&taken.go_on);
}

static void taken_revoked(uint32_t id)
{
	if (id == atomic_load(&taken.id))
		atomic_store(&taken.known, false);
}

static void taken_back(bool answered)
{
	static uint8_t memory[TAKEN_BACK] __attribute__((aligned(4096)));
	struct kvc_mem *mem = NULL;
	assert_int_equal(kvc_register(victim.pool, memory, TAKEN_BACK, &mem, NULL), 0);
	taken.answered = answered;
	sem_init(&taken.announced, 0, 0);
	sem_init(&taken.go_on, 0, 0);
	atomic_store(&liar_welcome, taken_forget);
	atomic_store(&liar_region, taken_see);
	atomic_store(&liar_revoke, taken_revoked);
	atomic_store(&liar_lie, LIE_BYTES_CONTROL); /* the client connects again */
	sem_wait(&taken.announced);
	if (answered)
		usleep(100000); /* for the client to take the answer */
	atomic_store(&liar_region, NULL);
	assert_int_equal(kvc_unregister(victim.pool, &mem), 0);
	sem_post(&taken.go_on);
	victim_recovers();
	for (unsigned i = 0; i < 1000 && atomic_load(&taken.known); i++)
		usleep(1000);
	assert_false(atomic_load(&taken.known));
	atomic_store(&liar_revoke, NULL);
	atomic_store(&liar_welcome, NULL);
	sem_destroy(&taken.announced);
	sem_destroy(&taken.go_on);
}

/* The server was told of it in an attachment that is not up yet. */
static void memory_taken_back_while_it_is_announced_is_forgotten(void **state)
{
	(void)state;
	taken_back(false);
	taken_back(true);
}

/* ---- what a WELCOME may say ---- */

static void no_credits(struct wire_ctrl_msg *m)
{
	m->welcome.credits = 0;
}

static void all_credits(struct wire_ctrl_msg *m)
{
	m->welcome.credits = UINT32_MAX;
}

static void one_credit(struct wire_ctrl_msg *m)
{
	m->welcome.credits = 1;
}

static void other_eager(struct wire_ctrl_msg *m)
{
	m->welcome.eager_bytes++;
}

static void one_byte_chunks(struct wire_ctrl_msg *m)
{
	m->welcome.chunk_bytes = 1;
}

static void huge_chunks(struct wire_ctrl_msg *m)
{
	m->welcome.chunk_bytes = UINT32_MAX;
}

static void no_value(struct wire_ctrl_msg *m)
{
	m->welcome.value_max = 0;
}

static void no_beats(struct wire_ctrl_msg *m)
{
	m->welcome.heartbeat_ms = UINT32_MAX;
}

static void many_shards(struct wire_ctrl_msg *m)
{
	m->welcome.shards = KV_SHARDS_MAX;
	m->welcome.loops = UINT16_MAX;
	m->welcome.credits = UINT32_MAX;
}

static void many_rails(struct wire_ctrl_msg *m)
{
	m->welcome.shards = KV_SHARDS_MAX;
	m->welcome.rails = KV_RAILS_MAX;
	m->welcome.credits = UINT32_MAX;
}

/* Text of a stranger. */
static void rude_refusal(struct wire_ctrl_msg *m)
{
	*m = (struct wire_ctrl_msg){.type = WIRE_CTRL_REFUSE, .refuse.status = 12345};
	snprintf(m->refuse.text, sizeof(m->refuse.text), "no\r\n\033[2Jyou are \xff root");
}

/* In the middle of a session, instead of the second WELCOME that LIE_WELCOME sends; the next one is welcome again. */
static void rude_once(struct wire_ctrl_msg *m)
{
	rude_refusal(m);
	atomic_store(&liar_welcome, NULL);
	atomic_store(&liar_lie, LIE_NONE);
}

static void the_reason_for_the_end_of_a_session_is_printable(void **state)
{
	uint64_t sessions = atomic_load(&liar_sessions), until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	(void)state;
	atomic_store(&liar_welcome, rude_once);
	atomic_store(&liar_lie, LIE_WELCOME);
	while (atomic_load(&liar_sessions) == sessions) {
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
		victim_get(victim.pool, victim.dst[0]);
	}
	victim_recovers();
	assert_true(atomic_load(&reason_seen));
}

static void kind_refusal(struct wire_ctrl_msg *m)
{
	*m = (struct wire_ctrl_msg){.type = WIRE_CTRL_REFUSE, .refuse.status = WIRE_OK};
}

static void absurd_welcomes_are_refused_or_bounded(void **state)
{
	static const struct {
		void (*change)(struct wire_ctrl_msg *m);
		const char *name;
		int code; /* 0: it is good enough */
	} rows[] = {
		{no_credits, "no credits", -KV_EPROTO},
		{all_credits, "4 billion credits", 0},
		{one_credit, "one credit", 0},
		{other_eager, "another eager size", -KV_EVERSION},
		{one_byte_chunks, "chunks of one byte", 0},
		{huge_chunks, "chunks of 4 GiB", 0},
		{no_value, "no value allowed", 0},
		{no_beats, "a heartbeat in 50 days", 0},
		{many_shards, "64 shards, all credits", 0},
		{many_rails, "64 shards of 32 rails, all credits", 0},
		{rude_refusal, "a refusal with control characters", -KV_EPROTO},
		{kind_refusal, "a refusal with status OK", -KV_EPROTO},
	};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		struct kvc_options o = victim_options();
		struct kvc_pool *other = NULL;
		struct kv_error err = {0};
		struct kvc_info info = {.size = sizeof(info)};
		uint64_t rss = kv_memory_rss();
		o.connect_timeout_ns = WAIT_NS; /* 2,048 links take their time */
		atomic_store(&liar_welcome, rows[i].change);
		int rc = kvc_pool_open(&o, &other, &err);
		atomic_store(&liar_welcome, NULL);
		print_message("# %s: %s\n", rows[i].name, rc < 0 ? kvc_errname(rc) : "taken");
		assert_int_equal(rc, rows[i].code);
		for (const char *t = err.text; rc < 0 && *t; t++)
			assert_in_range((unsigned char)*t, ' ', '~');
		if (rc == 0) {
			struct kvc_call call = {.size = sizeof(call), .timeout_ns = 5000000000ull};
			assert_int_equal(kvc_info(other, &info), 0);
			assert_true(info.credits <= 4096);
			/* An honest one takes 62 MiB, or 95 with libfabric 2.1. */
			assert_true(kv_memory_rss() <
				    rss + (test_memory_bound(strncmp(info.libfabric, "1.", 2) ? 140 : 100) << 20));
			/* One byte at a time it may not be done in time. */
			int64_t got = kvc_get(other, (struct kvc_key){"k", 1}, victim.dst[0], VICTIM_CAP, &call);
			if (rows[i].change != one_byte_chunks)
				assert_int_equal(got, LIAR_VALUE);
			if (got >= 0)
				assert_true(test_same(victim.dst[0], LIAR_VALUE, LIAR_SEED));
		}
		kvc_pool_close(&other);
	}
	victim_recovers();
}

/* ---- further sessions ---- */

static void older_release(struct wire_ctrl_msg *m)
{
	m->welcome.flags &= (uint16_t)~WIRE_WELCOME_SESSIONS;
}

static void with_sessions(struct wire_ctrl_msg *m)
{
	m->welcome.flags |= WIRE_WELCOME_SESSIONS;
}

static struct kvc_pool *session_pool(void (*change)(struct wire_ctrl_msg *m))
{
	struct kvc_options o = victim_options();
	struct kvc_pool *p = NULL;
	struct kv_error err = {0};
	atomic_store(&liar_welcome, change);
	if (kvc_pool_open(&o, &p, &err) < 0)
		fail_msg("%s", err.text);
	return p;
}

static void an_older_server_is_said_to_be_one(void **state)
{
	struct kvc_pool *p = session_pool(older_release);
	struct kvc_session *s = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(kvc_session_open(p, 0, NULL, &s, &err), -KV_ENOTSUP);
	assert_non_null(strstr(err.text, "older release"));
	assert_null(s);
	kvc_pool_close(&p);
	atomic_store(&liar_welcome, NULL);
}

/* Open, use and close one, in time; then the same with an honest server, over the same pool. Returns what opening gave.
 */
static int session_life(struct kvc_pool *p, uint64_t timeout_ns, struct kv_error *err)
{
	struct kvc_session_options o = {.size = sizeof(o), .timeout_ns = timeout_ns};
	struct kvc_session *s = NULL;
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = timeout_ns};
	uint64_t began = kv_clock_now(&kv_clock_monotonic);
	int rc = kvc_session_open(p, 0, &o, &s, err), closed;
	assert_true(kv_clock_now(&kv_clock_monotonic) - began < timeout_ns + VICTIM_LATE_NS);
	if (rc != 0) {
		assert_null(s);
		return rc;
	}
	call.session = s;
	int64_t got = kvc_get(p, (struct kvc_key){"k", 1}, victim.dst[0], VICTIM_CAP, &call);
	if (got >= 0)
		assert_true(test_same(victim.dst[0], LIAR_VALUE, LIAR_SEED));
	began = kv_clock_now(&kv_clock_monotonic);
	closed = kvc_session_close(p, &s, timeout_ns);
	assert_true(kv_clock_now(&kv_clock_monotonic) - began < timeout_ns + VICTIM_LATE_NS);
	assert_true(closed == 0 || closed == -KV_ETIMEOUT);
	assert_null(s);
	return 0;
}

static void lies_about_sessions_end_in_time(void **state)
{
	(void)state;
	for (int lie = LIE_NO_CHALLENGE; lie <= LIE_PARTING_OTHER; lie++) {
		struct kvc_pool *p = session_pool(with_sessions);
		struct kv_error err = {0};
		int rc;
		atomic_store(&liar_lie, lie);
		rc = session_life(p, 300000000, &err);
		print_message("# lie %d: %s\n", lie - LIE_NO_CHALLENGE, rc < 0 ? kvc_errname(rc) : "opened");
		if (lie == LIE_SESSION_RUDE)
			assert_int_equal(rc, -KV_EPROTO);
		if (lie < LIE_SESSION_TWICE)
			assert_true(rc < 0);
		for (const char *t = err.text; *t; t++)
			assert_in_range((unsigned char)*t, ' ', '~');
		atomic_store(&liar_lie, LIE_NONE);
		for (unsigned i = 0; (rc = session_life(p, WAIT_NS, &err)) == -KV_EPEERDOWN && i < 400; i++)
			usleep(50000); /* until it is connected again */
		assert_int_equal(rc, 0);
		kvc_pool_close(&p);
	}
	atomic_store(&liar_welcome, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lies_about_a_get_give_right_bytes_or_an_error),
		cmocka_unit_test(a_provider_that_fails_for_a_second_is_tried_on),
		cmocka_unit_test(two_wrong_checksums_are_the_end_of_a_call),
		cmocka_unit_test(a_busy_server_is_asked_nine_times),
		cmocka_unit_test(nonsense_on_the_control_connection_is_survived),
		cmocka_unit_test(the_reason_for_the_end_of_a_session_is_printable),
		cmocka_unit_test(a_session_void_from_the_start_is_made_anew_at_once),
		cmocka_unit_test(memory_taken_back_while_it_is_announced_is_forgotten),
		cmocka_unit_test(absurd_welcomes_are_refused_or_bounded),
		cmocka_unit_test(an_older_server_is_said_to_be_one),
		cmocka_unit_test(lies_about_sessions_end_in_time),
	};
	return cmocka_run_group_tests_name("kvclient/liar", tests, setup, teardown);
}
