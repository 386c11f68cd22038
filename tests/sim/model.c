/* SPDX-License-Identifier: Apache-2.0 */
/* model.c -- see model.h.
 *
 * Values are pieces of one random pattern, so that a value is known by {offset, len}, costs no memory and is compared
 * as a whole.
 *
 * What may be under a private key: `now`, if has_now; nothing, if may_miss; and, if nothing may be there, also a ghost:
 * a value whose PUT failed in a way that leaves open whether it will still be committed. A DELETE that failed so leaves
 * the key in doubt for good. A call that answers for certain narrows this down again.
 *
 * Once a server was avoided, a value may be at a stand-in, and come and go with the servers: then a key may miss, or
 * have any value that was ever put under it, and no other bytes.
 *
 * Memory of calls: plain destinations have exactly the size that was said, so that AddressSanitizer guards them.
 * Registered ones lie in the worker's slab, which holds nothing but a canary whenever no call uses it; before its next
 * use, and at the end, it must still. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/sim/model.h"

#include <stdlib.h>

#include "loop/loop.h"

enum {
	OWN_KEYS = 12,
	SHARED_KEYS = 16, /* the first half is never deleted */
	GHOSTS = 8,
	ATTEMPTS = 64, /* values ever put under a shared key */
	EVER = 64,     /* the same, under a private one */
	BATCH = 12,
	CANARY = 0xC5,
	PATTERN_SLACK = 1 << 20
};

#define SLACK_NS (2 * MS) /* loops that poll look every millisecond */

struct value {
	uint32_t offset, len;
};

struct entry {
	uint8_t key[KV_KEY_MAX];
	size_t key_len;
	bool has_now, may_miss, doubt;
	bool ghost_deleted; /* a DELETE ended after a PUT in doubt: a server that learns of it late deletes its value
			       late */
	struct value now;
	struct value ghost[GHOSTS];
	unsigned ghosts;
	struct value ever[EVER];
	unsigned evers;
};

struct shared {
	struct entry e; /* only the key */
	struct value tried[ATTEMPTS];
	unsigned tries;
	bool settled;
	struct value is;
};

struct worker {
	struct model *m;
	unsigned index, pool, client;
	struct kv_prng prng;
	struct entry own[OWN_KEYS];
	uint8_t *slab;           /* NULL: none */
	uint64_t begun_ns;       /* its present call */
	unsigned holds;          /* calls that touch or pin: every other touch only looks */
	struct kv_prng sessions; /* choices about them: apart, so that worlds without are what they were */
	struct kv_prng layouts;
	struct kvc_session *session[MODEL_SESSIONS];
};

struct model {
	struct world *w;
	struct model_options o;
	struct worker *worker;
	struct shared shared[SHARED_KEYS];
	struct kvc_mem *mem[WORLD_POOLS];
	uint8_t *slabs[WORLD_POOLS];
	uint8_t *pattern;
	struct model_counts counts;
	uint64_t lost_ns; /* when a server lost everything; what calls that began before say is not believed */
	bool roamed;      /* a server was avoided */
	bool final;       /* the check at the end: nothing may fail */
};

/* ---- values and keys ---- */

static const uint8_t *bytes(const struct model *m, struct value v)
{
	return m->pattern + v.offset;
}

static bool same(const struct model *m, struct value a, struct value b)
{
	return a.len == b.len && (a.offset == b.offset || memcmp(bytes(m, a), bytes(m, b), a.len) == 0);
}

static uint64_t below(struct worker *k, uint64_t n)
{
	return kv_prng_below(&k->prng, n);
}

/* Mostly small; the sizes at which something else happens are likely. */
static uint32_t some_len(struct worker *k, uint64_t max)
{
	static const uint32_t edge[] = {1,     2,     3071,  3072,  3073,    4095,         4096,
					32768, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1};
	static const unsigned often[] = {150, 650, 900, 994}, rarely[] = {150, 450, 960, 997};
	const unsigned *limit = k->m->o.mostly_small ? rarely : often;
	uint64_t pick = below(k, 1000), len;
	if (pick < limit[0])
		len = edge[below(k, KV_COUNT(edge))];
	else if (pick < limit[1])
		len = 1 + below(k, 4096);
	else if (pick < limit[2])
		len = 1 + below(k, 128 << 10);
	else if (pick < limit[3])
		len = 1 + below(k, 1 << 20);
	else
		len = 1 + below(k, max);
	return (uint32_t)KV_MIN(len, max);
}

static struct value some_value(struct worker *k, uint64_t max)
{
	return (struct value){(uint32_t)below(k, PATTERN_SLACK), some_len(k, max)};
}

static void key_make(struct entry *e, struct kv_prng *prng, unsigned owner, unsigned i)
{
	/* Unique by its beginning or, if it is short, by its length: at most 2 bytes are needed for either. */
	e->key_len = 4 + kv_prng_below(prng, KV_KEY_MAX - 3);
	kv_prng_fill(prng, e->key, e->key_len);
	kv_put32(e->key, owner << 8 | i);
	e->may_miss = true;
}

static struct kvc_key key_of(const struct entry *e)
{
	return (struct kvc_key){e->key, e->key_len};
}

/* ---- what the model knows ---- */

/* A worker of a pool that was killed runs on when the world is closed: what it sees then does not count. */
#define WRONG(k, what, ...)                                                                                            \
	do {                                                                                                           \
		if (!(k)->m->w->pool[(k)->pool].crashed)                                                               \
			world_wrong((k)->m->w, "worker %u (pool %u, client %u): " what, (k)->index, (k)->pool,         \
				    (k)->client __VA_OPT__(, ) __VA_ARGS__);                                           \
	} while (0)

/* Whether a client has ever asked one server for another. */
static bool roamed(struct model *m)
{
	for (unsigned i = 0; i < m->w->options.pools && !m->roamed; i++)
		if (m->w->pool[i].pool && !m->w->pool[i].crashed)
			m->roamed = world_counters(m->w, i).stand_ins > 0;
	return m->roamed;
}

static bool may_miss(const struct worker *k, const struct entry *e)
{
	return e->may_miss || roamed(k->m);
}

static bool in_doubt(const struct worker *k, const struct entry *e)
{
	return e->ghosts || roamed(k->m);
}

static bool may_be(const struct worker *k, const struct entry *e)
{
	return e->has_now || e->ghosts || (roamed(k->m) && e->evers);
}

static bool may_miss_again(const struct model *m, const struct entry *e)
{
	return e->doubt || m->o.evicts;
}

