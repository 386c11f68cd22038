/* SPDX-License-Identifier: Apache-2.0 */
/* test_local.c -- a client on the same host, on one shard: what it reads in place, what its leases keep, what ends
 * them, and what a hostile one can do. test_local_socket.c has the Unix socket. */
#include "rig.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvserver/ops/lease.h"
#include "kvserver/shard/local_client.h"
#include "local/local.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

#define LEASE_TIME 30000000000ull

/* A local client, as conn/local_socket.c and a client make one. */
struct client {
	struct shard_local *on_shard;
	struct local_channel *channel;
	void *arena, *landing;
	uint64_t arena_bytes, landing_bytes;
	int arena_fd, channel_fd;
};

static struct client own;

static void client_take(struct client *c)
{
	struct local_shard part;
	struct kv_error err = {0};
	if (shard_local_open(rig.attachment, &c->on_shard, &err) != 0)
		fail_msg("%s", err.text);
	shard_local_fds(c->on_shard, &part);
	c->arena_bytes = part.arena_bytes;
	c->landing_bytes = part.landing_bytes;
	for (unsigned i = 0; i < LOCAL_FDS; i++)
		assert_true((part.fd[i] = dup(part.fd[i])) >= 0);
	shard_local_passed(c->on_shard);
	assert_int_equal(local_map(part.fd[LOCAL_ARENA], part.arena_bytes, false, &c->arena, &err), 0);
	c->landing = NULL;
	if (part.landing_bytes)
		assert_int_equal(local_map(part.fd[LOCAL_LANDING], part.landing_bytes, true, &c->landing, &err), 0);
	c->arena_fd = part.fd[LOCAL_ARENA];
	c->channel_fd = dup(part.fd[LOCAL_CHANNEL]);
	close(part.fd[LOCAL_LANDING]);
	assert_int_equal(local_channel_open(&part, &c->channel, &err), 0);
}

static void client_open(struct client *c)
{
	struct kv_error err;
	client_take(c);
	if (shard_local_begin(c->on_shard, &err) != 0)
		fail_msg("%s", err.text);
}

/* The client that rig_open has made uses the channel from now on. */
static void local_open(void)
{
	client_open(&own);
	assert_int_equal(te_peer_local(rig.server, own.channel), 0);
}

/* What the client's death leaves. */
static void client_gone(struct client *c)
{
	local_unmap(c->arena, c->arena_bytes);
	local_unmap(c->landing, c->landing_bytes);
	close(c->arena_fd);
	close(c->channel_fd);
	local_channel_close(&c->channel);
}

/* Its socket closes. */
static void client_close(struct client *c)
{
	static struct rig_call call;
	shard_local_close(c->on_shard, rig_call(&call));
	rig_until(call.done);
	c->on_shard = NULL;
}

static int close_all(void **state)
{
	if (own.on_shard) {
		if (rig.server)
			te_peer_local_end(rig.server);
		if (rig.attachment)
			rig_attachment_end();
		client_close(&own);
		client_gone(&own);
	}
	return rig_close(state);
}

static struct wire_request in_place(const char *key)
{
	struct wire_request q = rig_request(WIRE_GET, key);
	q.flags = WIRE_GET_PULL;
	q.get.imm = wire_imm(3, 5);
	return q;
}

static struct wire_reply leased(const struct wire_request *q)
{
	struct wire_reply r = *rig_ask(q);
	assert_int_equal(r.status, WIRE_OK);
	assert_true(r.flags & WIRE_GET_LEASED);
	assert_int_equal(r.get.posted, 0);
	assert_int_equal(r.get.lease_us, UINT32_MAX);
	return r;
}

static struct wire_reply lease_of(const char *key)
{
	struct wire_request q = in_place(key);
	return leased(&q);
}

static const uint8_t *bytes_at(const struct wire_reply *r)
{
	assert_true(r->get.at < own.arena_bytes);
	return (const uint8_t *)own.arena + r->get.at;
}

static void release(uint64_t lease)
{
	uint64_t now = rig_stat(WIRE_STAT_LOCAL_LEASES);
	local_release(own.channel, lease);
	rig_until(rig_stat(WIRE_STAT_LOCAL_LEASES) < now);
}

/* ---- what it reads ---- */

static void values_of_any_size_are_read_in_place(void **state)
{
	const uint64_t sizes[] = {1, 4096, 65536, 5 * MIB + 12345};
	(void)state;
	local_open();
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		char key[8];
		struct wire_reply r;
		uint64_t sum;
		snprintf(key, sizeof(key), "k%u", i);
		sum = rig_store(key, sizes[i], i + 1);
		r = lease_of(key);
		assert_int_equal(r.get.value_len, sizes[i]);
		assert_int_equal(r.get.checksum, sum);
		assert_int_equal(kv_hash_block(bytes_at(&r), sizes[i]), sum);
		release(r.get.lease);
	}
	assert_int_equal(rig.immediates, 0);
	assert_int_equal(rig_stat(WIRE_STAT_WRITES), 0);
	assert_true(rig.locals >= KV_COUNT(sizes));
	assert_true(rig_stat(WIRE_STAT_LOCAL_FRAMES) >= KV_COUNT(sizes));
	assert_int_equal(rig_stat(WIRE_STAT_LEASES), KV_COUNT(sizes));
	assert_int_equal(rig_stat(WIRE_STAT_LOCAL_RELEASED), KV_COUNT(sizes));
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), 0);
	assert_int_equal(rig_stat(WIRE_STAT_BAD_RELEASES), 0);
}

/* A lease has no limit of a range. */
static void a_lease_covers_a_value_larger_than_a_range(void **state)
{
	enum { LEN = KV_RANGE_MAX + 12345 };
	struct store *s = &rig.shard->store;
	struct wire_request q = in_place("k");
	struct block *b, *holder;
	struct room *room;
	struct wire_reply r;
	uint64_t sum, at;
	(void)state;
	assert_int_equal(store_stage(s, "k", 1, LEN, ARENA_LOW, &b, &room), 0);
	rig_fill(store_data(s, b), LEN, 1);
	sum = kv_hash_block(store_data(s, b), LEN);
	assert_int_equal(store_commit(s, b, sum, KV_NEVER, 0, &holder), 0);
	block_unref(s, b);
	local_open();
	r = leased(&q);
	assert_int_equal(r.get.checksum, sum);
	assert_int_equal(kv_hash_block(bytes_at(&r), LEN), sum);
	at = r.get.at;
	release(r.get.lease);
	q = in_place("k");
	q.get.offset = 777;
	q.get.length = KV_RANGE_MAX + 1;
	r = leased(&q);
	assert_int_equal(r.get.at, at + 777);
	release(r.get.lease);
}

