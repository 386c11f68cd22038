/* SPDX-License-Identifier: Apache-2.0 */
/* test_malformed.c -- every truncation of a golden message is an error. Every corrupted byte gives an error or a
 * message within limits. Nothing is read outside the input: each input is a malloc block of exactly its size, and ASan
 * watches. */
#include "samples.h"

/* Run both readers over one input. A frame of requests is never a frame of replies. */
static bool frame_taken(const uint8_t *data, size_t len)
{
	int requests = check_requests(data, len), replies = check_replies(data, len);
	assert_false(requests > 0 && replies > 0);
	return requests > 0 || replies > 0;
}

static void prefix_fails(const uint8_t *data, size_t n, bool patch_frame, bool patch_record)
{
	uint8_t *cut = exact_copy(data, n);
	if (patch_frame)
		kv_put16(cut + 24, (uint16_t)n);
	if (patch_record)
		kv_put16(cut + WIRE_FRAME_HEADER + 2, (uint16_t)(n - WIRE_FRAME_HEADER));
	assert_false(frame_taken(cut, n));
	free(cut);
}

/* Three ways: cut off only; with a frame length that agrees; with a record length that agrees, too. */
static void frame_prefixes_fail(const char *hex)
{
	size_t len;
	uint8_t *data = unhex(hex, &len);
	for (size_t n = 0; n < len; n++) {
		prefix_fails(data, n, false, false);
		if (n >= WIRE_FRAME_HEADER)
			prefix_fails(data, n, true, false);
		if (n >= WIRE_FRAME_HEADER + WIRE_RECORD_HEADER)
			prefix_fails(data, n, true, true);
	}
	free(data);
}

static void truncated_frames_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < golden_requests_n; i++)
		frame_prefixes_fail(golden_requests[i].hex);
	for (size_t i = 0; i < golden_replies_n; i++)
		frame_prefixes_fail(golden_replies[i].hex);
}

static void truncated_control_messages_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < golden_ctrls_n; i++) {
		size_t len;
		uint8_t *data = unhex(golden_ctrls[i].hex, &len);
		for (size_t n = 0; n < len; n++) {
			uint8_t *cut = exact_copy(data, n);
			assert_int_equal(check_ctrl(cut, n), -KV_EPROTO);
			if (n >= 4) {
				kv_put32(cut, (uint32_t)(n - 4));
				assert_int_equal(check_ctrl(cut, n), -KV_EPROTO);
			}
			free(cut);
		}
		free(data);
	}
}

/* Eight zero bytes too many, with lengths that agree. */
static void trailing_bytes_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < golden_requests_n + golden_replies_n; i++) {
		size_t len;
		uint8_t *data = unhex(i < golden_requests_n ? golden_requests[i].hex
							    : golden_replies[i - golden_requests_n].hex,
				      &len);
		uint8_t *more = calloc(1, len + 8);
		assert_non_null(more);
		memcpy(more, data, len);
		assert_false(frame_taken(more, len + 8)); /* the message is longer than the frame says */
		kv_put16(more + 24, (uint16_t)(len + 8));
		assert_false(frame_taken(more, len + 8)); /* the records do not fill the frame */
		kv_put16(more + WIRE_FRAME_HEADER + 2, (uint16_t)(len + 8 - WIRE_FRAME_HEADER));
		assert_false(frame_taken(more, len + 8)); /* the record is longer than its contents */
		free(more);
		free(data);
	}
	for (size_t i = 0; i < golden_ctrls_n; i++) {
		size_t len;
		uint8_t *data = unhex(golden_ctrls[i].hex, &len), *more = calloc(1, len + 1);
		assert_non_null(more);
		memcpy(more, data, len);
		assert_int_equal(check_ctrl(more, len + 1), -KV_EPROTO);
		kv_put32(more, (uint32_t)(len + 1 - 4));
		assert_int_equal(check_ctrl(more, len + 1), -KV_EPROTO);
		free(more);
		free(data);
	}
}

/* check_* compares decoded records with their own encoding, and with the limits. */
static void corrupted_frames_are_refused_or_mean_what_they_say(void **state)
{
	unsigned taken = 0, refused = 0;
	(void)state;
	for (size_t i = 0; i < golden_requests_n + golden_replies_n; i++) {
		size_t len;
		uint8_t *data = unhex(i < golden_requests_n ? golden_requests[i].hex
							    : golden_replies[i - golden_requests_n].hex,
				      &len);
		for (size_t at = 0; at < len; at++) {
			for (unsigned flip = 1; flip < 256; flip++) {
				data[at] ^= (uint8_t)flip;
				*(frame_taken(data, len) ? &taken : &refused) += 1;
				data[at] ^= (uint8_t)flip;
			}
		}
		assert_true(frame_taken(data, len));
		free(data);
	}
	print_message("# %u decoded within limits, %u refused\n", taken, refused);
}

