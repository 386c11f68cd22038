/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard_attachment.c -- the frames that an attachment accepts on a shard, and those it refuses: tags, replays,
 * credits, cancels, hostile frames; and the small requests. */
#include "rig.h"

/* ---- frames that are not believed ---- */

/* The shard has counted `count` of `stat` (the first frame may still be connecting), and nothing else came of it. */
static void only_counted(uint32_t stat, uint64_t count)
{
	rig_until(rig_stat(stat) >= count);
	rig_quiet();
	assert_int_equal(rig_stat(stat), count);
	assert_int_equal(rig.replies, 0);
	assert_int_equal(rig.attachment->own.received, 0);
}

/* A PING's frame, sealed. */
static uint32_t ping_frame(uint8_t buf[KV_MSG_MAX])
{
	struct wire_frame frame = rig_frame();
	struct wire_request q = rig_request(WIRE_PING, NULL);
	struct wire_writer w;
	uint32_t len;
	wire_frame_begin(&w, buf, KV_MSG_MAX, &frame);
	assert_int_equal(wire_request_add(&w, &q), 0);
	len = wire_frame_end(&w);
	rig_seal(buf, len);
	return len;
}

/* Any bit of the tag, and any of what it is made of. */
static void a_wrong_tag_is_counted_and_dropped(void **state)
{
	(void)state;
	static const uint8_t places[] = {8, 23, 32, 39, 48, WIRE_FRAME_HEADER + WIRE_RECORD_HEADER};
	uint8_t buf[KV_MSG_MAX];
	for (unsigned i = 0; i < KV_COUNT(places); i++) {
		uint32_t len = ping_frame(buf);
		buf[places[i]] ^= 1;
		rig_send_raw(buf, len);
	}
	only_counted(WIRE_STAT_BAD_TAG, KV_COUNT(places));
}

/* Sealed by a client that has keys, but not those of this shard, of this direction, or of this session. */
static void keys_of_another_shard_direction_or_session_are_wrong(void **state)
{
	(void)state;
	struct kv_seal mine = rig.seal;
	struct kv_seal_keys keys, turned;
	uint64_t seen;
	struct kv_macs macs = {0};
	uint8_t buf[KV_MSG_MAX];
	static const struct {
		uint32_t attachment;
		unsigned shard;
	} others[] = {{0, 1}, {1, 0}};
	for (unsigned i = 0; i <= KV_COUNT(others); i++) {
		uint32_t len;
		if (i < KV_COUNT(others)) {
			assert_int_equal(boot_frame_macs(rig.secret, rig.number + others[i].attachment, others[i].shard,
							 false, &macs),
					 0);
		} else {
			assert_int_equal(boot_frame_keys(rig.secret, rig.number, 0, false, &keys), 0);
			memcpy(turned.out, keys.in, KV_MAC_KEY);
			memcpy(turned.in, keys.out, KV_MAC_KEY);
			assert_int_equal(kv_macs_init(&macs, &turned), 0);
		}
		kv_seal_init(&rig.seal, &macs, 0, &seen, 64);
		rig.seal.next = 1000 + i;
		len = ping_frame(buf);
		kv_macs_fini(&macs);
		rig_send_raw(buf, len);
	}
	rig.seal = mine;
	only_counted(WIRE_STAT_BAD_TAG, KV_COUNT(others) + 1);
}

enum { WIDE_LINKS = 2, FRAME_LINK = 3 /* its place in a frame */ };

/* A PING by a link of a session with two, sealed. */
static uint32_t wide_frame(struct kv_seal *seal, uint32_t attachment, uint8_t buf[KV_MSG_MAX])
{
	struct wire_frame frame = {.session = attachment, .link = (uint8_t)seal->link};
	struct wire_request q = rig_request(WIRE_PING, NULL);
	struct wire_writer w;
	uint32_t len;
	wire_frame_begin(&w, buf, KV_MSG_MAX, &frame);
	assert_int_equal(wire_request_add(&w, &q), 0);
	len = wire_frame_end(&w);
	assert_int_equal(wire_seal(seal, buf, len), 0);
	assert_int_equal(buf[FRAME_LINK], seal->link);
	return len;
}

static void send_as_link(uint8_t *buf, uint32_t len, uint8_t link)
{
	buf[FRAME_LINK] = link;
	rig_send_raw(buf, len);
}

/* Links of a session share its keys. What was sealed for one is nothing on the other, before and after it was taken
 * where it belongs; and frames of both that have one counter are both taken. */