static void a_part_has_its_own_checksum(void **state)
{
	static uint8_t want[3 * MIB];
	const struct {
		uint64_t offset, length;
		uint8_t flags;
	} rows[] = {{100, 5000, WIRE_GET_SUM_RANGE},
		    {777, 2 * MIB + 99, WIRE_GET_SUM_RANGE},
		    {0, sizeof(want), WIRE_GET_CHECK},
		    {777, 2 * MIB, WIRE_GET_CHECK | WIRE_GET_SUM_RANGE}};
	uint64_t whole = rig_store("k", sizeof(want), 2);
	(void)state;
	rig_fill(want, sizeof(want), 2);
	local_open();
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		struct wire_request q = in_place("k");
		struct wire_reply r;
		q.get.offset = rows[i].offset;
		q.get.length = rows[i].length;
		q.flags |= rows[i].flags;
		r = leased(&q);
		assert_int_equal(r.get.checksum, rows[i].flags & WIRE_GET_SUM_RANGE
							 ? kv_hash_block(want + rows[i].offset, rows[i].length)
							 : whole);
		assert_memory_equal(bytes_at(&r), want + rows[i].offset, rows[i].length);
		release(r.get.lease);
	}
}

static void a_damaged_value_is_dropped(void **state)
{
	struct wire_request q = in_place("k");
	struct block *b;
	(void)state;
	rig_store("k", 3 * MIB, 1);
	b = store_find(&rig.shard->store, "k", 1, 0);
	store_data(&rig.shard->store, b)[2 * MIB] ^= 1;
	local_open();
	q.flags |= WIRE_GET_CHECK;
	assert_int_equal(rig_ask(&q)->status, WIRE_CORRUPT);
	assert_null(store_find(&rig.shard->store, "k", 1, 0));
}

static void small_missing_and_stale_values_need_no_lease(void **state)
{
	struct wire_request q = in_place("k"), none = in_place("none"), stale = in_place("k"), far = in_place("k");
	(void)state;
	rig_store("k", 1000, 1);
	local_open();
	q.flags |= WIRE_GET_INLINE;
	assert_int_equal(rig_ask(&q)->get.inline_data.len, 1000);
	assert_int_equal(rig_ask(&none)->status, WIRE_NOTFOUND);
	stale.get.generation = 12345;
	assert_int_equal(rig_ask(&stale)->status, WIRE_STALE);
	far.get.offset = 1001;
	assert_int_equal(rig_ask(&far)->status, WIRE_INVALID);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES), 0);
}

/* The server writes over the fabric, with immediates: no message follows a write on a channel. */
static void a_get_with_a_destination_is_written(void **state)
{
	struct wire_request q;
	uint64_t sum = rig_store("k", 65536, 1);
	(void)state;
	local_open();
	q = rig_get("k", 0, 65536);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	assert_int_equal(rig.follows, 0);
	rig_until(rig.immediates == rig_find(q.id)->get.posted);
	assert_int_equal(kv_hash_block(rig_memory(0), 65536), sum);
}

/* Without a channel "no destination" asks for the size, as ever. */
static void a_remote_client_gets_no_lease_without_time(void **state)
{
	struct wire_request q = in_place("k");
	(void)state;
	rig_store("k", 65536, 1);
	assert_int_equal(rig_ask(&q)->status, WIRE_TOOBIG);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES), 0);
}

static void the_arena_cannot_be_written(void **state)
{
	(void)state;
	local_open();
	assert_int_equal(mprotect(own.arena, own.arena_bytes, PROT_READ | PROT_WRITE), -1);
	assert_ptr_equal(mmap(NULL, own.arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, own.arena_fd, 0), MAP_FAILED);
	assert_int_equal(ftruncate(own.arena_fd, 4096), -1);
	assert_int_equal(write(own.arena_fd, "x", 1), -1);
}

/* ---- what a lease keeps ---- */

static void a_leased_block_outlives_its_key(void **state)
{
	uint64_t sum = rig_store("k", MIB, 1);
	struct wire_request del = rig_request(WIRE_DELETE, "k");
	struct wire_reply r, other;
	(void)state;
	local_open();
	r = lease_of("k");
	del.id = rig.next_id++;
	assert_int_equal(rig_ask(&del)->status, WIRE_OK);
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), MIB);
	rig_store("k", MIB, 2);
	other = lease_of("k");
	assert_int_not_equal(other.get.generation, r.get.generation);
	assert_int_not_equal(other.get.at, r.get.at);
	assert_int_equal(kv_hash_block(bytes_at(&r), MIB), sum);
	release(r.get.lease);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), MIB);
	release(other.get.lease);
}

static void a_leased_block_is_not_evicted(void **state)
{
	uint64_t sum = rig_store("k", MIB, 1);
	struct wire_reply r;
	(void)state;
	local_open();
	r = lease_of("k");
	for (unsigned i = 0; i < 64; i++) {
		char key[8];
		snprintf(key, sizeof(key), "x%u", i);
		rig_store(key, MIB, i);
	}
	assert_true(rig_stat(WIRE_STAT_EVICTIONS) > 0);
	assert_int_equal(kv_hash_block(bytes_at(&r), MIB), sum);
	release(r.get.lease);
}

