/* SPDX-License-Identifier: Apache-2.0 */
/* soak.c -- calls of every kind against a cluster whose members come, go, stop and lie (soak.py), and the promises of
 * docs/internals/reliability.md, each checked.
 *
 * A value is made from its key and a version; its first word names the version. A key has one writer, which changes the
 * version only after a DELETE succeeded. So the writer knows which versions may be found: after its DELETE none of the
 * older ones ("came back"), after the end of a life none at all ("outlived"). Others read the key, too, which makes
 * copies, and know only that a version was put once. A GET with other bytes is a wrong byte in every case.
 *
 * Late: a call that ends after its deadline, the grace and 100 ms; an id after kvc_cancel, and kvc_queue_close, after
 * the grace and 100 ms. A thread that sleeps in steps of 10 ms measures the machine itself: how much longer it slept,
 * or how long a thread of this process waited for a core, whichever is more. A call that is later than twice that time
 * within the call is late; others are counted as late because of the machine. Nothing is subtracted.
 *
 * One server at a time is in trouble, so a call with 6 s or more must not fail ("collateral").
 *
 * Not promised: what is found within 3 s of its DELETE, while clients have different views, is counted apart
 * ("brief"). */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
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
	SPACES = 3, /* of keys: with one copy, with two, with hot copies */
	POOLS_EACH = 2,
	POOLS = SPACES * POOLS_EACH,
	WORKERS = 8, /* of the first pool of a space */
	THREADS = 2, /* that block, and as many with a queue, on the second pool */
	WRITERS = WORKERS + 2 * THREADS,
	KEYS = 40,      /* of a writer */
	ITEMS_MAX = 8,  /* of a batch */
	SLOTS = 12,     /* ids of a queue */
	TASKS_MAX = 64, /* threads that are watched for waiting */
	STALLS = 1 << 14,
	TICK_MS = 10,
	PAST = 256, /* versions of a key that are remembered */
	EXIT_BROKEN = 1,
	EXIT_SETUP = 2,
	EXIT_HUNG = 3
};

#define MS          1000000ull
#define SECOND      (1000 * MS)
#define GRACE_NS    (200 * MS)
#define SLACK_NS    (100 * MS)
#define HANG_NS     (60 * SECOND)
#define AMPLE_NS    (6 * SECOND) /* a call with so much time survives the loss of a server */
#define LIFE_SLACK  (2 * SECOND) /* lives are whole seconds */
#define STALL_NS    (2 * MS)     /* what is less is no standstill */
#define VIEWS_NS    (3 * SECOND) /* by then all clients have the same view, and have told of what they deleted before */
#define VALUE_MAX   (512u << 10)
#define BUF_BYTES   (ITEMS_MAX * (64u << 10) + VALUE_MAX)
#define STEP_BYTES  (64u << 10) /* made or compared at a time; then others run */
#define MAGIC       0x5A3Cull
#define NEVER       UINT64_MAX
#define CANARY_BYTE 0xA5

enum kind {
	GET,
	BORROWED,
	PUT,
	DELETE,
	EXISTS,
	TOUCH,
	TTL,
	PIN,
	UNPIN,
	GET_BATCH,
	PUT_BATCH,
	Q_GET,
	Q_PUT,
	Q_EXISTS,
	Q_DELETE,
	CLOSE,
	KINDS
};

static const char *const kind_name[KINDS] = {[GET] = "get",
					     [BORROWED] = "borrowed",
					     [PUT] = "put",
					     [DELETE] = "delete",
					     [EXISTS] = "exists",
					     [TOUCH] = "touch",
					     [TTL] = "ttl",
					     [PIN] = "pin",
					     [UNPIN] = "unpin",
					     [GET_BATCH] = "get_batch",
					     [PUT_BATCH] = "put_batch",
					     [Q_GET] = "queue_get",
					     [Q_PUT] = "queue_put",
					     [Q_EXISTS] = "queue_exists",
					     [Q_DELETE] = "queue_delete",
					     [CLOSE] = "queue_close"};

enum result { OK, MISS, TIMEOUT, DOWN, BUSY, MEMORY, CONFLICT, CANCELED, OTHER, RESULTS };

static const char *const result_name[RESULTS] = {
	[OK] = "ok",      [MISS] = "miss",        [TIMEOUT] = "timeout",   [DOWN] = "down",
	[BUSY] = "busy",  [MEMORY] = "no_memory", [CONFLICT] = "conflict", [CANCELED] = "canceled",
	[OTHER] = "other"};

static struct options {
	const char *server[SERVERS_MAX];
	unsigned num_servers, log_level;
	uint64_t seconds, seed, pace_us;
	const char *provider;
} opt = {.seconds = 60, .log_level = 2, .pace_us = 20000};

struct past {
	uint64_t born_ns; /* when the first PUT of this version began */
	uint64_t died_ns; /* when the DELETE returned */
	bool vague;       /* a PUT or TOUCH of it failed: it may count still */
};

/* A key of one writer. Only `tried` is read by others. */
struct key {
	_Atomic uint32_t tried; /* the latest version that a PUT has begun with */
	uint32_t dead;          /* this one and older ones were deleted */
	uint32_t told;          /* this version was found although it is dead, and that was said */
	uint64_t over_ns;       /* the end of its life at the latest; NEVER: none, or not known */
	struct past past[PAST]; /* of its versions */
	bool pinned, busy;
};

struct space {
	const char *name;
	unsigned flag;
	struct kvc_pool *pool[POOLS_EACH];
	struct key key[WRITERS][KEYS];
};

static struct space space[SPACES] = {
	{.name = "one"}, {.name = "two", .flag = KVC_TWO_COPIES}, {.name = "hot", .flag = KVC_HOT_COPIES}};

static struct shared {
	_Atomic uint64_t count[KINDS][RESULTS];
	_Atomic uint64_t wrong, late_bytes, late, late_machine, unexpected, collateral, came_back, brief, outlived;
	_Atomic uint64_t cancels, cancels_late, views;
	_Atomic uint64_t worst_ns, worst_machine_ns, worst_stall_ns, quiet_ns;
	_Atomic bool stop;
	uint64_t start_ns, end_ns;
} sh;

/* What makes calls: a worker, a thread, or one id of a queue. */
struct actor {
	struct space *s;
	unsigned writer;
	struct kvc_pool *pool;
	struct kvc_client *client; /* NULL: a thread that blocks */
	struct kv_prng prng;
	uint8_t *buf;
	uint64_t dirty; /* bytes of buf that the last call was given */
};

