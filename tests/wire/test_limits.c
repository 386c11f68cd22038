/* SPDX-License-Identifier: Apache-2.0 */
/* test_limits.c -- each limit at its edge, in the encoder (by struct) and in the decoder (by patching a golden frame).
 */
#include "samples.h"

enum { REQUEST_BODY = WIRE_FRAME_HEADER + WIRE_RECORD_HEADER, REPLY_BODY = WIRE_FRAME_HEADER + WIRE_REPLY_HEADER };

static uint8_t zeros[KV_MSG_MAX];

static int add_request(const struct wire_request *r)
{
	uint8_t buf[KV_MSG_MAX];
	struct wire_writer w;
	int rc;
	wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
	rc = wire_request_add(&w, r);
	if (rc)
		assert_int_equal(w.len, WIRE_FRAME_HEADER);
	else
		assert_int_equal(check_requests(buf, wire_frame_end(&w)), 1);
	return rc;
}

static int add_reply(const struct wire_reply *r)
{
	uint8_t buf[KV_MSG_MAX];
	struct wire_writer w;
	int rc;
	wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
	rc = wire_reply_add(&w, r);
	if (rc)
		assert_int_equal(w.len, WIRE_FRAME_HEADER);
	else
		assert_int_equal(check_replies(buf, wire_frame_end(&w)), 1);
	return rc;
}

static struct wire_request get_request(void)
{
	return (struct wire_request){.type = WIRE_GET,
				     .key = {zeros, 4},
				     .dest = {.region = 1, .count = 1, .slice = KV_RANGE_MAX},
				     .get = {.length = 1000}};
}

static struct wire_request put_request(void)
{
	return (struct wire_request){.type = WIRE_PUT,
				     .key = {zeros, 4},
				     .dest = {.region = 1, .count = 1, .slice = KV_RANGE_MAX},
				     .put = {.total = 1000, .length = 1000}};
}

/* ---- encoder ---- */

static void each_type_has_its_flags_and_no_others(void **state)
{
	static const uint8_t allowed[WIRE_TYPES] = {[WIRE_GET] = 15 | WIRE_GET_PACK | WIRE_GET_PULL | WIRE_GET_MORE |
								 WIRE_GET_MEMORY_ONLY,
						    [WIRE_PUT] = 63,
						    [WIRE_DELETE] = 3,
						    [WIRE_TOUCH] = 15,
						    [WIRE_PIN] = 1,
						    [WIRE_CLEAR] = WIRE_CLEAR_RAISE};
	const uint8_t either = WIRE_GET_FOLLOWS | WIRE_GET_LEASED, only_replies = either | WIRE_GET_HOT;
	uint8_t key[] = {1, 'k'};
	(void)state;
	for (unsigned type = 0; type < 256; type++) {
		for (unsigned flags = 0; flags < 256; flags++) {
			struct wire_request r = {.type = (uint8_t)type, .flags = (uint8_t)flags, .key = {key, 1}};
			struct wire_reply reply = {.type = (uint8_t)type, .flags = (uint8_t)flags};
			bool good = type >= WIRE_GET && type < WIRE_TYPES && (flags & ~(unsigned)allowed[type]) == 0;
			bool good_reply = good && (type < WIRE_SESSION || type == WIRE_LEASES); /* others have none */
			if (type == WIRE_PUT && flags & WIRE_PUT_COPY) {
				good = good && flags & WIRE_PUT_FIRST;
				r.put.born_ns = 1;
			} else if (type == WIRE_PUT) {
				good = good && !(flags & WIRE_PUT_SPARE);
			}
			if (type == WIRE_PUT && flags & WIRE_PUT_SUM_LAST)
				good = good && flags & WIRE_PUT_FIRST && !(flags & (WIRE_PUT_LAST | WIRE_PUT_COPY));
			if (type == WIRE_DELETE) {
				good = good && flags != 3;
				r.drop.which = flags != 0;
			}
			if (type == WIRE_TOUCH)
				good = good && (flags & 3) != 3 && (flags & 9) != 9 && (flags & 12) != 12;
			if (type == WIRE_EXISTS)
				good_reply = (flags & ~(unsigned)(WIRE_EXISTS_DELETED | WIRE_EXISTS_TIER)) == 0;
			if (type == WIRE_TOMBS)
				good_reply = (flags & ~(unsigned)WIRE_TOMBS_LATER) == 0;
			if (type == WIRE_GET) {
				good_reply = (flags & ~(unsigned)(allowed[type] | only_replies)) == 0 &&
					     (flags & either) != either &&
					     (!(flags & WIRE_GET_PACK) || flags & WIRE_GET_FOLLOWS);
				reply.get.lease = reply.get.lease_us = 1;
				reply.get.before = flags & WIRE_GET_PACK ? 1 : 0;
			}
			if (type == WIRE_PROVE) {
				r.time_left_us = UINT32_MAX;
				r.prove.nonce = 1;
			}
			if (type == WIRE_RELEASE) {
				r.time_left_us = UINT32_MAX;
				r.release.count = 1;
				r.release.leases = zeros;
			}
			if (type == WIRE_EXISTS) {
				r.exists.count = 1;
				r.exists.digests = zeros;
			}
			if (type == WIRE_PUT && flags & WIRE_PUT_LANDED) {
				r.put.total = r.put.length = 1;
				r.dest = (struct wire_dest){.count = 1, .slice = 1};
			}
			assert_int_equal(add_request(&r), good ? 0 : -KV_EINVAL);
			assert_int_equal(add_reply(&reply), good_reply ? 0 : -KV_EINVAL);
		}
	}
	assert_int_equal(wire_request_size(&(struct wire_request){.type = 77}), 0);
}

