/* SPDX-License-Identifier: Apache-2.0 */
/* samples.h -- shared code of the tests of wire/: golden messages, random valid ones, comparison, and an independent
 * check of limits. */
#ifndef KVRAIL_TESTS_WIRE_SAMPLES_H
#define KVRAIL_TESTS_WIRE_SAMPLES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/wire.h"

/* One frame with one record, or one control message: its bytes in hex, written from the text of wire.h, and the decoded
 * values. */
struct golden_request {
	const char *name, *hex;
	struct wire_request want;
};
struct golden_reply {
	const char *name, *hex;
	struct wire_reply want;
};
struct golden_ctrl {
	const char *name, *hex;
	struct wire_ctrl_msg want;
};

extern const struct golden_request golden_requests[];
extern const struct golden_reply golden_replies[];
extern const struct golden_ctrl golden_ctrls[];
extern const size_t golden_requests_n, golden_replies_n, golden_ctrls_n;
extern const struct wire_frame golden_frame; /* the header of every golden frame */

/* The bytes of a hex string in a malloc block of exactly their size, so that ASan sees a read past the end. */
uint8_t *unhex(const char *hex, size_t *out_len);
uint8_t *exact_copy(const void *data, size_t len);

/* Memory that random messages point into. */
struct scratch {
	uint8_t key[KV_KEY_MAX], inlined[KV_INLINE_MAX], digests[WIRE_EXISTS_MAX * 8], pairs[WIRE_STAT_MAX * 16],
		bitmap[WIRE_EXISTS_BITMAP], deleted[WIRE_EXISTS_BITMAP], tier[WIRE_EXISTS_BITMAP];
	uint8_t addrs[KV_SHARDS_MAX * KV_RAILS_MAX * (2 + KV_ADDR_MAX)], table[64 * 1024];
};

void random_request(struct kv_prng *p, struct scratch *s, struct wire_request *out);
void random_reply(struct kv_prng *p, struct scratch *s, struct wire_reply *out);
void random_ctrl(struct kv_prng *p, struct scratch *s, struct wire_ctrl_msg *out);

/* Fail the test unless both have the same values. */
void assert_request(const struct wire_request *got, const struct wire_request *want);
void assert_reply(const struct wire_reply *got, const struct wire_reply *want);
void assert_ctrl(const struct wire_ctrl_msg *got, const struct wire_ctrl_msg *want);

/* Fail the test unless a decoded message keeps every limit and points into [data, data + len). */
void assert_request_limits(const struct wire_request *r, const uint8_t *data, size_t len);
void assert_reply_limits(const struct wire_reply *r, const uint8_t *data, size_t len);
void assert_ctrl_limits(const struct wire_ctrl_msg *m, const uint8_t *data, size_t len);

/* Decode a whole frame and encode it again record by record. Return the number of records, or the error of the decoder;
 * decoded records are checked against the limits and against their bytes. */
int check_requests(const uint8_t *data, size_t len);
int check_replies(const uint8_t *data, size_t len);
int check_ctrl(const uint8_t *data, size_t len);

#endif