/* One call, or one id. */
struct timing {
	enum kind kind;
	uint64_t start_ns, timeout_ns, limit_ns;
};

/* A key as one call meets it. */
struct look {
	struct space *s;
	unsigned writer, index;
	bool own;
	uint32_t version; /* of PUT */
	uint32_t dead;    /* when the call began */
	uint64_t over_ns, begin_ns;
	uint8_t *at;
	uint64_t cap;
	char text[48];
	struct kvc_key key;
};

/* Calls under way, for the watch. */
static struct under_way {
	_Atomic uint64_t limit_ns; /* 0: none */
	_Atomic int kind;
} under_way[SPACES * (WRITERS + 2 * THREADS * SLOTS)];

static uint64_t now_ns(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

static void add(_Atomic uint64_t *a, uint64_t n)
{
	atomic_fetch_add(a, n);
}

static void max_set(_Atomic uint64_t *a, uint64_t v)
{
	uint64_t old = atomic_load(a);
	while (v > old && !atomic_compare_exchange_weak(a, &old, v))
		;
}

static double seconds_of(uint64_t ns)
{
	return (double)(ns - KV_MIN(ns, sh.start_ns)) / 1e9;
}

/* ---- the machine ---- */

static struct stall {
	uint64_t end_ns, ns;
} stall[STALLS];
static _Atomic uint64_t stalls, tick_ns; /* the last tick */

static int task_fd[TASKS_MAX];
static uint64_t task_waited[TASKS_MAX];
static unsigned tasks;

/* Field 2 of a schedstat file: how long the thread was runnable without a core. */
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

static void tasks_open(void)
{
	char path[64];
	for (int tid = getpid(); tasks < TASKS_MAX && tid < getpid() + 4096; tid++) {
		int fd;
		snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		task_waited[tasks] = waited_read(fd);
		task_fd[tasks++] = fd;
	}
}

/* The longest that one thread waited since the last time. */
static uint64_t tasks_waited(void)
{
	uint64_t most = 0;
	for (unsigned i = 0; i < tasks; i++) {
		uint64_t waited = waited_read(task_fd[i]);
		if (waited > task_waited[i]) {
			most = KV_MAX(most, waited - task_waited[i]);
			task_waited[i] = waited;
		}
	}
	return most;
}

static void stall_note(uint64_t end_ns, uint64_t ns)
{
	uint64_t n = atomic_load(&stalls);
	stall[n % STALLS] = (struct stall){end_ns, ns};
	atomic_store(&stalls, n + 1);
	max_set(&sh.worst_stall_ns, ns);
}

/* How long the machine stood still in this time, which ends now: also if it still does. */
static uint64_t stalled_ns(uint64_t from_ns, uint64_t to_ns)
{
	uint64_t since_tick = to_ns - KV_MIN(to_ns, atomic_load(&tick_ns)), n = atomic_load(&stalls);
	uint64_t sum = since_tick - KV_MIN(since_tick, TICK_MS * MS);
	for (uint64_t i = n; i > 0 && n - i < STALLS - 64; i--) {
		const struct stall *s = &stall[(i - 1) % STALLS];
		if (s->end_ns < from_ns)
			break;
		if (s->end_ns - KV_MIN(s->end_ns, s->ns) < to_ns)
			sum += s->ns;
	}
	return sum;
}

/* ---- values ---- */

static uint64_t mix(uint64_t x)
{
	x += 0x9E3779B97F4A7C15ull;
	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
	return x ^ (x >> 31);
}

static uint64_t base_of(const struct look *l, uint32_t version)
{
	uint64_t key = (uint64_t)(l->s - space) << 40 | (uint64_t)l->writer << 20 | l->index;
	return mix(mix(key ^ opt.seed << 44) + version);
}

static uint64_t len_of(const struct look *l, uint32_t version)
{
	uint64_t r = mix(base_of(l, version) ^ 1), n = r >> 8;
	switch (r % 16) {
	case 0 ... 5:
		return 16 + n % 3056;
	case 6 ... 9:
		return 3072 + n % (14 << 10);
	case 10 ... 13:
		return (16 << 10) + n % (48 << 10);
	case 14:
		return (64 << 10) + n % (192 << 10);
	default:
		return l->index % 4 ? 4096 : VALUE_MAX;
	}
}

static inline uint64_t word_of(uint64_t base, uint64_t i)
{
	return (base + i) * 0xD6E8FEB86659FD93ull ^ (base >> 17) ^ i << 40;
}

/* Others run in between: the loop is shared, and the time this takes must not look like the library's. */
static void step_await(void)
{
	if (loop_current())
		co_yield_await();
}

static uint64_t first_word(const struct look *l, uint32_t version)
{
	return (MAGIC << 48 | version) ^ (base_of(l, 0) & ~0xFFFFull << 48);
}

static void value_make_await(const struct look *l, uint8_t *to)
{
	uint64_t base = base_of(l, l->version), len = len_of(l, l->version);
	for (uint64_t at = 0; at < len; at += 8) {
		uint64_t v = at ? word_of(base, at / 8) : first_word(l, l->version);
		memcpy(to + at, &v, KV_MIN(len - at, 8u));
		if (at && at % STEP_BYTES == 0)
			step_await();
	}
}

/* The version that a value says it is; 0: none of this key. */
static uint32_t version_of(const struct look *l, const uint8_t *from, uint64_t len)
{
	uint64_t v = 0;
	if (len < 16)
		return 0;
	memcpy(&v, from, 8);
	v ^= base_of(l, 0) & ~0xFFFFull << 48;
	return v >> 32 == MAGIC << 16 ? (uint32_t)v : 0;
}

static uint64_t differing_await(const struct look *l, uint32_t version, const uint8_t *from, uint64_t len)
{
	uint64_t base = base_of(l, version), wrong = 0;
	for (uint64_t at = 8; at < len; at += 8) {
		uint64_t v = word_of(base, at / 8);
		wrong += memcmp(&v, from + at, KV_MIN(len - at, 8u)) != 0;
		if (at % STEP_BYTES == 0)
			step_await();
	}
	return wrong;
}

/* ---- memory between calls ---- */

static void buffer_check(struct actor *a)
{
	uint64_t wrong = 0;
	for (uint64_t i = 0; i < a->dirty; i++)
		wrong += a->buf[i] != CANARY_BYTE;
	a->dirty = 0;
	if (!wrong)
		return;
	fprintf(stderr, "soak: LATE BYTES: %s/%u: %" PRIu64 " bytes were written after the call returned\n", a->s->name,
		a->writer, wrong);
	add(&sh.late_bytes, wrong);
}

static void buffer_done(struct actor *a, uint64_t len)
{
	memset(a->buf, CANARY_BYTE, len);
	a->dirty = len;
}

/* ---- a call: its time and its code ---- */

static uint64_t timeout_pick(struct kv_prng *p)
{
	static const uint32_t ms[] = {1, 3, 10, 30, 100, 300, 1000, 3000, 8000, 8000, 8000, 8000, 8000, 20000};
	return ms[kv_prng_below(p, sizeof(ms) / sizeof(ms[0]))] * MS;
}

static struct kvc_call call_begin(struct actor *a, enum kind kind, struct timing *t, struct under_way *u)
{
	struct kvc_call call = {.size = sizeof(call)};
	t->kind = kind;
	call.timeout_ns = t->timeout_ns = timeout_pick(&a->prng);
	t->start_ns = now_ns();
	t->limit_ns = t->start_ns + t->timeout_ns + GRACE_NS + SLACK_NS;
	atomic_store(&u->kind, (int)kind);
	atomic_store(&u->limit_ns, t->limit_ns);
	return call;
}

static void time_check(const struct space *s, const struct timing *t, uint64_t now, int64_t rc)
{
	uint64_t over = now > t->limit_ns ? now - t->limit_ns : 0, stood;
	if (!over)
		return;
	stood = stalled_ns(t->start_ns, now);
	if (over <= 2 * stood) {
		add(&sh.late_machine, 1);
		max_set(&sh.worst_machine_ns, over);
		return;
	}
	add(&sh.late, 1);
	max_set(&sh.worst_ns, over);
	fprintf(stderr,
		"soak: %.3f LATE: %s (%s copies), begun at %.3f: "
		"%.1f ms, %.1f ms past its limit; the machine stood still for %.1f ms; %s\n",
		seconds_of(now), kind_name[t->kind], s->name, seconds_of(t->start_ns),
		(double)(now - t->start_ns) / 1e6, (double)over / 1e6, (double)stood / 1e6,
		rc < 0 ? kvc_errname((int)rc) : "success");
}

static enum result result_of(int64_t rc)
{
	if (rc >= 0)
		return OK;
	switch ((int)rc) {
	case -KV_ENOTFOUND:
		return MISS;
	case -KV_ETIMEOUT:
		return TIMEOUT;
	case -KV_EPEERDOWN:
	case -KV_ELEFT:
		return DOWN;
	case -KV_EBUSY:
		return BUSY;
	case -KV_ENOMEM:
		return MEMORY;
	case -KV_EEXIST:
		return CONFLICT;
	case -KV_ECANCELED:
		return CANCELED;
	default:
		return OTHER;
	}
}

/* The outcome of a call, or of one of its items. */
static void outcome(const struct look *l, const struct timing *t, int64_t rc, bool canceled)
{
	enum result r = result_of(rc);
	uint64_t now = now_ns();
	add(&sh.count[t->kind][r], 1);
	if (r == OTHER || (r == CANCELED && !canceled) || (r == CONFLICT && !l->version)) {
		fprintf(stderr, "soak: %.3f UNEXPECTED: %s of %s: %s\n", seconds_of(now), kind_name[t->kind], l->text,
			kvc_strerror((int)rc));
		add(&sh.unexpected, 1);
	}
	if ((r == DOWN || r == TIMEOUT) && t->timeout_ns >= AMPLE_NS && !canceled &&
	    stalled_ns(t->start_ns, now) < t->timeout_ns / 4) {
		fprintf(stderr, "soak: %.3f COLLATERAL: %s of %s, begun at %.3f with %.0f s: %s\n", seconds_of(now),
			kind_name[t->kind], l->text, seconds_of(t->start_ns), (double)t->timeout_ns / 1e9,
			kvc_errname((int)rc));
		add(&sh.collateral, 1);
	}
}

static void call_end(const struct look *l, const struct timing *t, struct under_way *u, int64_t rc)
{
	uint64_t now = now_ns();
	atomic_store(&u->limit_ns, 0);
	time_check(l->s, t, now, rc);
}

/* ---- what may be found ---- */

static struct key *key_of(const struct look *l)
{
	return &l->s->key[l->writer][l->index];
}

static struct look look(struct space *s, unsigned writer, unsigned index, bool own)
{
	const struct key *k = &s->key[writer][index];
	struct look l = {.s = s, .writer = writer, .index = index, .own = own, .begin_ns = now_ns()};
	if (own) {
		l.dead = k->dead;
		l.over_ns = k->over_ns;
	}
	snprintf(l.text, sizeof(l.text), "soak/%" PRIx64 "/%s/%u/%u", opt.seed & 0xFFFFFF, s->name, writer, index);
	return l;
}

/* (The address is that of where the struct lies.) */
static struct kvc_key key_text(struct look *l)
{
	l->key = (struct kvc_key){l->text, strlen(l->text)};
	return l->key;
}

static struct past *past_of(const struct look *l, uint32_t version)
{
	return &key_of(l)->past[version % PAST];
}

/* A deleted version was found. */
static void came_back(const struct look *l, const struct timing *t, uint32_t version)
{
	const struct past *p = past_of(l, version);
	struct key *k = key_of(l);
	if (k->told == version || l->dead != k->dead)
		return;
	if (now_ns() < p->died_ns + VIEWS_NS) {
		add(&sh.brief, 1);
		return;
	}
	k->told = version;
	add(&sh.came_back, 1);
	fprintf(stderr,
		"soak: %.3f CAME BACK: %s of %s, begun at %.3f: version %u of %u, put at %.3f, deleted at %.3f%s\n",
		seconds_of(now_ns()), kind_name[t->kind], l->text, seconds_of(t->start_ns), version, k->dead,
		seconds_of(p->born_ns), seconds_of(p->died_ns), p->vague ? "; a PUT of it failed" : "");
}

static void life_check(const struct look *l, const struct timing *t)
{
	struct key *k = key_of(l);
	uint32_t version = atomic_load(&k->tried);
	if (l->over_ns == NEVER || t->start_ns < l->over_ns + LIFE_SLACK || k->told == version)
		return;
	k->told = version;
	add(&sh.outlived, 1);
	fprintf(stderr, "soak: %.3f OUTLIVED: %s of %s: its life ended at %.3f\n", seconds_of(now_ns()),
		kind_name[t->kind], l->text, seconds_of(l->over_ns));
}

static void found(const struct look *l, const struct timing *t, uint32_t version)
{
	if (!l->own)
		return;
	if (version <= l->dead)
		came_back(l, t, version);
	else
		life_check(l, t);
}

static void wrong_say(const struct look *l, const struct timing *t, const char *why, uint64_t n)
{
	fprintf(stderr, "soak: %.3f WRONG BYTES: %s of %s: %s (%" PRIu64 ")\n", seconds_of(now_ns()),
		kind_name[t->kind], l->text, why, n);
	add(&sh.wrong, 1);
}

/* What a GET brought. */
static void read_check(const struct look *l, const struct timing *t, const uint8_t *data, int64_t rc)
{
	uint32_t version;
	uint64_t wrong;
	if (rc < 0)
		return;
	version = version_of(l, data, (uint64_t)rc);
	if (version == 0 || version > atomic_load(&key_of(l)->tried)) {
		wrong_say(l, t, "a version that was never put", version);
		return;
	}
	if (len_of(l, version) != (uint64_t)rc) {
		wrong_say(l, t, "another length", (uint64_t)rc);
		return;
	}
	wrong = differing_await(l, version, data, (uint64_t)rc);
	if (wrong)
		wrong_say(l, t, "words that differ", wrong);
	found(l, t, version);
}

/* ---- what the writer knows ---- */

static bool alive(const struct key *k)
{
	return atomic_load(&k->tried) > k->dead;
}

static void put_begins(struct look *l)
{
	struct key *k = key_of(l);
	l->version = k->dead + 1;
	if (!alive(k)) {
		*past_of(l, l->version) = (struct past){.born_ns = now_ns()};
		k->over_ns = 0;
		k->pinned = false;
	}
	atomic_store(&k->tried, l->version);
}

/* Of several PUTs the later end of life holds. */
static void put_ended(const struct look *l, const struct timing *t, uint32_t ttl_s, int64_t rc)
{
	struct past *p = past_of(l, l->version);
	struct key *k = key_of(l);
	if (rc == -KV_EEXIST && l->dead == k->dead)
		came_back(l, t, k->dead);
	p->vague |= rc < 0;
	if (p->vague || !ttl_s)
		k->over_ns = NEVER;
	else
		k->over_ns = KV_MAX(k->over_ns, now_ns() + ttl_s * SECOND);
}

static void delete_ended(const struct look *l, int64_t rc)
{
	struct key *k = key_of(l);
	struct past *p = past_of(l, atomic_load(&k->tried));
	if ((rc != 0 && rc != -KV_ENOTFOUND) || !alive(k))
		return;
	k->dead = atomic_load(&k->tried);
	p->died_ns = now_ns();
}

static void touch_ended(const struct look *l, uint32_t ttl_s, int64_t rc)
{
	struct key *k = key_of(l);
	struct past *p = past_of(l, atomic_load(&k->tried));
	p->vague |= rc < 0 && rc != -KV_ENOTFOUND;
	if (p->vague)
		k->over_ns = NEVER;
	else if (rc == 0)
		k->over_ns = now_ns() + ttl_s * SECOND;
}

static uint32_t ttl_pick(struct kv_prng *p)
{
	return kv_prng_below(p, 4) ? 0 : 1 + (uint32_t)kv_prng_below(p, 6);
}

/* ---- calls that wait ---- */

static unsigned below(struct actor *a, unsigned n)
{
	return (unsigned)kv_prng_below(&a->prng, n);
}

static struct under_way *place_of(const struct actor *a)
{
	return &under_way[(unsigned)(a->s - space) * WRITERS + a->writer];
}

static struct look own_pick(struct actor *a)
{
	return look(a->s, a->writer, below(a, KEYS), true);
}

/* Any key. One in two of those that are read where copies of hot values are made is the same one, for a while. */
static struct look any_pick(struct actor *a)
{
	if (a->s->flag == KVC_HOT_COPIES && below(a, 2))
		return look(a->s, 0, (unsigned)(now_ns() / (8 * SECOND)) % KEYS, a->writer == 0);
	if (below(a, 3))
		return own_pick(a);
	unsigned writer = below(a, WRITERS);
	return look(a->s, writer, below(a, KEYS), writer == a->writer);
}

static void get_await(struct actor *a)
{
	struct look l = any_pick(a);
	struct timing t;
	struct kvc_call call = call_begin(a, GET, &t, place_of(a));
	struct kvc_key key = key_text(&l);
	int64_t rc = a->client ? kvc_get_await(a->client, key, a->buf, VALUE_MAX, &call)
			       : kvc_get(a->pool, key, a->buf, VALUE_MAX, &call);
	call_end(&l, &t, place_of(a), rc);
	outcome(&l, &t, rc, false);
	read_check(&l, &t, a->buf, rc);
	buffer_done(a, rc < 0 ? VALUE_MAX / 8 : (uint64_t)rc);
}

static void borrowed_await(struct actor *a)
{
	struct look l = any_pick(a);
	struct kvc_borrowed b = {0};
	struct timing t;
	struct kvc_call call = call_begin(a, BORROWED, &t, place_of(a));
	int64_t rc = kvc_get_borrowed_await(a->client, key_text(&l), below(a, 2) ? 4096 : 0, &call, &b);
	call_end(&l, &t, place_of(a), rc);
	outcome(&l, &t, rc, false);
	read_check(&l, &t, b.data, rc);
	kvc_borrowed_release(a->client, &b);
}

static void put_await(struct actor *a)
{
	struct look l = own_pick(a);
	struct timing t;
	struct kvc_call call;
	struct kvc_key key = key_text(&l);
	uint32_t ttl_s = ttl_pick(&a->prng);
	int64_t rc;
	put_begins(&l);
	value_make_await(&l, a->buf);
	call = call_begin(a, PUT, &t, place_of(a));
	call.ttl_s = ttl_s;
	rc = a->client ? kvc_put_await(a->client, key, a->buf, len_of(&l, l.version), &call)
		       : kvc_put(a->pool, key, a->buf, len_of(&l, l.version), &call);
	call_end(&l, &t, place_of(a), rc);
	outcome(&l, &t, rc, false);
	put_ended(&l, &t, ttl_s, rc);
	buffer_done(a, len_of(&l, l.version));
}

static void delete_await(struct actor *a)
{
	struct look l = own_pick(a);
	struct timing t;
	struct kvc_key key = key_text(&l);
	struct kvc_call call = call_begin(a, DELETE, &t, place_of(a));
	int64_t rc = a->client ? kvc_delete_await(a->client, key, &call) : kvc_delete(a->pool, key, &call);
	call_end(&l, &t, place_of(a), rc);
	outcome(&l, &t, rc, false);
	delete_ended(&l, rc);
}

static void touch_await(struct actor *a)
{
	struct look l = own_pick(a);
	struct timing t;
	struct kvc_key key = key_text(&l);
	struct kvc_call call = call_begin(a, TOUCH, &t, place_of(a));
	int64_t rc;
	call.ttl_s = 1 + below(a, 6);
	rc = a->client ? kvc_touch_await(a->client, key, &call) : kvc_touch(a->pool, key, &call);
	call_end(&l, &t, place_of(a), rc);
	outcome(&l, &t, rc, false);
	if (rc == 0 && !alive(key_of(&l)))
		found(&l, &t, l.dead);
	touch_ended(&l, call.ttl_s, rc);
}

static void ttl_await(struct actor *a)
{
	struct look l = own_pick(a);
	struct timing t;
	struct kvc_key key = key_text(&l);
	struct kvc_call call = call_begin(a, TTL, &t, place_of(a));
	uint64_t left;
	int64_t rc = a->client ? kvc_ttl_await(a->client, key, &left, &call) : kvc_ttl(a->pool, key, &left, &call);
	call_end(&l, &t, place_of(a), rc);
	outcome(&l, &t, rc, false);
	if (rc == 0)
		found(&l, &t, atomic_load(&key_of(&l)->tried));
}

static void pin_await(struct actor *a)
{
	struct look l = own_pick(a);
	struct key *k = key_of(&l);
	struct timing t;
	struct kvc_call call = call_begin(a, k->pinned ? UNPIN : PIN, &t, place_of(a));
	int64_t rc = k->pinned ? kvc_unpin_await(a->client, key_text(&l), &call)
			       : kvc_pin_await(a->client, key_text(&l), &call);
	call_end(&l, &t, place_of(a), rc);
	outcome(&l, &t, rc, false);
	if (rc == 0 && !k->pinned)
		found(&l, &t, atomic_load(&k->tried));
	k->pinned = rc == 0 && !k->pinned;
}

static void exists_await(struct actor *a)
{
	struct look l[ITEMS_MAX];
	struct kvc_key key[ITEMS_MAX];
	uint8_t there[ITEMS_MAX];
	unsigned n = 1 + below(a, ITEMS_MAX), prefix = 0;
	struct timing t;
	struct kvc_call call;
	int64_t rc;
	for (unsigned i = 0; i < n; i++) {
		l[i] = any_pick(a);
		key[i] = key_text(&l[i]);
	}
	call = call_begin(a, EXISTS, &t, place_of(a));
	rc = a->client ? kvc_exists_await(a->client, key, n, there, &prefix, &call)
		       : kvc_exists(a->pool, key, n, there, &prefix, &call);
	call_end(l, &t, place_of(a), rc);
	outcome(l, &t, rc, false);
	for (unsigned i = 0; rc == 0 && i < n; i++) {
		if (there[i] > 1 || (i < prefix) > there[i] || (i == prefix && there[i]))
			wrong_say(&l[i], &t, "the prefix", prefix);
		if (there[i])
			found(&l[i], &t, atomic_load(&key_of(&l[i])->tried));
	}
}

/* ---- batches ---- */

/* Items with room of their own in the buffer. A key is in one item: its first ones have one of several values each. */
static unsigned items_fill_await(struct actor *a, bool put, struct look *l, struct kvc_item *item, unsigned most)
{
	uint64_t used = 0;
	unsigned n = 1 + below(a, most), num = 0, first = below(a, KEYS);
	for (unsigned i = 0; i < n; i++) {
		struct key *k;
		l[num] = look(a->s, a->writer, (first + i) % KEYS, true);
		k = key_of(&l[num]);
		if (k->busy)
			continue;
		if (put)
			put_begins(&l[num]);
		l[num].cap = put ? len_of(&l[num], l[num].version) : alive(k) ? len_of(&l[num], k->dead + 1) : 64 << 10;
		l[num].at = a->buf + used;
		if (used + l[num].cap > BUF_BYTES)
			break;
		used += (l[num].cap + 7) & ~7ull;
		if (put)
			value_make_await(&l[num], l[num].at);
		item[num] = (struct kvc_item){.data = l[num].at, .len = l[num].cap, .result = -KV_EINTERNAL};
		num++;
	}
	for (unsigned i = 0; i < num; i++)
		item[i].key = key_text(&l[i]);
	a->dirty = used;
	return num;
}

static void item_ended(struct look *l, const struct timing *t, const struct kvc_item *item, uint32_t ttl_s,
		       bool canceled)
{
	int64_t rc = item->result;
	/* A deleted value that came back may be longer than the one that is expected. */
	if (rc == -KV_ETOOBIG && (t->kind == Q_GET || t->kind == GET_BATCH)) {
		found(l, t, l->dead);
		rc = -KV_ENOTFOUND;
	}
	outcome(l, t, rc, canceled);
	switch (t->kind) {
	case GET_BATCH:
	case Q_GET:
		read_check(l, t, l->at, rc);
		break;
	case PUT_BATCH:
	case Q_PUT:
		put_ended(l, t, ttl_s, rc);
		break;
	case Q_DELETE:
		delete_ended(l, rc);
		break;
	default:
		if (rc == 1)
			found(l, t, atomic_load(&key_of(l)->tried));
		break;
	}
}

static void batch_await(struct actor *a, bool put)
{
	struct look l[ITEMS_MAX];
	struct kvc_item item[ITEMS_MAX];
	struct timing t;
	uint32_t ttl_s = ttl_pick(&a->prng);
	unsigned n = items_fill_await(a, put, l, item, ITEMS_MAX);
	uint64_t used = a->dirty;
	struct kvc_call call;
	int64_t rc;
	if (n == 0)
		return;
	call = call_begin(a, put ? PUT_BATCH : GET_BATCH, &t, place_of(a));
	call.ttl_s = put ? ttl_s : 0;
	if (put)
		rc = a->client ? kvc_put_batch_await(a->client, item, n, &call)
			       : kvc_put_batch(a->pool, item, n, &call);
	else
		rc = a->client ? kvc_get_batch_await(a->client, item, n, &call)
			       : kvc_get_batch(a->pool, item, n, &call);
	call_end(l, &t, place_of(a), rc);
	for (unsigned i = 0; i < n; i++)
		item_ended(&l[i], &t, &item[i], ttl_s, false);
	buffer_done(a, used);
}

/* ---- workers and threads ---- */

static void one_call_await(struct actor *a)
{
	unsigned dice = below(a, 100);
	buffer_check(a);
	if (dice < 28)
		get_await(a);
	else if (dice < 36 && a->client)
		borrowed_await(a);
	else if (dice < 56)
		put_await(a);
	else if (dice < 70)
		delete_await(a);
	else if (dice < 78)
		exists_await(a);
	else if (dice < 82)
		touch_await(a);
	else if (dice < 84)
		ttl_await(a);
	else if (dice < 88 && a->client)
		pin_await(a);
	else
		batch_await(a, dice < 94);
}

static bool over(void)
{
	return atomic_load(&sh.stop) || now_ns() >= sh.end_ns;
}

static void pause_await(struct actor *a)
{
	uint64_t ns = opt.pace_us * 500 + kv_prng_below(&a->prng, opt.pace_us * 1000 + 1);
	const struct timespec ts = {(time_t)(ns / SECOND), (long)(ns % SECOND)};
	if (loop_current())
		co_sleep_await(loop_now(loop_current()) + ns);
	else
		nanosleep(&ts, NULL);
}

static struct actor actor_make(struct space *s, unsigned writer, struct kvc_pool *pool)
{
	struct actor a = {.s = s, .writer = writer, .pool = pool};
	kv_prng_seed(&a.prng, opt.seed * 1000 + (uint64_t)(s - space) * 100 + writer);
	a.buf = aligned_alloc(4096, BUF_BYTES);
	if (!a.buf) {
		fprintf(stderr, "soak: no memory for a buffer\n");
		_exit(EXIT_SETUP);
	}
	return a;
}

static void worker_main(struct kvc_client *client, unsigned w, void *arg)
{
	struct actor a = actor_make(arg, w, NULL);
	a.client = client;
	while (!over()) {
		one_call_await(&a);
		pause_await(&a);
	}
	co_sleep_await(loop_now(loop_current()) + 300 * MS); /* what is late may still come */
	buffer_check(&a);
	free(a.buf);
}

struct start {
	struct space *s;
	unsigned writer;
	pthread_t thread;
};

static void *blocking_main(void *arg)
{
	struct start *st = arg;
	struct actor a = actor_make(st->s, st->writer, st->s->pool[1]);
	while (!over()) {
		one_call_await(&a);
		pause_await(&a);
	}
	buffer_check(&a);
	free(a.buf);
	return NULL;
}

static void *run_main(void *arg)
{
	struct space *s = arg;
	int rc = kvc_run(s->pool[0], WORKERS, worker_main, s);
	if (rc < 0) {
		fprintf(stderr, "soak: kvc_run: %s\n", kvc_errname(rc));
		_exit(EXIT_SETUP);
	}
	return NULL;
}

/* ---- queues ---- */

struct slot {
	struct actor a; /* with a buffer of its own */
	struct look l[ITEMS_MAX];
	struct kvc_item item[ITEMS_MAX];
	unsigned n;
	struct timing t;
	struct under_way *u;
	uint32_t ttl_s;
	int64_t id; /* 0: free */
	bool canceled;
};

struct user {
	struct actor a;
	struct kvc_queue *queue;
	struct slot slot[SLOTS];
};

static void slot_ended(struct slot *s, uint64_t now)
{
	int64_t first = 0;
	for (unsigned i = 0; i < s->n; i++)
		first = first ? first : KV_MIN(s->item[i].result, 0);
	atomic_store(&s->u->limit_ns, 0);
	time_check(s->a.s, &s->t, now, first);
	if (s->canceled && now > s->t.limit_ns)
		add(&sh.cancels_late, 1);
	for (unsigned i = 0; i < s->n; i++) {
		item_ended(&s->l[i], &s->t, &s->item[i], s->ttl_s, s->canceled);
		key_of(&s->l[i])->busy = false;
	}
	buffer_done(&s->a, s->a.dirty);
	s->id = 0;
}

static int64_t slot_send(struct user *q, struct slot *s, const struct kvc_call *call)
{
	switch (s->t.kind) {
	case Q_GET:
		return kvc_submit_get(q->queue, s->item, s->n, call, (uint64_t)(s - q->slot));
	case Q_PUT:
		return kvc_submit_put(q->queue, s->item, s->n, call, (uint64_t)(s - q->slot));
	case Q_EXISTS:
		return kvc_submit_exists(q->queue, s->item, s->n, call, (uint64_t)(s - q->slot));
	default:
		return kvc_submit_delete(q->queue, s->item, s->n, call, (uint64_t)(s - q->slot));
	}
}

static void submit(struct user *q, struct slot *s)
{
	static const enum kind kinds[] = {Q_GET, Q_GET, Q_PUT, Q_PUT, Q_EXISTS, Q_DELETE};
	enum kind kind = kinds[below(&q->a, sizeof(kinds) / sizeof(kinds[0]))];
	struct kvc_call call;
	buffer_check(&s->a);
	s->n = items_fill_await(&s->a, kind == Q_PUT, s->l, s->item, ITEMS_MAX);
	if (s->n == 0)
		return;
	s->ttl_s = kind == Q_PUT ? ttl_pick(&q->a.prng) : 0;
	s->canceled = false;
	call = call_begin(&q->a, kind, &s->t, s->u);
	call.ttl_s = s->ttl_s;
	for (unsigned i = 0; i < s->n; i++)
		key_of(&s->l[i])->busy = true;
	s->id = slot_send(q, s, &call);
	if (s->id > 0)
		return;
	for (unsigned i = 0; i < s->n; i++)
		s->item[i].result = s->id;
	slot_ended(s, now_ns());
}

static void cancel(struct user *q, struct slot *s)
{
	uint64_t now = now_ns();
	int rc;
	if (!s->id || s->canceled)
		return;
	rc = kvc_cancel(q->queue, (uint64_t)s->id);
	if (rc != 0)
		return; /* it is over, or the loop's queue is full */
	s->canceled = true;
	s->t.limit_ns = KV_MIN(s->t.limit_ns, now + GRACE_NS + SLACK_NS);
	add(&sh.cancels, 1);
}

static void reap(struct user *q, int wait_ms)
{
	struct pollfd p = {.fd = kvc_queue_fd(q->queue), .events = POLLIN};
	struct kvc_completion done[SLOTS];
	int n;
	(void)poll(&p, 1, wait_ms);
	n = kvc_reap(q->queue, done, SLOTS);
	for (int i = 0; i < n; i++)
		slot_ended(&q->slot[done[i].tag], now_ns());
}

/* Close the queue under its ids, which have their results afterwards. */
static void close_queue(struct user *q)
{
	struct look l = look(q->a.s, q->a.writer, 0, false);
	struct timing t = {.kind = CLOSE, .start_ns = now_ns()};
	int rc;
	t.limit_ns = t.start_ns + GRACE_NS + SLACK_NS;
	rc = kvc_queue_close(&q->queue);
	call_end(&l, &t, place_of(&q->a), rc);
	outcome(&l, &t, rc, false);
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &q->slot[i];
		if (!s->id)
			continue;
		s->canceled = true;
		s->t.limit_ns = NEVER; /* that of the close was checked */
		slot_ended(s, now_ns());
	}
}