/* A reply with FOLLOWS has no immediates. */
static void a_reply_that_follows_its_write_has_posted_none(void **state)
{
	struct wire_reply reply = {.type = WIRE_GET, .flags = WIRE_GET_FOLLOWS};
	(void)state;
	assert_int_equal(add_reply(&reply), 0);
	reply.get.posted = 1;
	assert_int_equal(add_reply(&reply), -KV_EINVAL);
}

/* A value that lies before its destination was written, and lies not far before it. */
static void a_packed_reply_says_how_far_before(void **state)
{
	struct wire_reply reply = {.type = WIRE_GET, .flags = WIRE_GET_FOLLOWS | WIRE_GET_PACK};
	(void)state;
	assert_int_equal(add_reply(&reply), -KV_EINVAL);
	reply.get.before = WIRE_BEFORE_MAX;
	assert_int_equal(add_reply(&reply), 0);
	reply.get.before++;
	assert_int_equal(add_reply(&reply), -KV_EINVAL);
	reply.get.before = 1;
	reply.status = WIRE_NOTFOUND;
	assert_int_equal(add_reply(&reply), -KV_EINVAL);
	reply.status = WIRE_OK;
	reply.flags = WIRE_GET_FOLLOWS;
	assert_int_equal(add_reply(&reply), -KV_EINVAL);
}

/* Nothing but a value that was found is hot, however it travels. */
static void a_hot_reply_has_status_ok(void **state)
{
	static const uint8_t others[] = {0,
					 WIRE_GET_SUM_RANGE,
					 WIRE_GET_INLINE,
					 WIRE_GET_FOLLOWS,
					 WIRE_GET_LEASED,
					 WIRE_GET_PACK | WIRE_GET_FOLLOWS};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(others); i++) {
		for (int status = -1; status <= WIRE_STATUS_MAX; status++) {
			struct wire_reply r = {.type = WIRE_GET,
					       .flags = others[i] | WIRE_GET_HOT,
					       .status = status,
					       .get = {.lease = 1, .lease_us = 1}};
			r.get.before = r.flags & WIRE_GET_PACK ? 1 : 0;
			assert_int_equal(add_reply(&r), status == WIRE_OK ? 0 : -KV_EINVAL);
		}
	}
}

/* A SESSION record is not a request: it has neither time nor id. */
static void a_session_record_has_a_number_and_nothing_else(void **state)
{
	struct wire_request r = {.type = WIRE_SESSION, .session = {.number = 7}};
	(void)state;
	assert_int_equal(wire_request_size(&r), WIRE_SESSION_BYTES);
	assert_int_equal(add_request(&r), 0);
	r.id = 1;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r.id = 0;
	r.time_left_us = 1;
	assert_int_equal(add_request(&r), -KV_EINVAL);
}

