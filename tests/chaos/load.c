/* SPDX-License-Identifier: Apache-2.0 */
/* load.c -- calls of every kind against one or more servers that somebody is breaking, and what must hold all the same.
 *
 * Checked, each a failure of the program (exit 1):
 *   - a wrong byte: every value is made from its key alone, so that each byte of a GET can be compared; 64 bytes behind
 * the destination must not change;
 *   - a late byte: between two calls a worker's buffer holds a pattern, and whatever writes to it after its call
 * returned changes the pattern;
 *   - an overdue call: one that ended more than 100 ms (the grace of a CANCEL, here 50 ms, and as much again) past its
 * deadline;
 *   - a code that no broken server explains (corrupt, invalid, internal ...), and a call that never returned at all
 * (the program then ends itself, exit 3);
 *   - with several servers: a failure of a key. One of them is well at any time, and stands in for the others
 * ("collateral").
 *
 * What counts as overdue. Where a fence may take long (EFA), --fence-ms says how long a call may wait for it. A starved
 * machine is not the library's fault, so to the 100 ms is added the time that the thread on which the call ran was
 * runnable without a core during the call (field 2 of /proc/thread-self/schedstat), twice, since the other threads of
 * the library that the call waits for may have had to wait one after the other; for a blocking call, which runs on a
 * loop that we cannot tell, that of all threads that make calls; and the time for which this whole process stood still
 * (SIGSTOP), which a thread that does nothing but sleep in steps of 5 ms notices. longest_over_ns is the largest excess
 * over the deadline as it is, longest_net_ns the one after that allowance.
 *
 * Marks: lines on --marks FIFO. "down" when a server was broken, "rising" before it is mended, "ready" when it is whole
 * again, "stop" ends the run. A recovery is the time from "ready" to the first success after it. With several servers
 * no key tells, as another server stands in: it is the first ping of a server that has not answered since "down".
 * Worker 0 does nothing but ping from "down" until then. A key is alive if a call on it began half a second after
 * "down" and succeeded before "rising".
 *
 * --puts N makes N of 100 calls PUTs, half of them batches, and gives the values sizes that go each way of a PUT: in
 * packs, alone to a landing area, in ranges. A third of the workers then has a session of its own, whose PUTs wait in a
 * lane. --check reads every key once, when the storm is over: a call that fails then is a failure of the program.
 *
 * Rejected: timestamps in the values. They would tell how stale a value is, but values are immutable: a value that is
 * right is right for ever. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"
#include "kvclient/kvclient.h"
#include "loop/loop.h"
#include "tests/provider.h"

enum {
	SERVERS_MAX = 8,
	KEYS_MAX = 4096,
	CODES_MAX = 64,
	RECOVERIES_MAX = 256,
	ITEMS_MAX = 6,   /* of a batch */
	SMALL_MAX = 24,  /* of a batch of small values: several packs */
	EXISTS_MAX = 32, /* keys of one EXISTS */
	THREADS_MAX = 64,
	GUARD = 64, /* bytes behind a destination that must not change */
	TICK_MS = 5,
	PACKED = 16 << 10, /* the longest value that goes into a pack */
	SESSION_EACH = 3,  /* one worker in so many has a session of its own */
	EXIT_BROKEN = 1,
	EXIT_SETUP = 2,
	EXIT_HUNG = 3
};

#define MS       1000000ull
#define GRACE_NS (50 * MS)
#define SLACK_NS (2 * GRACE_NS) /* past its deadline by so much, a call is overdue */
_Static_assert(SLACK_NS == 100 * MS, "every call has ended 100 ms past its deadline");
#define STILL_NS    (25 * MS)    /* a gap between two ticks from which on the process stood still */
#define HANG_NS     (60000 * MS) /* past its limit by so much, a call has not returned */
#define CANARY_WORD 0xA5C3A5C35A3C5A3Cull
#define STEP_BYTES  (256u << 10) /* made or compared at a time; then others run */

static struct options {
	const char *server[SERVERS_MAX];
	unsigned num_servers, clients, workers, threads, keys, churn, puts;
	uint64_t seconds, timeout_ms, short_ms, pace_us, max_bytes, seed, buffer_mb, connect_ms, fence_ms;
	const char *marks, *provider;
	int log_level;
	bool no_register, check;
} opt = {
	.clients = 2,
	.workers = 16,
	.keys = 512,
	.seconds = 10,
	.timeout_ms = 1500,
	.short_ms = 10,
	.pace_us = 2000,
	.max_bytes = 2 << 20,
	.buffer_mb = 16,
	.connect_ms = 5000,
	.log_level = 1,
};

/* ---- what all workers share ---- */

struct key_state {
	_Atomic uint32_t failed; /* failures in all */
	_Atomic bool alive;      /* it succeeded while a server was down */
};

static struct shared {
	_Atomic uint64_t calls, ok, misses, failed, wrong_bytes, late_bytes, overdue, unexpected;
	_Atomic uint64_t longest_over, longest_net;
	_Atomic uint64_t code_count[CODES_MAX];
	_Atomic int code[CODES_MAX];
	_Atomic uint64_t still_ns, tick_ns; /* how long the process stood still in all; the last tick */
	_Atomic uint32_t downs;             /* "down" marks so far */
	_Atomic uint64_t down_ns;           /* since when a server is surely down; 0: not */
	_Atomic bool stop;
	_Atomic uint64_t ready_ns; /* of the last "ready" that no success has answered yet; 0: none */
	uint64_t recovery[RECOVERIES_MAX];
	_Atomic unsigned recoveries, unrecovered, own_fds;
	_Atomic uint64_t
		waited[THREADS_MAX]; /* what those of schedstat said last: a thread that has ended says nothing */
	_Atomic int schedstat[THREADS_MAX]; /* of the threads that make calls, as far as they have made one; own_fds of
					       them */
	struct key_state key[KEYS_MAX];
	_Atomic uint32_t lost[SERVERS_MAX]; /* number of the "down" since which a server did not answer a ping */
	uint64_t end_ns;
} sh;

struct worker {
	unsigned w;
	struct kvc_client *client; /* NULL: a thread that makes blocking calls */
	struct kvc_pool *pool;
	struct kvc_session *session; /* NULL: the client's own */
	struct kv_prng prng;
	uint8_t *buf;
	uint64_t cap, dirty;         /* bytes of it that the last call was given */
	_Atomic(const char *) doing; /* NULL: between calls */
	_Atomic uint64_t limit_ns;   /* by then it must have returned */
	uint64_t start_ns, timeout_ns, wait0_ns, still0_ns;
	uint64_t allowed_ns; /* what the machine took from the last call: see above */
	bool failing;        /* the last call failed: slow down */
};

