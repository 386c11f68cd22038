/* SPDX-License-Identifier: Apache-2.0 */
/* test_frame.c -- frames: full ones, empty ones, many records, the checks of the header, and packed keys and counters.
 */
#include "samples.h"

static const struct wire_request ping = {.type = WIRE_PING, .time_left_us = UINT32_MAX, .id = 1};

static void an_empty_frame_is_a_header(void **state)
{
	uint8_t buf[KV_MSG_MAX];
	struct wire_writer w;
	(void)state;
	wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
	assert_int_equal(wire_frame_end(&w), 0);
}

static void a_frame_is_filled_with_the_smallest_records(void **state)
{
	uint8_t buf[KV_MSG_MAX];
	const struct wire_request stat = {.type = WIRE_STAT, .id = 7};
	const struct wire_reply pin = {.type = WIRE_PIN, .id = 7};
	struct wire_writer w;
	(void)state;
	/* 255 records of 16 bytes do not fit KV_MSG_MAX: 253 do, and the length stops first. */
	wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
	for (int i = 0; i < 253; i++)
		assert_int_equal(wire_request_add(&w, &stat), 0);
	assert_int_equal(w.len, KV_MSG_MAX - 8);
	assert_int_equal(wire_request_add(&w, &stat), -KV_EBUSY);
	assert_int_equal(wire_frame_end(&w), KV_MSG_MAX - 8);
	assert_int_equal(check_requests(buf, KV_MSG_MAX - 8), 253);
	/* Of replies with 24 bytes, 169 fit. */
	wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
	for (int i = 0; i < 169; i++)
		assert_int_equal(wire_reply_add(&w, &pin), 0);
	assert_int_equal(wire_reply_add(&w, &pin), -KV_EBUSY);
	assert_int_equal(wire_frame_end(&w), WIRE_FRAME_HEADER + 169 * WIRE_REPLY_HEADER);
	assert_int_equal(check_replies(buf, WIRE_FRAME_HEADER + 169 * WIRE_REPLY_HEADER), 169);
}

static void records_keep_their_order(void **state)
{
	uint8_t buf[KV_MSG_MAX];
	struct wire_request r = ping;
	struct wire_writer w;
	struct wire_reader reader;
	struct wire_frame frame;
	uint32_t len;
	(void)state;
	wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
	for (r.id = 0; r.id < 100; r.id++)
		assert_int_equal(wire_request_add(&w, &r), 0);
	len = wire_frame_end(&w);
	assert_int_equal(len, WIRE_FRAME_HEADER + 100 * 24);
	assert_int_equal(wire_frame_open(&reader, buf, len, &frame), 0);
	assert_int_equal(frame.records, 100);
	for (uint64_t id = 0; id < 100; id++) {
		assert_int_equal(wire_request_next(&reader, &r), 1);
		assert_int_equal(r.id, id);
	}
	assert_int_equal(wire_request_next(&reader, &r), 0);
	assert_int_equal(wire_request_next(&reader, &r), 0);
}

static void a_small_buffer_is_never_exceeded(void **state)
{
	(void)state;
	for (uint32_t cap = WIRE_FRAME_HEADER; cap < 128; cap++) {
		uint8_t *buf = malloc(cap);
		struct wire_writer w;
		uint32_t fit = (cap - WIRE_FRAME_HEADER) / 24;
		assert_non_null(buf);
		wire_frame_begin(&w, buf, cap, &golden_frame);
		for (uint32_t i = 0; i < fit; i++)
			assert_int_equal(wire_request_add(&w, &ping), 0);
		assert_int_equal(wire_request_add(&w, &ping), -KV_EBUSY);
		assert_int_equal(wire_frame_end(&w), fit ? WIRE_FRAME_HEADER + 24 * fit : 0);
		free(buf);
	}
}

/* A buffer may be larger than a message, but only KV_MSG_MAX bytes of it are used. */
static void a_large_buffer_ends_at_the_message_size(void **state)
{
	static uint8_t buf[2 * KV_MSG_MAX];
	struct wire_writer w;
	(void)state;
	wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
	while (wire_request_add(&w, &ping) == 0)
		assert_true(w.len <= KV_MSG_MAX);
	assert_int_equal(wire_frame_end(&w), WIRE_FRAME_HEADER + (KV_MSG_MAX - WIRE_FRAME_HEADER) / 24 * 24);
}