static bool is_ghost(const struct model *m, const struct entry *e, struct value v)
{
	for (unsigned i = 0; i < e->ghosts; i++)
		if (same(m, e->ghost[i], v))
			return true;
	return false;
}

static void saw_value(struct worker *k, struct entry *e, struct value v)
{
	e->has_now = true;
	e->now = v;
	e->may_miss =
		may_miss_again(k->m, e) || k->begun_ns <= k->m->lost_ns || (e->ghost_deleted && is_ghost(k->m, e, v));
}

static void saw_nothing(struct entry *e)
{
	e->has_now = false;
	e->may_miss = true;
}

/* Which of the values that may be there has these bytes (a part of it, when range is given)? False: none. */
static bool known_bytes(struct worker *k, const struct entry *e, const uint8_t *at, uint64_t len, struct value *out)
{
	const struct model *m = k->m;
	if (e->has_now && e->now.len == len && memcmp(at, bytes(m, e->now), len) == 0) {
		*out = e->now;
		return true;
	}
	for (unsigned i = 0; i < e->ghosts && e->may_miss; i++) {
		*out = e->ghost[i];
		if (out->len == len && memcmp(at, bytes(m, *out), len) == 0)
			return true;
	}
	for (unsigned i = 0; i < e->evers && roamed(k->m); i++) {
		*out = e->ever[i];
		if (out->len == len && memcmp(at, bytes(m, *out), len) == 0)
			return true;
	}
	return false;
}

static bool tolerable(const struct worker *k, int64_t rc)
{
	const struct model *m = k->m;
	if (rc == -KV_ECLOSED && m->w->pool[k->pool].stopped)
		return true;
	if (!m->o.trouble || m->final)
		return false;
	return rc == -KV_ETIMEOUT || rc == -KV_EPEERDOWN || rc == -KV_EBUSY || rc == -KV_EPROVIDER;
}

/* A call ended with a code that says nothing about the key. False: it may not. */
static bool failed(struct worker *k, const char *call, int64_t rc)
{
	struct model *m = k->m;
	m->counts.failed++;
	m->counts.timeouts += rc == -KV_ETIMEOUT;
	m->counts.downs += rc == -KV_EPEERDOWN;
	m->counts.closed += rc == -KV_ECLOSED;
	if (tolerable(k, rc))
		return true;
	WRONG(k, "%s returned %s", call, rc < 0 ? kv_errname((int)rc) : "a length that cannot be");
	return false;
}

/* The server had no memory, or only such as other PUTs were using at each of the tries. */
static bool full(const struct model *m, int64_t rc)
{
	return m->o.evicts && (rc == -KV_ENOMEM || rc == -KV_EBUSY);
}

static void put_result(struct worker *k, struct entry *e, struct value v, int64_t rc)
{
	struct model *m = k->m;
	if (e->evers < EVER)
		e->ever[e->evers++] = v;
	if (rc == 0) {
		m->counts.bytes += v.len;
		if (!may_miss(k, e) && !same(m, e->now, v))
			WRONG(k, "PUT of %u bytes succeeded over another value of %u bytes", v.len, e->now.len);
		saw_value(k, e, v);
	} else if (rc == -KV_EEXIST) {
		bool other = e->has_now && !same(m, e->now, v);
		for (unsigned i = 0; i < e->ghosts && e->may_miss; i++)
			other |= !same(m, e->ghost[i], v);
		for (unsigned i = 0; i < e->evers && roamed(m); i++)
			other |= !same(m, e->ever[i], v);
		if (!other)
			WRONG(k, "PUT returned KV_EEXIST, and there is no other value");
	} else if (full(m, rc)) {
		m->counts.failed++;
	} else if (failed(k, "PUT", rc) && !is_ghost(m, e, v)) {
		if (e->ghosts == GHOSTS)
			WRONG(k, "too many values in doubt under one key: a test must not come here");
		else
			e->ghost[e->ghosts++] = v;
	}
}

static void delete_result(struct worker *k, struct entry *e, int rc)
{
	struct model *m = k->m;
	e->ghost_deleted |= e->ghosts > 0;
	if (rc == 0) {
		if (!e->has_now && !(e->may_miss && e->ghosts) && !m->o.trouble)
			WRONG(k, "DELETE found what was not there");
		saw_nothing(e);
	} else if (rc == -KV_ENOTFOUND) {
		if (!may_miss(k, e))
			WRONG(k, "DELETE did not find a value of %u bytes", e->now.len);
		saw_nothing(e);
	} else if (failed(k, "DELETE", rc)) {
		e->doubt = true;
		e->may_miss = true;
	}
}

/* The whole value, or a miss, or a failure. */
static void get_result(struct worker *k, struct entry *e, const uint8_t *at, int64_t rc)
{
	struct model *m = k->m;
	struct value v;
	if (rc > 0) {
		m->counts.bytes += (uint64_t)rc;
		if (!known_bytes(k, e, at, (uint64_t)rc, &v))
			WRONG(k, "GET returned %lld bytes, which are not the value (%u bytes%s)", (long long)rc,
			      e->now.len, e->has_now ? "" : ", gone");
		else
			saw_value(k, e, v);
	} else if (rc == -KV_ENOTFOUND) {
		m->counts.misses++;
		if (!may_miss(k, e))
			WRONG(k, "GET did not find a value of %u bytes", e->now.len);
		saw_nothing(e);
	} else if (rc == -KV_ETOOBIG && roamed(m)) {
		m->counts.failed++; /* it has another value than when its room was made */
	} else {
		failed(k, "GET", rc);
	}
}

/* ---- calls and their time ---- */

struct timed {
	struct kvc_call call;
	uint64_t begun_ns, timeout_ns;
	bool pieces; /* no memory of ours is given to peers: it ends in time, also while an endpoint that is given up is
			not closed */
};

static const struct kvc_call *timed_begin(struct worker *k, struct timed *t)
{
	const struct world_options *wo = &k->m->w->options;
	memset(t, 0, sizeof(*t));
	t->call.size = sizeof(t->call);
	t->call.flags = k->m->counts.calls % 4 == 1 ? KVC_BACKGROUND : 0;
	if (k->m->o.sessions)
		t->call.session = k->session[kv_prng_below(&k->sessions, k->m->o.sessions)]; /* or NULL */
	if (k->m->o.trouble && !k->m->final && below(k, 4) > 0)
		t->call.timeout_ns = (1 + below(k, 200 * US))
				     << below(k, 15); /* of the order of what a call takes, too */
	t->timeout_ns = t->call.timeout_ns ? t->call.timeout_ns
			: wo->timeout_ns   ? wo->timeout_ns
					   : KV_TIMEOUT_DEFAULT_NS;
	t->begun_ns = k->begun_ns = world_now(k->m->w);
	k->m->counts.calls++;
	return &t->call;
}