static struct worker *workers;
static unsigned num_workers;

static uint64_t now_ns(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

static void max_set(_Atomic uint64_t *a, uint64_t v)
{
	uint64_t old = atomic_load(a);
	while (v > old && !atomic_compare_exchange_weak(a, &old, v))
		;
}

/* ---- values ---- */

static uint64_t mix(uint64_t x)
{
	x += 0x9E3779B97F4A7C15ull;
	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
	return x ^ (x >> 31);
}

/* Sizes around the borders between the ways of a PUT. */
static uint64_t put_len(unsigned key, uint64_t r)
{
	switch (key % 16) {
	case 0 ... 4:
		return 1 + r % PACKED;
	case 5:
		return PACKED;
	case 6:
		return PACKED + 1;
	case 7 ... 8:
		return 64 << 10;
	case 9 ... 11:
		return PACKED + r % (256 << 10);
	case 12 ... 13:
		return 1 << 20;
	case 14:
		return (1 << 20) + r % opt.max_bytes;
	default:
		return opt.max_bytes;
	}
}

static uint64_t value_len(unsigned key)
{
	uint64_t r = mix(key * 2654435761ull + opt.seed);
	uint64_t len;
	if (opt.puts)
		return KV_MIN(put_len(key, r), opt.max_bytes);
	switch (key % 16) {
	case 0 ... 5:
		len = 1 + r % 3072;
		break;
	case 6 ... 9:
		len = 4096 + r % 61440;
		break;
	case 10:
		len = 65536;
		break;
	case 11 ... 13:
		len = 65536 + r % (192 << 10);
		break;
	default:
		len = (1 << 20) + r % opt.max_bytes;
		break;
	}
	return KV_MIN(len, opt.max_bytes);
}

static inline uint64_t value_word(uint64_t base, uint64_t i)
{
	return (base + i) * 0xD6E8FEB86659FD93ull ^ (base >> 17) ^ i << 40;
}

static uint64_t value_base(unsigned key)
{
	return mix(key ^ opt.seed << 20);
}

/* Let others run in between: the loop is shared by many workers, and the time this takes must not look like the
 * library's. */
static void step_await(void)
{
	if (loop_current())
		co_yield_await();
}

static void value_make_await(unsigned key, uint8_t *to, uint64_t len)
{
	uint64_t base = value_base(key);
	for (uint64_t at = 0; at < len; at += 8) {
		uint64_t v = value_word(base, at / 8);
		memcpy(to + at, &v, KV_MIN(len - at, 8u));
		if (at && at % STEP_BYTES == 0)
			step_await();
	}
}

static uint64_t bytes_differing(uint64_t a, uint64_t b, unsigned n)
{
	uint64_t d = a ^ b, count = 0;
	for (unsigned i = 0; i < n; i++, d >>= 8)
		count += (d & 0xFF) != 0;
	return count;
}

/* How many bytes are not what they should be; says where the first is. */
static uint64_t value_check_await(unsigned key, const uint8_t *from, uint64_t len, const char *what)
{
	uint64_t base = value_base(key), wrong = 0, first = 0, saw = 0;
	for (uint64_t at = 0; at < len; at += 8) {
		uint64_t v = value_word(base, at / 8), got = v;
		memcpy(&got, from + at, KV_MIN(len - at, 8u));
		if (KV_UNLIKELY(got != v)) {
			first = wrong ? first : at;
			saw = wrong ? saw : got;
			wrong += bytes_differing(got, v, KV_MIN(len - at, 8u));
		}
		if (at && at % STEP_BYTES == 0)
			step_await();
	}
	if (wrong)
		fprintf(stderr,
			"load: WRONG BYTES: %s of key %u: %" PRIu64 " of %" PRIu64 " bytes, first near %" PRIu64
			" (0x%016" PRIx64 ")\n",
			what, key, wrong, len, first, saw);
	return wrong;
}

/* ---- the pattern between calls ---- */

static void canary_put(uint8_t *at, uint64_t len)
{
	const uint64_t v = CANARY_WORD;
	for (uint64_t i = 0; i < len; i += 8)
		memcpy(at + i, &v, KV_MIN(len - i, 8u));
}

static uint64_t canary_wrong(const uint8_t *at, uint64_t len)
{
	uint64_t wrong = 0;
	for (uint64_t i = 0; i < len; i += 8) {
		uint64_t v = CANARY_WORD;
		memcpy(&v, at + i, KV_MIN(len - i, 8u));
		if (KV_UNLIKELY(v != CANARY_WORD))
			wrong += bytes_differing(v, CANARY_WORD, KV_MIN(len - i, 8u));
	}
	return wrong;
}

/* Nothing may have touched what the last call was given. */
static void buffer_check(struct worker *k)
{
	uint64_t late = canary_wrong(k->buf, k->dirty);
	if (late) {
		fprintf(stderr, "load: LATE BYTES: worker %u: %" PRIu64 " bytes were written after the call returned\n",
			k->w, late);
		atomic_fetch_add(&sh.late_bytes, late);
		canary_put(k->buf, k->dirty);
	}
	k->dirty = 0;
}

static void buffer_done(struct worker *k, uint64_t len)
{
	canary_put(k->buf, len);
	k->dirty = len;
}

/* What lies behind the value that was read to buf. */
static void guard_check(struct worker *k, uint64_t len)
{
	uint64_t wrong = 0;
	for (unsigned i = 0; i < GUARD; i++)
		wrong += k->buf[len + i] != (uint8_t)(CANARY_WORD >> ((len + i) % 8 * 8));
	if (!wrong)
		return;
	fprintf(stderr, "load: WRONG BYTES: worker %u: %" PRIu64 " bytes behind the destination were written\n", k->w,
		wrong);
	atomic_fetch_add(&sh.wrong_bytes, wrong);
}

/* ---- a call: its time and its outcome ---- */

/* Field 2 of a schedstat file. */
static uint64_t waited_read(int fd)
{
	char text[96];
	unsigned long long ran, waited;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = 0;
	return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? waited : 0;
}

/* How long the thread of this call has been runnable without a core; for a blocking call, all threads that make calls.
 */
static uint64_t thread_waited_ns(const struct worker *k)
{
	static __thread int own = -2;
	uint64_t sum = 0;
	if (own == -2) {
		own = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
		for (unsigned i = atomic_load(&sh.own_fds); own >= 0 && i < THREADS_MAX; i++) {
			int none = 0;
			if (atomic_compare_exchange_strong(&sh.schedstat[i], &none, own)) {
				atomic_fetch_add(&sh.own_fds, 1);
				break;
			}
		}
	}
	if (k->client)
		return own < 0 ? 0 : waited_read(own);
	/* The sum must not fall when a thread ends, or a call under which that happens is given the age of the
	 * universe. */
	for (unsigned i = 0; i < THREADS_MAX && atomic_load(&sh.schedstat[i]); i++) {
		max_set(&sh.waited[i], waited_read(atomic_load(&sh.schedstat[i])));
		sum += atomic_load(&sh.waited[i]);
	}
	return sum;
}

static uint64_t still_ns(uint64_t now)
{
	uint64_t gap = now - KV_MIN(now, atomic_load(&sh.tick_ns));
	return atomic_load(&sh.still_ns) + (gap > STILL_NS ? gap : 0);
}

static struct kvc_call call_begin(struct worker *k, const char *what)
{
	struct kvc_call call = {.size = sizeof(call)};
	k->timeout_ns = (kv_prng_below(&k->prng, 8) ? opt.timeout_ms : opt.short_ms) * MS;
	call.timeout_ns = k->timeout_ns;
	call.session = k->session;
	k->wait0_ns = thread_waited_ns(k);
	k->start_ns = now_ns();
	k->still0_ns = still_ns(k->start_ns);
	atomic_store(&k->limit_ns, k->start_ns + k->timeout_ns + SLACK_NS);
	atomic_store(&k->doing, what);
	return call;
}

static void code_count(int64_t rc)
{
	for (unsigned i = 0; i < CODES_MAX; i++) {
		int none = 0;
		if (atomic_load(&sh.code[i]) == (int)rc ||
		    atomic_compare_exchange_strong(&sh.code[i], &none, (int)rc) || none == (int)rc) {
			atomic_fetch_add(&sh.code_count[i], 1);
			return;
		}
	}
}

static bool explained(int64_t rc)
{
	return rc == -KV_ETIMEOUT || rc == -KV_EPEERDOWN || rc == -KV_ELEFT || rc == -KV_EBUSY || rc == -KV_ENOMEM;
}

static void recovered(uint64_t now)
{
	uint64_t ready = atomic_load(&sh.ready_ns);
	unsigned i;
	if (!ready || now <= ready)
		return;
	if (!atomic_compare_exchange_strong(&sh.ready_ns, &ready, 0))
		return;
	i = atomic_fetch_add(&sh.recoveries, 1);
	if (i < RECOVERIES_MAX)
		sh.recovery[i] = now - ready;
	fprintf(stderr, "load: recovered\n");
}

/* Whether a server has been down for long enough that nothing of it can be on its way. */
static bool down_now(void)
{
	uint64_t since = atomic_load(&sh.down_ns);
	return since && now_ns() > since + 500 * MS;
}

/* A failure of a call that had a few milliseconds, and none left for another server, says nothing, nor does a timeout
 * of a call that the machine kept waiting for a quarter of its time. */
static bool counts(const struct worker *k, int64_t rc)
{
	bool short_of_time = k->timeout_ns != opt.timeout_ms * MS;
	if (rc == -KV_ETIMEOUT)
		return !short_of_time && k->allowed_ns < k->timeout_ns / 4;
	return (rc == -KV_EPEERDOWN || rc == -KV_ELEFT) && !(short_of_time && now_ns() >= k->start_ns + k->timeout_ns);
}

/* One key of a call has this outcome. */
static void key_outcome(struct worker *k, const char *what, unsigned key, int64_t rc, bool was_down)
{
	struct key_state *s = &sh.key[key];
	if (rc >= 0 || rc == -KV_ENOTFOUND) {
		if (was_down && down_now())
			atomic_store(&s->alive, true);
		if (opt.num_servers == 1)
			recovered(now_ns());
		return;
	}
	if (counts(k, rc))
		atomic_fetch_add(&s->failed, 1);
	if (counts(k, rc) && opt.num_servers > 1)
		fprintf(stderr,
			"load: COLLATERAL: %s of key %u: %s after %.0f of %.0f ms, of which the machine took %.0f\n",
			what, key, kvc_errname((int)rc), (double)(now_ns() - k->start_ns) / 1e6,
			(double)k->timeout_ns / 1e6, (double)k->allowed_ns / 1e6);
	if (!explained(rc)) {
		fprintf(stderr, "load: UNEXPECTED: %s of key %u: %s (%s)\n", what, key, kvc_errname((int)rc),
			kvc_strerror((int)rc));
		atomic_fetch_add(&sh.unexpected, 1);
	}
}

static void call_end(struct worker *k, const char *what, int64_t rc)
{
	uint64_t now = now_ns(), took = now - k->start_ns, due = k->timeout_ns;
	uint64_t allowed = 2 * (thread_waited_ns(k) - k->wait0_ns) + (still_ns(now) - k->still0_ns);
	k->allowed_ns = allowed;
	atomic_store(&k->doing, NULL);
	atomic_fetch_add(&sh.calls, 1);
	if (took > due)
		max_set(&sh.longest_over, took - due);
	if (took > due + allowed)
		max_set(&sh.longest_net, took - due - allowed);
	if (took > due + allowed + SLACK_NS + opt.fence_ms * MS) {
		fprintf(stderr, "load: OVERDUE: %s of worker %u: %.0f ms of %.0f ms, %.0f ms of it excused, %s\n", what,
			k->w, (double)took / 1e6, (double)due / 1e6, (double)allowed / 1e6,
			rc < 0 ? kvc_errname((int)rc) : "success");
		atomic_fetch_add(&sh.overdue, 1);
	}
	k->failing = rc < 0 && rc != -KV_ENOTFOUND;
	if (rc >= 0)
		atomic_fetch_add(&sh.ok, 1);
	else if (rc == -KV_ENOTFOUND)
		atomic_fetch_add(&sh.misses, 1);
	else {
		atomic_fetch_add(&sh.failed, 1);
		code_count(rc);
	}
}

/* ---- the calls ---- */

struct key_text {
	char text[32];
	struct kvc_key key;
};

static struct kvc_key key_of(struct key_text *t, unsigned key)
{
	t->key.len = (size_t)snprintf(t->text, sizeof(t->text), "chaos/%" PRIx64 "/%u", opt.seed & 0xFFFFFF, key);
	t->key.data = t->text;
	return t->key;
}

static unsigned key_pick(struct worker *k)
{
	return (unsigned)kv_prng_below(&k->prng, opt.keys);
}

/* Check what a GET brought; rc is its result. */
static int64_t got(unsigned key, const uint8_t *at, int64_t rc, const char *what)
{
	uint64_t len = value_len(key), wrong;
	if (rc < 0)
		return rc;
	wrong = (uint64_t)rc == len ? value_check_await(key, at, len, what) : len;
	if ((uint64_t)rc != len)
		fprintf(stderr, "load: WRONG BYTES: %s of key %u: length %" PRId64 " instead of %" PRIu64 "\n", what,
			key, rc, len);
	if (wrong)
		atomic_fetch_add(&sh.wrong_bytes, wrong);
	return rc;
}

static void get_key_await(struct worker *k, unsigned key)
{
	uint64_t len = value_len(key);
	bool down = down_now();
	struct key_text t;
	struct kvc_call call = call_begin(k, "get");
	int64_t rc = k->client ? kvc_get_await(k->client, key_of(&t, key), k->buf, len, &call)
			       : kvc_get(k->pool, key_of(&t, key), k->buf, len, &call);
	call_end(k, "get", rc);
	key_outcome(k, "get", key, rc, down);
	got(key, k->buf, rc, "get");
	guard_check(k, len);
	buffer_done(k, len);
}

static void do_get_await(struct worker *k)
{
	get_key_await(k, key_pick(k));
}

static void do_get_borrowed_await(struct worker *k)
{
	unsigned key = key_pick(k);
	bool down = down_now();
	struct key_text t;
	struct kvc_borrowed borrowed = {0};
	struct kvc_call call = call_begin(k, "get_borrowed");
	uint64_t guess = kv_prng_below(&k->prng, 4) ? value_len(key) : 0;
	int64_t rc = kvc_get_borrowed_await(k->client, key_of(&t, key), guess, &call, &borrowed);
	call_end(k, "get_borrowed", rc);
	key_outcome(k, "get_borrowed", key, rc, down);
	got(key, borrowed.data, rc, "get_borrowed");
	kvc_borrowed_release(k->client, &borrowed);
}

/* A part in the middle of a value. */
static void do_get_part_await(struct worker *k)
{
	unsigned key = key_pick(k);
	uint64_t len = value_len(key), from = kv_prng_below(&k->prng, len) & ~7ull,
		 n = 1 + kv_prng_below(&k->prng, len - from);
	bool down = down_now();
	struct key_text t;
	struct kvc_call call = call_begin(k, "get_part");
	int64_t rc;
	call.offset = from;
	call.length = n;
	rc = k->client ? kvc_get_await(k->client, key_of(&t, key), k->buf, n, &call)
		       : kvc_get(k->pool, key_of(&t, key), k->buf, n, &call);
	call_end(k, "get_part", rc);
	key_outcome(k, "get_part", key, rc, down);
	if (rc >= 0) {
		uint64_t base = value_base(key), wrong = (uint64_t)rc != n;
		for (uint64_t i = 0; i < n; i++)
			wrong += k->buf[i] != (uint8_t)(value_word(base, (from + i) / 8) >> ((from + i) % 8 * 8));
		if (wrong)
			fprintf(stderr,
				"load: WRONG BYTES: part of key %u at %" PRIu64 ": %" PRIu64 " of %" PRIu64
				" bytes, result %" PRId64 "\n",
				key, from, wrong, n, rc);
		atomic_fetch_add(&sh.wrong_bytes, wrong);
	}
	guard_check(k, n);
	buffer_done(k, n);
}

static void do_put_await(struct worker *k)
{
	unsigned key = key_pick(k);
	uint64_t len = value_len(key);
	bool down = down_now();
	struct key_text t;
	struct kvc_call call;
	int64_t rc;
	value_make_await(key, k->buf, len);
	call = call_begin(k, "put");
	rc = k->client ? kvc_put_await(k->client, key_of(&t, key), k->buf, len, &call)
		       : kvc_put(k->pool, key_of(&t, key), k->buf, len, &call);
	call_end(k, "put", rc);
	key_outcome(k, "put", key, rc, down);
	buffer_done(k, len);
}

static void do_put_borrowed_await(struct worker *k)
{
	unsigned key = key_pick(k);
	uint64_t len = value_len(key);
	bool down = down_now();
	struct key_text t;
	struct kvc_borrowed borrowed = {0};
	struct kvc_call call = call_begin(k, "borrow");
	int64_t rc = kvc_borrow_await(k->client, len, call.timeout_ns, &borrowed);
	call_end(k, "borrow", rc);
	if (rc < 0) {
		if (!explained(rc))
			key_outcome(k, "borrow", key, rc, down);
		return;
	}
	value_make_await(key, borrowed.data, len);
	call = call_begin(k, "put_borrowed");
	rc = kvc_put_await(k->client, key_of(&t, key), borrowed.data, len, &call);
	call_end(k, "put_borrowed", rc);
	key_outcome(k, "put_borrowed", key, rc, down);
	/* It is mine until it is released: what I write here must not reach the value. */
	canary_put(borrowed.data, len);
	kvc_borrowed_release(k->client, &borrowed);
}

static void do_delete_await(struct worker *k)
{
	unsigned key = key_pick(k);
	bool down = down_now();
	struct key_text t;
	struct kvc_call call = call_begin(k, "delete");
	int64_t rc = k->client ? kvc_delete_await(k->client, key_of(&t, key), &call)
			       : kvc_delete(k->pool, key_of(&t, key), &call);
	call_end(k, "delete", rc);
	key_outcome(k, "delete", key, rc, down);
}

static void do_exists_await(struct worker *k)
{
	struct key_text t[EXISTS_MAX];
	struct kvc_key keys[EXISTS_MAX];
	uint8_t found[EXISTS_MAX];
	unsigned n = 1 + (unsigned)kv_prng_below(&k->prng, EXISTS_MAX), prefix = 0;
	struct kvc_call call;
	int64_t rc;
	for (unsigned i = 0; i < n; i++)
		keys[i] = key_of(&t[i], key_pick(k));
	memset(found, 9, sizeof(found));
	call = call_begin(k, "exists");
	rc = k->client ? kvc_exists_await(k->client, keys, n, found, &prefix, &call)
		       : kvc_exists(k->pool, keys, n, found, &prefix, &call);
	call_end(k, "exists", rc);
	if (rc < 0 && !explained(rc))
		key_outcome(k, "exists", 0, rc, false);
	for (unsigned i = 0; rc == 0 && i < n; i++)
		if (found[i] > 1 || (i < prefix && !found[i]) || (i == prefix && found[i]) || prefix > n) {
			fprintf(stderr, "load: WRONG BYTES: exists: prefix %u, found[%u] %u\n", prefix, i, found[i]);
			atomic_fetch_add(&sh.wrong_bytes, 1);
			break;
		}
}

/* A batch of any values, or of small ones alone. */
static void do_batch_await(struct worker *k, bool put, bool small)
{
	struct key_text t[SMALL_MAX];
	struct kvc_item item[SMALL_MAX];
	unsigned key[SMALL_MAX], most = small ? SMALL_MAX : ITEMS_MAX;
	unsigned n = 2 + (unsigned)kv_prng_below(&k->prng, most - 1), used = 0;
	const char *what = put ? "put_batch" : "get_batch";
	bool down = down_now();
	uint64_t at = 0;
	struct kvc_call call;
	int64_t rc;
	for (unsigned tries = 0; used < n && tries < 100; tries++) {
		uint64_t len = value_len(key[used] = key_pick(k));
		if (at + len > k->cap / 2 || (small && len > PACKED))
			continue;
		item[used] = (struct kvc_item){
			.key = key_of(&t[used], key[used]), .data = k->buf + at, .len = len, .result = -KV_EINTERNAL};
		if (put)
			value_make_await(key[used], k->buf + at, len);
		at += (len + 7) & ~7ull;
		used++;
	}
	call = call_begin(k, what);
	if (put)
		rc = k->client ? kvc_put_batch_await(k->client, item, used, &call)
			       : kvc_put_batch(k->pool, item, used, &call);
	else
		rc = k->client ? kvc_get_batch_await(k->client, item, used, &call)
			       : kvc_get_batch(k->pool, item, used, &call);
	call_end(k, what, rc);
	for (unsigned i = 0; i < used; i++) {
		key_outcome(k, what, key[i], item[i].result, down);
		if (!put)
			got(key[i], item[i].data, item[i].result, what);
	}
	buffer_done(k, at);
}

static void do_ping_await(struct worker *k)
{
	struct kvc_call call = call_begin(k, "ping");
	int64_t rc;
	call.server = (uint32_t)kv_prng_below(&k->prng, opt.num_servers);
	rc = k->client ? kvc_ping_await(k->client, &call) : kvc_ping(k->pool, &call);
	call_end(k, "ping", rc);
	if (rc < 0 && !explained(rc))
		key_outcome(k, "ping", 0, rc, false);
	if (counts(k, rc))
		atomic_store(&sh.lost[call.server], atomic_load(&sh.downs));
	else if (rc == 0 && opt.num_servers > 1 && atomic_load(&sh.lost[call.server]) == atomic_load(&sh.downs))
		recovered(now_ns());
}

/* With several servers nothing but a ping shows whether all are back. */
static bool pings_alone(const struct worker *k)
{
	return opt.num_servers > 1 && k->w == 0 && (atomic_load(&sh.down_ns) || atomic_load(&sh.ready_ns));
}

static void put_call_await(struct worker *k)
{
	unsigned dice = (unsigned)kv_prng_below(&k->prng, 100);
	if (dice < 35)
		do_put_await(k);
	else if (dice < 50 && k->client)
		do_put_borrowed_await(k);
	else
		do_batch_await(k, true, dice < 75);
}

static void one_call_await(struct worker *k)
{
	unsigned dice = (unsigned)kv_prng_below(&k->prng, 100);
	buffer_check(k);
	if (pings_alone(k)) {
		do_ping_await(k);
		return;
	}
	if (opt.puts && kv_prng_below(&k->prng, 100) < opt.puts) {
		put_call_await(k);
		return;
	}
	if (dice < 30)
		do_get_await(k);
	else if (dice < 38 && k->client)
		do_get_borrowed_await(k);
	else if (dice < 46)
		do_get_part_await(k);
	else if (dice < 60)
		do_batch_await(k, false, false);
	else if (dice < 76)
		do_put_await(k);
	else if (dice < 81 && k->client)
		do_put_borrowed_await(k);
	else if (dice < 87)
		do_batch_await(k, true, false);
	else if (dice < 94)
		do_exists_await(k);
	else if (dice < 98)
		do_delete_await(k);
	else
		do_ping_await(k);
}

static void pause_await(struct worker *k)
{
	/* A call that fails at once, because the server is known to be down, must not become a busy loop. */
	uint64_t ns = opt.pace_us * 1000 + (k->failing ? 5 * MS : 0);
	uint64_t half = ns / 2 + kv_prng_below(&k->prng, ns + 1);
	const struct timespec ts = {(time_t)(half / 1000000000), (long)(half % 1000000000)};
	if (loop_current())
		co_sleep_await(loop_now(loop_current()) + half);
	else
		nanosleep(&ts, NULL);
}

static bool over(void)
{
	return atomic_load(&sh.stop) || now_ns() >= sh.end_ns;
}

/* A third of the workers, while PUTs are what this is about. */
static void session_open_await(struct worker *k)
{
	struct kv_error err = {0};
	int rc = opt.puts && k->w % SESSION_EACH == 0 ? kvc_session_open_await(k->client, NULL, &k->session, &err) : 0;
	if (rc < 0)
		fprintf(stderr, "load: worker %u has no session: %s: %s\n", k->w, kvc_errname(rc), err.text);
}

static void session_close_await(struct worker *k)
{
	int rc = k->session ? kvc_session_close_await(k->client, &k->session, opt.timeout_ms * MS) : 0;
	if (rc == 0 || explained(rc))
		return;
	fprintf(stderr, "load: UNEXPECTED: worker %u closes its session: %s\n", k->w, kvc_errname(rc));
	atomic_fetch_add(&sh.unexpected, 1);
}

/* The part of all keys that is this worker's, each once. */
static void check_await(struct worker *k)
{
	for (unsigned key = k->w; key < opt.keys; key += opt.workers) {
		buffer_check(k);
		get_key_await(k, key);
	}
}

static void worker_main(struct kvc_client *client, unsigned w, void *arg)
{
	struct worker *k = &workers[w];
	(void)arg;
	k->client = client;
	session_open_await(k);
	if (opt.check)
		check_await(k);
	while (!opt.check && !over()) {
		one_call_await(k);
		pause_await(k);
	}
	session_close_await(k);
	/* What is late may still come. */
	co_sleep_await(loop_now(loop_current()) + 300 * MS);
	buffer_check(k);
}

static void *thread_main(void *arg)
{
	struct worker *k = arg;
	while (!over()) {
		one_call_await(k);
		pause_await(k);
	}
	buffer_check(k);
	return NULL;
}

/* ---- time, marks and the watch over calls that hang ---- */

static void report(struct kvc_pool *pool, const char *end);

static void hang_check(uint64_t now)
{
	for (unsigned i = 0; i < num_workers; i++) {
		struct worker *k = &workers[i];
		const char *doing = atomic_load(&k->doing);
		uint64_t limit = atomic_load(&k->limit_ns);
		if (!doing || now < limit + HANG_NS)
			continue;
		fprintf(stderr, "load: HUNG: %s of worker %u has not returned %.1f s after its deadline\n", doing, i,
			(double)(now - limit) / 1e9);
		atomic_fetch_add(&sh.overdue, 1);
		report(NULL, "hung");
		if (getenv("CHAOS_ABORT")) /* for a core or a debugger */
			abort();
		_exit(EXIT_HUNG);
	}
}

static void *tick_main(void *arg)
{
	const struct timespec ts = {0, TICK_MS * (long)MS};
	uint64_t last = now_ns(), checked = last;
	(void)arg;
	for (;;) {
		uint64_t now;
		atomic_store(&sh.tick_ns, last);
		nanosleep(&ts, NULL);
		now = now_ns();
		if (now - last > STILL_NS)
			atomic_fetch_add(&sh.still_ns, now - last);
		if (now - last < STILL_NS && now - checked > 1000 * MS) {
			checked = now;
			hang_check(now - KV_MIN(now, atomic_load(&sh.still_ns)));
		}
		last = now;
	}
	return NULL;
}

static void mark(const char *line)
{
	if (strcmp(line, "down") == 0) {
		if (atomic_exchange(&sh.ready_ns, 0))
			atomic_fetch_add(&sh.unrecovered, 1);
		atomic_fetch_add(&sh.downs, 1);
		atomic_store(&sh.down_ns, now_ns());
	} else if (strcmp(line, "rising") == 0) {
		atomic_store(&sh.down_ns, 0);
	} else if (strcmp(line, "ready") == 0) {
		atomic_store(&sh.down_ns, 0);
		atomic_store(&sh.ready_ns, now_ns());
	} else if (strcmp(line, "stop") == 0) {
		atomic_store(&sh.stop, true);
	} else {
		fprintf(stderr, "load: no such mark: %s\n", line);
	}
}

/* Not by stdio: from glibc 2.38 on, exit() waits for the lock of a stream that somebody reads. */
static void *marks_main(void *arg)
{
	/* Opened for writing as well: the script's echo closes it after each line. */
	int fd = open(opt.marks, O_RDWR | O_CLOEXEC);
	char line[64], *end;
	size_t have = 0;
	ssize_t n = 1;
	(void)arg;
	while (fd >= 0 && (n = read(fd, line + have, sizeof(line) - have)) > 0) {
		have += (size_t)n;
		while ((end = memchr(line, '\n', have))) {
			*end++ = 0;
			mark(line);
			have -= (size_t)(end - line);
			memmove(line, end, have);
		}
		if (have == sizeof(line))
			have = 0;
	}
	fprintf(stderr, "load: %s: %s\n", opt.marks, strerror(errno));
	_exit(EXIT_SETUP);
}

/* ---- the report ---- */

static uint64_t status_kib(const char *name)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[128];
	uint64_t kib = 0;
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			kib = strtoull(line + strlen(name) + 1, NULL, 10);
	if (f)
		fclose(f);
	return kib;
}