static void a_frame_of_one_link_is_nothing_on_another(void **state)
{
	struct te_address mine[WIDE_LINKS];
	struct shard_attachment_args args = {.number = rig.number ^ 1,
					     .addrs = mine,
					     .rails = WIDE_LINKS,
					     .frame_secret = rig.secret,
					     .grant = &rig_grant,
					     .client_id = 8};
	struct rig_call call;
	struct kv_macs macs = {0};
	struct kv_seal seal[WIDE_LINKS];
	uint64_t seen[WIDE_LINKS];
	uint8_t buf[WIDE_LINKS][KV_MSG_MAX];
	struct shard_attachment *s;
	struct kv_error err;
	uint32_t len = 0;
	(void)state;
	for (unsigned i = 0; i < WIDE_LINKS; i++)
		assert_int_equal(te_address(rig.te, 0, &mine[i]), 0);
	if (shard_attachment_open(rig.shard, &args, &s, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(s->links, WIDE_LINKS);
	assert_int_equal(boot_frame_macs(rig.secret, args.number, 0, false, &macs), 0);
	for (unsigned i = 0; i < WIDE_LINKS; i++) {
		kv_seal_init(&seal[i], &macs, i, &seen[i], 64);
		len = wide_frame(&seal[i], args.number, buf[i]);
	}
	send_as_link(buf[0], len, 1);
	rig_until(rig_stat(WIRE_STAT_BAD_TAG) == 1);
	send_as_link(buf[0], len, 0);
	send_as_link(buf[1], len, 1);
	rig_until(rig.strays == WIDE_LINKS); /* an answer to each */
	send_as_link(buf[0], len, 1);
	send_as_link(buf[1], len, 0);
	rig_until(rig_stat(WIRE_STAT_BAD_TAG) == 3);
	send_as_link(buf[0], len, 0);
	send_as_link(buf[1], len, 1);
	rig_until(rig_stat(WIRE_STAT_REPLAYED_FRAMES) == 2);
	rig_quiet();
	assert_int_equal(rig.strays, WIDE_LINKS);
	assert_int_equal(rig_stat(WIRE_STAT_BAD_TAG), 3);
	kv_macs_fini(&macs);
	shard_attachment_end(s, rig_call(&call));
	rig_until(call.done);
}

static bool all_are(const struct kv_window *w, uint64_t word)
{
	for (uint32_t i = 0; i < kv_window_words(w->width); i++)
		if (w->seen[i] != word)
			return false;
	return true;
}

/* However many links there are, and however narrow that makes their windows: what one has seen is nothing to another.
 */
static void each_link_has_windows_of_its_own(void **state)
{
	static const unsigned links[] = {1, 2, 8, 9, 17, KV_RAILS_MAX}, shards[] = {0, 1, 2, KV_SHARDS_MAX};
	struct te_address mine[KV_RAILS_MAX];
	struct shard_attachment_args args = {
		.number = rig.number ^ 1, .addrs = mine, .frame_secret = rig.secret, .grant = &rig_grant};
	(void)state;
	for (unsigned i = 0; i < KV_RAILS_MAX; i++)
		assert_int_equal(te_address(rig.te, 0, &mine[i]), 0);
	for (unsigned c = 0; c < 2 * KV_COUNT(links) * KV_COUNT(shards); c++) {
		bool many = c >= KV_COUNT(links) * KV_COUNT(shards); /* more credits than a narrow window has ids */
		struct rig_call call;
		struct shard_attachment *s;
		struct kv_error err;
		args.rails = links[c % KV_COUNT(links)];
		rig.shard->opt.shards = shards[c / KV_COUNT(links) % KV_COUNT(shards)];
		rig.shard->opt.credits = many ? 1025 : RIG_CREDITS;
		if (shard_attachment_open(rig.shard, &args, &s, &err) != 0)
			fail_msg("%s", err.text);
		for (unsigned i = 0; i < 2 * s->links; i++) {
			struct kv_window *w = i % 2 ? &s->link[i / 2].window : &s->link[i / 2].seal.seen;
			uint32_t width = KV_MAX(kv_window_width(args.rails * KV_MAX(rig.shard->opt.shards, 1u)),
						many ? 2048u : 0);
			assert_int_equal(w->width, i % 2 ? width : width / 2);
			assert_true(all_are(w, 0));
			memset(w->seen, 0xFF, kv_window_words(w->width) * sizeof(uint64_t));
		}
		for (unsigned i = 0; i < s->links; i++) {
			memset(s->link[i].window.seen, i + 1, kv_window_words(s->window_width) * sizeof(uint64_t));
			assert_true(all_are(&s->link[i].seal.seen, UINT64_MAX));
		}
		for (unsigned i = 0; i < s->links; i++)
			assert_true(all_are(&s->link[i].window, 0x0101010101010101ull * (i + 1)));
		shard_attachment_end(s, rig_call(&call));
		rig_until(call.done);
	}
	rig.shard->opt.shards = 0;
	rig.shard->opt.credits = RIG_CREDITS;
}

static void a_mark_or_shard_that_is_not_the_sessions_is_a_bad_frame(void **state)
{
	(void)state;
	struct wire_frame mark = rig_frame(), shard = rig_frame();
	struct wire_request q = rig_request(WIRE_PING, NULL);
	mark.mark++;
	shard.shard++;
	rig_send_records(&mark, &q, 1);
	rig_send_records(&shard, &q, 1);
	only_counted(WIRE_STAT_BAD_FRAMES, 2);
}

static void an_unknown_session_is_counted_and_dropped(void **state)
{
	(void)state;
	const uint32_t numbers[] = {0, rig.number + 1, rig.number + 0x10000, rig.number - 0x10000, 0xFFFF, UINT32_MAX};
	for (unsigned i = 0; i < KV_COUNT(numbers); i++) {
		struct wire_frame frame = rig_frame();
		struct wire_request q = rig_request(WIRE_PING, NULL);
		frame.session = numbers[i];
		rig_send_records(&frame, &q, 1);
	}
	only_counted(WIRE_STAT_UNKNOWN_SESSION, KV_COUNT(numbers));
}

static void a_link_that_is_not_there_is_a_bad_frame(void **state)
{
	(void)state;
	struct wire_frame frame = rig_frame();
	struct wire_request q = rig_request(WIRE_PING, NULL);
	frame.link = 1;
	rig_send_records(&frame, &q, 1);
	only_counted(WIRE_STAT_BAD_FRAMES, 1);
}

static void bytes_that_are_no_frame_are_bad_frames(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	uint8_t junk[KV_MSG_MAX];
	for (unsigned i = 0; i < 50; i++) {
		kv_prng_fill(&p, junk, sizeof(junk));
		rig_send_raw(junk, 1 + (uint32_t)kv_prng_below(&p, sizeof(junk)));
	}
	only_counted(WIRE_STAT_BAD_FRAMES, 50);
}

static void records_before_a_bad_one_count_those_after_it_do_not(void **state)
{
	(void)state;
	struct wire_request q[3] = {rig_request(WIRE_PING, NULL), rig_request(WIRE_PING, NULL),
				    rig_request(WIRE_PING, NULL)};
	struct wire_frame frame = rig_frame();
	uint8_t buf[KV_MSG_MAX];
	struct wire_writer w;
	uint32_t size = wire_request_size(&q[0]), len;
	wire_frame_begin(&w, buf, sizeof(buf), &frame);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(wire_request_add(&w, &q[i]), 0);
	buf[WIRE_FRAME_HEADER + size] = 99; /* the second record's type */
	len = wire_frame_end(&w);
	rig_seal(buf, len);
	rig_send_raw(buf, len);
	rig_quiet();
	assert_int_equal(rig.replies, 1);
	assert_non_null(rig_find(q[0].id));
	assert_int_equal(rig_stat(WIRE_STAT_BAD_FRAMES), 1);
}

/* Valid header and tag, then records with random damage: nothing may break, and the next honest one is answered. */
static void damaged_records_break_nothing(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	rig_store("k", 100000, 1);
	for (unsigned round = 0; round < 300; round++) {
		struct wire_request q[4] = {rig_get("k", 0, 100000), rig_put("j", 4096, 0, 4096, 1, WIRE_PUT_FIRST),
					    rig_request(WIRE_TOUCH, "k"), rig_request(WIRE_CANCEL, NULL)};
		struct wire_frame frame = rig_frame();
		uint8_t buf[KV_MSG_MAX];
		struct wire_writer w;
		uint32_t len;
		q[3].cancel.id = rig.next_id - kv_prng_below(&p, 8);
		wire_frame_begin(&w, buf, sizeof(buf), &frame);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(wire_request_add(&w, &q[i]), 0);
		len = wire_frame_end(&w);
		for (unsigned i = 0; i < 3; i++)
			buf[WIRE_FRAME_HEADER + kv_prng_below(&p, len - WIRE_FRAME_HEADER)] = (uint8_t)kv_prng_next(&p);
		rig_seal(buf, len);
		rig_send_raw(buf, len);
		for (unsigned i = 0; i < 10; i++)
			rig_turn();
	}
	rig_quiet();
	store_space_default(&rig.shard->store)->generation =
		0; /* a damaged PUT may have cleared it for the tests that follow */
	rig.replies = 0;
	rig.next_id += 1ull << 62; /* whatever ids the damage made up, these are new */
	struct wire_request ping = rig_request(WIRE_PING, NULL);
	ping.ping.cookie = 77;
	rig_send(&ping);
	rig_quiet();
	if (rig_find(ping.id)) /* unless the damage used up the ids above, too */
		assert_int_equal(rig_find(ping.id)->ping.cookie, 77);
	else
		assert_true(rig_stat(WIRE_STAT_DUPLICATE_REQUESTS) > 0);
}

/* ---- once ---- */

static void a_replayed_frame_is_dropped_and_counted(void **state)
{
	(void)state;
	uint8_t first[KV_MSG_MAX], buf[KV_MSG_MAX];
	uint32_t len = ping_frame(first);
	rig_send_raw(first, len);
	rig_until(rig.replies == 1);
	rig_send_raw(first, len);
	rig_until(rig_stat(WIRE_STAT_REPLAYED_FRAMES) == 1);
	rig.seal.next += KV_WINDOW_WIDTH; /* and when it is older than anybody remembers */
	len = ping_frame(buf);
	rig_send_raw(buf, len);
	rig_until(rig.replies == 2);
	rig_send_raw(first, len);
	rig_until(rig_stat(WIRE_STAT_REPLAYED_FRAMES) == 2);
	rig_quiet();
	assert_int_equal(rig.replies, 2);
	assert_int_equal(rig_stat(WIRE_STAT_DUPLICATE_REQUESTS), 0);
}

static void frames_may_arrive_in_any_order(void **state)
{
	(void)state;
	uint8_t buf[20][KV_MSG_MAX];
	uint32_t len = 0;
	for (unsigned i = 0; i < 20; i++)
		len = ping_frame(buf[i]);
	for (unsigned i = 0; i < 20; i += 4) { /* within the credits */
		for (unsigned k = 0; k < 4; k++)
			rig_send_raw(buf[(i + k) * 7 % 20], len);
		rig_until(rig.replies == i + 4);
	}
	assert_int_equal(rig_stat(WIRE_STAT_REPLAYED_FRAMES), 0);
}

static void a_request_in_two_frames_is_answered_once(void **state)
{
	(void)state;
	struct wire_request q = rig_request(WIRE_PING, NULL);
	rig_ask(&q);
	rig_send(&q);
	rig_quiet();
	assert_int_equal(rig.replies, 1);
	assert_int_equal(rig_stat(WIRE_STAT_DUPLICATE_REQUESTS), 1);
}

static void an_id_below_the_window_is_dropped_and_counted(void **state)
{
	(void)state;
	struct wire_request old = rig_request(WIRE_PING, NULL), q = rig_request(WIRE_PING, NULL);
	q.id = old.id + KV_WINDOW_WIDTH + 1;
	rig_ask(&q);
	rig_send(&old);
	rig_quiet();
	assert_int_equal(rig.replies, 1);
	assert_int_equal(rig_stat(WIRE_STAT_DUPLICATE_REQUESTS), 1);
}

static void ids_may_arrive_in_any_order(void **state)
{
	(void)state;
	for (uint64_t id = 50; id > 0; id--) {
		struct wire_request q = rig_request(WIRE_PING, NULL);
		q.id = id;
		assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	}
}

static void an_expired_request_is_not_started(void **state)
{
	(void)state;
	struct wire_request q = rig_request(WIRE_DELETE, "k");
	rig_store("k", 100, 1);
	q.time_left_us = 0;
	assert_int_equal(rig_ask(&q)->status, WIRE_TIMEOUT);
	assert_int_equal(rig_stat(WIRE_STAT_EXPIRED_REQUESTS), 1);
	assert_int_equal(rig_stat(WIRE_STAT_BLOCKS), 1);
}

static void requests_received_are_counted(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		struct wire_request q = rig_request(WIRE_PING, NULL);
		rig_ask(&q);
	}
	assert_int_equal(rig.attachment->own.received, 5);
}

/* ---- credits ---- */

/* Requests that stay active: ends of values whose bytes never come. */
static void hold_credits(unsigned n, struct wire_request *out)
{
	for (unsigned i = 0; i < n; i++) {
		char key[16];
		struct wire_request first;
		snprintf(key, sizeof(key), "h%u", i);
		first = rig_put(key, 100, 0, 0, 1, WIRE_PUT_FIRST);
		assert_int_equal(rig_ask(&first)->status, WIRE_OK);
		out[i] = rig_put("", 100, 100, 0, 1, WIRE_PUT_LAST);
		out[i].key = (struct wire_bytes){(const uint8_t *)strdup(key), (uint32_t)strlen(key)};
		out[i].put.stage = rig_find(first.id)->put.stage;
	}
	for (unsigned i = 0; i < n; i++) {
		rig_send(&out[i]);
		free((void *)(uintptr_t)out[i].key.data);
	}
	rig_until(rig.attachment->link[0].active == n);
}

static void over_credit_is_busy_and_counted(void **state)
{
	(void)state;
	struct wire_request held[RIG_CREDITS], q = rig_get("k", 0, 100), cancel = rig_request(WIRE_CANCEL, NULL), again;
	hold_credits(RIG_CREDITS, held);
	assert_int_equal(rig_ask(&q)->status, WIRE_BUSY);
	assert_int_equal(rig_stat(WIRE_STAT_OVER_CREDIT), 1);
	cancel.cancel.id = held[0].id;
	assert_int_equal(rig_ask(&cancel)->cancel.state, WIRE_CANCEL_STOPPED);
	again = rig_get("k", 0, 100);
	assert_int_equal(rig_ask(&again)->status, WIRE_NOTFOUND);
}

/* Replies beyond the send buffers are held, in order, and no more than the credits and a little slack of them. */
static void replies_without_send_buffers_are_held_and_bounded(void **state)
{
	(void)state;
	struct te_msg *taken[1024];
	struct wire_request q[64];
	struct wire_frame frame = rig_frame();
	unsigned n = 0, slack = RIG_CREDITS + ATTACHMENT_HELD_SLACK;
	rig_store("k", 2000, 1);
	rig_quiet(); /* the last reply's buffer comes back */
	while ((taken[n] = te_msg_acquire(rig.shard->te)) != NULL)
		n++;
	for (unsigned i = 0; i < 24; i++) {
		q[i] = rig_get("k", 0, 2000);
		q[i].flags = WIRE_GET_INLINE;
	}
	rig_send_records(&frame, q, 24);
	rig_until(rig.attachment->link[0].held == slack);
	assert_null(rig_find(q[0].id));
	for (unsigned i = 0; i < 24; i++)
		q[i] = rig_get("k", 0, 2000);
	rig_send_records(&frame, q, 24);
	rig_quiet();
	assert_int_equal(rig.attachment->link[0].held, slack);
	while (n > 0)
		te_msg_release(rig.shard->te, taken[--n]);
	rig_until(rig.attachment->link[0].held == 0);
	rig_quiet();
	for (unsigned i = 1; i < rig.replies; i++)
		if (rig.reply[i].reply.type == WIRE_GET && rig.reply[i].reply.status == WIRE_OK)
			assert_int_equal(rig.reply[i].reply.get.inline_data.len, 2000);
	assert_int_equal(rig.replies, 1 + slack);
}

/* ---- cancel ---- */

static void cancel_of_an_unseen_id_keeps_it_from_running(void **state)
{
	(void)state;
	struct wire_request q = rig_request(WIRE_DELETE, "k"), cancel = rig_request(WIRE_CANCEL, NULL);
	rig_store("k", 100, 1);
	cancel.cancel.id = q.id;
	const struct wire_reply *r = rig_ask(&cancel);
	assert_int_equal(r->status, WIRE_OK);
	assert_int_equal(r->cancel.state, WIRE_CANCEL_UNSEEN);
	assert_int_equal(r->cancel.posted, 0);
	rig_send(&q);
	rig_quiet();
	assert_null(rig_find(q.id));
	assert_int_equal(rig_stat(WIRE_STAT_BLOCKS), 1);
	assert_int_equal(rig_stat(WIRE_STAT_DUPLICATE_REQUESTS), 1);
}

static void cancel_of_what_is_done_tells_the_writes(void **state)
{
	(void)state;
	rig_store("k", 3 << 20, 1);
	struct wire_request q = rig_get("k", 0, 3 << 20), cancel = rig_request(WIRE_CANCEL, NULL);
	rig_ask(&q);
	rig_until(rig.immediates == 3);
	cancel.cancel.id = q.id;
	assert_int_equal(rig_ask(&cancel)->cancel.state, WIRE_CANCEL_DONE);
	assert_int_equal(rig_find(cancel.id)->cancel.posted, 3);
	assert_int_equal(rig_find(cancel.id)->cancel.id, q.id);
}

static void cancel_below_the_window_says_that_nothing_is_known(void **state)
{
	(void)state;
	struct wire_request cancel = rig_request(WIRE_CANCEL, NULL);
	cancel.id = KV_WINDOW_WIDTH * 2;
	cancel.cancel.id = 1;
	assert_int_equal(rig_ask(&cancel)->status, WIRE_STALE);
	assert_int_equal(rig_find(cancel.id)->cancel.posted, UINT32_MAX);
	assert_int_equal(rig_find(cancel.id)->cancel.state, WIRE_CANCEL_DONE);
}

/* The request is under way for so long that its id is below the window. */
static void cancel_below_the_window_of_what_is_under_way_stops_it(void **state)
{
	(void)state;
	struct wire_request held[RIG_CREDITS], cancel;
	hold_credits(RIG_CREDITS, held);
	rig.next_id += KV_WINDOW_WIDTH * 2;
	cancel = rig_request(WIRE_CANCEL, NULL);
	cancel.cancel.id = held[0].id;
	assert_int_equal(rig_ask(&cancel)->status, WIRE_OK);
	assert_int_equal(rig_find(cancel.id)->cancel.state, WIRE_CANCEL_STOPPED);
	assert_int_equal(rig_find(cancel.id)->cancel.posted, 0);
	rig_until(rig_find(held[0].id));
	assert_int_equal(rig_find(held[0].id)->status, WIRE_CANCELED);
}

/* A GET cancelled at any point: both replies name the same number of writes, and exactly so many immediates come. */
static void cancel_of_a_get_in_flight_is_exact(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	unsigned stopped = 0;
	rig_store("k", 16 << 20, 1);
	for (unsigned i = 0; i < 40; i++) {
		struct wire_request q = rig_get("k", 0, 16 << 20), cancel = rig_request(WIRE_CANCEL, NULL);
		const struct wire_reply *r, *c;
		rig.replies = 0;
		rig.immediates = 0;
		cancel.cancel.id = q.id;
		rig_send(&q);
		for (uint64_t turns = kv_prng_below(&p, 25); turns > 0; turns--)
			rig_turn();
		rig_send(&cancel);
		rig_until(rig_find(cancel.id));
		c = rig_find(cancel.id);
		if (c->cancel.state == WIRE_CANCEL_UNSEEN) {
			assert_int_equal(c->cancel.posted, 0);
			rig_quiet();
			assert_null(rig_find(q.id));
			continue;
		}
		rig_until(rig_find(q.id));
		r = rig_find(q.id);
		stopped += c->cancel.state == WIRE_CANCEL_STOPPED;
		assert_int_equal(r->status, c->cancel.state == WIRE_CANCEL_STOPPED ? WIRE_CANCELED : WIRE_OK);
		assert_int_equal(r->get.posted, c->cancel.posted);
		rig_until(rig.immediates == r->get.posted);
		rig_until(rig.shard->requests.used == 0);
	}
	print_message("# %u of 40 were stopped in flight\n", stopped);
}

/* ---- the small requests ---- */

static void exists_gives_bits_and_the_longest_prefix(void **state)
{
	(void)state;
	uint8_t digests[5 * 8];
	const char *keys[] = {"a", "b", "c", "no", "d"};
	struct wire_request q = rig_request(WIRE_EXISTS, NULL);
	const struct wire_reply *r;
	for (unsigned i = 0; i < 5; i++) {
		wire_exists_put(digests, i, kv_hash_key(keys[i], strlen(keys[i]), rig.shard->opt.shard_seed));
		if (i != 3)
			rig_store(keys[i], 10, i);
	}
	q.exists.count = 5;
	q.exists.digests = digests;
	r = rig_ask(&q);
	assert_int_equal(r->exists.count, 5);
	assert_int_equal(r->exists.prefix, 3);
	assert_int_equal(r->exists.bitmap[0], 0x17);
}

static void delete_takes_a_key_once(void **state)
{
	(void)state;
	struct wire_request one = rig_request(WIRE_DELETE, "k"), two = rig_request(WIRE_DELETE, "k");
	rig_store("k", 100, 1);
	assert_int_equal(rig_ask(&one)->status, WIRE_OK);
	assert_int_equal(rig_ask(&two)->status, WIRE_NOTFOUND);
	assert_int_equal(rig_stat(WIRE_STAT_DELETES), 1);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 0);
}