/* A leased value is not moved: the reply has neither inline bytes nor immediates, but a lease and a lease time. */
static void a_leased_reply_has_a_lease_and_no_bytes(void **state)
{
	struct wire_reply reply = {.type = WIRE_GET, .flags = WIRE_GET_LEASED, .get = {.lease = 1, .lease_us = 1}},
			  r = reply;
	(void)state;
	assert_int_equal(add_reply(&r), 0);
	r.get.posted = 1;
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	r = reply;
	r.get.inline_data = (struct wire_bytes){zeros, 1};
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	r = reply;
	r.get.lease = 0;
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	r = reply;
	r.get.lease_us = 0;
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	r = reply;
	r.get.at = UINT64_MAX;
	assert_int_equal(add_reply(&r), 0);
}

static void a_release_names_leases_and_has_no_id(void **state)
{
	struct wire_request release = {.type = WIRE_RELEASE, .time_left_us = UINT32_MAX, .release = {1, zeros}},
			    r = release;
	(void)state;
	assert_int_equal(add_request(&r), 0);
	r.release.count = 0;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r.release.count = WIRE_RELEASE_MAX;
	assert_int_equal(add_request(&r), 0);
	r.release.count = WIRE_RELEASE_MAX + 1;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r = release;
	r.id = 1;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r = release;
	r.time_left_us = 5;
	assert_int_equal(add_request(&r), -KV_EINVAL);
}

static void a_key_has_a_length_within_bounds(void **state)
{
	static const uint8_t keyed[] = {WIRE_GET, WIRE_PUT, WIRE_DELETE, WIRE_TOUCH, WIRE_PIN};
	(void)state;
	for (size_t i = 0; i < sizeof(keyed); i++) {
		struct wire_request r = {.type = keyed[i], .key = {zeros, 0}};
		assert_int_equal(add_request(&r), -KV_EINVAL);
		r.key.len = 1;
		assert_int_equal(add_request(&r), 0);
		r.key.len = KV_KEY_MAX;
		assert_int_equal(add_request(&r), 0);
		r.key.len = KV_KEY_MAX + 1;
		assert_int_equal(add_request(&r), -KV_EINVAL);
		r.key.len = UINT32_MAX;
		assert_int_equal(add_request(&r), -KV_EINVAL);
	}
}

static void a_get_keeps_its_range(void **state)
{
	struct wire_request r = get_request();
	(void)state;
	r.get.length = KV_RANGE_MAX;
	assert_int_equal(add_request(&r), 0);
	r.get.offset = KV_VALUE_MAX;
	assert_int_equal(add_request(&r), 0);
	r.get.offset++;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r.get.offset = 0;
	r.get.length = KV_RANGE_MAX + 1;
	r.dest.slice *= 2;
	assert_int_equal(add_request(&r), -KV_EINVAL);
}

static void get_of_length_0_needs_no_dest(void **state)
{
	struct wire_request r = get_request();
	(void)state;
	r.get.length = 0;
	r.dest = (struct wire_dest){0};
	assert_int_equal(add_request(&r), 0);
	r.dest.region = 1;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* neither empty nor complete */
	r.dest.count = 1;
	assert_int_equal(add_request(&r), 0);
}

/* A client on the same host asks for a lease of any part. */
static void get_of_a_lease_needs_no_dest(void **state)
{
	struct wire_request r = get_request();
	(void)state;
	r.dest = (struct wire_dest){0};
	r.get.length = 1;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r.flags |= WIRE_GET_PULL;
	assert_int_equal(add_request(&r), 0);
	r.get.length = KV_VALUE_MAX;
	assert_int_equal(add_request(&r), 0);
	r.get.length++;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r.get.length = 1;
	r.dest.offset = 1;
	assert_int_equal(add_request(&r), -KV_EINVAL);
}