static unsigned fds_open(void)
{
	unsigned n = 0;
	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n - atomic_load(&sh.own_fds);
}

static uint64_t rss_start_kib;
static unsigned fds_start;

static uint64_t collateral(void)
{
	uint64_t n = 0;
	for (unsigned i = 0; i < opt.keys && opt.num_servers > 1; i++)
		n += atomic_load(&sh.key[i].failed);
	return n;
}

static unsigned keys_alive(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < opt.keys; i++)
		n += atomic_load(&sh.key[i].alive);
	return n;
}

static void report_errors(void)
{
	printf(", \"errors\": {");
	for (unsigned i = 0; i < CODES_MAX && atomic_load(&sh.code[i]); i++)
		printf("%s\"%s\": %" PRIu64, i ? ", " : "", kvc_errkey(atomic_load(&sh.code[i])),
		       atomic_load(&sh.code_count[i]));
	printf("}");
}

static void report_recoveries(void)
{
	unsigned n = KV_MIN(atomic_load(&sh.recoveries), (unsigned)RECOVERIES_MAX);
	uint64_t max = 0;
	printf(", \"recovery_ms\": [");
	for (unsigned i = 0; i < n; i++) {
		printf("%s%.1f", i ? ", " : "", (double)sh.recovery[i] / 1e6);
		max = KV_MAX(max, sh.recovery[i]);
	}
	printf("], \"recoveries\": %u, \"longest_recovery_ms\": %.1f, \"unrecovered\": %u", n, (double)max / 1e6,
	       atomic_load(&sh.unrecovered) + (atomic_load(&sh.ready_ns) != 0));
}

