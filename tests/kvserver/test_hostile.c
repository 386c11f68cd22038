/* SPDX-License-Identifier: Apache-2.0 */
/* test_hostile.c -- clients that are authenticated and behave badly: what they may hold of a shard, and that an honest
 * one beside them gets every answer, with the right bytes, while it goes on.
 *
 * The honest client is the rig's. The stranger has an engine, a session and memory of its own, on the same shard; it is
 * polled only when a test says so, so that it can stop to read at will. */
#include "rig.h"
#include "host/host.h"
#include "tests/doze.h"

enum { MIB = 1 << 20, STRANGER_BUFFER = 20 * MIB, STRANGER_NUMBER = 0x7FFF0000 + RIG_SLOTS - 1, HONEST_CALLS = 40 };

static struct {
	struct te *te;
	struct kv_area area;
	struct te_region *region;
	struct te_key key[64];
	uint8_t keys[64 * 16];
	struct te_remote announced;
	struct region *mem;
	struct te_peer *server, *known; /* known: the server's, of this endpoint, where its session names another */
	struct shard_attachment *attachment;
	uint8_t secret[BOOT_FRAME_SECRET];
	struct kv_macs macs;
	struct kv_seal seal; /* it sends only */
	uint64_t seen;
	_Atomic bool anew;
	uint64_t next_id, replies, busy, invalid, nonce;
} other;

/* ---- the stranger ---- */

static void other_message(void *arg, unsigned rail, const uint8_t *data, size_t len)
{
	struct wire_reader reader;
	struct wire_frame frame;
	struct wire_reply r;
	(void)arg, (void)rail;
	assert_int_equal(wire_frame_open(&reader, data, len, &frame), 0);
	while (wire_reply_next(&reader, &r) == 1) {
		other.replies++;
		if (r.type == WIRE_PING)
			other.nonce = r.ping.nonce;
		other.busy += r.status == WIRE_BUSY;
		other.invalid += r.status == WIRE_INVALID;
	}
}

static void other_reset(void *arg, int status)
{
	(void)arg, (void)status;
}

static void other_turn(void)
{
	rig_turn();
	if (te_poll(other.te) > 0)
		doze(1);
}

static void other_region(void)
{
	struct wire_region w = {.id = 1, .parts = 1, .rails = 1};
	te_region_announce(other.region, &other.announced, other.key);
	assert_int_equal(other.announced.parts, 1);
	wire_region_put(other.keys, 1, 0, 0, other.key[0].base, other.key[0].key);
	w.virt = other.announced.virt;
	w.len_bytes = other.announced.len_bytes;
	w.part_bytes = other.announced.part_bytes;
	w.keys = other.keys;
	assert_int_equal(region_create(&w, 1, &other.mem), 0);
	assert_int_equal(regions_add(&other.attachment->regions, other.mem), 0);
}

static void other_send_as(uint32_t attachment, struct kv_seal *seal, const struct wire_request *q, unsigned n)
{
	struct wire_frame frame = {.session = attachment};
	struct te_msg *msg = te_msg_acquire(other.te);
	struct wire_writer w;
	assert_non_null(msg);
	wire_frame_begin(&w, msg->data, KV_MSG_MAX, &frame);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(wire_request_add(&w, &q[i]), 0);
	msg->len = wire_frame_end(&w);
	assert_int_equal(wire_seal(seal, msg->data, msg->len), 0);
	msg->sent = NULL;
	te_msg_send(other.te, other.server, 0, msg, kv_clock_now(&kv_clock_monotonic) + 60000000000ull);
}

static void other_send(const struct wire_request *q, unsigned n)
{
	other_send_as(STRANGER_NUMBER, &other.seal, q, n);
}

static struct wire_request other_request(enum wire_type type, const char *key)
{
	struct wire_request q = rig_request(type, key);
	q.id = other.next_id++;
	return q;
}

static struct wire_request other_get(const char *key, uint64_t length)
{
	struct wire_request q = rig_get(key, 0, length);
	q.id = other.next_id++;
	return q;
}

/* Turn until it has so many replies in all. */
static void other_until(uint64_t replies)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + 10000000000ull;
	while (other.replies < replies) {
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
		other_turn();
	}
}

static struct wire_request other_prove(const struct shard_attachment *s)
{
	return (struct wire_request){.type = WIRE_PROVE, .time_left_us = UINT32_MAX, .prove.nonce = s->link[0].nonce};
}

