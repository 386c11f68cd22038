/* SPDX-License-Identifier: Apache-2.0 */
/* test_random.c -- random valid messages survive encoding and decoding, alone and many in a frame. The seed is printed;
 * KVRAIL_SEED sets it. */
#include "samples.h"

enum { ROUNDS = 20000, CTRL_ROUNDS = 2000 };

static struct scratch scratch;
static struct kv_prng prng;

static int setup(void **state)
{
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED");
	(void)state;
	print_message("# KVRAIL_SEED=%llu\n", (unsigned long long)seed);
	kv_prng_seed(&prng, seed);
	return 0;
}

static void random_frame(struct wire_frame *f)
{
	f->session = (uint32_t)kv_prng_next(&prng);
	f->link = (uint8_t)kv_prng_next(&prng);
	f->shard = (uint8_t)kv_prng_next(&prng);
	f->mark = (uint32_t)kv_prng_next(&prng);
	f->counter = kv_prng_next(&prng);
	kv_prng_fill(&prng, f->tag, sizeof(f->tag));
}

static void random_requests_come_back(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		uint8_t buf[KV_MSG_MAX], *data;
		struct wire_frame frame, got_frame;
		struct wire_request want, got;
		struct wire_reader reader;
		struct wire_writer w;
		uint32_t len;
		random_frame(&frame);
		random_request(&prng, &scratch, &want);
		wire_frame_begin(&w, buf, sizeof(buf), &frame);
		assert_int_equal(wire_request_add(&w, &want), 0);
		len = wire_frame_end(&w);
		assert_int_equal(len, WIRE_FRAME_HEADER + wire_request_size(&want));
		data = exact_copy(buf, len);
		assert_int_equal(wire_frame_open(&reader, data, len, &got_frame), 0);
		assert_int_equal(got_frame.session, frame.session);
		assert_int_equal(got_frame.link, frame.link);
		assert_int_equal(got_frame.shard, frame.shard);
		assert_int_equal(got_frame.mark, frame.mark);
		assert_int_equal(got_frame.counter, frame.counter);
		assert_memory_equal(got_frame.tag, frame.tag, KV_MAC_TAG);
		assert_int_equal(wire_request_next(&reader, &got), 1);
		assert_request(&got, &want);
		assert_request_limits(&got, data, len);
		assert_int_equal(wire_request_next(&reader, &got), 0);
		free(data);
	}
}

static void random_replies_come_back(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		uint8_t buf[KV_MSG_MAX], *data;
		struct wire_frame frame;
		struct wire_reply want, got;
		struct wire_reader reader;
		struct wire_writer w;
		uint32_t len;
		random_frame(&frame);
		random_reply(&prng, &scratch, &want);
		wire_frame_begin(&w, buf, sizeof(buf), &frame);
		assert_int_equal(wire_reply_add(&w, &want), 0);
		len = wire_frame_end(&w);
		data = exact_copy(buf, len);
		assert_int_equal(wire_frame_open(&reader, data, len, &frame), 0);
		assert_int_equal(wire_reply_next(&reader, &got), 1);
		assert_reply(&got, &want);
		assert_reply_limits(&got, data, len);
		assert_int_equal(wire_reply_next(&reader, &got), 0);
		free(data);
	}
}

/* Fill frames until a record does not fit. Count and bytes must come back, and that record must leave no trace. */
static void full_frames_of_requests_come_back(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS / 20; i++) {
		uint8_t buf[KV_MSG_MAX], before[KV_MSG_MAX], *data;
		struct wire_request r;
		struct wire_writer w, w_before;
		struct wire_frame frame;
		uint32_t len;
		int rc, added = -1;
		random_frame(&frame);
		memset(buf, 0xee, sizeof(buf));
		wire_frame_begin(&w, buf, sizeof(buf), &frame);
		do {
			random_request(&prng, &scratch, &r);
			memcpy(before, buf, sizeof(buf));
			w_before = w;
			rc = wire_request_add(&w, &r);
			added++;
		} while (rc == 0);
		assert_int_equal(rc, -KV_EBUSY);
		assert_true(w.len + wire_request_size(&r) > KV_MSG_MAX || w.records == WIRE_RECORDS_MAX);
		assert_memory_equal(before, buf, sizeof(buf));
		assert_int_equal(w.len, w_before.len);
		assert_int_equal(w.records, added);
		len = wire_frame_end(&w);
		data = exact_copy(buf, len);
		assert_int_equal(check_requests(data, len), added);
		free(data);
	}
}