/* The lease is of the bytes that were summed. The policy of eviction does not hear of a block that it has let go. */
static void goes_while_its_checksum_is_made(struct wire_request q)
{
	static uint8_t want[3 * MIB];
	struct block *b;
	struct wire_reply r;
	rig_store("k", sizeof(want), 1);
	rig_fill(want, sizeof(want), 1);
	b = store_find(&rig.shard->store, "k", 1, 0);
	rig_send(&q);
	rig_until(!kv_list_empty(&rig.shard->work->hash_gets));
	store_drop(&rig.shard->store, b);
	assert_null(rig_find(q.id));
	rig_until(rig_find(q.id));
	r = *rig_find(q.id);
	assert_int_equal(r.status, WIRE_OK);
	assert_true(r.flags & WIRE_GET_LEASED);
	assert_int_equal(r.get.checksum, kv_hash_block(want + q.get.offset, q.get.length));
	assert_memory_equal(bytes_at(&r), want + q.get.offset, q.get.length);
	if (r.get.lease_us == UINT32_MAX)
		release(r.get.lease);
	else
		lease_release(rig.attachment, r.get.lease);
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), 0);
	for (unsigned i = 0; i < 64; i++) { /* the policy looks for victims */
		char key[16];
		snprintf(key, sizeof(key), "x%u-%u", q.dest.count, i);
		rig_store(key, MIB, i);
	}
}

static void a_value_goes_while_its_checksum_is_made(void **state)
{
	struct wire_request q;
	(void)state;
	local_open();
	q = in_place("k");
	q.flags |= WIRE_GET_SUM_RANGE;
	q.get.offset = 777;
	q.get.length = 2 * MIB + 99;
	goes_while_its_checksum_is_made(q);
	q = rig_get("k", 777, 2 * MIB + 99); /* a lease with a time */
	q.flags |= WIRE_GET_PULL | WIRE_GET_SUM_RANGE;
	goes_while_its_checksum_is_made(q);
}

/* Where rules are checked, a use after the release shows. */
static void dropped_bytes_are_overwritten(void **state)
{
	struct wire_request del;
	struct wire_reply r;
	(void)state;
	if (!kv_rule_broken) {
		print_message("only builds with assertions overwrite dropped bytes: make check-asan\n");
		skip();
	}
	rig_store("k", 4096, 1);
	local_open();
	r = lease_of("k");
	del = rig_request(WIRE_DELETE, "k");
	assert_int_equal(rig_ask(&del)->status, WIRE_OK);
	release(r.get.lease);
	for (unsigned i = 0; i < 4096; i++)
		assert_int_equal(bytes_at(&r)[i], STORE_POISON);
}

/* A quarter of the memory for one client: beyond it the server copies. */
static void beyond_the_budget_a_get_is_busy(void **state)
{
	struct wire_request q;
	uint64_t lease[64];
	unsigned n = 0;
	char key[8];
	(void)state;
	local_open();
	for (unsigned i = 0; i < 12; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		rig_store(key, MIB, i);
	}
	for (;; n++) {
		const struct wire_reply *r;
		snprintf(key, sizeof(key), "k%u", n);
		q = in_place(key);
		r = rig_ask(&q);
		if (r->status != WIRE_OK)
			break;
		lease[n] = r->get.lease;
	}
	assert_int_equal(rig_find(q.id)->status, WIRE_BUSY);
	assert_int_equal(n, RIG_MEMORY / 4 / MIB);
	assert_int_equal(rig_stat(WIRE_STAT_LOCAL_REFUSED), 1);
	assert_int_equal(rig_stat(WIRE_STAT_LOCAL_LEASES), n);
	q = rig_get(key, 0, MIB);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	release(lease[--n]);
	release(lease_of(key).get.lease);
	while (n > 0)
		release(lease[--n]);
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), 0);
}

/* Many threads of a client read the same values at once. */
static void a_block_counts_once_for_a_client(void **state)
{
	enum { TIMES = 40, KEYS = 3 };
	struct kv_prng prng = check_seed();
	uint64_t lease[TIMES];
	(void)state;
	local_open();
	for (unsigned i = 0; i < KEYS; i++) {
		char key[8];
		snprintf(key, sizeof(key), "k%u", i);
		rig_store(key, MIB, i);
	}
	for (unsigned i = 0; i < TIMES; i++) { /* more bytes than the client may lease */
		char key[8];
		snprintf(key, sizeof(key), "k%u", i % KEYS);
		lease[i] = lease_of(key).get.lease;
		assert_true(own.on_shard->holder.bytes <= KEYS * MIB);
	}
	for (unsigned left = TIMES; left > 0; left--) { /* in any order */
		unsigned i = (unsigned)kv_prng_below(&prng, left);
		release(lease[i]);
		lease[i] = lease[left - 1];
	}
	assert_int_equal(own.on_shard->holder.bytes, 0);
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), 0);
}

/* ---- leases in the way of a large value ---- */

enum { SMALL = 256 * KIB, SMALLS = RIG_MEMORY / SMALL, APART = 8, WIDE = 2 * APART * SMALL };

static void small_key(char key[8], unsigned i)
{
	snprintf(key, 8, "s%u", i);
}

/* Fill the memory with small values, lease each APART-th, and begin to put a large one, which must wait. Its request.
 */
static struct wire_request begin_between_leases(uint64_t lease[SMALLS / APART])
{
	struct wire_request q;
	char key[8];
	local_open();
	for (unsigned i = 0; i < SMALLS; i++) {
		small_key(key, i);
		rig_store(key, SMALL, i);
	}
	for (unsigned i = 0; i < SMALLS / APART; i++) {
		small_key(key, i * APART);
		lease[i] = lease_of(key).get.lease;
	}
	rig_fill(rig_memory(0), WIDE, 99);
	q = rig_put("wide", WIDE, 0, WIDE, kv_hash_block(rig_memory(0), WIDE), WIRE_PUT_FIRST | WIRE_PUT_LAST);
	rig_send(&q);
	rig_until(rig_stat(WIRE_STAT_ROOMS) == 1);
	assert_null(rig_find(q.id));
	return q;
}

static int32_t status_in_place(unsigned small)
{
	struct wire_request q;
	char key[8];
	small_key(key, small);
	q = in_place(key);
	return rig_ask(&q)->status;
}

static void a_large_value_waits_for_leases_between(void **state)
{
	uint64_t lease[SMALLS / APART];
	struct wire_request q = begin_between_leases(lease);
	char key[8];
	(void)state;
	assert_int_equal(status_in_place(1), WIRE_BUSY); /* it would be in the way as well */
	small_key(key, 0);
	release(lease_of(key).get.lease); /* this one is already */
	for (unsigned i = 0; i < SMALLS / APART; i++)
		release(lease[i]);
	rig_until(rig_find(q.id));
	assert_int_equal(rig_find(q.id)->status, WIRE_OK);
	rig_until(status_in_place(SMALLS - 1) == WIRE_OK); /* soon */
	assert_int_equal(rig_stat(WIRE_STAT_NOMEM), 0);
}