/* A record can be added after wire_frame_end has returned the present length. */
static void a_frame_that_was_ended_may_go_on(void **state)
{
	uint8_t buf[KV_MSG_MAX];
	struct wire_writer w;
	(void)state;
	wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
	assert_int_equal(wire_request_add(&w, &ping), 0);
	assert_int_equal(wire_frame_end(&w), 64);
	assert_int_equal(check_requests(buf, 64), 1);
	assert_int_equal(wire_request_add(&w, &ping), 0);
	assert_int_equal(wire_frame_end(&w), 88);
	assert_int_equal(check_requests(buf, 88), 2);
}

static int open_with(size_t at, uint8_t value, size_t len)
{
	uint8_t buf[KV_MSG_MAX] = {0};
	struct wire_writer w;
	struct wire_reader reader;
	struct wire_frame frame;
	wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
	assert_int_equal(wire_request_add(&w, &ping), 0);
	assert_int_equal(wire_frame_end(&w), 64);
	buf[at] = value;
	return wire_frame_open(&reader, buf, len, &frame);
}

static void a_bad_header_is_refused(void **state)
{
	(void)state;
	assert_int_equal(open_with(0, 'K', 64), 0);
	assert_int_equal(open_with(0, 'k', 64), -KV_EPROTO); /* magic */
	assert_int_equal(open_with(1, 'r', 64), -KV_EPROTO); /* magic */
	assert_int_equal(open_with(2, 0, 64), -KV_EVERSION); /* another version */
	assert_int_equal(open_with(2, 1, 64), -KV_EVERSION); /* also when other fields are valid */
	assert_int_equal(open_with(26, 0, 64), -KV_EPROTO);  /* no record */
	assert_int_equal(open_with(24, 48, 64), -KV_EPROTO); /* length differs from the received bytes */
	assert_int_equal(open_with(24, 72, 64), -KV_EPROTO);
	assert_int_equal(open_with(3, 255, 64),
			 0); /* any link, shard, mark and counter: only the receiver knows the valid ones */
	assert_int_equal(open_with(27, 255, 64), 0);
	assert_int_equal(open_with(31, 255, 64), 0);
	assert_int_equal(open_with(39, 255, 64), 0);
	assert_int_equal(open_with(24, 60, 60), -KV_EPROTO); /* not a multiple of 8 */
	assert_int_equal(open_with(0, 'K', 39), -KV_EPROTO); /* shorter than a header */
	assert_int_equal(open_with(0, 'K', 0), -KV_EPROTO);
}

static void a_frame_longer_than_a_message_is_refused(void **state)
{
	static uint8_t buf[KV_MSG_MAX + 8];
	struct wire_writer w;
	struct wire_reader reader;
	struct wire_frame frame;
	(void)state;
	wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
	assert_int_equal(wire_request_add(&w, &ping), 0);
	wire_frame_end(&w);
	kv_put16(buf + 24, KV_MSG_MAX + 8);
	assert_int_equal(wire_frame_open(&reader, buf, sizeof(buf), &frame), -KV_EPROTO);
}

/* The count says 1, the bytes hold 2, and the other way round. */
static void record_count_must_agree(void **state)
{
	uint8_t buf[KV_MSG_MAX];
	struct wire_writer w;
	uint32_t len;
	(void)state;
	wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
	assert_int_equal(wire_request_add(&w, &ping), 0);
	assert_int_equal(wire_request_add(&w, &ping), 0);
	len = wire_frame_end(&w);
	assert_int_equal(check_requests(buf, len), 2);
	buf[26] = 1;
	assert_int_equal(check_requests(buf, len), -KV_EPROTO);
	buf[26] = 3;
	assert_int_equal(check_requests(buf, len), -KV_EPROTO);
}