static void report_counters(struct kvc_pool *pool)
{
	struct kvc_counters c = {.size = sizeof(c)};
	if (!pool || kvc_counters(pool, &c) < 0)
		return;
	printf(", \"retries\": %" PRIu64 ", \"reconnects\": %" PRIu64 ", \"fences\": %" PRIu64 ", \"cancels\": %" PRIu64
	       ", \"corrupt\": %" PRIu64 ", \"stale_immediates\": %" PRIu64 ", \"bad_frames\": %" PRIu64
	       ", \"quarantined_bytes\": %" PRIu64 ", \"bytes_in\": %" PRIu64 ", \"bytes_out\": %" PRIu64,
	       c.retries, c.reconnects, c.fences, c.cancels, c.corrupt, c.stale_immediates, c.bad_frames,
	       c.quarantined_bytes, c.bytes_in, c.bytes_out);
}

static void report(struct kvc_pool *pool, const char *end)
{
	printf("{\"end\": \"%s\", \"seed\": %" PRIu64 ", \"calls\": %" PRIu64 ", \"ok\": %" PRIu64
	       ", \"misses\": %" PRIu64 ", \"failed\": %" PRIu64,
	       end, opt.seed, atomic_load(&sh.calls), atomic_load(&sh.ok), atomic_load(&sh.misses),
	       atomic_load(&sh.failed));
	report_errors();
	printf(", \"wrong_bytes\": %" PRIu64 ", \"late_bytes\": %" PRIu64 ", \"overdue\": %" PRIu64
	       ", \"unexpected\": %" PRIu64 ", \"collateral\": %" PRIu64
	       ", \"keys_alive\": %u, \"longest_over_ns\": %" PRIu64 ", \"longest_net_ns\": %" PRIu64,
	       atomic_load(&sh.wrong_bytes), atomic_load(&sh.late_bytes), atomic_load(&sh.overdue),
	       atomic_load(&sh.unexpected), collateral(), keys_alive(), atomic_load(&sh.longest_over),
	       atomic_load(&sh.longest_net));
	report_recoveries();
	report_counters(pool);
	printf(", \"rss_kib\": %" PRIu64 ", \"rss_start_kib\": %" PRIu64
	       ", \"fds\": %u, \"fds_start\": %u, \"still_ms\": %.1f}\n",
	       status_kib("VmRSS:"), rss_start_kib, fds_open(), fds_start, (double)atomic_load(&sh.still_ns) / 1e6);
	fflush(stdout);
}