/* A client may hold its leases for ever: then the value is refused, and the log names the client. */
static void leases_that_stay_refuse_a_large_value(void **state)
{
	uint64_t lease[SMALLS / APART];
	struct wire_request q = begin_between_leases(lease);
	char text[128];
	(void)state;
	rig_until(rig_find(q.id));
	assert_int_equal(rig_find(q.id)->status, WIRE_NOMEM);
	assert_int_equal(rig_stat(WIRE_STAT_NOMEM), 1);
	assert_non_null(strstr(leases_most(rig.shard, text, sizeof(text)), " in 16 leases, the oldest for "));
	for (unsigned i = 0; i < SMALLS / APART; i++)
		release(lease[i]);
	assert_string_equal(leases_most(rig.shard, text, sizeof(text)), "");
	rig_until(status_in_place(1) == WIRE_OK);
}

/* The client repeats a GET whose lease was refused, with a destination: its tenant pays once. */
static void a_refused_lease_costs_its_tenant_nothing(void **state)
{
	struct tenant t = {.limit = {.requests = UINT64_MAX, .read_rate = UINT64_MAX}};
	struct session *o = &rig.attachment->own;
	struct wire_request q, part = in_place("k");
	(void)state;
	rig_store("k", MIB, 1);
	local_open();
	o->tenant = &t;
	o->limited = true;
	part.flags |= WIRE_GET_SUM_RANGE; /* a checksum is due first */
	part.get.length = MIB / 2;
	leases_rest(&rig.shard->work->leases, 2 * MIB, kv_clock_now(&kv_clock_monotonic) + 3600000000000ull);
	q = in_place("k");
	assert_int_equal(rig_ask(&q)->status, WIRE_BUSY);
	assert_int_equal(rig_ask(&part)->status, WIRE_BUSY);
	assert_int_equal(t.read_bytes, 0);
	q = rig_get("k", 0, MIB);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	assert_int_equal(t.read_bytes, MIB);
	rig.shard->work->leases.rest_below = 0;
	release(lease_of("k").get.lease);
	assert_int_equal(t.read_bytes, 2 * MIB);
	o->tenant = NULL;
	o->limited = false;
}

static void the_age_of_the_oldest_lease_is_known(void **state)
{
	struct wire_reply a, b;
	uint64_t age;
	(void)state;
	rig_store("k", MIB, 1);
	local_open();
	assert_int_equal(rig_stat(WIRE_STAT_LEASE_AGE_NS), 0);
	a = lease_of("k");
	rig_quiet();
	b = lease_of("k");
	age = rig_stat(WIRE_STAT_LEASE_AGE_NS);
	assert_true(age >= 50000000);
	release(a.get.lease);
	assert_true(rig_stat(WIRE_STAT_LEASE_AGE_NS) < age);
	release(b.get.lease);
}

/* ---- what ends it ---- */

static void leases_outlive_their_attachment(void **state)
{
	uint64_t sum = rig_store("k", MIB, 1);
	struct wire_reply r;
	(void)state;
	local_open();
	r = lease_of("k");
	release(lease_of("k").get.lease);
	te_peer_local_end(rig.server);
	assert_true(landings_bytes(rig.shard) >= own.landing_bytes);
	rig_attachment_end();
	assert_int_equal(rig.shard->attachments.count, 0);
	assert_int_equal(landings_bytes(rig.shard), 0); /* nobody can name it any more */
	rig_quiet();
	assert_int_equal(rig_stat(WIRE_STAT_LOCAL_LEASES), 1);
	assert_int_equal(kv_hash_block(bytes_at(&r), MIB), sum);
	assert_false(own.on_shard->spent);
	release(r.get.lease);
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), 0);
	assert_true(own.on_shard->spent); /* others may have its place */
}

/* ---- who holds them ---- */

static struct wire_reply listed(uint64_t from)
{
	struct wire_request q = rig_request(WIRE_LEASES, NULL);
	struct wire_reply r;
	q.tombs.from = from;
	r = *rig_ask(&q);
	assert_int_equal(r.status, WIRE_OK);
	return r;
}

static void a_holder_is_listed_while_it_has_leases(void **state)
{
	static const struct local_who who = {.session = 7, .pid = 4711, .identity = "engine"};
	struct wire_row h;
	struct wire_reply r, one, two;
	(void)state;
	rig_store("k", MIB, 1);
	rig_store("other", 65536, 2);
	local_open();
	assert_int_equal(listed(0).rows.count, 0);
	own.on_shard->who = &who;
	one = lease_of("k");
	(void)lease_of("k");
	two = lease_of("other");
	r = listed(0);
	assert_int_equal(r.rows.count, 1);
	assert_int_equal(r.rows.next, 0);
	wire_row(r.rows.at, 0, WIRE_LEASES, &h);
	assert_string_equal(h.name, "engine");
	assert_int_equal(h.number[WIRE_HOLDER_CLIENT], rig.attachment->client_id);
	assert_int_equal(h.number[WIRE_HOLDER_SESSION], 7);
	assert_int_equal(h.number[WIRE_HOLDER_PID], 4711);
	assert_int_equal(h.number[WIRE_HOLDER_LEASES], 3);
	assert_int_equal(h.number[WIRE_HOLDER_USED], own.on_shard->holder.bytes); /* "k" counts once */
	assert_in_range(h.number[WIRE_HOLDER_USED], MIB + 65536, MIB + 65536 + 8192);
	assert_int_equal(listed(own.on_shard->place).rows.count, 0); /* behind it */
	release(two.get.lease);
	release(one.get.lease);
	r = listed(0);
	wire_row(r.rows.at, 0, WIRE_LEASES, &h);
	assert_int_equal(h.number[WIRE_HOLDER_LEASES], 1);
	own.on_shard->who = NULL;
	r = listed(0);
	wire_row(r.rows.at, 0, WIRE_LEASES, &h);
	assert_int_equal(h.number[WIRE_HOLDER_PID] + h.number[WIRE_HOLDER_SESSION] + strlen(h.name), 0);
}