static void records_with_wrong_lengths_are_refused(void **state)
{
	static const uint16_t wrong[] = {0, 8, 15, 17, 20, 25, 32, 0xfff8, 0xffff};
	uint8_t buf[KV_MSG_MAX];
	struct wire_writer w;
	uint32_t len;
	(void)state;
	wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
	assert_int_equal(wire_request_add(&w, &ping), 0);
	len = wire_frame_end(&w);
	for (size_t i = 0; i < KV_COUNT(wrong); i++) {
		kv_put16(buf + WIRE_FRAME_HEADER + 2, wrong[i]);
		assert_int_equal(check_requests(buf, len), -KV_EPROTO);
	}
}

static void request_and_reply_types_do_not_mix(void **state)
{
	size_t len;
	uint8_t *data = unhex(golden_requests[0].hex, &len);
	(void)state;
	assert_int_equal(check_requests(data, len), 1);
	assert_int_equal(check_replies(data, len), -KV_EPROTO);
	free(data);
	data = unhex(golden_replies[0].hex, &len);
	assert_int_equal(check_requests(data, len), -KV_EPROTO);
	assert_int_equal(check_replies(data, len), 1);
	free(data);
}

static void records_of_unknown_types_are_refused(void **state)
{
	size_t stat = 0;
	(void)state;
	while (golden_requests[stat].want.type != WIRE_STAT)
		stat++;
	for (unsigned type = 0; type < 256; type++) {
		size_t len;
		uint8_t *data = unhex(golden_requests[stat].hex, &len); /* STAT: no body */
		data[WIRE_FRAME_HEADER] = (uint8_t)type;
		assert_int_equal(check_requests(data, len), type == WIRE_STAT ? 1 : -KV_EPROTO);
		free(data);
	}
}

static void counters_are_added_while_they_fit(void **state)
{
	uint8_t *buf = malloc(40);
	uint32_t count = 0, id;
	uint64_t value;
	(void)state;
	assert_non_null(buf);
	assert_int_equal(wire_stat_add(buf, 40, &count, WIRE_STAT_HITS, 1), 0);
	assert_int_equal(wire_stat_add(buf, 40, &count, 12345, UINT64_MAX), 0);
	assert_int_equal(wire_stat_add(buf, 40, &count, WIRE_STAT_HITS, 3), -KV_EBUSY);
	assert_int_equal(count, 2);
	wire_stat_pair(buf, 1, &id, &value);
	assert_int_equal(id, 12345);
	assert_int_equal(value, UINT64_MAX);
	free(buf);
}

static void counters_stop_at_what_a_reply_carries(void **state)
{
	static uint8_t buf[WIRE_STAT_MAX * 16 + 16];
	uint32_t count = 0;
	(void)state;
	for (int i = 0; i < WIRE_STAT_MAX; i++)
		assert_int_equal(wire_stat_add(buf, sizeof(buf), &count, 1, 1), 0);
	assert_int_equal(wire_stat_add(buf, sizeof(buf), &count, 1, 1), -KV_EBUSY);
	assert_int_equal(count, WIRE_STAT_MAX);
}

static void an_immediate_holds_both_of_its_numbers(void **state)
{
	(void)state;
	assert_int_equal(wire_imm(0xabcd, 0x1234), 0xabcd1234);
	assert_int_equal(wire_imm(0xffff, 0xffff), 0xffffffff);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_frame_is_a_header),
		cmocka_unit_test(a_frame_is_filled_with_the_smallest_records),
		cmocka_unit_test(records_keep_their_order),
		cmocka_unit_test(a_small_buffer_is_never_exceeded),
		cmocka_unit_test(a_large_buffer_ends_at_the_message_size),
		cmocka_unit_test(a_frame_that_was_ended_may_go_on),
		cmocka_unit_test(a_bad_header_is_refused),
		cmocka_unit_test(a_frame_longer_than_a_message_is_refused),
		cmocka_unit_test(record_count_must_agree),
		cmocka_unit_test(records_with_wrong_lengths_are_refused),
		cmocka_unit_test(request_and_reply_types_do_not_mix),
		cmocka_unit_test(records_of_unknown_types_are_refused),
		cmocka_unit_test(counters_are_added_while_they_fit),
		cmocka_unit_test(counters_stop_at_what_a_reply_carries),
		cmocka_unit_test(an_immediate_holds_both_of_its_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