static void touch_sets_the_time_to_live(void **state)
{
	(void)state;
	struct wire_request q = rig_request(WIRE_TOUCH, "k"), missing = rig_request(WIRE_TOUCH, "j");
	struct block *b;
	rig_store("k", 100, 1);
	b = store_find(&rig.shard->store, "k", 1, 0);
	assert_true(b->expire.when_ns == KV_NEVER);
	q.touch.ttl_s = 100;
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	assert_in_range(b->expire.when_ns, loop_now(rig.loop) + 90000000000ull, loop_now(rig.loop) + 100000000000ull);
	assert_int_equal(rig_ask(&missing)->status, WIRE_NOTFOUND);
}

static void a_look_at_the_time_to_live_changes_nothing(void **state)
{
	(void)state;
	struct wire_request q = rig_request(WIRE_TOUCH, "k"), look = rig_request(WIRE_TOUCH, "k"),
			    missing = rig_request(WIRE_TOUCH, "j");
	const struct wire_reply *r;
	struct block *b;
	uint64_t when_ns;
	rig_store("k", 100, 1);
	b = store_find(&rig.shard->store, "k", 1, 0);
	look.flags = missing.flags = WIRE_TOUCH_LOOK;
	look.touch.ttl_s = 7;
	r = rig_ask(&look);
	assert_int_equal(r->status, WIRE_OK);
	assert_true(r->touch.left_ms == UINT64_MAX);
	assert_true(b->expire.when_ns == KV_NEVER);
	q.touch.ttl_s = 100;
	r = rig_ask(&q);
	assert_in_range(r->touch.left_ms, 99000, 100000);
	when_ns = b->expire.when_ns;
	look = rig_request(WIRE_TOUCH, "k");
	look.flags = WIRE_TOUCH_LOOK;
	r = rig_ask(&look);
	assert_in_range(r->touch.left_ms, 90000, 100000);
	assert_true(b->expire.when_ns == when_ns);
	assert_int_equal(rig_stat(WIRE_STAT_TOUCHES), 1);
	assert_int_equal(rig_ask(&missing)->status, WIRE_NOTFOUND);
}