static int verdict(void)
{
	if (opt.check && atomic_load(&sh.failed))
		return EXIT_BROKEN;
	return atomic_load(&sh.wrong_bytes) || atomic_load(&sh.late_bytes) || atomic_load(&sh.overdue) ||
			       atomic_load(&sh.unexpected) || collateral()
		       ? EXIT_BROKEN
		       : 0;
}

/* ---- set-up ---- */

static int pool_open(struct kvc_pool **out)
{
	struct kvc_options o = {.size = sizeof(o), .flags = KVC_OPEN_WAIT, .grace_ns = GRACE_NS};
	struct kv_error err = {0};
	int rc;
	o.servers = opt.server;
	o.num_servers = opt.num_servers;
	o.num_clients = opt.clients;
	o.num_threads = opt.clients;
	o.buffer_bytes = opt.buffer_mb << 20;
	o.provider = opt.provider;
	o.timeout_ns = opt.timeout_ms * MS;
	o.slow_ns = o.timeout_ns * 3 / 4; /* says where the time of those that end late went */
	o.connect_timeout_ns = opt.connect_ms * MS;
	o.log_level = opt.log_level;
	rc = kvc_pool_open(&o, out, &err);
	if (rc < 0)
		fprintf(stderr, "load: %s: %s\n", kvc_errname(rc), err.text);
	return rc;
}