/* One PING, so that the connection is made, and the proof that its answer came. */
static void other_ping(void)
{
	struct wire_request q = other_request(WIRE_PING, NULL), prove;
	uint64_t before = other.replies;
	other_send(&q, 1);
	other_until(before + 1);
	assert_int_equal(other.nonce, other.attachment->link[0].nonce);
	prove = other_prove(other.attachment);
	other_send(&prove, 1);
	rig_until(other.attachment->link[0].proven);
}

/* Where it says that it is: nowhere else than the honest client, if `there`. */
static int other_open_at(void **state, bool there)
{
	const struct te_options options = {
		.provider = test_provider(), .local = rig_loopback(), .messages = 2048, .receives = 64};
	const struct te_handlers handlers = {.message = other_message, .reset = other_reset};
	struct shard_attachment_args args = {.rails = 1, .number = STRANGER_NUMBER, .client_id = 666};
	struct te_address mine, theirs;
	struct kv_error err;
	rig_open(state);
	memset(&other, 0, sizeof(other));
	other.next_id = 1;
	if (te_open(&options, &handlers, NULL, &other.te, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(kv_area_map(STRANGER_BUFFER, &other.area, &err), 0);
	assert_int_equal(te_region_register(other.te, other.area.base, other.area.len_bytes,
					    TE_REMOTE_READ | TE_REMOTE_WRITE, 0, &other.region, &err),
			 0);
	assert_int_equal(te_address(there ? rig.te : other.te, 0, &mine), 0);
	assert_int_equal(te_address(rig.shard->te, 0, &theirs), 0);
	kv_entropy_fill(&kv_entropy_kernel, other.secret, sizeof(other.secret));
	assert_int_equal(boot_frame_macs(other.secret, STRANGER_NUMBER, 0, false, &other.macs), 0);
	kv_seal_init(&other.seal, &other.macs, 0, &other.seen, 64);
	args.frame_secret = other.secret;
	args.grant = &rig_grant;
	args.addrs = &mine;
	args.anew = &other.anew;
	assert_int_equal(shard_attachment_open(rig.shard, &args, &other.attachment, &err), 0);
	assert_int_equal(te_peer_open(other.te, &theirs, 1, &other.server, &err), 0);
	if (!there) {
		other_region();
		other_ping();
		return 0;
	}
	/* Another session of it named its own address, so that the doorkeeper lets it in. */
	assert_int_equal(te_address(other.te, 0, &mine), 0);
	assert_int_equal(te_peer_open(rig.shard->te, &mine, 1, &other.known, &err), 0);
	return 0;
}

static int other_open(void **state)
{
	return other_open_at(state, false);
}

static int other_open_there(void **state)
{
	return other_open_at(state, true);
}

static struct rig_call left;
static uint64_t left_ns; /* when the stranger left */

/* The control connection of the stranger closed; its endpoint did not. */
static void other_leave(void)
{
	left_ns = loop_turn_now(rig.loop);
	shard_attachment_end(other.attachment, rig_call(&left));
	other.attachment = NULL;
}

static int other_close(void **state)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + 20000000000ull;
	if (other.attachment)
		other_leave();
	kv_macs_fini(&other.macs);
	te_peer_close(&other.known);
	te_close(&other.te); /* its connections break: what the shard has in flight towards it ends */
	while (!left.done && kv_clock_now(&kv_clock_monotonic) < until)
		rig_turn();
	assert_true(left.done);
	kv_area_unmap(&other.area);
	free(other.mem);
	return rig_close(state);
}

/* ---- the honest client ---- */

static void honest_get(const char *key, uint64_t n, uint64_t seed)
{
	static uint8_t want[MIB];
	struct wire_request q = rig_get(key, 0, n);
	uint64_t before = rig.immediates;
	memset(rig_memory(0), 0, n);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	rig_until(rig.immediates - before == rig_find(q.id)->get.posted);
	rig_fill(want, n, seed);
	assert_memory_equal(rig_memory(0), want, n);
}

/* Calls of every kind: each is answered, with the right bytes. */
static void honest_calls(void)
{
	struct wire_request q;
	for (unsigned i = 0; i < HONEST_CALLS; i++) {
		char key[16];
		snprintf(key, sizeof(key), "h%u", i);
		rig.replies = 0;
		rig_store(key, 100000, i);
		honest_get(key, 100000, i);
		q = rig_request(WIRE_DELETE, key);
		assert_int_equal(rig_ask(&q)->status, WIRE_OK);
		q = rig_request(WIRE_PING, NULL);
		assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	}
}

/* ---- a client that does not read ---- */

/* A client that does not read sees no completions either: it must be able to post so many frames without any. */
static void need_depth(uint32_t frames)
{
	struct te_info info;
	te_info(other.te, &info);
	if (info.tx_depth >= frames)
		return;
	print_message("provider %s has %u operations in flight, and this takes %u frames\n", info.provider,
		      info.tx_depth, frames);
	skip();
}

/* Replies to it fill the sockets, then its share of the send buffers, then what it may hold; the rest is dropped. */
static void replies_that_nobody_reads_leave_send_buffers_to_others(void **state)
{
	enum { FRAMES = 1800, EACH = 18 };
	struct wire_request q[EACH];
	const struct link *l = &other.attachment->link[0];
	(void)state;
	need_depth(FRAMES / 2);
	rig_store("k", 2800, 1);
	for (unsigned f = 0; f < FRAMES; f++) {
		for (unsigned i = 0; i < EACH; i++) {
			q[i] = other_get("k", 2800);
			q[i].flags = WIRE_GET_INLINE;
		}
		other_send(q, EACH);
		rig_turn();
	}
	rig_until(l->held == RIG_CREDITS + ATTACHMENT_HELD_SLACK);
	rig_quiet();
	print_message("# %u frames with the engine, %u replies held, %llu dropped\n", l->frames, l->held,
		      (unsigned long long)rig_stat(WIRE_STAT_DROPPED_REPLIES));
	assert_in_range(l->frames, 1, rig.shard->replies.frames_max / 5 + 1);
	assert_int_equal(l->held, RIG_CREDITS + ATTACHMENT_HELD_SLACK);
	assert_true(rig_stat(WIRE_STAT_DROPPED_REPLIES) > 0);
	assert_true(rig_stat(WIRE_STAT_OVER_CREDIT) > 0);
	honest_calls();
}

/* One send buffer is left, and both wait for it: a link that has had it stands behind the other, whatever it still
 * holds. */
static void links_that_wait_for_send_buffers_take_turns(void **state)
{
	static struct te_msg *taken[1024];
	struct wire_request q[RIG_CREDITS], mine;
	const struct link *theirs = &other.attachment->link[0], *ours = &rig.attachment->link[0];
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + 10000000000ull;
	unsigned n = 0;
	(void)state;
	rig_store("k", 2800, 1);
	rig_quiet(); /* the last reply's buffer comes back */
	while ((taken[n] = te_msg_acquire(rig.shard->te)) != NULL)
		n++;
	for (unsigned i = 0; i < RIG_CREDITS; i++) {
		q[i] = other_get("k", 2800); /* one fills a frame */
		q[i].flags = WIRE_GET_INLINE;
	}
	other_send(q, RIG_CREDITS);
	rig_until(theirs->held == RIG_CREDITS);
	mine = rig_get("k", 0, 2800);
	mine.flags = WIRE_GET_INLINE;
	rig_send(&mine);
	rig_until(ours->held == 1);
	te_msg_release(rig.shard->te, taken[--n]);
	while (ours->held && kv_clock_now(&kv_clock_monotonic) < until)
		other_turn();
	assert_int_equal(ours->held, 0);
	assert_int_equal(theirs->held, RIG_CREDITS - 1);
	while (n > 0)
		te_msg_release(rig.shard->te, taken[--n]);
	rig_until(rig_find(mine.id));
	other_until(1 + RIG_CREDITS);
	assert_int_equal(theirs->held, 0);
}

/* The stack where a reply's bytes were is used again. */
static __attribute__((noinline)) void stack_use(void)
{
	volatile uint8_t over[32 << 10];
	for (unsigned i = 0; i < sizeof(over); i++)
		over[i] = 0xA5;
}

/* Without a send buffer replies wait: EXISTS with all that it found, and a page as BUSY, since it is too long to keep.
 */
static void held_replies_keep_their_bytes(void **state)
{
	static struct te_msg *taken[1024];
	enum wire_type pages[] = {WIRE_STAT, WIRE_TOMBS, WIRE_SPACES, WIRE_TENANTS, WIRE_LEASES};
	const struct link *ours = &rig.attachment->link[0];
	struct wire_request q = rig_request(WIRE_DELETE, "gone"), page[KV_COUNT(pages)];
	uint8_t digest[16];
	uint64_t seed = rig.shard->store.index.digest_seed;
	const struct wire_reply *r;
	unsigned n = 0;
	(void)state;
	rig_store("there", 1000, 1);
	assert_int_equal(rig_ask(&q)->status, WIRE_NOTFOUND);
	kv_put64(digest, kv_hash_key("gone", 4, seed));
	kv_put64(digest + 8, kv_hash_key("there", 5, seed));
	rig_quiet();
	while ((taken[n] = te_msg_acquire(rig.shard->te)) != NULL)
		n++;
	q = rig_request(WIRE_EXISTS, NULL);
	q.exists.count = 2;
	q.exists.digests = digest;
	rig_send(&q);
	for (unsigned i = 0; i < KV_COUNT(pages); i++) {
		page[i] = rig_request(pages[i], NULL);
		rig_send(&page[i]);
	}
	rig_until(ours->held == 1 + KV_COUNT(pages));
	stack_use();
	while (n > 0)
		te_msg_release(rig.shard->te, taken[--n]);
	rig_until(rig_find(page[KV_COUNT(pages) - 1].id));
	r = rig_find(q.id);
	assert_int_equal(r->status, WIRE_OK);
	assert_int_equal(r->flags, WIRE_EXISTS_DELETED);
	assert_int_equal(r->exists.bitmap[0], 2);
	assert_int_equal(r->exists.deleted[0], 1);
	for (unsigned i = 0; i < KV_COUNT(pages); i++)
		assert_int_equal(rig_find(page[i].id)->status, WIRE_BUSY);
}

static void writes_that_nobody_reads_do_not_stop_others(void **state)
{
	struct wire_request q[RIG_CREDITS];
	(void)state;
	rig_store("big", 16 * MIB, 1);
	for (unsigned i = 0; i < RIG_CREDITS; i++)
		q[i] = other_get("big", 16 * MIB);
	other_send(q, RIG_CREDITS);
	rig_until(other.attachment->request_count == RIG_CREDITS);
	rig_quiet();
	honest_calls();
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 16 * MIB);
	assert_true(other.attachment->request_count > 0);
}