static void pins_have_a_budget_and_end_with_the_session(void **state)
{
	(void)state;
	struct wire_request a, b, release;
	rig_store("a", 6 << 20, 1);
	rig_store("b", 6 << 20, 2);
	a = rig_request(WIRE_PIN, "a");
	b = rig_request(WIRE_PIN, "b");
	release = rig_request(WIRE_PIN, "a");
	release.flags = WIRE_PIN_RELEASE;
	assert_int_equal(rig_ask(&a)->status, WIRE_OK);
	assert_int_equal(rig_ask(&b)->status, WIRE_BUSY);
	assert_int_equal(rig_stat(WIRE_STAT_PINNED_BYTES), 6 << 20);
	assert_int_equal(rig_ask(&release)->status, WIRE_OK);
	assert_int_equal(rig_stat(WIRE_STAT_PINNED_BYTES), 0);
	b = rig_request(WIRE_PIN, "b");
	assert_int_equal(rig_ask(&b)->status, WIRE_OK);
	rig_attachment_end();
	assert_int_equal(rig_stat(WIRE_STAT_PINNED_BYTES), 0);
}

static void stat_gives_every_counter(void **state)
{
	(void)state;
	struct wire_request q;
	const struct wire_reply *r;
	rig_store("k", 5000, 1);
	q = rig_request(WIRE_STAT, NULL);
	r = rig_ask(&q);
	for (uint32_t i = 0, last = 0; i < r->stat.count; i++) {
		uint32_t id;
		uint64_t value;
		wire_stat_pair(r->stat.pairs, i, &id, &value);
		/* All that have a name, in order. */
		for (last++; last < id; last++)
			assert_null(wire_stat_name(last));
		assert_int_equal(id, last);
		assert_non_null(wire_stat_name(id));
		if (id == WIRE_STAT_BLOCKS || id == WIRE_STAT_SESSIONS || id == WIRE_STAT_PUTS)
			assert_int_equal(value, 1);
		if (id == WIRE_STAT_BYTES_USED)
			assert_int_equal(value, 5056);
		if (id == WIRE_STAT_BYTES_LIMIT)
			assert_int_equal(value, RIG_MEMORY);
	}
}