static void timed_end(struct worker *k, const struct timed *t, const char *what, int64_t rc)
{
	const struct world_options *wo = &k->m->w->options;
	const struct kvc_pool *pool = k->m->w->pool[k->pool].pool;
	uint64_t took = world_now(k->m->w) - t->begun_ns;
	uint64_t most = t->timeout_ns + (wo->grace_ns ? wo->grace_ns : WORLD_GRACE) + SLACK_NS;
	if (!t->pieces)
		most += 2 * wo->fabric.close_max_ns; /* a second one may be given up meanwhile */
	if (took > most)
		WRONG(k, "%s took %.3f ms with a deadline of %.3f ms (%s)", what, (double)took / 1e6,
		      (double)t->timeout_ns / 1e6, rc < 0 ? kv_errname((int)rc) : "success");
	if (pool && took > kvc_call_bound_ns(pool, t->call.timeout_ns, 0))
		WRONG(k, "%s took %.3f ms, longer than kvc_call_bound_ns", what, (double)took / 1e6);
}

/* ---- the slab ---- */

static bool slab_intact(const struct worker *k, size_t from, size_t to)
{
	/* All bytes are like the first. */
	return from == to ||
	       (k->slab[from] == CANARY && memcmp(&k->slab[from], &k->slab[from + 1], to - from - 1) == 0);
}

static void slab_check(struct worker *k)
{
	if (!slab_intact(k, 0, k->m->o.slab_bytes))
		WRONG(k, "registered memory was written to after its call had returned");
}

static void slab_clear(struct worker *k)
{
	memset(k->slab, CANARY, k->m->o.slab_bytes);
}

/* ---- private keys: one call each ---- */

static struct entry *own_key(struct worker *k)
{
	return &k->own[below(k, OWN_KEYS)];
}

/* A new value, the present one, or another of the same length. */
static struct value value_for(struct worker *k, const struct entry *e, uint64_t max)
{
	unsigned pick = (unsigned)below(k, 8);
	if (e->ghosts == GHOSTS)
		return e->ghost[below(k, GHOSTS)];
	if (e->evers == EVER)
		return e->ever[below(k, EVER)];
	if (e->has_now && e->now.len <= max && pick == 0)
		return e->now;
	if (e->has_now && e->now.len <= max && pick == 1)
		return (struct value){(uint32_t)below(k, PATTERN_SLACK), e->now.len};
	return some_value(k, max);
}

static void do_put(struct worker *k, struct kvc_client *c)
{
	struct entry *e = own_key(k);
	bool slab = k->slab && below(k, 2);
	struct value v = value_for(k, e, slab ? k->m->o.slab_bytes : k->m->o.len_max);
	uint8_t *source = slab && v.len <= k->m->o.slab_bytes ? k->slab : malloc(v.len);
	struct timed t;
	const struct kvc_call *call = timed_begin(k, &t);
	if (k->slab)
		slab_check(k);
	memcpy(source, bytes(k->m, v), v.len);
	int rc = kvc_put_await(c, key_of(e), source, v.len, call);
	t.pieces = source != k->slab;
	timed_end(k, &t, "PUT", rc);
	memset(source, CANARY, v.len); /* what is read of it from now on is garbage */
	if (source != k->slab)
		free(source);
	put_result(k, e, v, rc);
}

static void do_put_borrowed(struct worker *k, struct kvc_client *c)
{
	struct entry *e = own_key(k);
	struct value v = value_for(k, e, KV_MIN((uint64_t)2 << 20, k->m->o.len_max));
	struct kvc_borrowed borrowed;
	struct timed t;
	const struct kvc_call *call = timed_begin(k, &t);
	int rc = kvc_borrow_await(c, v.len, call->timeout_ns, &borrowed);
	t.pieces = true;
	timed_end(k, &t, "acquiring a borrowed piece", rc);
	if (rc == -KV_ETOOBIG && v.len > k->m->w->options.buffer_bytes)
		return;
	if (rc < 0) {
		failed(k, "acquiring a borrowed piece", rc);
		return;
	}
	memcpy(borrowed.data, bytes(k->m, v), v.len);
	call = timed_begin(k, &t);
	rc = kvc_put_await(c, key_of(e), borrowed.data, v.len, call);
	timed_end(k, &t, "PUT of a borrowed piece", rc);
	if (memcmp(borrowed.data, bytes(k->m, v), v.len) != 0)
		WRONG(k, "a borrowed piece was written to while its owner had it");
	memset(borrowed.data, CANARY, v.len);
	kvc_borrowed_release(c, &borrowed);
	put_result(k, e, v, rc);
}

static void do_get(struct worker *k, struct kvc_client *c)
{
	struct entry *e = own_key(k);
	uint64_t need = e->has_now ? e->now.len : 64, cap = in_doubt(k, e) ? k->m->o.len_max
							    : below(k, 3)  ? need
									   : need + below(k, 100000);
	bool slab = k->slab && cap <= k->m->o.slab_bytes && below(k, 2);
	uint8_t *dst = slab ? k->slab : malloc(cap);
	struct timed t;
	const struct kvc_call *call = timed_begin(k, &t);
	if (slab)
		slab_check(k);
	int64_t rc = kvc_get_await(c, key_of(e), dst, cap, call);
	t.pieces = !slab;
	timed_end(k, &t, "GET", rc);
	get_result(k, e, dst, rc);
	if (!slab) {
		free(dst);
		return;
	}
	if (!slab_intact(k, cap, k->m->o.slab_bytes))
		WRONG(k, "GET wrote beyond its destination");
	slab_clear(k);
}

/* Its owner keeps a borrowed piece for a while: nobody else writes to it. False: the pool was closed meanwhile, and the
 * borrowed piece is no more (our workers are no kvc_spawn's, for which closing waits). */
static bool borrowed_keep(struct worker *k, const struct kvc_borrowed *borrowed)
{
	uint64_t sum;
	if (!borrowed->data || borrowed->len == 0 || below(k, 4) > 0)
		return true;
	sum = kv_hash_block(borrowed->data, borrowed->len);
	co_sleep_await(world_now(k->m->w) + below(k, MS));
	if (!world_pool_usable(k->m->w, k->pool))
		return false;
	if (kv_hash_block(borrowed->data, borrowed->len) != sum)
		WRONG(k, "a borrowed piece was written to while its owner had it");
	return true;
}