static void open_queue(struct user *q)
{
	struct kvc_queue_options o = {.size = sizeof(o), .depth = 64};
	struct kv_error err = {0};
	if (kvc_queue_open(q->a.pool, &o, &q->queue, &err) == 0)
		return;
	fprintf(stderr, "soak: a queue: %s\n", err.text);
	_exit(EXIT_SETUP);
}

static void *queue_main(void *arg)
{
	struct start *st = arg;
	struct user *q = calloc(1, sizeof(*q));
	if (!q)
		_exit(EXIT_SETUP);
	q->a = actor_make(st->s, st->writer, st->s->pool[1]);
	for (unsigned i = 0; i < SLOTS; i++) {
		q->slot[i].a = actor_make(st->s, st->writer, st->s->pool[1]);
		kv_prng_seed(&q->slot[i].a.prng, kv_prng_next(&q->a.prng));
		q->slot[i].u = &under_way[SPACES * WRITERS +
					  ((unsigned)(st->s - space) * THREADS + st->writer % THREADS) * SLOTS + i];
	}
	open_queue(q);
	while (!over()) {
		struct slot *s = &q->slot[below(&q->a, SLOTS)];
		unsigned dice = below(&q->a, 1000);
		if (!s->id)
			submit(q, s);
		if (dice < 100)
			cancel(q, s);
		reap(q, 1 + (int)below(&q->a, 1 + (unsigned)(opt.pace_us / 500)));
		pause_await(&q->a);
		if (dice == 999) {
			close_queue(q);
			open_queue(q);
		}
	}
	close_queue(q);
	for (unsigned i = 0; i < SLOTS; i++) {
		buffer_check(&q->slot[i].a);
		free(q->slot[i].a.buf);
	}
	free(q->a.buf);
	free(q);
	return NULL;
}