/* ---- what is to be seen from outside ---- */

static void answers_are_counted_by_status(void **state)
{
	(void)state;
	struct wire_request gone = rig_get("nothing", 0, 100), put, conflict;
	uint64_t sum = rig_store("k", 5000, 1);
	rig_ask(&gone);
	put = rig_put("k", 5000, 0, 5000, sum, WIRE_PUT_FIRST | WIRE_PUT_LAST);
	rig_ask(&put);
	conflict = rig_put("k", 5000, 0, 5000, sum + 1, WIRE_PUT_FIRST | WIRE_PUT_LAST);
	rig_ask(&conflict);
	assert_int_equal(rig_stat(WIRE_STAT_STATUS + WIRE_OK), 2);
	assert_int_equal(rig_stat(WIRE_STAT_STATUS + WIRE_NOTFOUND), 1);
	assert_int_equal(rig_stat(WIRE_STAT_STATUS + WIRE_EXISTS_OTHER), 1);
	assert_int_equal(rig_stat(WIRE_STAT_REPLIES), 4);
	assert_int_equal(rig_stat(WIRE_STAT_SLOW), 0);
	assert_int_equal(rig_stat(WIRE_STAT_ACTIVE), 0);
}

/* Bounds that hold on any machine: what a reply says lies within what we waited, and is what STAT sums up. */
static void replies_say_what_the_server_spent(void **state)
{
	(void)state;
	uint64_t before, waited, sum = 0, posts = 0, most = 0;
	const struct wire_reply *r;
	struct wire_request q[3];
	rig_store("k", 4 << 20, 1);
	memset(rig.shard->counts.of, 0, sizeof(rig.shard->counts.of));
	q[0] = rig_get("k", 0, 4 << 20);
	q[1] = rig_get("k", 1 << 20, 2 << 20);
	q[1].flags = WIRE_GET_SUM_RANGE; /* answered later than it is posted: the checksum */
	q[2] = rig_request(WIRE_PING, NULL);
	for (unsigned i = 0; i < 3; i++) {
		before = kv_clock_now(&kv_clock_monotonic);
		r = rig_ask(&q[i]);
		waited = kv_clock_now(&kv_clock_monotonic) - before;
		assert_true(r->replied_ns > 0 && r->replied_ns <= waited);
		assert_true(r->posted_ns > 0 && r->posted_ns <= r->replied_ns);
		sum += r->replied_ns;
		posts += r->posted_ns;
		most = KV_MAX(most, r->replied_ns);
	}
	assert_true(rig_find(q[1].id)->posted_ns < rig_find(q[1].id)->replied_ns);
	assert_int_equal(rig_stat(WIRE_STAT_SERVE_NS), sum);
	assert_int_equal(rig_stat(WIRE_STAT_POST_NS), posts);
	assert_int_equal(rig_stat(WIRE_STAT_SERVE_MAX_NS), most);
}