static void full_frames_of_replies_come_back(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS / 20; i++) {
		uint8_t buf[KV_MSG_MAX], before[KV_MSG_MAX], *data;
		struct wire_reply r;
		struct wire_writer w;
		struct wire_frame frame;
		uint32_t len;
		int rc, added = -1;
		random_frame(&frame);
		memset(buf, 0xee, sizeof(buf));
		wire_frame_begin(&w, buf, sizeof(buf), &frame);
		do {
			random_reply(&prng, &scratch, &r);
			memcpy(before, buf, sizeof(buf));
			rc = wire_reply_add(&w, &r);
			added++;
		} while (rc == 0);
		assert_int_equal(rc, -KV_EBUSY);
		assert_memory_equal(before, buf, sizeof(buf));
		assert_int_equal(w.records, added);
		len = wire_frame_end(&w);
		data = exact_copy(buf, len);
		assert_int_equal(check_replies(data, len), added);
		free(data);
	}
}

static void random_control_messages_come_back(void **state)
{
	const size_t cap = 4 + KV_CTRL_MAX;
	uint8_t *buf = malloc(cap);
	(void)state;
	assert_non_null(buf);
	for (int i = 0; i < CTRL_ROUNDS; i++) {
		struct wire_ctrl_msg want, got;
		uint8_t *data;
		int len;
		random_ctrl(&prng, &scratch, &want);
		len = wire_ctrl_encode(&want, buf, cap);
		assert_true(len >= WIRE_CTRL_HEADER);
		data = exact_copy(buf, (size_t)len);
		assert_int_equal(wire_ctrl_length(data, 4), len);
		assert_int_equal(wire_ctrl_decode(data, (size_t)len, &got), 0);
		assert_ctrl(&got, &want);
		assert_int_equal(check_ctrl(data, (size_t)len), 1);
		/* One byte less is too little, and the encoder reports it. */
		assert_int_equal(wire_ctrl_encode(&want, buf, (size_t)len - 1), -KV_ETOOBIG);
		free(data);
	}
	free(buf);
}

/* A valid header, then noise. Nothing may be read outside the block. */
static void noise_is_refused_or_keeps_the_limits(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		size_t len = WIRE_FRAME_HEADER + 8 * kv_prng_below(&prng, 32);
		uint8_t *data = malloc(len);
		struct wire_ctrl_msg m;
		assert_non_null(data);
		kv_prng_fill(&prng, data, len);
		kv_put16(data, WIRE_MAGIC);
		data[2] = WIRE_VERSION;
		kv_put16(data + 24, (uint16_t)len);
		data[27] = 0;
		kv_put32(data + 28, 0);
		if (len > WIRE_FRAME_HEADER + 4) {
			data[32] = (uint8_t)(kv_prng_below(&prng, 12) | (kv_prng_next(&prng) & 0x80));
			data[33] = 0;
			kv_put16(data + 34, (uint16_t)(len - WIRE_FRAME_HEADER));
		}
		(void)check_requests(data, len);
		(void)check_replies(data, len);
		kv_put32(data, (uint32_t)(len - 4));
		kv_put16(data + 4, (uint16_t)kv_prng_below(&prng, 15));
		kv_put16(data + 6, 0);
		(void)wire_ctrl_decode(data, len, &m);
		free(data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_requests_come_back),
		cmocka_unit_test(random_replies_come_back),
		cmocka_unit_test(full_frames_of_requests_come_back),
		cmocka_unit_test(full_frames_of_replies_come_back),
		cmocka_unit_test(random_control_messages_come_back),
		cmocka_unit_test(noise_is_refused_or_keeps_the_limits),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