/* ---- the watch ---- */

static void hang_check(uint64_t now)
{
	for (unsigned i = 0; i < sizeof(under_way) / sizeof(under_way[0]); i++) {
		uint64_t limit = atomic_load(&under_way[i].limit_ns);
		if (!limit || now < limit + HANG_NS)
			continue;
		fprintf(stderr, "soak: HUNG: %s has not returned %.1f s after its limit\n",
			kind_name[atomic_load(&under_way[i].kind)], (double)(now - limit) / 1e9);
		if (getenv("CHAOS_ABORT")) /* for a core or a debugger */
			abort();
		_exit(EXIT_HUNG);
	}
}

static void views_watch(void)
{
	static uint64_t epoch[POOLS], members[POOLS];
	for (unsigned i = 0; i < POOLS; i++) {
		struct kvc_pool *pool = space[i / POOLS_EACH].pool[i % POOLS_EACH];
		struct kvc_counters c = {.size = sizeof(c)};
		if (kvc_counters(pool, &c) < 0 || (c.view_epoch == epoch[i] && c.members == members[i]))
			continue;
		epoch[i] = c.view_epoch;
		members[i] = c.members;
		add(&sh.views, 1);
	}
}

static _Atomic bool watch_over;

static void *watch_main(void *arg)
{
	const struct timespec ts = {0, TICK_MS * (long)MS};
	uint64_t last = now_ns();
	(void)arg;
	atomic_store(&tick_ns, last);
	tasks_open();
	for (unsigned n = 1; !atomic_load(&watch_over); n++) {
		uint64_t now, slept, waited;
		nanosleep(&ts, NULL);
		now = now_ns();
		slept = now - last - KV_MIN(now - last, TICK_MS * MS);
		waited = tasks_waited();
		if (KV_MAX(slept, waited) > STALL_NS)
			stall_note(now, KV_MAX(slept, waited));
		else
			add(&sh.quiet_ns, now - last);
		last = now;
		atomic_store(&tick_ns, now);
		if (n % 10 == 0)
			views_watch();
		if (n % 100 == 0)
			hang_check(now);
	}
	return NULL;
}