static struct {
	unsigned lines;
	char first[1024], last[1024];
} slow;

static void slow_line(void *arg, enum kv_log_level level, const char *line)
{
	(void)arg;
	assert_int_equal(level, KV_LOG_WARN);
	snprintf(slow.lines++ ? slow.last : slow.first, sizeof(slow.first), "%s", line);
}

static void slow_requests_are_logged_a_few_per_second(void **state)
{
	(void)state;
	const struct kv_log log = {.level = KV_LOG_WARN, .write = slow_line}, *old = rig.shard->opt.log;
	struct wire_request q[25], get;
	struct wire_frame frame = rig_frame();
	rig_store("key-1", 5000, 1);
	memset(&slow, 0, sizeof(slow));
	rig.shard->opt.log = &log;
	rig.shard->opt.slow_ns = 1;
	rig.shard->counts.slow_lines = (struct kv_rate){0};
	for (unsigned i = 0; i < KV_COUNT(q); i++)
		q[i] = rig_request(WIRE_PING, NULL);
	rig_send_records(&frame, q, KV_COUNT(q)); /* one frame is one turn, and so one moment */
	rig_until(rig_find(q[24].id));
	assert_int_equal(slow.lines, SHARD_SLOW_LINES);
	assert_int_equal(rig_stat(WIRE_STAT_SLOW), 25);
	rig.shard->counts.slow_lines.from_ns -= 2000000000ull;
	slow.lines--;
	q[0] = rig_request(WIRE_LEASES, NULL); /* the last type */
	rig_ask(&q[0]);
	assert_non_null(strstr(slow.last, "slow LEASES client 7 session "));
	assert_non_null(strstr(slow.last, "; OK (15 more were slow, not shown)"));
	get = rig_get("key-1", 0, 5000);
	rig_ask(&get);
	rig.shard->opt.slow_ns = 0;
	rig.shard->opt.log = old;
	assert_non_null(strstr(slow.first, "slow PING client 7 session "));
	assert_non_null(strstr(slow.first, "key -:"));
	assert_int_equal(slow.lines, SHARD_SLOW_LINES + 1);
	assert_non_null(strstr(slow.last, "slow GET client 7 session "));
	assert_non_null(strstr(slow.last, " key 'key-1': "));
	assert_non_null(strstr(slow.last, "; OK"));
}