static void a_destination_covers_the_length_and_does_not_wrap(void **state)
{
	struct wire_request r = get_request();
	(void)state;
	r.dest = (struct wire_dest){.count = 10, .slice = 100};
	assert_int_equal(add_request(&r), 0);
	r.dest.slice = 99; /* does not cover the length */
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r.dest = (struct wire_dest){.slice = 1000};
	assert_int_equal(add_request(&r), -KV_EINVAL); /* no slice */
	r.dest = (struct wire_dest){.count = 2, .slice = (uint64_t)1 << 63};
	assert_int_equal(add_request(&r), -KV_EINVAL); /* slice * count overflows */
	r.dest = (struct wire_dest){.count = 1, .offset = UINT64_MAX - 1000, .slice = 1000, .stride = UINT64_MAX};
	assert_int_equal(add_request(&r), 0); /* one slice: the stride does not matter */
	r.dest.offset++;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* offset + slice overflows */
	r.dest = (struct wire_dest){.count = 3, .stride = (uint64_t)1 << 63, .slice = 1000};
	assert_int_equal(add_request(&r), -KV_EINVAL); /* 2 * stride overflows */
	r.dest = (struct wire_dest){.count = 2, .stride = UINT64_MAX - 1999, .offset = 1000, .slice = 1000};
	assert_int_equal(add_request(&r), -KV_EINVAL); /* the end is 2^64 + 1 - 1 */
	r.dest.offset = 999;
	assert_int_equal(add_request(&r), 0); /* the end is 2^64 - 1 */
	r.dest = (struct wire_dest){.count = UINT32_MAX, .stride = UINT32_MAX, .slice = UINT32_MAX};
	assert_int_equal(add_request(&r), 0);
}

static void a_put_stays_within_its_total(void **state)
{
	struct wire_request r = put_request();
	(void)state;
	assert_int_equal(add_request(&r), 0);
	r.put.offset = 1;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* past the total */
	r.put.offset = UINT64_MAX - 999;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* offset + length is 0 */
	r.put = (typeof(r.put)){.total = KV_VALUE_MAX, .offset = KV_VALUE_MAX - KV_RANGE_MAX, .length = KV_RANGE_MAX};
	assert_int_equal(add_request(&r), 0);
	r.put.total++;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r.put = (typeof(r.put)){.total = KV_VALUE_MAX, .length = KV_RANGE_MAX + 1};
	r.dest.slice *= 2;
	assert_int_equal(add_request(&r), -KV_EINVAL);
}

static void a_first_put_has_no_stage(void **state)
{
	struct wire_request r = put_request();
	(void)state;
	r.put.stage = 5;
	assert_int_equal(add_request(&r), 0);
	r.flags = WIRE_PUT_FIRST;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r.put.stage = 0;
	assert_int_equal(add_request(&r), 0);
}

static void a_put_carries_inline_what_a_record_holds(void **state)
{
	struct wire_request r = put_request();
	(void)state;
	r.put.total = r.put.length = KV_INLINE_MAX;
	r.put.inline_data = (struct wire_bytes){zeros, KV_INLINE_MAX};
	assert_int_equal(add_request(&r),
			 0); /* dest stays set: it is written as zeros, which check_requests would miss otherwise */
	r.key.len = KV_KEY_MAX;
	assert_int_equal(add_request(&r), 0); /* the largest PUT fits a frame */
	r.put.inline_data.len--;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* not the whole range */
	r.put.total = r.put.length = r.put.inline_data.len = KV_INLINE_MAX + 1;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r.put.total = r.put.length = r.put.inline_data.len = 65536 + 10;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* would not fit the u16 */
	r.put.total = r.put.length = r.put.inline_data.len = 0;
	assert_int_equal(add_request(&r), 0); /* an empty value */
}

static void a_put_has_a_source_that_covers_its_length(void **state)
{
	struct wire_request r = put_request();
	(void)state;
	r.dest.count = 0;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r.dest = (struct wire_dest){.count = 1, .slice = 999};
	assert_int_equal(add_request(&r), -KV_EINVAL);
}