/* Lines on standard input: "stop"; others are notes of what happens, for the log. */
static void mark(const char *line)
{
	fprintf(stderr, "soak: %.3f -- %s\n", seconds_of(now_ns()), line);
	if (strcmp(line, "stop") == 0)
		atomic_store(&sh.stop, true);
}

static void *marks_main(void *arg)
{
	char line[256], *end;
	size_t have = 0;
	ssize_t n;
	(void)arg;
	while ((n = read(STDIN_FILENO, line + have, sizeof(line) - have)) > 0) {
		have += (size_t)n;
		while ((end = memchr(line, '\n', have))) {
			*end++ = 0;
			mark(line);
			have -= (size_t)(end - line);
			memmove(line, end, have);
		}
		have = have == sizeof(line) ? 0 : have;
	}
	atomic_store(&sh.stop, true); /* nobody breaks anything any more */
	return NULL;
}

/* ---- the report ---- */

static void report_counts(void)
{
	printf("\"calls\": {");
	for (unsigned k = 0; k < KINDS; k++) {
		bool any = false;
		printf("%s\"%s\": {", k ? ", " : "", kind_name[k]);
		for (unsigned r = 0; r < RESULTS; r++) {
			uint64_t n = atomic_load(&sh.count[k][r]);
			if (n)
				printf("%s\"%s\": %" PRIu64, any ? ", " : "", result_name[r], n);
			any |= n > 0;
		}
		printf("}");
	}
	printf("}");
}