static void corrupted_control_messages_are_refused_or_mean_what_they_say(void **state)
{
	unsigned taken = 0, refused = 0;
	(void)state;
	for (size_t i = 0; i < golden_ctrls_n; i++) {
		size_t len;
		uint8_t *data = unhex(golden_ctrls[i].hex, &len);
		for (size_t at = 0; at < len; at++) {
			for (unsigned flip = 1; flip < 256; flip++) {
				data[at] ^= (uint8_t)flip;
				*(check_ctrl(data, len) > 0 ? &taken : &refused) += 1;
				data[at] ^= (uint8_t)flip;
			}
		}
		assert_int_equal(check_ctrl(data, len), 1);
		free(data);
	}
	print_message("# %u decoded within limits, %u refused\n", taken, refused);
}

/* Every reserved byte of every golden frame, by its place in the layout: any set bit there is refused. */
static void reserved_bytes_that_are_not_zero_are_refused(void **state)
{
	static const struct {
		const char *name;
		bool reply;
		uint8_t from, to; /* in the body */
	} reserved[] = {
		{"get", false, 30, 32},   {"exists", false, 2, 8},       {"delete", false, 2, 8},
		{"touch", false, 2, 4},   {"pin", false, 2, 8},          {"unpin", false, 2, 8},
		{"exists", true, 4, 8},   {"stat", true, 2, 8},          {"stat", true, 12, 16},
		{"stat", true, 28, 32},   {"get", false, 69, 72},        {"delete", false, 11, 16},
		{"touch", false, 13, 16}, {"unpin", false, 17, 24},      {"get_inline", true, 37, 40},
		{"exists", true, 10, 16}, {"put_inline", false, 56, 88}, {"put_inline", false, 99, 104},
		{"spaces", true, 18, 24},
	};
	(void)state;
	for (size_t i = 0; i < KV_COUNT(reserved); i++) {
		const char *hex = NULL;
		size_t len;
		uint8_t *data;
		for (size_t k = 0; k < golden_requests_n && !reserved[i].reply; k++)
			hex = strcmp(golden_requests[k].name, reserved[i].name) ? hex : golden_requests[k].hex;
		for (size_t k = 0; k < golden_replies_n && reserved[i].reply; k++)
			hex = strcmp(golden_replies[k].name, reserved[i].name) ? hex : golden_replies[k].hex;
		assert_non_null(hex);
		data = unhex(hex, &len);
		const size_t body = WIRE_FRAME_HEADER + (reserved[i].reply ? WIRE_REPLY_HEADER : WIRE_RECORD_HEADER);
		for (size_t at = body + reserved[i].from; at < body + reserved[i].to; at++) {
			assert_true(at < len);
			for (unsigned bit = 0; bit < 8; bit++) {
				data[at] ^= (uint8_t)(1u << bit);
				assert_false(frame_taken(data, len));
				data[at] ^= (uint8_t)(1u << bit);
			}
		}
		free(data);
	}
}

/* A reader that failed goes on failing, so that a loop cannot step over the damage. */
static void a_reader_that_failed_stays_failed(void **state)
{
	size_t len;
	uint8_t *data = unhex(golden_requests[0].hex, &len);
	struct wire_reader reader;
	struct wire_frame frame;
	struct wire_request r;
	(void)state;
	data[WIRE_FRAME_HEADER] = 99;
	assert_int_equal(wire_frame_open(&reader, data, len, &frame), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(wire_request_next(&reader, &r), -KV_EPROTO);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(truncated_frames_are_refused),
		cmocka_unit_test(truncated_control_messages_are_refused),
		cmocka_unit_test(trailing_bytes_are_refused),
		cmocka_unit_test(corrupted_frames_are_refused_or_mean_what_they_say),
		cmocka_unit_test(corrupted_control_messages_are_refused_or_mean_what_they_say),
		cmocka_unit_test(reserved_bytes_that_are_not_zero_are_refused),
		cmocka_unit_test(a_reader_that_failed_stays_failed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