static void landed_bytes_are_one_piece_of_the_landing_area(void **state)
{
	const struct wire_dest wrong[] = {{1, 1, 0, 0, 1000}, {0, 2, 0, 0, 500},  {0, 1, 0, 1000, 1000},
					  {0, 1, 0, 0, 999},  {0, 1, 0, 0, 1001}, {0, 1, UINT64_MAX - 998, 0, 1000},
					  {0, 0, 0, 0, 0}};
	struct wire_request r = put_request();
	(void)state;
	r.flags = WIRE_PUT_LANDED;
	r.dest = (struct wire_dest){.count = 1, .offset = UINT64_MAX - 1000, .slice = 1000};
	assert_int_equal(add_request(&r), 0);
	for (unsigned i = 0; i < KV_COUNT(wrong); i++) {
		r.dest = wrong[i];
		assert_int_equal(add_request(&r), -KV_EINVAL);
	}
	r.dest = (struct wire_dest){.count = 1, .slice = 1000};
	r.put.inline_data = (struct wire_bytes){zeros, 1000};
	assert_int_equal(add_request(&r), -KV_EINVAL); /* inline and landed */
	r.put.inline_data.len = 0;
	r.put.length = r.dest.slice = 0;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* nothing landed */
}

static void exists_counts_its_keys(void **state)
{
	uint8_t digests[8 * (WIRE_EXISTS_MAX + 1)] = {0};
	struct wire_request r = {.type = WIRE_EXISTS, .exists = {.digests = digests}};
	(void)state;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* no key */
	r.exists.count = WIRE_EXISTS_MAX;
	assert_int_equal(add_request(&r), 0);
	r.exists.count++;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* too many keys */
}

/* When keys do not fit in the frame, the error is "no room" and not a broken limit. */
static void exists_larger_than_a_frame_is_refused(void **state)
{
	uint8_t digests[8 * WIRE_EXISTS_MAX] = {0}, buf[KV_MSG_MAX];
	struct wire_request r = {.type = WIRE_EXISTS, .exists = {WIRE_EXISTS_MAX, digests}};
	struct wire_writer w;
	(void)state;
	wire_frame_begin(&w, buf, sizeof(buf) / 2, &golden_frame);
	assert_int_equal(wire_request_add(&w, &r), -KV_EBUSY);
	assert_int_equal(wire_frame_end(&w), 0);
}

static void which_value_is_meant_is_said_once(void **state)
{
	uint8_t key[] = {'k'};
	struct wire_request r = {.type = WIRE_DELETE, .key = {key, 1}, .drop.which = 1};
	(void)state;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* without a flag */
	r.flags = WIRE_DELETE_AT;
	assert_int_equal(add_request(&r), 0);
	r.drop.which = 0;
	assert_int_equal(add_request(&r), 0); /* now */
	r.flags = WIRE_DELETE_THIS;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* there is no generation 0 */
	r = (struct wire_request){.type = WIRE_TOUCH, .key = {key, 1}, .touch.young_ns = 1};
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r.flags = WIRE_TOUCH_YOUNG;
	assert_int_equal(add_request(&r), 0);
	r.flags = WIRE_TOUCH_AT | WIRE_TOUCH_MARK;
	assert_int_equal(add_request(&r), 0);
	r.flags = WIRE_TOUCH_AT | WIRE_TOUCH_YOUNG;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r.flags = WIRE_TOUCH_AT | WIRE_TOUCH_LOOK;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r = (struct wire_request){
		.type = WIRE_PUT, .flags = WIRE_PUT_FIRST | WIRE_PUT_COPY, .key = {key, 1}, .put = {.born_ns = 1}};
	assert_int_equal(add_request(&r), 0);
	r.put.born_ns = 0;
	assert_int_equal(add_request(&r), -KV_EINVAL);
	r.put.born_ns = 1;
	r.flags = WIRE_PUT_LAST | WIRE_PUT_COPY;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* only the first range says it */
	r = (struct wire_request){.type = WIRE_PUT, .flags = WIRE_PUT_FIRST | WIRE_PUT_SPARE, .key = {key, 1}};
	assert_int_equal(add_request(&r), -KV_EINVAL); /* only a copy */
	r = (struct wire_request){.type = WIRE_PUT, .flags = WIRE_PUT_FIRST | WIRE_PUT_SUM_LAST, .key = {key, 1}};
	assert_int_equal(add_request(&r), 0);
	r.put.checksum = 1;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* the last range has it */
	r = (struct wire_request){.type = WIRE_PUT, .flags = WIRE_PUT_LAST, .key = {key, 1}, .put = {.space = 1}};
	assert_int_equal(add_request(&r), -KV_EINVAL); /* only the first range names the namespace's generation */
	r.flags = WIRE_PUT_FIRST;
	assert_int_equal(add_request(&r), 0);
	r.flags = WIRE_PUT_FIRST | WIRE_PUT_COPY;
	r.put.born_ns = 1;
	assert_int_equal(add_request(&r), -KV_EINVAL); /* a copy has the time of its birth */
}