static int workers_make(struct kvc_pool *pool)
{
	uint64_t cap = 2 * opt.max_bytes + 4096;
	num_workers = opt.workers + opt.threads;
	workers = calloc(num_workers, sizeof(*workers));
	if (!workers)
		return -KV_ENOMEM;
	for (unsigned i = 0; i < num_workers; i++) {
		struct worker *k = &workers[i];
		k->w = i;
		k->pool = pool;
		k->cap = cap;
		k->buf = aligned_alloc(4096, (cap + GUARD + 4095) & ~4095ull);
		if (!k->buf)
			return -KV_ENOMEM;
		kv_prng_seed(&k->prng, opt.seed * 1000 + i);
		canary_put(k->buf, (cap + GUARD + 4095) & ~4095ull);
	}
	return 0;
}

/* Every second worker's buffer is registered. */
static int workers_register(struct kvc_pool *pool, struct kvc_mem **mem)
{
	struct kv_error err = {0};
	for (unsigned i = 0; i < num_workers && !opt.no_register; i += 2) {
		int rc = kvc_register(pool, workers[i].buf, (workers[i].cap + GUARD + 4095) & ~4095ull, &mem[i], &err);
		if (rc < 0) {
			fprintf(stderr, "load: %s: registering: %s\n", kvc_errname(rc), err.text);
			return rc;
		}
	}
	return 0;
}