static void do_get_borrowed(struct worker *k, struct kvc_client *c)
{
	struct entry *e = own_key(k);
	uint64_t guess = below(k, 2) ? 0 : below(k, 2) && e->has_now ? e->now.len : 1 + below(k, 300000);
	struct kvc_borrowed borrowed;
	struct timed t;
	const struct kvc_call *call = timed_begin(k, &t);
	int64_t rc = kvc_get_borrowed_await(c, key_of(e), guess, call, &borrowed);
	timed_end(k, &t, "GET into a borrowed piece", rc);
	if (rc == -KV_ETOOBIG)
		return; /* larger than half the buffer: that is its contract */
	if (rc > 0 && (borrowed.len != (uint64_t)rc || borrowed.value_len != borrowed.len))
		WRONG(k, "a borrowed piece of %lld bytes says that it has %llu", (long long)rc,
		      (unsigned long long)borrowed.len);
	get_result(k, e, rc > 0 ? borrowed.data : NULL, rc);
	if (borrowed_keep(k, &borrowed))
		kvc_borrowed_release(c, &borrowed);
}

/* A part of a value: the model must know which value, so only where there is no doubt. */
static void do_get_part(struct worker *k, struct kvc_client *c)
{
	struct entry *e = own_key(k);
	struct timed t;
	if (!e->has_now || may_miss(k, e))
		return;
	struct value v = e->now;
	struct kvc_call *call = (struct kvc_call *)(uintptr_t)timed_begin(k, &t);
	call->offset = below(k, v.len);
	call->length = below(k, 3) ? 1 + below(k, v.len - call->offset) : 0;
	uint64_t want = call->length ? call->length : v.len - call->offset;
	uint8_t *dst = malloc(want);
	int64_t rc = kvc_get_await(c, key_of(e), dst, want, call);
	timed_end(k, &t, "GET of a part", rc);
	if (rc == -KV_ENOTFOUND && may_miss(k, e))
		saw_nothing(e); /* its server lost it meanwhile */
	else if (rc != -KV_ETIMEOUT && roamed(k->m))
		; /* of which value is not known any more */
	else if (rc < 0)
		failed(k, "GET of a part", rc);
	else if ((uint64_t)rc != want || memcmp(dst, bytes(k->m, v) + call->offset, want) != 0)
		WRONG(k, "GET of %llu bytes from %llu of %u returned %lld that are wrong", (unsigned long long)want,
		      (unsigned long long)call->offset, v.len, (long long)rc);
	free(dst);
}

static void do_get_short(struct worker *k, struct kvc_client *c)
{
	struct entry *e = own_key(k);
	struct timed t;
	if (!e->has_now || may_miss(k, e) || e->now.len < 2)
		return;
	uint64_t cap = 1 + below(k, e->now.len - 1);
	uint8_t *dst = malloc(cap);
	int64_t rc = kvc_get_await(c, key_of(e), dst, cap, timed_begin(k, &t));
	timed_end(k, &t, "GET with too little room", rc);
	if (rc == -KV_ENOTFOUND && may_miss(k, e))
		saw_nothing(e);
	else if (rc != -KV_ETOOBIG && !(rc > 0 && roamed(k->m)))
		failed(k, "GET with too little room", rc);
	free(dst);
}

static void do_delete(struct worker *k, struct kvc_client *c)
{
	struct entry *e = own_key(k);
	struct timed t;
	int rc = kvc_delete_await(c, key_of(e), timed_begin(k, &t));
	t.pieces = true;
	timed_end(k, &t, "DELETE", rc);
	delete_result(k, e, rc);
}

/* TOUCH, a look at the time to live, PIN, UNPIN: they find the value or not. */
static void do_hold(struct worker *k, struct kvc_client *c)
{
	struct entry *e = own_key(k);
	struct timed t;
	const struct kvc_call *call = timed_begin(k, &t);
	unsigned pick = (unsigned)below(k, 3);
	uint64_t left_ms = 0;
	int rc = pick == 0 && k->holds++ % 2 ? kvc_ttl_await(c, key_of(e), &left_ms, call)
		 : pick == 0                 ? kvc_touch_await(c, key_of(e), call)
		 : pick == 1                 ? kvc_pin_await(c, key_of(e), call)
					     : kvc_unpin_await(c, key_of(e), call);
	t.pieces = true;
	timed_end(k, &t, "TOUCH, PIN or UNPIN", rc);
	if (rc == -KV_ENOTFOUND && pick < 2 && !may_miss(k, e))
		WRONG(k, "TOUCH or PIN did not find a value of %u bytes", e->now.len);
	else if (rc == 0 && pick < 2 && !may_be(k, e))
		WRONG(k, "TOUCH or PIN found what was not there");
	else if (rc == -KV_EBUSY && pick == 1 && k->m->o.evicts)
		k->m->counts.failed++; /* the budget of pins is a share of the memory */
	else if (rc < 0 && rc != -KV_ENOTFOUND)
		failed(k, "TOUCH, PIN or UNPIN", rc);
}

/* ---- private keys: many at once ---- */

/* n different own keys. */
static unsigned pick_keys(struct worker *k, struct entry **out, unsigned max)
{
	unsigned n = 1 + (unsigned)below(k, KV_MIN(max, (unsigned)OWN_KEYS)), first = (unsigned)below(k, OWN_KEYS);
	for (unsigned i = 0; i < n; i++)
		out[i] = &k->own[(first + i) % OWN_KEYS];
	return n;
}

static void do_exists(struct worker *k, struct kvc_client *c)
{
	struct entry *e[BATCH];
	struct kvc_key key[BATCH];
	uint8_t found[BATCH];
	unsigned n = pick_keys(k, e, BATCH), prefix = 0, count = 0;
	struct timed t;
	for (unsigned i = 0; i < n; i++)
		key[i] = key_of(e[i]);
	int rc = kvc_exists_await(c, key, n, found, &prefix, timed_begin(k, &t));
	t.pieces = true;
	timed_end(k, &t, "EXISTS", rc);
	if (rc < 0) {
		failed(k, "EXISTS", rc);
		return;
	}
	while (count < n && found[count])
		count++;
	if (count != prefix)
		WRONG(k, "EXISTS counts a prefix of %u, and its flags %u", prefix, count);
	for (unsigned i = 0; i < n; i++) {
		if (!found[i] && !may_miss(k, e[i]))
			WRONG(k, "EXISTS did not find a value of %u bytes", e[i]->now.len);
		else if (found[i] && !may_be(k, e[i]))
			WRONG(k, "EXISTS found what was not there");
		else if (!found[i])
			saw_nothing(e[i]);
	}
}