static void ping_returns_its_cookie_and_the_turns(void **state)
{
	(void)state;
	struct wire_request q = rig_request(WIRE_PING, NULL);
	q.ping.cookie = 0x1234567890ABCDEF;
	assert_true(rig_ask(&q)->ping.cookie == 0x1234567890ABCDEF);
	assert_true(rig_find(q.id)->ping.turns > 0);
}

/* ---- regions ---- */

static void a_revoked_region_is_not_written_any_more(void **state)
{
	(void)state;
	static struct rig_call call;
	rig_store("k", 5000, 1);
	struct wire_request q = rig_get("k", 0, 5000);
	regions_revoke(&rig.attachment->regions, 1, rig_call(&call));
	rig_until(call.done);
	assert_int_equal(rig_ask(&q)->status, WIRE_INVALID);
	assert_int_equal(regions_add(&rig.attachment->regions, rig.mem), 0);
}

static void revoke_waits_for_what_uses_the_region(void **state)
{
	(void)state;
	static struct rig_call call;
	rig_store("k", 16 << 20, 1);
	struct wire_request q = rig_get("k", 0, 16 << 20);
	rig_send(&q);
	rig_until(rig.shard->requests.used > 0);
	regions_revoke(&rig.attachment->regions, 1, rig_call(&call));
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + 10000000000ull;
	while (!call.done) {
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
		bool used = rig.shard->requests.used > 0;
		rig_turn();
		assert_false(used && rig.shard->requests.used > 0 && call.done);
	}
	assert_int_equal(rig.shard->requests.used, 0);
}

/* ---- whether the client is where it says ---- */

/* What is not served before is dropped as if it had not come. */
static void a_link_is_served_once_it_is_proven(void **state)
{
	(void)state;
	struct link *l = &rig.attachment->link[0];
	struct wire_request del = rig_request(WIRE_DELETE, "k"), stat = rig_request(WIRE_STAT, NULL),
			    cancel = rig_request(WIRE_CANCEL, NULL), ping = rig_request(WIRE_PING, NULL),
			    again = rig_request(WIRE_PING, NULL);
	cancel.cancel.id = del.id;
	rig_send(&del);
	rig_send(&stat);
	rig_send(&cancel);
	rig_until(rig_stat(WIRE_STAT_UNPROVEN_REQUESTS) == 3);
	assert_int_equal(rig_ask(&ping)->ping.nonce, l->nonce);
	rig_prove(l->nonce ^ 1);
	rig_until(rig_stat(WIRE_STAT_BAD_PROOFS) == 1);
	assert_false(l->proven);
	rig_prove(l->nonce);
	rig_until(l->proven);
	rig_prove(l->nonce); /* clients say it until they know that it came */
	assert_int_equal(rig_ask(&again)->ping.nonce, 0);
	assert_int_equal(rig_ask(&cancel)->cancel.state, WIRE_CANCEL_UNSEEN);
	assert_int_equal(rig_ask(&stat)->status, WIRE_OK);
	assert_int_equal(rig_stat(WIRE_STAT_UNPROVEN_REQUESTS), 3);
	assert_int_equal(rig_stat(WIRE_STAT_BAD_PROOFS), 1);
}

/* The proof in the frame of the first request. */
static void a_proof_counts_for_what_is_behind_it(void **state)
{
	(void)state;
	struct wire_frame frame = rig_frame();
	struct wire_request records[] = {
		rig_request(WIRE_STAT, NULL),
		{.type = WIRE_PROVE, .time_left_us = UINT32_MAX, .prove.nonce = rig.attachment->link[0].nonce},
		rig_request(WIRE_STAT, NULL)};
	rig_send_records(&frame, records, 3);
	rig_until(rig_find(records[2].id));
	assert_null(rig_find(records[0].id));
	assert_int_equal(rig_stat(WIRE_STAT_UNPROVEN_REQUESTS), 1);
}

static void a_client_that_moves_proves_its_link_again(void **state)
{
	(void)state;
	struct link *l = &rig.attachment->link[0];
	uint64_t nonce = l->nonce;
	struct te_address addr;
	struct kv_error err;
	rig_store("k", 16 << 20, 1);
	struct wire_request q = rig_get("k", 0, 16 << 20), dropped = rig_get("k", 0, 4096),
			    ping = rig_request(WIRE_PING, NULL), served = rig_get("k", 0, 4096);
	rig_send(&q);
	rig_until(rig.shard->requests.used > 0);
	assert_int_equal(te_address(rig.te, 0, &addr), 0);
	if (shard_attachment_readdress(rig.attachment, &addr, 1, &err) != 0)
		fail_msg("%s", err.text);
	assert_true(l->nonce != nonce);
	rig_until(rig.shard->requests.used == 0);
	rig_send(&dropped);
	rig_prove(nonce);
	rig_until(rig_stat(WIRE_STAT_BAD_PROOFS) == 1);
	assert_int_equal(rig_stat(WIRE_STAT_UNPROVEN_REQUESTS), 1);
	rig_quiet();
	assert_null(rig_find(q.id));
	assert_null(rig_find(dropped.id));
	rig_prove(rig_ask(&ping)->ping.nonce);
	assert_int_equal(rig_ask(&served)->status, WIRE_OK);
	rig_quiet();
}

static void announcements_that_do_not_add_up_are_refused(void **state)
{
	(void)state;
	uint8_t keys[2 * 16];
	struct region *r;
	const struct wire_region good = {
		.id = 9, .parts = 2, .rails = 1, .len_bytes = 100, .part_bytes = 64, .keys = keys};
	struct wire_region bad[6] = {good, good, good, good, good, good};
	wire_region_put(keys, 2, 0, 0, 4096, 1);
	wire_region_put(keys, 2, 0, 1, 8192, 2);
	bad[0].parts = 1;
	bad[1].part_bytes = 0;
	bad[2].len_bytes = 0;
	bad[3].len_bytes = 129;
	bad[4].rails = 2;
	bad[5].part_bytes = 32;
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(region_create(&bad[i], 1, &r), -KV_EINVAL);
	assert_int_equal(region_create(&good, 1, &r), 0);
	free(r);
	wire_region_put(keys, 2, 0, 1, UINT64_MAX - 10, 2);
	assert_int_equal(region_create(&good, 1, &r), -KV_EINVAL);
}