/* Its endpoint breaks: it is told to begin anew, and not before. */
static void other_breaks(void)
{
	assert_false(atomic_load(&other.anew));
	te_close(&other.te);
	rig_until(atomic_load(&other.anew));
}

/* The immediates of writes that failed may never come, so the client is told to begin anew, before its deadline. */
static void a_session_whose_writes_fail_is_to_begin_anew(void **state)
{
	struct wire_request q;
	(void)state;
	rig_store("big", 16 * MIB, 1);
	q = other_get("big", 16 * MIB);
	other_send(&q, 1);
	rig_until(other.attachment->request_count == 1);
	assert_int_equal(rig_stat(WIRE_STAT_LOST_WRITES), 0);
	other_breaks();
	assert_true(rig_stat(WIRE_STAT_LOST_WRITES) > 0);
	honest_calls();
}

/* Neither may replies that failed: the client would wait for them until its deadline. */
static void a_session_whose_replies_fail_is_to_begin_anew(void **state)
{
	enum { FRAMES = 400, EACH = 8 };
	struct wire_request q[EACH];
	(void)state;
	need_depth(FRAMES);
	rig_store("k", 2800, 1);
	for (unsigned f = 0; f < FRAMES; f++) {
		for (unsigned i = 0; i < EACH; i++) {
			q[i] = other_get("k", 2800);
			q[i].flags = WIRE_GET_INLINE;
		}
		other_send(q, EACH);
		rig_turn();
	}
	rig_quiet();
	assert_true(other.attachment->link[0].frames > 0);
	other_breaks();
	assert_int_equal(rig_stat(WIRE_STAT_LOST_WRITES), 0);
	assert_true(rig_stat(WIRE_STAT_DROPPED_REPLIES) > 0);
	honest_calls();
}

