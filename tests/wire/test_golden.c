/* SPDX-License-Identifier: Apache-2.0 */
/* test_golden.c -- encoder and decoder agree with the bytes of golden.c.
 *
 * If KVRAIL_CORPUS_OUT names a directory, the golden messages are also written to wire/ and ctrl/ below it. The corpora
 * of tests/fuzz/ were made this way (KVRAIL_CORPUS_OUT=tests/fuzz/corpus). */
#include "samples.h"

static void keep(const char *group, const char *kind, const char *name, const void *data, size_t len)
{
	const char *dir = getenv("KVRAIL_CORPUS_OUT");
	char path[4096];
	FILE *f;
	if (!dir)
		return;
	snprintf(path, sizeof(path), "%s/%s/%s%s", dir, group, kind, name);
	f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void requests_encode_to_the_golden_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < golden_requests_n; i++) {
		const struct golden_request *g = &golden_requests[i];
		uint8_t buf[KV_MSG_MAX];
		struct wire_writer w;
		size_t len;
		uint8_t *want = unhex(g->hex, &len);
		print_message("# request %s, %zu bytes\n", g->name, len);
		memset(buf, 0xee, sizeof(buf)); /* padding must be written by the encoder */
		wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
		assert_int_equal(wire_request_add(&w, &g->want), 0);
		assert_int_equal(wire_frame_end(&w), len);
		assert_memory_equal(buf, want, len);
		keep("wire", "request-", g->name, want, len);
		free(want);
	}
}

static void requests_decode_from_the_golden_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < golden_requests_n; i++) {
		struct wire_reader reader;
		struct wire_frame frame;
		struct wire_request r;
		size_t len;
		uint8_t *data = unhex(golden_requests[i].hex, &len);
		memset(&r, 0xee, sizeof(r));
		assert_int_equal(wire_frame_open(&reader, data, len, &frame), 0);
		assert_int_equal(frame.session, golden_frame.session);
		assert_int_equal(frame.mark, golden_frame.mark);
		assert_int_equal(frame.counter, golden_frame.counter);
		assert_memory_equal(frame.tag, golden_frame.tag, KV_MAC_TAG);
		assert_int_equal(frame.link, golden_frame.link);
		assert_int_equal(frame.shard, golden_frame.shard);
		assert_int_equal(frame.records, 1);
		assert_int_equal(wire_request_next(&reader, &r), 1);
		assert_request(&r, &golden_requests[i].want);
		assert_int_equal(wire_request_next(&reader, &r), 0);
		free(data);
	}
}

static void replies_encode_to_the_golden_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < golden_replies_n; i++) {
		const struct golden_reply *g = &golden_replies[i];
		uint8_t buf[KV_MSG_MAX];
		struct wire_writer w;
		size_t len;
		uint8_t *want = unhex(g->hex, &len);
		print_message("# reply %s, %zu bytes\n", g->name, len);
		memset(buf, 0xee, sizeof(buf));
		wire_frame_begin(&w, buf, sizeof(buf), &golden_frame);
		assert_int_equal(wire_reply_add(&w, &g->want), 0);
		assert_int_equal(wire_frame_end(&w), len);
		assert_memory_equal(buf, want, len);
		keep("wire", "reply-", g->name, want, len);
		free(want);
	}
}

static void replies_decode_from_the_golden_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < golden_replies_n; i++) {
		struct wire_reader reader;
		struct wire_frame frame;
		struct wire_reply r;
		size_t len;
		uint8_t *data = unhex(golden_replies[i].hex, &len);
		memset(&r, 0xee, sizeof(r));
		assert_int_equal(wire_frame_open(&reader, data, len, &frame), 0);
		assert_int_equal(wire_reply_next(&reader, &r), 1);
		assert_reply(&r, &golden_replies[i].want);
		assert_int_equal(wire_reply_next(&reader, &r), 0);
		free(data);
	}
}

static void control_messages_encode_to_the_golden_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < golden_ctrls_n; i++) {
		const struct golden_ctrl *g = &golden_ctrls[i];
		uint8_t buf[4096];
		size_t len;
		uint8_t *want = unhex(g->hex, &len);
		print_message("# control %s, %zu bytes\n", g->name, len);
		memset(buf, 0xee, sizeof(buf));
		assert_int_equal(wire_ctrl_encode(&g->want, buf, sizeof(buf)), len);
		assert_memory_equal(buf, want, len);
		keep("ctrl", "", g->name, want, len);
		free(want);
	}
}

static void control_messages_decode_from_the_golden_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < golden_ctrls_n; i++) {
		struct wire_ctrl_msg m;
		size_t len;
		uint8_t *data = unhex(golden_ctrls[i].hex, &len);
		memset(&m, 0xee, sizeof(m));
		assert_int_equal(wire_ctrl_decode(data, len, &m), 0);
		assert_ctrl(&m, &golden_ctrls[i].want);
		free(data);
	}
}

static void every_type_has_a_golden_message(void **state)
{
	unsigned requests = 0, replies = 0;
	uint64_t ctrls = 0;
	(void)state;
	for (size_t i = 0; i < golden_requests_n; i++)
		requests |= 1u << golden_requests[i].want.type;
	for (size_t i = 0; i < golden_replies_n; i++)
		replies |= 1u << golden_replies[i].want.type;
	for (size_t i = 0; i < golden_ctrls_n; i++)
		ctrls |= 1ull << golden_ctrls[i].want.type;
	assert_int_equal(requests, (1u << WIRE_TYPES) - 2);
	assert_int_equal(replies, ((2u << WIRE_TENANTS) - 2) | 1u << WIRE_LEASES);
	assert_true(ctrls == (2ull << WIRE_CTRL_EVENTS) - 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_encode_to_the_golden_bytes),
		cmocka_unit_test(requests_decode_from_the_golden_bytes),
		cmocka_unit_test(replies_encode_to_the_golden_bytes),
		cmocka_unit_test(replies_decode_from_the_golden_bytes),
		cmocka_unit_test(control_messages_encode_to_the_golden_bytes),
		cmocka_unit_test(control_messages_decode_from_the_golden_bytes),
		cmocka_unit_test(every_type_has_a_golden_message),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