static void do_put_batch(struct worker *k, struct kvc_client *c)
{
	struct entry *e[BATCH];
	struct value v[BATCH];
	struct kvc_item item[BATCH] = {0};
	unsigned n = pick_keys(k, e, BATCH);
	struct timed t;
	for (unsigned i = 0; i < n; i++) {
		v[i] = value_for(k, e[i], 256 << 10);
		item[i] = (struct kvc_item){.key = key_of(e[i]), .data = malloc(v[i].len), .len = v[i].len};
		memcpy(item[i].data, bytes(k->m, v[i]), v[i].len);
	}
	int rc = kvc_put_batch_await(c, item, n, timed_begin(k, &t));
	timed_end(k, &t, "a batch of PUT", rc);
	for (unsigned i = 0; i < n; i++) {
		memset(item[i].data, CANARY, v[i].len);
		free(item[i].data);
		put_result(k, e[i], v[i], item[i].result);
	}
}

static void do_get_batch(struct worker *k, struct kvc_client *c)
{
	struct entry *e[BATCH];
	struct kvc_item item[BATCH] = {0};
	unsigned n = pick_keys(k, e, BATCH);
	struct timed t;
	for (unsigned i = 0; i < n; i++) {
		uint64_t cap = in_doubt(k, e[i]) ? k->m->o.len_max : e[i]->has_now ? e[i]->now.len : 64;
		item[i] = (struct kvc_item){.key = key_of(e[i]), .data = malloc(cap), .len = cap};
	}
	int rc = kvc_get_batch_await(c, item, n, timed_begin(k, &t));
	timed_end(k, &t, "a batch of GET", rc);
	for (unsigned i = 0; i < n; i++) {
		get_result(k, e[i], item[i].data, item[i].result);
		free(item[i].data);
	}
}

/* One value into slices of registered memory; what lies between them must stay as it is. */
static void do_get_slices(struct worker *k, struct kvc_client *c)
{
	struct entry *e = own_key(k);
	struct timed t;
	if (!k->slab || !e->has_now || in_doubt(k, e) || e->now.len > k->m->o.slab_bytes / 2)
		return;
	uint64_t len = e->now.len, slice = 1 + below(k, len), stride = slice + below(k, KV_MIN(slice, 512u));
	if ((len / slice + 1) * stride > k->m->o.slab_bytes || len / slice > 60)
		return;
	slab_check(k);
	struct kvc_item item = {.key = key_of(e), .data = k->slab, .len = len, .slice = slice, .stride = stride};
	uint8_t *flat = malloc(len);
	int rc = kvc_get_batch_await(c, &item, 1, timed_begin(k, &t));
	timed_end(k, &t, "GET into slices", rc);
	for (uint64_t pos = 0, at = 0; pos < len; pos += slice, at += stride) {
		uint64_t n = KV_MIN(slice, len - pos);
		memcpy(flat + pos, k->slab + at, n);
		memset(k->slab + at, CANARY, n);
	}
	slab_check(k); /* the gaps */
	slab_clear(k);
	get_result(k, e, flat, item.result);
	free(flat);
}

/* ---- slices, spans and parts ---- */

enum { MODEL_SPANS = 8, MODEL_PARTS = 6, LAIN_LONG = 256 << 10 };

/* A value in slices, or in spans, of the slab or of memory of its own. */
struct lain {
	uint8_t *at;
	uint64_t room;
	bool slab;
	struct kvc_span span[MODEL_SPANS];
	uint64_t ends[MODEL_PARTS];
	struct kvc_arrival arrival;
	struct kvc_layout layout;
	struct kvc_item item;
};

static uint64_t lain_below(struct worker *k, uint64_t n)
{
	return kv_prng_below(&k->layouts, n);
}

static void lain_spans(struct worker *k, struct lain *l, uint64_t len)
{
	unsigned n = 1 + (unsigned)lain_below(k, KV_MIN(len, (uint64_t)MODEL_SPANS));
	uint64_t left = len, pos = 0;
	for (unsigned i = 0; i < n; i++) {
		uint64_t bytes = i + 1 == n ? left : 1 + lain_below(k, (left - (n - i)) / 2 + 1);
		l->span[n - 1 - i] = (struct kvc_span){.data = l->at + pos, .len = bytes}; /* backwards */
		pos += bytes + lain_below(k, 64);
		left -= bytes;
	}
	l->layout.spans = l->span;
	l->layout.num_spans = n;
	l->item.data = NULL;
	l->item.layout = &l->layout;
}

static void lain_parts(struct worker *k, struct lain *l, uint64_t len)
{
	unsigned n = 1 + (unsigned)lain_below(k, KV_MIN(len, (uint64_t)MODEL_PARTS));
	for (unsigned i = 0; i < n; i++)
		l->ends[i] = len * (i + 1) / n;
	l->layout.num_parts = n;
	l->layout.part_ends = l->ends;
	l->layout.arrival = &l->arrival;
	l->item.layout = &l->layout;
}

/* False: it does not fit. */
static bool lain_make(struct worker *k, struct lain *l, const struct entry *e, uint64_t len, bool parts)
{
	uint64_t slice = 1 + lain_below(k, len), stride = slice + lain_below(k, KV_MIN(slice, 512u));
	if (len > LAIN_LONG && lain_below(k, 2)) {
		slice = len / 2 + lain_below(k, len / 2);
		stride = slice + lain_below(k, 512);
	}
	memset(l, 0, sizeof(*l));
	l->slab = k->slab && lain_below(k, 4) > 0;
	l->room = l->slab ? k->m->o.slab_bytes : 3 << 20;
	if ((len / slice + 1) * stride > l->room || len / slice > 60 || len + MODEL_SPANS * 64 > l->room)
		return false;
	l->at = l->slab ? k->slab : malloc(l->room);
	if (l->slab)
		slab_check(k);
	else
		memset(l->at, CANARY, l->room);
	l->layout.size = sizeof(l->layout);
	l->item = (struct kvc_item){.key = key_of(e), .data = l->at, .len = len};
	if (lain_below(k, 2)) {
		lain_spans(k, l, len);
	} else {
		l->item.slice = slice;
		l->item.stride = stride;
	}
	if (parts && lain_below(k, 2))
		lain_parts(k, l, len);
	return true;
}