/* ---- a client that asks beyond its credits ---- */

/* Ends of values whose bytes never come hold its credits; what it asks beyond them is BUSY and holds nothing. */
static void a_flood_beyond_the_credits_is_refused_and_counted(void **state)
{
	enum { FLOOD = 2000, EACH = 20 };
	struct wire_request q[EACH];
	(void)state;
	rig_store("big", 16 * MIB, 1);
	for (unsigned i = 0; i < RIG_CREDITS; i++)
		q[i] = other_get("big", 16 * MIB);
	other_send(q, RIG_CREDITS);
	rig_until(other.attachment->link[0].active == RIG_CREDITS);
	for (unsigned sent = 0; sent < FLOOD; sent += EACH) {
		for (unsigned i = 0; i < EACH; i++)
			q[i] = other_get("big", 16 * MIB);
		other_send(q, EACH);
		rig_turn();
		assert_true(other.attachment->request_count <= RIG_CREDITS);
		assert_true(rig.shard->requests.used <= RIG_CREDITS);
	}
	rig_until(rig_stat(WIRE_STAT_OVER_CREDIT) == FLOOD);
	honest_calls();
	for (unsigned i = 0; i < 100000 && other.busy < FLOOD; i++)
		other_turn();
	assert_int_equal(other.busy + rig_stat(WIRE_STAT_DROPPED_REPLIES), FLOOD);
}