/* ---- a client that died ---- */

/* Turn the server until no byte has moved for a while: on a busy machine half a second alone may be no turn at all, and
 * transfers that the sockets still take would end without a fence. */
static void turn_server_until_full(void)
{
	uint64_t moved = UINT64_MAX, now = kv_clock_now(&kv_clock_monotonic), since = now;
	for (unsigned turns = 0; turns < 200 || now < since + 500000000; turns++) {
		uint64_t bytes = rig_stat(WIRE_STAT_RAIL_BYTES);
		if (bytes != moved) {
			moved = bytes;
			since = now;
			turns = 0;
		}
		loop_turn(rig.loop, 1000000);
		now = kv_clock_now(&kv_clock_monotonic);
	}
}

/* The client's engine stands still, so that writes to it never complete. Its memory is quarantined, and fenced free
 * when it is too much. */
static void memory_held_by_a_dead_client_comes_back(void **state)
{
	(void)state;
	static struct rig_call call;
	struct wire_request q[4];
	struct wire_frame frame = rig_frame();
	uint64_t fences = rig_stat(WIRE_STAT_FENCES);
	rig_store("k", 16 << 20, 1);
	for (unsigned i = 0; i < 4; i++)
		q[i] = rig_get("k", 0, 16 << 20);
	rig_send_records(&frame, q, 4);
	rig_until(rig.shard->requests.used > 0);
	turn_server_until_full();
	assert_true(rig.shard->requests.used > 0);
	store_drop(&rig.shard->store, store_find(&rig.shard->store, "k", 1, 0));
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), 16 << 20);
	uint64_t ended = loop_turn_now(rig.loop);
	shard_attachment_end(rig.attachment, rig_call(&call));
	rig.attachment = NULL;
	while (!call.done && loop_now(rig.loop) < ended + 10 * SHARD_QUARANTINE_NS) {
		if (rig_stat(WIRE_STAT_FENCES) == fences) {
			assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), 16 << 20);
			assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 16 << 20);
		}
		loop_turn(rig.loop, 1000000);
	}
	assert_true(call.done);
	assert_true(loop_turn_now(rig.loop) >= ended + SHARD_QUARANTINE_NS);
	assert_int_equal(rig_stat(WIRE_STAT_FENCES), fences + 1);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 0);
}

#define ATTACHMENT_TEST(f) cmocka_unit_test_setup_teardown(f, rig_open, rig_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ATTACHMENT_TEST(a_wrong_tag_is_counted_and_dropped),
		ATTACHMENT_TEST(keys_of_another_shard_direction_or_session_are_wrong),
		ATTACHMENT_TEST(a_frame_of_one_link_is_nothing_on_another),
		ATTACHMENT_TEST(each_link_has_windows_of_its_own),
		ATTACHMENT_TEST(a_mark_or_shard_that_is_not_the_sessions_is_a_bad_frame),
		ATTACHMENT_TEST(an_unknown_session_is_counted_and_dropped),
		ATTACHMENT_TEST(a_link_that_is_not_there_is_a_bad_frame),
		ATTACHMENT_TEST(bytes_that_are_no_frame_are_bad_frames),
		ATTACHMENT_TEST(records_before_a_bad_one_count_those_after_it_do_not),
		ATTACHMENT_TEST(damaged_records_break_nothing),
		ATTACHMENT_TEST(a_replayed_frame_is_dropped_and_counted),
		ATTACHMENT_TEST(frames_may_arrive_in_any_order),
		ATTACHMENT_TEST(a_request_in_two_frames_is_answered_once),
		ATTACHMENT_TEST(an_id_below_the_window_is_dropped_and_counted),
		ATTACHMENT_TEST(ids_may_arrive_in_any_order),
		ATTACHMENT_TEST(an_expired_request_is_not_started),
		ATTACHMENT_TEST(requests_received_are_counted),
		ATTACHMENT_TEST(over_credit_is_busy_and_counted),
		ATTACHMENT_TEST(replies_without_send_buffers_are_held_and_bounded),
		ATTACHMENT_TEST(cancel_of_an_unseen_id_keeps_it_from_running),
		ATTACHMENT_TEST(cancel_of_what_is_done_tells_the_writes),
		ATTACHMENT_TEST(cancel_below_the_window_says_that_nothing_is_known),
		ATTACHMENT_TEST(cancel_below_the_window_of_what_is_under_way_stops_it),
		ATTACHMENT_TEST(cancel_of_a_get_in_flight_is_exact),
		ATTACHMENT_TEST(exists_gives_bits_and_the_longest_prefix),
		ATTACHMENT_TEST(delete_takes_a_key_once),
		ATTACHMENT_TEST(touch_sets_the_time_to_live),
		ATTACHMENT_TEST(a_look_at_the_time_to_live_changes_nothing),
		ATTACHMENT_TEST(pins_have_a_budget_and_end_with_the_session),
		ATTACHMENT_TEST(stat_gives_every_counter),
		ATTACHMENT_TEST(answers_are_counted_by_status),
		ATTACHMENT_TEST(replies_say_what_the_server_spent),
		ATTACHMENT_TEST(slow_requests_are_logged_a_few_per_second),
		ATTACHMENT_TEST(ping_returns_its_cookie_and_the_turns),
		ATTACHMENT_TEST(a_revoked_region_is_not_written_any_more),
		ATTACHMENT_TEST(revoke_waits_for_what_uses_the_region),
		cmocka_unit_test_setup_teardown(a_link_is_served_once_it_is_proven, rig_open_unproven, rig_close),
		cmocka_unit_test_setup_teardown(a_proof_counts_for_what_is_behind_it, rig_open_unproven, rig_close),
		ATTACHMENT_TEST(a_client_that_moves_proves_its_link_again),
		ATTACHMENT_TEST(announcements_that_do_not_add_up_are_refused),
		ATTACHMENT_TEST(memory_held_by_a_dead_client_comes_back), /* last: it voids the addresses */
	};
	return cmocka_run_group_tests_name("kvserver/session", tests, rig_up, rig_down);
}