/* Copy the value, or its first n bytes, out of its place or there. What is copied out is cleared. */
static void lain_walk(struct lain *l, uint8_t *flat, uint64_t len, bool there)
{
	const struct kvc_span one = {
		.data = l->at, .len = l->item.len, .slice = l->item.slice, .stride = l->item.stride};
	const struct kvc_span *s = l->layout.num_spans ? l->span : &one;
	for (unsigned i = 0; i < KV_MAX(l->layout.num_spans, 1u); i++, s++) {
		uint8_t *at = s->data;
		uint64_t slice = s->slice ? s->slice : s->len, n;
		for (uint64_t pos = 0; pos < s->len && len > 0; pos += slice, at += s->stride, flat += n, len -= n) {
			n = KV_MIN(KV_MIN(slice, s->len - pos), len);
			memcpy(there ? at : flat, there ? flat : at, n);
			if (!there)
				memset(at, CANARY, n);
		}
	}
}

/* Nothing else was written. */
static void lain_end(struct worker *k, struct lain *l, const char *what)
{
	if (l->room > 0 && (l->at[0] != CANARY || memcmp(l->at, l->at + 1, l->room - 1) != 0))
		WRONG(k, "%s wrote between the slices", what);
	if (l->slab)
		slab_clear(k);
	else
		free(l->at);
}

static void do_put_layout(struct worker *k, struct kvc_client *c)
{
	struct entry *e = own_key(k);
	struct value v = value_for(k, e, KV_MIN(k->m->o.slab_bytes / 2, k->m->o.len_max));
	struct lain l;
	struct timed t;
	uint8_t *flat;
	int rc;
	/* Now and then one of whose slices some are as long as what lands at once. */
	if (e->ghosts < GHOSTS && k->m->o.slab_bytes >= 4 * LAIN_LONG && k->m->o.len_max >= 2 * LAIN_LONG &&
	    lain_below(k, 4) == 0)
		v.len = LAIN_LONG + 1 + (uint32_t)lain_below(k, LAIN_LONG - 1000);
	if (!lain_make(k, &l, e, v.len, false))
		return;
	flat = malloc(v.len);
	memcpy(flat, bytes(k->m, v), v.len);
	lain_walk(&l, flat, v.len, true);
	rc = kvc_put_batch_await(c, &l.item, 1, timed_begin(k, &t));
	timed_end(k, &t, "PUT of slices", rc);
	lain_walk(&l, flat, v.len, false); /* what is read of it from now on is garbage */
	if (memcmp(flat, bytes(k->m, v), v.len) != 0)
		WRONG(k, "PUT of slices changed them");
	lain_end(k, &l, "PUT");
	free(flat);
	put_result(k, e, v, l.item.result);
}

/* What was told of a GET in parts stays, whatever became of the rest. */
static void parts_check(struct worker *k, const struct entry *e, struct lain *l, const uint8_t *flat)
{
	uint32_t told = kvc_arrival_parts(&l->arrival);
	uint64_t n = told ? l->ends[told - 1] : 0;
	if (l->item.result >= 0 && told != l->layout.num_parts)
		WRONG(k, "GET in parts told of %u of %u", told, l->layout.num_parts);
	if (n > 0 && e->has_now && !in_doubt(k, e) &&
	    memcmp(flat, bytes(k->m, e->now), KV_MIN(n, (uint64_t)e->now.len)) != 0)
		WRONG(k, "GET in parts told of %u that are not there", told);
}

/* One value into a layout of memory; what lies between must stay as it is. */
static void do_get_layout(struct worker *k, struct kvc_client *c)
{
	struct entry *e = own_key(k);
	struct lain l;
	struct timed t;
	uint8_t *flat;
	int rc;
	if (!e->has_now || in_doubt(k, e) || !lain_make(k, &l, e, e->now.len, true))
		return;
	flat = calloc(1, e->now.len);
	rc = kvc_get_batch_await(c, &l.item, 1, timed_begin(k, &t));
	timed_end(k, &t, "GET into slices", rc);
	lain_walk(&l, flat, l.item.len, false);
	lain_end(k, &l, "GET");
	if (l.layout.num_parts)
		parts_check(k, e, &l, flat);
	get_result(k, e, flat, l.item.result);
	free(flat);
}

/* ---- shared keys ---- */

static void shared_saw(struct worker *k, struct shared *s, struct value v, const char *how)
{
	if (s - k->m->shared >= SHARED_KEYS / 2 || k->begun_ns <= k->m->lost_ns || k->m->o.evicts || roamed(k->m))
		return;
	if (s->settled && !same(k->m, s->is, v))
		WRONG(k, "%s saw another value under a key that is never deleted", how);
	s->settled = true;
	s->is = v;
}

static void do_shared_put(struct worker *k, struct kvc_client *c)
{
	struct shared *s = &k->m->shared[below(k, SHARED_KEYS)];
	struct value v = s->tries == ATTEMPTS || (s->tries && below(k, 2)) ? s->tried[below(k, s->tries)]
									   : some_value(k, 300 << 10);
	struct timed t;
	if (s->tries < ATTEMPTS)
		s->tried[s->tries++] = v;
	int rc = kvc_put_await(c, key_of(&s->e), bytes(k->m, v), v.len, timed_begin(k, &t));
	t.pieces = true;
	timed_end(k, &t, "PUT", rc);
	if (rc == 0)
		shared_saw(k, s, v, "PUT");
	else if (rc == -KV_EEXIST && s->settled && !roamed(k->m) && same(k->m, s->is, v))
		WRONG(k, "PUT of the value that is there returned KV_EEXIST");
	else if (rc != -KV_EEXIST && !full(k->m, rc))
		failed(k, "PUT", rc);
}

/* In parts, half of the time: they must be of one value. */
static int64_t shared_get(struct worker *k, struct kvc_client *c, const struct shared *s, uint8_t *dst, uint64_t cap,
			  const struct kvc_call *call)
{
	struct lain l = {.layout.size = sizeof(l.layout), .item = {.key = key_of(&s->e), .data = dst, .len = cap}};
	if (lain_below(k, 2))
		return kvc_get_await(c, key_of(&s->e), dst, cap, call);
	lain_parts(k, &l, 2 + lain_below(k, 64 << 10));
	l.ends[l.layout.num_parts - 1] = cap;
	(void)kvc_get_batch_await(c, &l.item, 1, call);
	return l.item.result;
}