/* ---- PUTs that never send their bytes ---- */

static void abandoned_puts_keep_nobody_from_writing(void **state)
{
	struct wire_request q[6];
	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		char key[2] = {(char)('a' + i), 0};
		q[i] = rig_put(key, 4 * MIB, 0, 0, 1, WIRE_PUT_FIRST);
		q[i].id = other.next_id++;
		q[i].key.data = (const uint8_t *)"abcdef" + i;
		q[i].time_left_us = UINT32_MAX;
	}
	other_send(q, 6);
	other_until(7);
	assert_int_equal(other.busy, 2); /* a half of 32 MiB is 4 of them */
	assert_int_equal(rig_stat(WIRE_STAT_STAGED_BYTES), 16 * MIB);
	honest_calls();
	stages_tick(other.attachment, loop_now(rig.loop) + SHARD_STAGE_IDLE_NS);
	assert_int_equal(rig_stat(WIRE_STAT_STAGED_BYTES), 0);
	assert_int_equal(rig_stat(WIRE_STAT_STAGES_EXPIRED), 4);
}

/* ---- destinations ---- */

static void destinations_that_do_not_fit_are_counted(void **state)
{
	struct wire_request q[7];
	(void)state;
	rig_store("k", 100000, 1);
	for (unsigned i = 0; i < 7; i++)
		q[i] = other_get("k", 100000);
	q[0].dest.region = 2;
	q[1].dest.offset = STRANGER_BUFFER - 99999;
	q[2].dest = (struct wire_dest){1, 2, 0, STRANGER_BUFFER, 50000};
	q[3].dest = (struct wire_dest){1, 2, 0, 10, 50000}; /* slices on top of each other */
	q[4].dest.offset = UINT64_MAX - 100000;
	q[5].dest = (struct wire_dest){1, 100000, 0, 1, 1}; /* more slices than are allowed */
	q[6].get.offset = 100001;
	other_send(q, 7);
	other_until(8);
	assert_int_equal(other.invalid, 7);
	assert_int_equal(rig_stat(WIRE_STAT_INVALID_REQUESTS), 7);
	honest_calls();
}

/* ---- a client that dies: what is quarantined, counted, and when it is too much ---- */

/* `n` GETs of one block in flight, of a client that is gone and whose endpoint neither reads nor closes. */
static void die_reading(const char *key, uint64_t len, unsigned n)
{
	struct wire_request q[RIG_CREDITS];
	for (unsigned i = 0; i < n; i++)
		q[i] = other_get(key, len);
	rig.shard->info.death_stalls = false; /* what the provider is like is not asked here */
	other_send(q, n);
	rig_until(other.attachment->request_count == n);
	rig_quiet();
	assert_true(other.attachment->request_count > 0);
	other_leave();
	assert_int_equal(rig_stat(WIRE_STAT_ENDING_SESSIONS), 1);
}