static void report_pools(void)
{
	uint64_t failovers = 0, copies = 0, repairs = 0, owed = 0, yielded = 0, doubted = 0;
	for (unsigned i = 0; i < POOLS; i++) {
		struct kvc_counters c = {.size = sizeof(c)};
		if (kvc_counters(space[i / POOLS_EACH].pool[i % POOLS_EACH], &c) < 0)
			continue;
		failovers += c.failovers;
		copies += c.copies;
		repairs += c.repairs;
		owed += c.deletes_owed;
		yielded += c.copies_yielded;
		doubted += c.views_doubted;
	}
	printf(", \"failovers\": %" PRIu64 ", \"copies\": %" PRIu64 ", \"repairs\": %" PRIu64
	       ", \"deletes_owed\": %" PRIu64 ", \"copies_yielded\": %" PRIu64 ", \"views_doubted\": %" PRIu64,
	       failovers, copies, repairs, owed, yielded, doubted);
}

static void report(void)
{
	printf("{");
	report_counts();
	printf(", \"wrong_bytes\": %" PRIu64 ", \"late_bytes\": %" PRIu64 ", \"late\": %" PRIu64
	       ", \"late_machine\": %" PRIu64 ", \"unexpected\": %" PRIu64 ", \"collateral\": %" PRIu64
	       ", \"came_back\": %" PRIu64 ", \"outlived\": %" PRIu64 ", \"brief\": %" PRIu64,
	       sh.wrong, sh.late_bytes, sh.late, sh.late_machine, sh.unexpected, sh.collateral, sh.came_back,
	       sh.outlived, sh.brief);
	printf(", \"cancels\": %" PRIu64 ", \"cancels_late\": %" PRIu64 ", \"views\": %" PRIu64
	       ", \"worst_ms\": %.1f, \"worst_machine_ms\": %.1f, \"worst_stall_ms\": %.1f, \"quiet\": %.3f",
	       sh.cancels, sh.cancels_late, sh.views, (double)sh.worst_ns / 1e6, (double)sh.worst_machine_ns / 1e6,
	       (double)sh.worst_stall_ns / 1e6, (double)sh.quiet_ns / (double)(now_ns() - sh.start_ns));
	report_pools();
	printf("}\n");
	fflush(stdout);
}