static void replies_keep_their_lengths(void **state)
{
	struct wire_reply r = {.type = WIRE_GET, .get = {.inline_data = {zeros, KV_INLINE_MAX}}};
	(void)state;
	assert_int_equal(add_reply(&r), 0);
	r.get.inline_data.len++;
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	r = (struct wire_reply){.type = WIRE_STAT, .stat = {WIRE_STAT_MAX, zeros}};
	assert_int_equal(add_reply(&r), 0);
	r.stat.count++;
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	r = (struct wire_reply){.type = WIRE_EXISTS, .exists = {WIRE_EXISTS_MAX, WIRE_EXISTS_MAX, zeros, NULL}};
	assert_int_equal(add_reply(&r), 0);
	r.exists.count++;
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	r.exists.count = 3;
	assert_int_equal(add_reply(&r), -KV_EINVAL); /* the prefix is longer than the list */
	r = (struct wire_reply){.type = WIRE_TOMBS, .tombs = {.count = WIRE_TOMBS_MAX, .tombs = zeros}};
	assert_int_equal(add_reply(&r), 0);
	r.tombs.count++;
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	r = (struct wire_reply){.type = WIRE_SPACES, .rows = {.count = WIRE_SPACES_MAX, .at = zeros}};
	assert_int_equal(add_reply(&r), 0);
	r.rows.count++;
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	r = (struct wire_reply){.type = WIRE_TENANTS, .rows = {.count = WIRE_TENANTS_MAX, .at = zeros}};
	assert_int_equal(add_reply(&r), 0);
	r.rows.count++;
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	r = (struct wire_reply){.type = WIRE_LEASES, .rows = {.count = WIRE_LEASES_MAX, .at = zeros}};
	assert_int_equal(add_reply(&r), 0);
	r.rows.count++;
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	r = (struct wire_reply){.type = WIRE_CANCEL, .cancel = {.state = WIRE_CANCEL_DONE}};
	assert_int_equal(add_reply(&r), 0);
	r.cancel.state++;
	assert_int_equal(add_reply(&r), -KV_EINVAL);
}

static void replies_keep_their_contents_in_bounds(void **state)
{
	uint8_t bitmap[2] = {0xff, 0x0f}, beyond[2] = {0, 0x10}, pair[16] = {0};
	struct wire_reply r = {.type = WIRE_EXISTS, .exists = {.count = 12, .prefix = 12, .bitmap = bitmap}};
	(void)state;
	assert_int_equal(add_reply(&r), 0);
	bitmap[1] = 0x10; /* key 12 of 0..11 */
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	bitmap[1] = 0x0f;
	r.flags = WIRE_EXISTS_DELETED;
	r.exists.deleted = bitmap;
	assert_int_equal(add_reply(&r), 0);
	r.exists.deleted = beyond;
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	r.flags = WIRE_EXISTS_TIER;
	r.exists.tier = bitmap;
	assert_int_equal(add_reply(&r), 0);
	r.exists.tier = beyond;
	assert_int_equal(add_reply(&r), -KV_EINVAL);
	r = (struct wire_reply){.type = WIRE_STAT, .stat = {1, pair}};
	assert_int_equal(add_reply(&r), 0);
	pair[4] = 1; /* reserved */
	assert_int_equal(add_reply(&r), -KV_EINVAL);
}

/* ---- decoder ---- */

struct patch {
	const char *name;
	uint8_t at, width; /* in the body */
	uint64_t value;
	bool good;
};