/* Each is on one page, also if others end between two pages. */
static void holders_come_in_pages(void **state)
{
	enum { HOLDERS = 2 * WIRE_LEASES_MAX + 5 };
	static struct shard_local local[HOLDERS];
	static struct lease lease[HOLDERS];
	unsigned seen[HOLDERS] = {0}, pages = 0;
	uint64_t from = 0;
	(void)state;
	for (unsigned i = 0; i < HOLDERS; i++) {
		local[i] = (struct shard_local){.client_id = i, .garbled = true, .holder.count = 1};
		local[i].place = ++rig.shard->locals.places;
		kv_list_init(&local[i].holder.leases);
		lease[i].begun_ns = loop_turn_now(rig.loop);
		kv_list_add_tail(&local[i].holder.leases, &lease[i].sibling);
		kv_list_add_tail(&rig.shard->locals.all, &local[i].node);
	}
	do {
		struct wire_reply r = listed(from);
		assert_int_equal(r.rows.count, pages < 2 ? WIRE_LEASES_MAX : 4);
		for (unsigned i = 0; i < r.rows.count; i++) {
			struct wire_row h;
			wire_row(r.rows.at, i, WIRE_LEASES, &h);
			seen[h.number[WIRE_HOLDER_CLIENT]]++;
		}
		if (pages++ == 0) /* the last one shown, and one to come */
			local[WIRE_LEASES_MAX - 1].holder.count = local[HOLDERS - 1].holder.count = 0;
		from = r.rows.next;
	} while (from);
	assert_int_equal(pages, 3);
	for (unsigned i = 0; i < HOLDERS; i++) {
		assert_int_equal(seen[i], i < HOLDERS - 1);
		kv_list_del(&local[i].node);
	}
}

static void leases_end_with_their_socket(void **state)
{
	enum { LEASES = 10000 };
	static struct rig_call gone;
	uint64_t begun;
	(void)state;
	rig_store("k", 300, 1);
	local_open();
	for (unsigned i = 0; i < LEASES; i++) {
		struct wire_request q = in_place("k");
		rig_send(&q);
		rig_until(rig_find(q.id));
		assert_int_equal(rig_find(q.id)->status, WIRE_OK);
	}
	assert_int_equal(rig_stat(WIRE_STAT_LOCAL_LEASES), LEASES);
	begun = loop_turns(rig.loop);
	te_peer_local_end(rig.server);
	client_gone(&own);
	shard_local_close(own.on_shard, rig_call(&gone));
	rig_until(rig_stat(WIRE_STAT_LOCAL_LEASES) == 0);
	assert_true(loop_turns(rig.loop) - begun < 2 * LEASES / LEASES_AT_ONCE + 10);
	rig_attachment_end();
	rig_until(gone.done);
	own.on_shard = NULL;
}

/* The attachment cannot go on without its channel: its client begins anew, unless it has said goodbye by then. */
static void an_attachment_ends_with_its_socket(void **state)
{
	static struct rig_call gone;
	_Atomic bool anew = false;
	(void)state;
	local_open();
	rig.attachment->anew = &anew;
	te_peer_local_end(rig.server);
	shard_local_close(own.on_shard, rig_call(&gone));
	assert_false(anew);
	rig_until(anew);
	rig_quiet();
	assert_false(gone.done); /* a request may still name its landing area */
	rig_attachment_end();
	rig_until(gone.done);
	own.on_shard = NULL;
	client_gone(&own);
}

/* The client that could not map it uses the fabric, as before, and is not sent away. */
static void a_client_that_maps_nothing_keeps_its_attachment(void **state)
{
	_Atomic bool anew = false;
	struct wire_request q;
	uint64_t sum = rig_store("k", 65536, 1);
	struct shard_local *more;
	struct kv_error err;
	(void)state;
	client_take(&own);
	assert_int_equal(shard_local_open(rig.attachment, &more, &err), -KV_EEXIST);
	rig.attachment->anew = &anew;
	q = rig_get("k", 0, 65536);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	client_gone(&own);
	client_close(&own);
	rig_quiet();
	assert_false(anew);
	assert_int_equal(rig.shard->locals.count, 0);
	q = rig_get("k", 0, 65536);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	assert_int_equal(kv_hash_block(rig_memory(0), 65536), sum);
	assert_int_equal(rig.locals, 0);
	local_open(); /* nothing is left of the first */
	assert_int_equal(lease_of("k").get.checksum, sum);
	rig.attachment->anew = NULL;
}

/* What the client has sent before waits in the ring. */
static void a_frame_waits_for_the_beginning(void **state)
{
	struct wire_request q = in_place("k");
	struct kv_error err;
	uint64_t sum = rig_store("k", 65536, 1);
	(void)state;
	client_take(&own);
	assert_int_equal(te_peer_local(rig.server, own.channel), 0);
	rig_send(&q);
	rig_quiet();
	assert_null(rig_find(q.id));
	assert_int_equal(shard_local_begin(own.on_shard, &err), 0);
	rig_until(rig_find(q.id));
	assert_int_equal(rig_find(q.id)->get.checksum, sum);
	release(rig_find(q.id)->get.lease);
}

/* While the client maps it, its attachment gets other addresses, or ends. */
static void a_beginning_can_be_too_late(void **state)
{
	struct te_address addr;
	struct kv_error err;
	(void)state;
	client_take(&own);
	assert_int_equal(te_address(rig.te, 0, &addr), 0);
	assert_int_equal(shard_attachment_readdress(rig.attachment, &addr, 1, &err), 0);
	assert_int_equal(shard_local_begin(own.on_shard, &err), -KV_ECLOSED);
	client_gone(&own);
	client_close(&own);
	client_take(&own);
	rig_attachment_end();
	assert_int_equal(shard_local_begin(own.on_shard, &err), -KV_ECLOSED);
	client_gone(&own);
	client_close(&own);
}