static void a_block_that_a_dead_client_reads_is_counted_once(void **state)
{
	uint64_t fences = rig_stat(WIRE_STAT_FENCES), now;
	(void)state;
	rig_store("k", 8 * MIB, 1); /* as much as the budget allows */
	die_reading("k", 8 * MIB, 4);
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), 8 * MIB);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 8 * MIB);
	now = loop_now(rig.loop);
	shard_quarantine_check(rig.shard, now + 10 * SHARD_QUARANTINE_NS);
	assert_int_equal(rig_stat(WIRE_STAT_FENCES), fences); /* no endpoint is closed within the budget */
	struct wire_request q = rig_request(WIRE_DELETE, "k");
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), 8 * MIB);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 8 * MIB); /* charged, though no key leads to it */
	honest_calls();
	assert_false(left.done);
	te_close(&other.te); /* the peer's connection is closed: what referred to the block is over */
	rig_until(left.done);
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), 0);
	assert_int_equal(rig_stat(WIRE_STAT_ENDING_SESSIONS), 0);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 0);
}

static void blocks_that_a_dead_client_does_not_refer_to_are_free_at_once(void **state)
{
	struct wire_request q[3];
	(void)state;
	q[0] = rig_put("a", 4 * MIB, 0, 0, 1, WIRE_PUT_FIRST);
	q[1] = rig_put("b", 4 * MIB, 0, 0, 1, WIRE_PUT_FIRST);
	rig_store("k", MIB, 1);
	q[2] = rig_request(WIRE_PIN, "k");
	for (unsigned i = 0; i < 3; i++)
		q[i].id = other.next_id++;
	other_send(q, 3);
	other_until(4);
	assert_int_equal(rig_stat(WIRE_STAT_STAGED_BYTES), 8 * MIB);
	assert_int_equal(rig_stat(WIRE_STAT_PINNED_BYTES), MIB);
	other_leave();
	assert_int_equal(rig_stat(WIRE_STAT_STAGED_BYTES), 0);
	assert_int_equal(rig_stat(WIRE_STAT_PINNED_BYTES), 0);
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), 0);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), MIB);
	rig_until(left.done);
}

/* Where it can be fenced alone nothing happens to anybody else: the shard has the endpoint that it had, and the session
 * of another client goes on. */
static void only_it_was_fenced(uint64_t cuts)
{
	struct wire_request q = rig_get("k", 0, 64);
	struct te_stats stats;
	struct te_info info;
	te_info(rig.shard->te, &info);
	if (!info.peer_fence)
		return;
	te_stats(rig.shard->te, &stats);
	assert_int_equal(stats.cuts, cuts + 1);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
}

static void beyond_the_budget_the_endpoint_is_closed(void **state)
{
	uint64_t fences = rig_stat(WIRE_STAT_FENCES);
	struct te *te = rig.shard->te;
	struct te_stats before;
	(void)state;
	rig.shard->fenced_ns = 0; /* fences of other tests are no reason to wait */
	rig_store("k", 8 * MIB + 64, 1);
	die_reading("k", 8 * MIB + 64, 1);
	te_stats(rig.shard->te, &before);
	shard_quarantine_check(rig.shard, left_ns + SHARD_QUARANTINE_NS - 1);
	assert_int_equal(rig_stat(WIRE_STAT_FENCES), fences);
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), 8 * MIB + 64);
	rig.shard->te = NULL; /* the server ends, and this one's clock still ticks */
	shard_quarantine_check(rig.shard, left_ns + SHARD_QUARANTINE_NS);
	rig.shard->te = te;
	assert_int_equal(rig_stat(WIRE_STAT_FENCES), fences);
	shard_quarantine_check(rig.shard, left_ns + SHARD_QUARANTINE_NS);
	assert_int_equal(rig_stat(WIRE_STAT_FENCES), fences + 1);
	rig_until(left.done);
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), 0);
	only_it_was_fenced(before.cuts);
}

/* shm: within the budget, too, but only when they have had time to end by themselves. */
static void where_the_dead_hold_up_the_living_they_are_fenced_soon(void **state)
{
	uint64_t fences = rig_stat(WIRE_STAT_FENCES);
	(void)state;
	rig.shard->fenced_ns = 0;
	rig_store("k", 8 * MIB, 1);
	die_reading("k", 8 * MIB, 4);
	rig.shard->info.death_stalls = true;
	shard_quarantine_check(rig.shard, left_ns + SHARD_STALL_NS - 1);
	assert_int_equal(rig_stat(WIRE_STAT_FENCES), fences);
	shard_quarantine_check(rig.shard, left_ns + SHARD_STALL_NS);
	assert_int_equal(rig_stat(WIRE_STAT_FENCES), fences + 1);
	rig_until(left.done);
	rig.shard->info.death_stalls = false;
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), 0);
}