static void do_shared_get(struct worker *k, struct kvc_client *c)
{
	struct shared *s = &k->m->shared[below(k, SHARED_KEYS)];
	bool must = s->settled && !k->m->o.evicts;
	uint8_t *dst = malloc(301 << 10);
	struct timed t;
	int64_t rc = shared_get(k, c, s, dst, 301 << 10, timed_begin(k, &t));
	t.pieces = true;
	timed_end(k, &t, "GET", rc);
	if (rc > 0) {
		unsigned i = 0;
		while (i < s->tries &&
		       (s->tried[i].len != rc || memcmp(dst, bytes(k->m, s->tried[i]), s->tried[i].len) != 0))
			i++;
		if (i == s->tries)
			WRONG(k, "GET of a shared key returned %lld bytes that nobody has put", (long long)rc);
		else
			shared_saw(k, s, s->tried[i], "GET");
	} else if (rc == -KV_ENOTFOUND) {
		if (must && k->begun_ns > k->m->lost_ns && !roamed(k->m))
			WRONG(k, "GET did not find a shared value that is never deleted");
	} else {
		failed(k, "GET", rc);
	}
	free(dst);
}

static void do_shared_delete(struct worker *k, struct kvc_client *c)
{
	struct shared *s = &k->m->shared[SHARED_KEYS / 2 + below(k, SHARED_KEYS / 2)];
	struct timed t;
	int rc = kvc_delete_await(c, key_of(&s->e), timed_begin(k, &t));
	t.pieces = true;
	timed_end(k, &t, "DELETE", rc);
	if (rc != 0 && rc != -KV_ENOTFOUND)
		failed(k, "DELETE", rc);
}

/* ---- workers ---- */

typedef void call_fn(struct worker *k, struct kvc_client *c);

static void one_call(struct worker *k, struct kvc_client *c)
{
	static const struct {
		unsigned weight;
		call_fn *fn;
	} calls[] = {{24, do_put},       {8, do_put_borrowed}, {30, do_get},         {8, do_get_borrowed},
		     {6, do_get_part},   {2, do_get_short},    {8, do_delete},       {4, do_hold},
		     {8, do_exists},     {5, do_put_batch},    {5, do_get_batch},    {6, do_get_slices},
		     {8, do_shared_put}, {8, do_shared_get},   {3, do_shared_delete}};
	unsigned total = 0, pick, i = 0;
	if (lain_below(k, 10) == 0) {
		(lain_below(k, 2) ? do_put_layout : do_get_layout)(k, c);
		return;
	}
	for (i = 0; i < KV_COUNT(calls); i++)
		total += calls[i].weight;
	pick = (unsigned)below(k, total);
	for (i = 0; pick >= calls[i].weight; i++)
		pick -= calls[i].weight;
	calls[i].fn(k, c);
}

/* Now and then a session is opened, or one is closed. */
static void session_care(struct worker *k, struct kvc_client *c)
{
	struct kvc_session_options o = {.size = sizeof(o)};
	struct kvc_session **s;
	struct timed t;
	int rc;
	if (!k->m->o.sessions || kv_prng_below(&k->sessions, 8))
		return;
	s = &k->session[kv_prng_below(&k->sessions, k->m->o.sessions)];
	if (!*s) {
		o.timeout_ns = timed_begin(k, &t)->timeout_ns;
		rc = kvc_session_open_await(c, &o, s, NULL);
		t.pieces = true;
		timed_end(k, &t, "opening a session", rc);
		*(rc == 0 ? &k->m->counts.opened : &k->m->counts.refused) += 1;
		if (rc < 0)
			failed(k, "opening a session", rc);
		return;
	}
	o.timeout_ns = timed_begin(k, &t)->timeout_ns;
	rc = kvc_session_close_await(c, s, o.timeout_ns);
	t.pieces = true;
	timed_end(k, &t, "closing a session", rc);
	if (rc < 0)
		failed(k, "closing a session", rc);
	/* Busy: its pins were being made again all the time. */
	if (*s && !(rc == -KV_EBUSY && k->m->o.trouble))
		WRONG(k, "a session that was closed (%s) is still there", kv_errname(rc));
}

static void sessions_close(struct worker *k, struct kvc_client *c)
{
	for (unsigned i = 0; i < MODEL_SESSIONS; i++)
		if (k->session[i] && world_pool_usable(k->m->w, k->pool))
			kvc_session_close_await(c, &k->session[i], 0);
}

static bool worker_goes_on(const struct worker *k, unsigned done)
{
	const struct model *m = k->m;
	if (m->w->wrong[0] || !world_pool_usable(m->w, k->pool))
		return false;
	if (m->o.until_ns)
		return world_now(m->w) < m->o.until_ns || m->counts.calls < m->o.calls_min;
	return done < m->o.calls;
}

static void worker_run(struct kvc_client *c, void *arg)
{
	struct worker *k = arg;
	struct model *m = k->m;
	for (unsigned i = 0; worker_goes_on(k, i); i++) {
		uint64_t downs = m->counts.downs;
		session_care(k, c);
		one_call(k, c);
		if (m->counts.downs != downs || below(k, m->o.trouble ? 3 : 8) == 0)
			co_sleep_await(world_now(m->w) + below(k, m->o.pause_ns));
	}
	if (k->slab)
		slab_check(k);
	sessions_close(k, c);
}

void model_start(struct model *m)
{
	for (unsigned i = 0; i < m->o.workers; i++) {
		struct worker *k = &m->worker[i];
		world_worker(m->w, k->pool, k->client, worker_run, k);
	}
}

void model_lost(struct model *m)
{
	(void)roamed(m);
	m->lost_ns = world_now(m->w);
	for (unsigned i = 0; i < m->o.workers; i++)
		for (unsigned j = 0; j < OWN_KEYS; j++)
			m->worker[i].own[j].may_miss = true;
	for (unsigned i = 0; i < SHARED_KEYS; i++)
		m->shared[i].settled = false;
}

/* ---- the end ---- */

static void worker_check(struct kvc_client *c, void *arg)
{
	struct worker *k = arg;
	uint8_t *dst = malloc(k->m->o.len_max);
	for (unsigned i = 0; i < OWN_KEYS; i++) {
		struct entry *e = &k->own[i];
		k->begun_ns = world_now(k->m->w);
		int64_t rc = kvc_get_await(c, key_of(e), dst, k->m->o.len_max, NULL);
		get_result(k, e, dst, rc);
		/* What was in doubt is settled now: nothing is under way any more. */
		e->ghosts = 0;
		e->doubt = e->ghost_deleted = false;
		if (rc > 0)
			e->may_miss = k->m->o.evicts;
	}
	if (k->slab)
		slab_check(k);
	free(dst);
}