static int verdict(void)
{
	return sh.wrong || sh.late_bytes || sh.late || sh.unexpected || sh.collateral || sh.came_back || sh.outlived
		       ? EXIT_BROKEN
		       : 0;
}

/* ---- set-up ---- */

static int pool_open(struct space *s, unsigned which)
{
	struct kvc_options o = {.size = sizeof(o), .flags = s->flag | KVC_OPEN_WAIT, .grace_ns = GRACE_NS};
	struct kv_error err = {0};
	int rc;
	o.servers = opt.server;
	o.num_servers = opt.num_servers;
	o.servers_max = 32;
	o.num_clients = which ? 1 : 2; /* a writer's calls are one client's: that one knows what it deleted */
	o.num_threads = 1;
	o.buffer_bytes = 16 << 20;
	o.provider = opt.provider;
	o.base_client_id = 100 + 10 * (uint64_t)((s - space) * POOLS_EACH + which);
	o.log_level = (int)opt.log_level;
	rc = kvc_pool_open(&o, &s->pool[which], &err);
	if (rc < 0)
		fprintf(stderr, "soak: %s: %s\n", kvc_errname(rc), err.text);
	return rc;
}

static bool thread_start(pthread_t *t, void *(*fn)(void *), void *arg)
{
	if (pthread_create(t, NULL, fn, arg) == 0)
		return true;
	fprintf(stderr, "soak: cannot start a thread\n");
	_exit(EXIT_SETUP);
}