/* Small ones, but many: their places are few. */
static void too_many_dead_sessions_close_the_endpoint_too(void **state)
{
	static struct rig_call call[SHARD_QUARANTINE_ATTACHMENTS];
	struct shard_attachment_args args = {.rails = 1, .client_id = 666};
	uint64_t fences = rig_stat(WIRE_STAT_FENCES), now;
	struct shard_attachment *s[SHARD_QUARANTINE_ATTACHMENTS];
	struct te_address mine;
	struct kv_error err;
	struct wire_request q[4];
	(void)state;
	rig.shard->fenced_ns = 0;
	rig_store("big", 4 * MIB, 1);
	rig_store("k", MIB, 2);
	for (unsigned i = 0; i < 4; i++)
		q[i] = other_get("big", 4 * MIB);
	other_send(q, 4);
	rig_until(other.attachment->request_count == 4);
	rig_quiet(); /* the sockets are full */
	assert_int_equal(te_address(other.te, 0, &mine), 0);
	args.addrs = &mine;
	args.frame_secret = other.secret;
	args.grant = &rig_grant;
	for (unsigned i = 0; i < SHARD_QUARANTINE_ATTACHMENTS; i++) {
		args.number = 0x7FFE0000 + RIG_SLOTS - 2 - i;
		assert_int_equal(shard_attachment_open(rig.shard, &args, &s[i], &err), 0);
		assert_int_equal(regions_add(&s[i]->regions, other.mem), 0);
		struct wire_request both[] = {other_prove(s[i]), other_get("k", MIB)};
		struct kv_macs macs = {0};
		struct kv_seal seal;
		assert_int_equal(boot_frame_macs(other.secret, args.number, 0, false, &macs), 0);
		kv_seal_init(&seal, &macs, 0, &other.seen, 64);
		other_send_as(args.number, &seal, both, 2);
		kv_macs_fini(&macs);
		rig_until(s[i]->request_count == 1);
	}
	for (unsigned i = 0; i < SHARD_QUARANTINE_ATTACHMENTS; i++)
		shard_attachment_end(s[i], rig_call(&call[i]));
	now = loop_now(rig.loop) + SHARD_QUARANTINE_NS;
	assert_int_equal(rig_stat(WIRE_STAT_ENDING_SESSIONS), SHARD_QUARANTINE_ATTACHMENTS);
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), MIB);
	shard_quarantine_check(rig.shard, now);
	assert_int_equal(rig_stat(WIRE_STAT_FENCES), fences);
	other_leave();
	now = loop_now(rig.loop) + SHARD_QUARANTINE_NS;
	assert_int_equal(rig_stat(WIRE_STAT_ENDING_SESSIONS), SHARD_QUARANTINE_ATTACHMENTS + 1);
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), 5 * MIB); /* of 8 that it may be */
	shard_quarantine_check(rig.shard, now);
	assert_int_equal(rig_stat(WIRE_STAT_FENCES), fences + 1);
	rig_until(rig_stat(WIRE_STAT_ENDING_SESSIONS) == 0);
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), 0);
}

/* ---- an address that is not one's own ---- */

enum { VICTIM_BYTES = 65536 };