static void patched(const struct patch *p, const char *hex, size_t body, int (*check)(const uint8_t *, size_t))
{
	size_t len;
	uint8_t *data = unhex(hex, &len), little[8];
	print_message("# %s: %u bytes at %u = %llu\n", p->name, p->width, p->at, (unsigned long long)p->value);
	kv_put64(little, p->value);
	assert_true(body + p->at + p->width <= len);
	memcpy(data + body + p->at, little, p->width);
	assert_int_equal(check(data, len), p->good ? 1 : -KV_EPROTO);
	free(data);
}

static void a_request_with_a_wrong_field_is_refused(void **state)
{
	/* The golden GET and PUT have a dest of 3 slices of 0x400, 0x2000 apart, at 0x1000. */
	static const struct patch patches[] = {
		{"get", 0, 8, KV_VALUE_MAX, true},
		{"get", 0, 8, KV_VALUE_MAX + 1, false},
		{"get", 8, 8, 0xc00, true},
		{"get", 8, 8, 0xc01, false}, /* more than the slices hold */
		{"get", 28, 2, 0, false},
		{"get", 28, 2, 6, true}, /* a zero of the padding becomes the last byte of the key */
		{"get", 28, 2, 9, false},
		{"get", 28, 2, 4, false}, /* the fifth byte becomes padding that is not zero */
		{"get", 28, 2, 129, false},
		{"get", 28, 2, 0xffff, false},
		{"get", 32 + 4, 4, 0, false},
		{"get", 32 + 4, 4, 2, false},
		{"get", 32 + 4, 4, UINT32_MAX, true},
		{"get", 32 + 8, 8, UINT64_MAX, false},
		{"get", 32 + 8, 8, UINT64_MAX - 0x4400, true},
		{"get", 32 + 8, 8, UINT64_MAX - 0x43ff, false},
		{"get", 32 + 16, 8, (uint64_t)1 << 63, false},
		{"get", 32 + 24, 8, UINT64_MAX / 3 + 1, false},
		{"put_read", 0, 8, 0xbff, false},
		{"put_read", 0, 8, 0xc00, true},
		{"put_read", 0, 8, KV_VALUE_MAX, true},
		{"put_read", 0, 8, KV_VALUE_MAX + 1, false},
		{"put_read", 8, 8, 0x1400, true},
		{"put_read", 8, 8, 0x1401, false},
		{"put_read", 8, 8, UINT64_MAX - 0xbff, false},
		{"put_read", 16, 8, 0, false}, /* a source without a range */
		{"put_read", 16, 8, KV_RANGE_MAX + 1, false},
		{"put_read", 32, 8, 1, false}, /* a stage with FIRST */
		{"put_last", 32, 8, UINT64_MAX, true},
		{"put_read", 40, 8, UINT64_MAX, true},
		{"put_last", 40, 8, 1, false}, /* the namespace's generation without FIRST */
		{"clear", 0, 8, UINT64_MAX, true},
		{"put_inline", 54, 2, 5, false},
		{"put_inline", 54, 2, 7, false},
		{"put_inline", 16, 8, 5, false},
		{"put_inline", 52, 2, 11, false}, /* key and inline bytes take more than the record has */
		{"exists", 0, 2, 0, false},
		{"exists", 0, 2, 2, false},
		{"exists", 0, 2, 4, false},
		{"exists", 0, 2, 481, false},
		{"exists", 8, 8, 0, true},
		{"delete", 0, 2, 4, true}, /* the same */
		{"delete", 0, 2, 8, true},
		{"delete", 0, 2, 9, false},
		{"delete", 0, 2, 2, false},
		{"touch", 4, 4, UINT32_MAX, true},
		{"pin", 4, 4, 1, false},
	};
	(void)state;
	for (size_t i = 0; i < KV_COUNT(patches); i++) {
		bool found = false;
		for (size_t k = 0; k < golden_requests_n; k++) {
			if (strcmp(golden_requests[k].name, patches[i].name) == 0) {
				patched(&patches[i], golden_requests[k].hex, REQUEST_BODY, check_requests);
				found = true;
			}
		}
		assert_true(found);
	}
}