/* An attachment of other addresses proves them over the fabric. */
static void an_attachment_with_other_addresses_leaves_its_channel(void **state)
{
	struct te_address addr;
	struct kv_error err;
	uint64_t nonce;
	(void)state;
	local_open();
	assert_int_equal(te_address(rig.te, 0, &addr), 0);
	assert_int_equal(shard_attachment_readdress(rig.attachment, &addr, 1, &err), 0);
	assert_null(rig.attachment->local);
	assert_null(own.on_shard->attachment);
	te_peer_local_end(rig.server);
	nonce = rig.attachment->link[0].nonce;
	rig_prove(nonce);
	rig_until(rig.attachment->link[0].proven);
	rig_store("k", 1000, 1);
	assert_int_equal(rig.locals, 0);
}

static void there_is_one_channel_for_an_attachment(void **state)
{
	struct shard_local *more;
	struct kv_error err;
	(void)state;
	local_open();
	assert_int_equal(shard_local_open(rig.attachment, &more, &err), -KV_EEXIST);
}

/* ---- hostile clients ---- */

/* A channel would bring the nonce to a client that does not have the address. */
static void a_channel_proves_no_address(void **state)
{
	struct wire_request q = rig_request(WIRE_PING, NULL);
	uint64_t nonce = rig.attachment->link[0].nonce;
	(void)state;
	assert_false(rig.attachment->link[0].proven);
	local_open();
	rig_send(&q);
	rig_quiet();
	assert_null(rig_find(q.id));
	assert_int_equal(rig_stat(WIRE_STAT_UNPROVEN_REQUESTS), 1);
	rig_prove(nonce); /* of an earlier PING */
	rig_until(rig.attachment->link[0].proven);
	q = rig_request(WIRE_PING, NULL);
	assert_int_equal(rig_ask(&q)->ping.nonce, 0);
}

/* Its client has closed the channel and kept the socket: it must begin anew, and keeps its leases. */
static void a_closed_channel_ends_the_attachment(void **state)
{
	_Atomic bool anew = false;
	struct wire_reply r;
	(void)state;
	rig_store("k", MIB, 1);
	local_open();
	r = lease_of("k");
	rig.attachment->anew = &anew;
	te_peer_local_end(rig.server);
	local_channel_close(&own.channel);
	rig_until((loop_turn(rig.loop, 1000000), anew)); /* a loop that sleeps sees the bell's end */
	assert_int_equal(rig_stat(WIRE_STAT_LOCAL_LEASES), 1);
	assert_int_equal(r.status, WIRE_OK);
	rig.attachment->anew = NULL;
}

/* Anything anywhere in the channel, at any time: the server goes on, and the leases stay. */
static void garbage_in_the_channel_harms_nobody(void **state)
{
	struct kv_prng prng = check_seed();
	_Atomic bool anew = false;
	struct stat st;
	uint64_t *words, sum = rig_store("k", MIB, 1);
	struct wire_reply r;
	(void)state;
	local_open();
	r = lease_of("k");
	rig.attachment->anew = &anew;
	te_peer_local_end(rig.server);
	assert_int_equal(fstat(own.channel_fd, &st), 0);
	words = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, own.channel_fd, 0);
	assert_ptr_not_equal(words, MAP_FAILED);
	for (unsigned i = 0; i < 2000; i++) {
		for (unsigned k = 0; k < 16; k++) { /* often at the beginning of a page, where the rings begin */
			uint64_t at = kv_prng_below(&prng, (uint64_t)st.st_size / 8);
			at = k % 2 ? at / 512 * 512 + at % 8 : at;
			words[at] = k % 4 < 2 ? kv_prng_next(&prng) : kv_prng_below(&prng, 5000);
		}
		rig_turn();
	}
	munmap(words, (size_t)st.st_size);
	assert_true(anew);
	assert_int_equal(kv_hash_block(bytes_at(&r), MIB), sum);
	assert_true(rig_stat(WIRE_STAT_LOCAL_LEASES) == 1 || rig_stat(WIRE_STAT_LOCAL_RELEASED) > 0);
	rig.attachment->anew = NULL;
}

/* Send a frame of this session by the channel, whatever its peer is. */
static void frame_send(struct local_channel *ch, uint32_t session, uint8_t link, uint8_t shard, uint32_t mark,
		       const struct wire_request *q)
{
	const struct wire_frame frame = {.session = session, .mark = mark, .link = link, .shard = shard};
	uint8_t buf[KV_MSG_MAX];
	struct wire_writer w;
	wire_frame_begin(&w, buf, sizeof(buf), &frame);
	assert_int_equal(wire_request_add(&w, q), 0);
	assert_int_equal(local_send(ch, buf, wire_frame_end(&w)), 0);
}

static void a_frame_for_another_attachment_is_dropped(void **state)
{
	struct shard_attachment *former = rig.attachment;
	struct wire_request q = rig_request(WIRE_DELETE, "k");
	struct shard_attachment_args args = {.number = 63,
					     .mark = RIG_MARK,
					     .frame_secret = rig.secret,
					     .grant = &rig_grant,
					     .client_id = 8,
					     .rails = 1};
	struct shard_attachment *other;
	struct te_address addr;
	struct kv_error err;
	struct shard_local *l;
	struct rig_call gone, closed;
	(void)state;
	rig_store("k", 100, 1);
	local_open();
	assert_int_equal(te_address(rig.te, 0, &addr), 0);
	args.addrs = &addr;
	assert_int_equal(shard_attachment_open(rig.shard, &args, &other, &err), 0);
	assert_int_equal(shard_local_open(other, &l, &err), 0);
	assert_int_equal(shard_local_begin(l, &err), 0);
	other->link[0].proven = true;
	frame_send(own.channel, 63, 0, 0, RIG_MARK, &q);
	frame_send(own.channel, 62, 0, 0, RIG_MARK, &q);
	frame_send(own.channel, rig.number, 7, 0, RIG_MARK, &q);
	frame_send(own.channel, rig.number, 0, 1, RIG_MARK, &q);
	frame_send(own.channel, rig.number, 0, 0, RIG_MARK + 1, &q);
	assert_int_equal(local_send(own.channel, "garbage", 7), 0);
	rig_until(rig_stat(WIRE_STAT_LOCAL_FRAMES) == 6);
	assert_int_equal(rig_stat(WIRE_STAT_UNKNOWN_SESSION), 2);
	assert_int_equal(rig_stat(WIRE_STAT_BAD_FRAMES), 4);
	assert_non_null(store_find(&rig.shard->store, "k", 1, 0));
	assert_ptr_equal(rig.attachment, former);
	shard_attachment_end(other, rig_call(&gone));
	shard_local_close(l, rig_call(&closed));
	rig_until(gone.done && closed.done);
}