static void space_run(struct space *s, pthread_t *run, struct start *start)
{
	thread_start(run, run_main, s);
	for (unsigned i = 0; i < 2 * THREADS; i++) {
		start[i] = (struct start){.s = s, .writer = WORKERS + i};
		thread_start(&start[i].thread, i < THREADS ? blocking_main : queue_main, &start[i]);
	}
}

static int run_all(void)
{
	pthread_t watch, marks, run[SPACES];
	struct start start[SPACES][2 * THREADS];
	sh.start_ns = now_ns();
	for (unsigned i = 0; i < POOLS; i++)
		if (pool_open(&space[i / POOLS_EACH], i % POOLS_EACH) < 0)
			return EXIT_SETUP;
	sh.end_ns = now_ns() + opt.seconds * SECOND;
	thread_start(&marks, marks_main, NULL);
	for (unsigned i = 0; i < SPACES; i++)
		space_run(&space[i], &run[i], start[i]);
	thread_start(&watch, watch_main, NULL);
	fprintf(stderr, "soak: running, seed %" PRIu64 "\n", opt.seed);
	for (unsigned i = 0; i < SPACES; i++) {
		pthread_join(run[i], NULL);
		for (unsigned t = 0; t < 2 * THREADS; t++)
			pthread_join(start[i][t].thread, NULL);
	}
	atomic_store(&watch_over, true);
	pthread_join(watch, NULL);
	report();
	for (unsigned i = 0; i < POOLS; i++)
		kvc_pool_close(&space[i / POOLS_EACH].pool[i % POOLS_EACH]);
	return verdict();
}

static const struct option long_options[] = {
	{"server", required_argument, NULL, 's'},
	{"seconds", required_argument, NULL, 'S'},
	{"seed", required_argument, NULL, 'r'},
	{"pace-us", required_argument, NULL, 'p'},
	{"log", required_argument, NULL, 'l'},
	{"provider", required_argument, NULL, 'P'},
	{NULL, 0, NULL, 0},
};

static int options_parse(int argc, char **argv)
{
	int o;
	while ((o = getopt_long(argc, argv, "", long_options, NULL)) >= 0) {
		uint64_t v = 0;
		if (o == 's' && opt.num_servers < SERVERS_MAX)
			opt.server[opt.num_servers++] = optarg;
		else if (o == 'P')
			opt.provider = optarg;
		else if (!optarg || kv_u64_parse(optarg, &v) < 0)
			return -KV_EINVAL;
		else if (o == 'S')
			opt.seconds = v;
		else if (o == 'r')
			opt.seed = v;
		else if (o == 'p')
			opt.pace_us = v;
		else if (o == 'l')
			opt.log_level = (unsigned)v;
		else
			return -KV_EINVAL;
	}
	return opt.num_servers && opt.pace_us && optind == argc ? 0 : -KV_EINVAL;
}

int main(int argc, char **argv)
{
	opt.seed = kv_seed_from_env("KVRAIL_SEED");
	opt.provider = test_provider();
	if (options_parse(argc, argv) < 0) {
		fprintf(stderr,
			"usage: soak --server NAME=HOST:PORT... [--seconds N] [--seed N] [--pace-us N] [--log N]\n");
		return EXIT_SETUP;
	}
	kvc_program_setup();
	return run_all();
}