static void workers_unregister(struct kvc_pool *pool, struct kvc_mem **mem)
{
	for (unsigned i = 0; i < num_workers; i++) {
		int rc = mem[i] ? kvc_unregister(pool, &mem[i]) : 0;
		if (rc < 0) {
			fprintf(stderr, "load: UNEXPECTED: unregistering the memory of worker %u: %s\n", i,
				kvc_errname(rc));
			atomic_fetch_add(&sh.unexpected, 1);
		}
	}
}

/* What was given up is answered for a while after the last call. */
static void settle(struct kvc_pool *pool)
{
	struct kvc_counters c = {.size = sizeof(c)};
	for (unsigned i = 0; i < 30 && kvc_counters(pool, &c) == 0 && c.quarantined_bytes; i++)
		usleep(100000);
	if (c.quarantined_bytes && getenv("CHAOS_HOLD")) { /* for a debugger */
		fprintf(stderr, "load: %d holds\n", (int)getpid());
		pause();
	}
}

static int run_load(void)
{
	struct kvc_pool *pool = NULL;
	struct kvc_mem **mem = NULL;
	pthread_t *thread = NULL;
	unsigned started = 0;
	int rc = pool_open(&pool);
	if (rc < 0)
		return EXIT_SETUP;
	rc = workers_make(pool);
	mem = calloc(num_workers, sizeof(*mem));
	thread = calloc(num_workers, sizeof(*thread));
	if (rc < 0 || !mem || !thread || workers_register(pool, mem) < 0) {
		rc = EXIT_SETUP;
		goto out;
	}
	rss_start_kib = status_kib("VmRSS:");
	fds_start = fds_open();
	sh.end_ns = now_ns() + opt.seconds * 1000 * MS;
	while (started < opt.threads &&
	       pthread_create(&thread[started], NULL, thread_main, &workers[opt.workers + started]) == 0)
		started++;
	fprintf(stderr, "load: running\n");
	rc = kvc_run(pool, opt.workers, worker_main, NULL);
	if (rc < 0)
		fprintf(stderr, "load: kvc_run: %s\n", kvc_errname(rc));
	for (unsigned i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	workers_unregister(pool, mem);
	settle(pool);
	report(pool, rc < 0 ? "no workers" : "done");
	rc = rc < 0 ? EXIT_SETUP : verdict();
out:
	kvc_pool_close(&pool);
	for (unsigned i = 0; workers && i < num_workers; i++)
		free(workers[i].buf);
	free(workers);
	free(mem);
	free(thread);
	return rc;
}

/* ---- many connects and disconnects ---- */

static int churn_once(unsigned round)
{
	struct kvc_pool *pool = NULL;
	unsigned key = round % opt.keys;
	uint64_t len = value_len(key);
	uint8_t *buf = malloc(len);
	struct key_text t;
	int64_t rc = pool_open(&pool);
	if (rc < 0 || !buf)
		goto out;
	value_make_await(key, buf, len);
	rc = kvc_put(pool, key_of(&t, key), buf, len, NULL);
	memset(buf, 0, len);
	if (rc == 0)
		rc = kvc_get(pool, t.key, buf, len, NULL);
	got(key, buf, rc, "get");
	atomic_fetch_add(&sh.calls, 2);
	atomic_fetch_add(rc < 0 ? &sh.failed : &sh.ok, 2);
	if (rc < 0)
		code_count(rc);
out:
	kvc_pool_close(&pool);
	free(buf);
	return rc < 0 || !buf ? -1 : 0;
}

static int run_churn(void)
{
	for (unsigned i = 0; i < opt.churn; i++) {
		if (churn_once(i) < 0)
			atomic_fetch_add(&sh.unexpected, 1);
		if (i == KV_MIN(3u, opt.churn - 1)) {
			rss_start_kib = status_kib("VmRSS:");
			fds_start = fds_open();
		}
	}
	report(NULL, "done");
	if (fds_open() > fds_start) {
		fprintf(stderr, "load: LEAK: %u descriptors are open, %u were after the first connections\n",
			fds_open(), fds_start);
		return EXIT_BROKEN;
	}
	return verdict();
}

/* ---- options ---- */

static const struct option long_options[] = {
	{"server", required_argument, NULL, 's'},
	{"clients", required_argument, NULL, 'c'},
	{"workers", required_argument, NULL, 'w'},
	{"threads", required_argument, NULL, 't'},
	{"keys", required_argument, NULL, 'k'},
	{"seconds", required_argument, NULL, 'S'},
	{"timeout-ms", required_argument, NULL, 'T'},
	{"short-ms", required_argument, NULL, 'h'},
	{"pace-us", required_argument, NULL, 'p'},
	{"max-bytes", required_argument, NULL, 'b'},
	{"seed", required_argument, NULL, 'r'},
	{"marks", required_argument, NULL, 'm'},
	{"buffer-mb", required_argument, NULL, 'B'},
	{"churn", required_argument, NULL, 'C'},
	{"provider", required_argument, NULL, 'P'},
	{"log", required_argument, NULL, 'l'},
	{"no-register", no_argument, NULL, 'N'},
	{"puts", required_argument, NULL, 'u'},
	{"check", no_argument, NULL, 'K'},
	{"fence-ms", required_argument, NULL, 'f'},
	{"connect-ms", required_argument, NULL, 'o'},
	{NULL, 0, NULL, 0},
};

static int number_set(int option, uint64_t v)
{
	switch (option) {
	case 'c':
		opt.clients = (unsigned)v;
		break;
	case 'w':
		opt.workers = (unsigned)v;
		break;
	case 't':
		opt.threads = (unsigned)v;
		break;
	case 'k':
		opt.keys = (unsigned)KV_MIN(v, (uint64_t)KEYS_MAX);
		break;
	case 'S':
		opt.seconds = v;
		break;
	case 'T':
		opt.timeout_ms = v;
		break;
	case 'h':
		opt.short_ms = v;
		break;
	case 'p':
		opt.pace_us = v;
		break;
	case 'b':
		opt.max_bytes = v;
		break;
	case 'r':
		opt.seed = v;
		break;
	case 'B':
		opt.buffer_mb = v;
		break;
	case 'C':
		opt.churn = (unsigned)v;
		break;
	case 'f':
		opt.fence_ms = v;
		break;
	case 'u':
		opt.puts = (unsigned)v;
		break;
	case 'l':
		opt.log_level = (int)v;
		break;
	case 'o':
		opt.connect_ms = v;
		break;
	default:
		return -KV_EINVAL;
	}
	return 0;
}

static int options_parse(int argc, char **argv)
{
	int o;
	while ((o = getopt_long(argc, argv, "", long_options, NULL)) >= 0) {
		uint64_t v = 0;
		if (o == 's' && opt.num_servers < SERVERS_MAX)
			opt.server[opt.num_servers++] = optarg;
		else if (o == 'm')
			opt.marks = optarg;
		else if (o == 'P')
			opt.provider = optarg;
		else if (o == 'N')
			opt.no_register = true;
		else if (o == 'K')
			opt.check = true;
		else if (!optarg || kv_u64_parse(optarg, &v) < 0 || number_set(o, v) < 0)
			return -KV_EINVAL;
	}
	return opt.num_servers && opt.keys && opt.max_bytes >= 4096 && opt.clients && opt.workers && optind == argc
		       ? 0
		       : -KV_EINVAL;
}

int main(int argc, char **argv)
{
	pthread_t ticker, marker;
	opt.seed = kv_seed_from_env("KVRAIL_SEED");
	opt.provider = test_provider();
	if (options_parse(argc, argv) < 0) {
		fprintf(stderr, "usage: load --server HOST:PORT... [--seconds N] [--workers N] [--clients N] "
				"[--threads N] [--keys N] [--puts PERCENT] [--check] [--marks FIFO] [--churn N] ...\n");
		return EXIT_SETUP;
	}
	kvc_program_setup();
	if (pthread_create(&ticker, NULL, tick_main, NULL) != 0 ||
	    (opt.marks && pthread_create(&marker, NULL, marks_main, NULL) != 0)) {
		fprintf(stderr, "load: cannot start a thread\n");
		return EXIT_SETUP;
	}
	return opt.churn ? run_churn() : run_load();
}