/* The first wrong number is the last one that is read: its leases stay until its socket closes. */
static void invented_releases_end_the_attachment_and_no_lease(void **state)
{
	_Atomic bool anew = false;
	struct wire_reply r;
	struct kv_prng prng = check_seed();
	(void)state;
	rig_store("k", MIB, 1);
	local_open();
	rig.attachment->anew = &anew;
	r = lease_of("k");
	local_release(own.channel, r.get.lease ^ (1ull << (32 + kv_prng_below(&prng, 31))));
	rig_until(anew);
	assert_int_equal(rig_stat(WIRE_STAT_BAD_RELEASES), 1);
	for (unsigned i = 0; i < 1000; i++)
		local_release(own.channel, kv_prng_next(&prng) >> 1);
	local_release(own.channel, r.get.lease);
	rig_quiet();
	assert_int_equal(rig_stat(WIRE_STAT_BAD_RELEASES), 1);
	assert_int_equal(rig_stat(WIRE_STAT_LOCAL_LEASES), 1);
	rig.attachment->anew = NULL;
}

static void a_lease_is_released_once(void **state)
{
	struct wire_reply r, other;
	(void)state;
	rig_store("k", MIB, 1);
	local_open();
	other = lease_of("k");
	r = lease_of("k");
	release(r.get.lease);
	local_release(own.channel, r.get.lease);
	rig_until(rig_stat(WIRE_STAT_BAD_RELEASES) == 1);
	assert_int_equal(rig_stat(WIRE_STAT_LOCAL_LEASES), 1);
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), MIB);
	(void)other;
}

/* A lease of one client is none of another's, and RELEASE by the fabric ends none of a channel. */
static void a_lease_is_its_clients_alone(void **state)
{
	struct wire_request q;
	uint8_t packed[8];
	struct wire_reply r;
	(void)state;
	rig_store("k", MIB, 1);
	local_open();
	r = lease_of("k");
	wire_release_put(packed, 0, r.get.lease);
	q = (struct wire_request){.type = WIRE_RELEASE, .time_left_us = UINT32_MAX, .release = {1, packed}};
	rig_send(&q);
	rig_until(rig_stat(WIRE_STAT_BAD_RELEASES) == 1);
	assert_int_equal(rig_stat(WIRE_STAT_LOCAL_LEASES), 1);
	q = rig_get("k", 0, MIB);
	q.flags = WIRE_GET_PULL;
	r = *rig_ask(&q); /* one with a time */
	assert_true(r.flags & WIRE_GET_LEASED);
	assert_int_equal(r.get.lease_us, LEASE_TIME / 1000);
	local_release(own.channel, r.get.lease);
	rig_until(rig_stat(WIRE_STAT_BAD_RELEASES) == 2);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_NOW), 2);
}

/* ---- PUT ---- */

static struct wire_request landed(const char *key, uint64_t n, uint64_t sum, uint64_t at)
{
	struct wire_request q = rig_put(key, n, 0, n, sum, WIRE_PUT_FIRST | WIRE_PUT_LAST | WIRE_PUT_LANDED);
	q.dest = (struct wire_dest){0, 1, at, 0, n};
	return q;
}

static void a_value_lands_in_shared_memory(void **state)
{
	const uint64_t sizes[] = {1, 4 * KIB, 64 * KIB, MIB - 1};
	uint64_t reads = rig_stat(WIRE_STAT_READS);
	(void)state;
	local_open();
	assert_true(own.landing_bytes >= MIB + 400);
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		struct wire_request q;
		uint8_t *at = (uint8_t *)own.landing + 100 * i;
		uint64_t sum;
		char key[8];
		snprintf(key, sizeof(key), "k%u", i);
		rig_fill(at, sizes[i], i);
		sum = kv_hash_block(at, sizes[i]);
		q = landed(key, sizes[i], sum, 100 * i);
		assert_int_equal(rig_ask(&q)->status, WIRE_OK);
		memset(at, 0, sizes[i]); /* changes nothing */
		struct block *b = store_find(&rig.shard->store, key, strlen(key), 0);
		assert_non_null(b);
		assert_int_equal(kv_hash_block(store_data(&rig.shard->store, b), sizes[i]), sum);
	}
	assert_int_equal(rig_stat(WIRE_STAT_PUTS_LANDED), KV_COUNT(sizes));
	assert_int_equal(rig_stat(WIRE_STAT_READS), reads);
}

static void places_outside_the_landing_area_are_invalid(void **state)
{
	(void)state;
	local_open();
	const uint64_t outside[] = {own.landing_bytes - 4 * KIB + 1, own.landing_bytes, UINT64_MAX - 4 * KIB};
	for (unsigned i = 0; i < KV_COUNT(outside); i++) {
		struct wire_request q = landed("o", 4 * KIB, 1, outside[i]);
		assert_int_equal(rig_ask(&q)->status, WIRE_INVALID);
	}
	struct wire_request q = landed("o", 4 * KIB, 1, 0);
	assert_int_equal(rig_ask(&q)->status, WIRE_CORRUPT);
	assert_int_equal(rig_stat(WIRE_STAT_BLOCKS), 0);
}

static _Atomic bool scribbling, scribbled;

static void *scribble(void *arg)
{
	volatile uint64_t *at = arg;
	for (uint64_t i = 0; atomic_load(&scribbling); i++) {
		at[i % (MIB / 8)] = i;
		atomic_store(&scribbled, true);
	}
	return NULL;
}