static void a_reply_with_a_wrong_field_is_refused(void **state)
{
	static const struct patch patches[] = {
		{"get_inline", 28, 4, 4, false},
		{"get_inline", 28, 4, 8, true},
		{"get_inline", 28, 4, 9, false},
		{"get_inline", 28, 4, UINT32_MAX, false},
		{"get_pushed", 28, 4, 1, false},
		{"exists", 0, 2, 10, false}, /* bit 10 is set */
		{"exists", 0, 2, 16, true},
		{"exists", 0, 2, 65, false},
		{"exists", 0, 2, 481, false},
		{"exists", 2, 2, 11, true},
		{"exists", 2, 2, 12, false},
		{"stat", 0, 2, 1, false},
		{"stat", 0, 2, 3, false},
		{"stat", 0, 2, 0xffff, false},
		{"stat", 8, 4, UINT32_MAX, true},
		{"cancel", 12, 4, WIRE_CANCEL_DONE, true},
		{"cancel", 12, 4, WIRE_CANCEL_DONE + 1, false},
	};
	(void)state;
	for (size_t i = 0; i < KV_COUNT(patches); i++) {
		bool found = false;
		for (size_t k = 0; k < golden_replies_n; k++) {
			if (strcmp(golden_replies[k].name, patches[i].name) == 0) {
				patched(&patches[i], golden_replies[k].hex, REPLY_BODY, check_replies);
				found = true;
			}
		}
		assert_true(found);
	}
}

static const char *golden_get(const char *name)
{
	for (size_t k = 0; k < golden_replies_n; k++)
		if (strcmp(golden_replies[k].name, name) == 0)
			return golden_replies[k].hex;
	fail();
	return NULL;
}

/* Read, too, HOT goes with OK alone. */
static void hot_is_read_with_ok_only(void **state)
{
	size_t len;
	uint8_t *hot = unhex(golden_get("get_hot"), &len), *status = hot + WIRE_FRAME_HEADER + 4;
	(void)state;
	assert_int_equal(check_replies(hot, len), 1);
	for (uint32_t other = 1; other <= WIRE_STATUS_MAX; other++) {
		kv_put32(status, other);
		assert_int_equal(check_replies(hot, len), -KV_EPROTO);
	}
	free(hot);
}

static void unknown_status_is_the_receivers_business(void **state)
{
	struct wire_reply r = {.type = WIRE_TOUCH, .status = 12345};
	(void)state;
	assert_int_equal(add_reply(&r), 0);
	r.status = -1;
	assert_int_equal(add_reply(&r), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_type_has_its_flags_and_no_others),
		cmocka_unit_test(a_session_record_has_a_number_and_nothing_else),
		cmocka_unit_test(a_reply_that_follows_its_write_has_posted_none),
		cmocka_unit_test(a_packed_reply_says_how_far_before),
		cmocka_unit_test(a_hot_reply_has_status_ok),
		cmocka_unit_test(a_leased_reply_has_a_lease_and_no_bytes),
		cmocka_unit_test(a_release_names_leases_and_has_no_id),
		cmocka_unit_test(a_key_has_a_length_within_bounds),
		cmocka_unit_test(a_get_keeps_its_range),
		cmocka_unit_test(get_of_length_0_needs_no_dest),
		cmocka_unit_test(get_of_a_lease_needs_no_dest),
		cmocka_unit_test(a_destination_covers_the_length_and_does_not_wrap),
		cmocka_unit_test(a_put_stays_within_its_total),
		cmocka_unit_test(a_first_put_has_no_stage),
		cmocka_unit_test(a_put_carries_inline_what_a_record_holds),
		cmocka_unit_test(a_put_has_a_source_that_covers_its_length),
		cmocka_unit_test(landed_bytes_are_one_piece_of_the_landing_area),
		cmocka_unit_test(exists_counts_its_keys),
		cmocka_unit_test(which_value_is_meant_is_said_once),
		cmocka_unit_test(exists_larger_than_a_frame_is_refused),
		cmocka_unit_test(replies_keep_their_lengths),
		cmocka_unit_test(replies_keep_their_contents_in_bounds),
		cmocka_unit_test(a_request_with_a_wrong_field_is_refused),
		cmocka_unit_test(a_reply_with_a_wrong_field_is_refused),
		cmocka_unit_test(hot_is_read_with_ok_only),
		cmocka_unit_test(unknown_status_is_the_receivers_business),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