/* rig_until, with the stranger's endpoint polled, too. */
#define both_until(condition)                                                                                          \
	do {                                                                                                           \
		uint64_t until_ = kv_clock_now(&kv_clock_monotonic) + 10000000000ull;                                  \
		while (!(condition)) {                                                                                 \
			if (kv_clock_now(&kv_clock_monotonic) > until_)                                                \
				fail_msg("not within 10 s: " #condition);                                              \
			other_turn();                                                                                  \
		}                                                                                                      \
	} while (0)

/* The stranger knows the honest client's address and the key of its memory, and asks for values to be written there. */
static void nothing_goes_to_an_address_that_was_only_named(void **state)
{
	struct wire_request ping = other_request(WIRE_PING, NULL),
			    guess = {.type = WIRE_PROVE, .time_left_us = UINT32_MAX}, q;
	uint8_t before[VICTIM_BYTES];
	(void)state;
	rig_store("k", VICTIM_BYTES, 1);
	assert_int_equal(regions_add(&other.attachment->regions, rig.mem), 0);
	memset(rig_memory(0), 0x5A, 2 * VICTIM_BYTES);
	memcpy(before, rig_memory(VICTIM_BYTES), VICTIM_BYTES);
	other_send(&ping, 1);
	both_until(rig.strays == 1); /* the nonce came to whose address it is, who cannot be asked for it */
	for (unsigned i = 0; i < HONEST_CALLS; i++) {
		struct wire_request records[4];
		guess.prove.nonce = other.attachment->link[0].nonce ^ (1ull << i);
		q = other_get("k", VICTIM_BYTES);
		q.dest.offset = VICTIM_BYTES;
		records[0] = q;
		records[1] = guess;
		records[2] = other_get("k", VICTIM_BYTES);
		records[2].dest.offset = VICTIM_BYTES;
		records[3] = other_request(WIRE_DELETE, "k");
		other_send(records, 4);
		q = rig_get("k", 0, VICTIM_BYTES);
		assert_int_equal(rig_ask(&q)->status, WIRE_OK);
		both_until(rig.immediates == i + 1);
		other_turn();
	}
	both_until(rig_stat(WIRE_STAT_UNPROVEN_REQUESTS) == 3 * HONEST_CALLS);
	rig_quiet();
	assert_int_equal(rig_stat(WIRE_STAT_BAD_PROOFS), HONEST_CALLS);
	assert_int_equal(rig.immediates, HONEST_CALLS);
	assert_int_equal(rig.strays, 1);
	assert_int_equal(other.attachment->request_count, 0);
	assert_memory_equal(before, rig_memory(VICTIM_BYTES), VICTIM_BYTES);
}

/* Each PING has a frame sent to the stranger's victim: there are few. */
static void pings_of_an_address_that_was_only_named_are_few(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		struct wire_request q = other_request(WIRE_PING, NULL);
		other_send(&q, 1);
		other_turn();
	}
	both_until(rig_stat(WIRE_STAT_UNPROVEN_REQUESTS) + rig_stat(WIRE_STAT_REPLIES) == 200);
	assert_in_range(rig_stat(WIRE_STAT_REPLIES), 16, 17);
	rig_quiet();
	/* Later some more, for a way that was broken. */
	other.attachment->link[0].unproven_ns -= 100000000000ull;
	struct wire_request q = other_request(WIRE_PING, NULL);
	uint64_t strays = rig.strays;
	other_send(&q, 1);
	both_until(rig.strays == strays + 1);
}

#define HOSTILE_TEST(f) cmocka_unit_test_setup_teardown(f, other_open, other_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_goes_to_an_address_that_was_only_named, other_open_there,
						other_close),
		cmocka_unit_test_setup_teardown(pings_of_an_address_that_was_only_named_are_few, other_open_there,
						other_close),
		HOSTILE_TEST(replies_that_nobody_reads_leave_send_buffers_to_others),
		HOSTILE_TEST(links_that_wait_for_send_buffers_take_turns),
		HOSTILE_TEST(held_replies_keep_their_bytes),
		HOSTILE_TEST(writes_that_nobody_reads_do_not_stop_others),
		HOSTILE_TEST(a_session_whose_writes_fail_is_to_begin_anew),
		HOSTILE_TEST(a_session_whose_replies_fail_is_to_begin_anew),
		HOSTILE_TEST(a_flood_beyond_the_credits_is_refused_and_counted),
		HOSTILE_TEST(abandoned_puts_keep_nobody_from_writing),
		HOSTILE_TEST(destinations_that_do_not_fit_are_counted),
		HOSTILE_TEST(a_block_that_a_dead_client_reads_is_counted_once),
		HOSTILE_TEST(blocks_that_a_dead_client_does_not_refer_to_are_free_at_once),
		HOSTILE_TEST(too_many_dead_sessions_close_the_endpoint_too),
		HOSTILE_TEST(beyond_the_budget_the_endpoint_is_closed),
		HOSTILE_TEST(where_the_dead_hold_up_the_living_they_are_fenced_soon),
	};
	return cmocka_run_group_tests_name("kvserver/hostile", tests, rig_up, rig_down);
}