/* What is stored has the checksum that was announced, or nothing is stored. */
static void bytes_that_change_while_they_are_copied_are_not_stored(void **state)
{
	pthread_t thread;
	unsigned refused = 0;
	(void)state;
	local_open();
	for (unsigned i = 0; i < 200; i++) {
		struct wire_request q;
		struct block *b;
		int32_t status;
		rig_fill(own.landing, MIB, i);
		q = landed("s", MIB, kv_hash_block(own.landing, MIB), 0);
		atomic_store(&scribbling, true);
		atomic_store(&scribbled, false);
		assert_int_equal(pthread_create(&thread, NULL, scribble, own.landing), 0);
		while (i % 2 && !atomic_load(&scribbled))
			sched_yield();
		status = rig_ask(&q)->status;
		atomic_store(&scribbling, false);
		pthread_join(thread, NULL);
		b = store_find(&rig.shard->store, "s", 1, 0);
		assert_int_equal(status == WIRE_OK, b != NULL);
		refused += status == WIRE_CORRUPT;
		if (!b)
			continue;
		assert_int_equal(kv_hash_block(store_data(&rig.shard->store, b), MIB), q.put.checksum);
		store_drop(&rig.shard->store, b);
	}
	assert_true(refused > 0);
}

/* The value waits for memory with its bytes in the area, and its client dies. */
static void a_client_dies_while_its_value_waits(void **state)
{
	static struct rig_call gone;
	struct wire_request q;
	(void)state;
	local_open();
	rig_fill(own.landing, 256 * KIB, 1);
	assert_true(rig_tiny_fill() > 0);
	q = landed("w", 256 * KIB, kv_hash_block(own.landing, 256 * KIB), 0);
	rig_send(&q);
	rig_until(rig_stat(WIRE_STAT_ROOMS) == 1);
	te_peer_local_end(rig.server);
	client_gone(&own);
	shard_local_close(own.on_shard, rig_call(&gone));
	rig_quiet();
	rig_attachment_end();
	rig_until(gone.done);
	own.on_shard = NULL;
}

/* The user wants it so, or the kernel. */
static void private_memory_is_shared_with_nobody(void **state)
{
	struct shard_local *l;
	struct kv_error err;
	(void)state;
	assert_false(rig.shard->area.shared);
	assert_int_equal(shard_local_open(rig.attachment, &l, &err), -KV_ENOTSUP);
	rig_store("k", MIB, 1);
	assert_int_equal(rig_stat(WIRE_STAT_SHARED_BYTES), 0);
}

static int up_private(void **state)
{
	int rc;
	rig_memory_bytes = 0;
	rig_arena_private = true;
	rc = rig_up(state);
	rig_arena_private = false;
	return rc;
}

static int up_large(void **state)
{
	rig_memory_bytes = 64 * MIB;
	return rig_up(state);
}

static int up(void **state)
{
	rig_memory_bytes = 0;
	rig_landing_bytes = 16 * MIB;
	rig_lease_ns = LEASE_TIME;
	return rig_up(state);
}

static int up_lru(void **state)
{
	rig_policy = &evict_lru;
	return up(state);
}

#define LOCAL_TEST(test) cmocka_unit_test_setup_teardown(test, rig_open, close_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOCAL_TEST(values_of_any_size_are_read_in_place),
		LOCAL_TEST(a_part_has_its_own_checksum),
		LOCAL_TEST(a_damaged_value_is_dropped),
		LOCAL_TEST(small_missing_and_stale_values_need_no_lease),
		LOCAL_TEST(a_get_with_a_destination_is_written),
		LOCAL_TEST(a_remote_client_gets_no_lease_without_time),
		LOCAL_TEST(the_arena_cannot_be_written),
		LOCAL_TEST(a_leased_block_outlives_its_key),
		LOCAL_TEST(a_leased_block_is_not_evicted),
		LOCAL_TEST(a_value_goes_while_its_checksum_is_made),
		LOCAL_TEST(dropped_bytes_are_overwritten),
		LOCAL_TEST(beyond_the_budget_a_get_is_busy),
		LOCAL_TEST(a_block_counts_once_for_a_client),
		LOCAL_TEST(a_large_value_waits_for_leases_between),
		LOCAL_TEST(leases_that_stay_refuse_a_large_value),
		LOCAL_TEST(a_refused_lease_costs_its_tenant_nothing),
		LOCAL_TEST(the_age_of_the_oldest_lease_is_known),
		LOCAL_TEST(leases_outlive_their_attachment),
		LOCAL_TEST(a_holder_is_listed_while_it_has_leases),
		LOCAL_TEST(holders_come_in_pages),
		LOCAL_TEST(leases_end_with_their_socket),
		LOCAL_TEST(an_attachment_ends_with_its_socket),
		LOCAL_TEST(a_client_that_maps_nothing_keeps_its_attachment),
		LOCAL_TEST(a_frame_waits_for_the_beginning),
		LOCAL_TEST(a_beginning_can_be_too_late),
		LOCAL_TEST(an_attachment_with_other_addresses_leaves_its_channel),
		LOCAL_TEST(there_is_one_channel_for_an_attachment),
		cmocka_unit_test_setup_teardown(a_channel_proves_no_address, rig_open_unproven, close_all),
		LOCAL_TEST(a_closed_channel_ends_the_attachment),
		LOCAL_TEST(garbage_in_the_channel_harms_nobody),
		LOCAL_TEST(a_frame_for_another_attachment_is_dropped),
		LOCAL_TEST(invented_releases_end_the_attachment_and_no_lease),
		LOCAL_TEST(a_lease_is_released_once),
		LOCAL_TEST(a_lease_is_its_clients_alone),
		LOCAL_TEST(a_value_lands_in_shared_memory),
		LOCAL_TEST(places_outside_the_landing_area_are_invalid),
		LOCAL_TEST(bytes_that_change_while_they_are_copied_are_not_stored),
		LOCAL_TEST(a_client_dies_while_its_value_waits),
	};
	const struct CMUnitTest large[] = {
		LOCAL_TEST(a_lease_covers_a_value_larger_than_a_range),
	};
	const struct CMUnitTest private_memory[] = {
		LOCAL_TEST(private_memory_is_shared_with_nobody),
	};
	const struct CMUnitTest lru[] = {
		LOCAL_TEST(a_leased_block_is_not_evicted),
		LOCAL_TEST(a_value_goes_while_its_checksum_is_made),
	};
	return cmocka_run_group_tests(tests, up, rig_down) +
	       cmocka_run_group_tests(private_memory, up_private, rig_down) +
	       cmocka_run_group_tests(large, up_large, rig_down) + cmocka_run_group_tests(lru, up_lru, rig_down);
}