static void worker_clear(struct kvc_client *c, void *arg)
{
	struct worker *k = arg;
	for (unsigned i = 0; i < OWN_KEYS + SHARED_KEYS; i++) {
		struct entry *e = i < OWN_KEYS ? &k->own[i] : &k->m->shared[i - OWN_KEYS].e;
		int rc = kvc_delete_await(c, key_of(e), NULL);
		if (rc < 0 && rc != -KV_ENOTFOUND)
			failed(k, "DELETE", rc);
		saw_nothing(e);
	}
}

/* What a stand-in still has of values that were deleted at their own server. */
static bool stays(const char *stat)
{
	return strcmp(stat, "blocks") == 0 || strcmp(stat, "bytes_used") == 0 || strcmp(stat, "pinned_bytes") == 0;
}

/* What a server at rest and without values says of itself. Nothing in this world changes bytes, so each wrong checksum
 * is memory that two have used at once; a call that is made again would hide it. */
static void stat_check(struct kvc_client *c, void *arg)
{
	static const char *const zero[] = {"corrupt",      "blocks",     "bytes_used",  "quarantined_bytes",
					   "pinned_bytes", "bad_frames", "over_credit", "further_sessions"};
	struct worker *k = arg;
	const struct world_options *wo = &k->m->w->options;
	struct kvc_stat_item item[WIRE_STAT_END];
	struct kvc_call call = {.size = sizeof(call)};
	unsigned pools = 0;
	for (unsigned i = 0; i < wo->pools; i++)
		pools += world_pool_usable(k->m->w, i);
	for (call.server = 0; call.server < wo->servers; call.server++) {
		int n = kvc_stat_await(c, item, KV_COUNT(item), &call);
		if (n < 0)
			failed(k, "STAT", n);
		for (int i = 0; i < n; i++) {
			uint64_t want = strcmp(item[i].name, "sessions") == 0 ? pools * wo->clients : item[i].value;
			for (unsigned j = 0; j < KV_COUNT(zero); j++)
				if (strcmp(item[i].name, zero[j]) == 0 && !(roamed(k->m) && stays(zero[j])))
					want = 0;
			if (item[i].value != want)
				WRONG(k, "server %u at rest has %s %llu, not %llu", call.server, item[i].name,
				      (unsigned long long)item[i].value, (unsigned long long)want);
		}
	}
}

/* The first worker from i on whose pool is there. */
static const struct worker *usable(const struct model *m, unsigned i)
{
	while (!world_pool_usable(m->w, m->worker[i % m->o.workers].pool))
		i++;
	return &m->worker[i % m->o.workers];
}

void model_check(struct model *m)
{
	m->final = true;
	/* Each worker's keys through its own client, then through its neighbour's, which may be of another pool. */
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < m->o.workers; i++) {
			const struct worker *at = usable(m, i + round);
			if (!m->w->pool[m->worker[i].pool].crashed)
				world_worker(m->w, at->pool, at->client, worker_check, &m->worker[i]);
		}
		world_join(m->w, 120 * SECOND);
	}
	for (unsigned i = 0; i < m->o.workers; i++)
		world_worker(m->w, usable(m, i)->pool, usable(m, i)->client, worker_clear, &m->worker[i]);
	world_join(m->w, 120 * SECOND);
	if (m->w->options.local != WORLD_REMOTE)
		world_sleep(m->w, 50 * MS); /* the release of a lease rings no bell */
	world_do(m->w, 0, stat_check, &m->worker[0]);
	world_rest_check(m->w);
	m->final = false;
}

static void slabs_make(struct model *m, unsigned pool, unsigned each)
{
	uint64_t len = (uint64_t)each * m->o.slab_bytes;
	m->slabs[pool] = aligned_alloc(4096, len);
	assert_non_null(m->slabs[pool]);
	memset(m->slabs[pool], CANARY, len);
	assert_int_equal(world_register(m->w, pool, m->slabs[pool], len, &m->mem[pool]), 0);
}

struct model *model_create(struct world *w, const struct model_options *options)
{
	struct model *m = calloc(1, sizeof(*m));
	unsigned pools = w->options.pools, used[WORLD_POOLS] = {0};
	assert_non_null(m);
	m->w = w;
	m->o = *options;
	m->o.workers = options->workers ? options->workers : 16;
	m->o.calls = options->calls ? options->calls : 60;
	m->o.len_max = options->len_max ? options->len_max : 20 << 20;
	m->o.pause_ns = options->pause_ns ? options->pause_ns : (options->trouble ? 30 : 1) * MS;
	m->o.slab_bytes = options->slab_bytes ? options->slab_bytes : 1 << 20;
	m->pattern = malloc(m->o.len_max + PATTERN_SLACK);
	m->worker = calloc(m->o.workers, sizeof(*m->worker));
	assert_true(m->pattern && m->worker);
	kv_prng_fill(&w->prng, m->pattern, m->o.len_max + PATTERN_SLACK);
	for (unsigned i = 0; i < pools && options->registered; i++)
		slabs_make(m, i, m->o.workers);
	for (unsigned i = 0; i < SHARED_KEYS; i++)
		key_make(&m->shared[i].e, &w->prng, 0xFFFF, i);
	for (unsigned i = 0; i < m->o.workers; i++) {
		struct worker *k = &m->worker[i];
		*k = (struct worker){.m = m, .index = i, .pool = i % pools, .client = i / pools};
		kv_prng_seed(&k->prng, kv_prng_next(&w->prng));
		kv_prng_seed(&k->sessions, w->options.seed << 16 | i);
		kv_prng_seed(&k->layouts, w->options.seed << 17 | 1u << 16 | i);
		k->slab = m->slabs[k->pool] ? m->slabs[k->pool] + (size_t)used[k->pool]++ * m->o.slab_bytes : NULL;
		for (unsigned j = 0; j < OWN_KEYS; j++)
			key_make(&k->own[j], &k->prng, i, j);
	}
	return m;
}

void model_end(struct model *m)
{
	for (unsigned i = 0; i < WORLD_POOLS; i++) {
		if (m->mem[i] && world_pool_usable(m->w, i))
			assert_int_equal(kvc_unregister(m->w->pool[i].pool, &m->mem[i]), 0);
		m->mem[i] = NULL;
	}
}

void model_destroy(struct model **model)
{
	struct model *m = *model;
	model_end(m);
	for (unsigned i = 0; i < WORLD_POOLS; i++)
		free(m->slabs[i]);
	free(m->pattern);
	free(m->worker);
	free(m);
	*model = NULL;
}

const struct model_counts *model_counts(const struct model *m)
{
	return &m->counts;
}
