/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_wire.c -- fabric frames: any bytes are an error or a frame, and what decodes encodes to the same bytes.
 *
 * Each input is read twice: as it is, and with a header that is made to agree with its length and with the number of
 * records its lengths walk over, since otherwise nearly every mutation ends at the header. */
#include <stdio.h>
#include <stdlib.h>

#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz_wire: %s\n", what);
	abort();
}

/* Sums up what a decoded record points to, so that a sanitizer sees each byte read. */
static unsigned touch(struct wire_bytes b)
{
	unsigned sum = 0;
	for (uint32_t i = 0; i < b.len; i++)
		sum += b.data[i];
	return sum;
}

static void touch_request(const struct wire_request *r)
{
	volatile unsigned sum = touch(r->key);
	if (r->type == WIRE_PUT)
		sum += touch(r->put.inline_data);
	for (uint32_t i = 0; r->type == WIRE_EXISTS && i < r->exists.count; i++)
		sum += (unsigned)wire_exists_digest(r->exists.digests, i);
	for (uint32_t i = 0; r->type == WIRE_RELEASE && i < r->release.count; i++)
		sum += (unsigned)wire_release_lease(r->release.leases, i);
	(void)sum;
}

static void touch_reply(const struct wire_reply *r)
{
	volatile unsigned sum = 0;
	if (r->type == WIRE_GET)
		sum += touch(r->get.inline_data);
	if (r->type == WIRE_EXISTS)
		sum += touch((struct wire_bytes){r->exists.bitmap, (r->exists.count + 7) / 8});
	for (uint32_t i = 0; r->type == WIRE_STAT && i < r->stat.count; i++) {
		uint32_t id;
		uint64_t value;
		wire_stat_pair(r->stat.pairs, i, &id, &value);
		sum += id + (unsigned)value + (wire_stat_name(id) != NULL);
	}
	for (uint32_t i = 0; wire_lists(r->type) && i < r->rows.count; i++) {
		struct wire_row row;
		wire_row(r->rows.at, i, r->type, &row);
		sum += (unsigned)(strlen(row.name) + row.number[WIRE_SPACE_NUMBERS - 1] + row.flags);
	}
	sum += (unsigned)wire_status_error(r->status);
	(void)sum;
}

static void read_requests(const uint8_t *data, size_t size)
{
	uint8_t again[KV_MSG_MAX];
	struct wire_reader reader;
	struct wire_writer w;
	struct wire_frame frame;
	struct wire_request r;
	int rc;
	if (wire_frame_open(&reader, data, size, &frame))
		return;
	wire_frame_begin(&w, again, sizeof(again), &frame);
	while ((rc = wire_request_next(&reader, &r)) > 0) {
		uint32_t before = w.len;
		touch_request(&r);
		check(wire_request_add(&w, &r) == 0, "a decoded request does not encode");
		check(w.len - before == wire_request_size(&r), "a request's size is wrong");
		check(memcmp(data + before, again + before, w.len - before) == 0, "a request encodes to other bytes");
	}
	if (rc == 0)
		check(wire_frame_end(&w) == size && memcmp(data, again, size) == 0, "a frame encodes to other bytes");
	else
		check(rc == -KV_EPROTO && wire_request_next(&reader, &r) == -KV_EPROTO, "a failed reader goes on");
}

static void read_replies(const uint8_t *data, size_t size)
{
	uint8_t again[KV_MSG_MAX];
	struct wire_reader reader;
	struct wire_writer w;
	struct wire_frame frame;
	struct wire_reply r;
	int rc;
	if (wire_frame_open(&reader, data, size, &frame))
		return;
	wire_frame_begin(&w, again, sizeof(again), &frame);
	while ((rc = wire_reply_next(&reader, &r)) > 0) {
		uint32_t before = w.len;
		touch_reply(&r);
		check(wire_reply_add(&w, &r) == 0, "a decoded reply does not encode");
		check(memcmp(data + before, again + before, w.len - before) == 0, "a reply encodes to other bytes");
	}
	if (rc == 0)
		check(wire_frame_end(&w) == size && memcmp(data, again, size) == 0, "a frame encodes to other bytes");
	else
		check(rc == -KV_EPROTO && wire_reply_next(&reader, &r) == -KV_EPROTO, "a failed reader goes on");
}

/* Make header and count agree with what follows; the last record ends where the input does. */
static void mend(uint8_t *data, size_t size)
{
	size_t at = WIRE_FRAME_HEADER;
	uint8_t records = 0;
	while (at + WIRE_RECORD_HEADER <= size && records < WIRE_RECORDS_MAX) {
		size_t len = kv_get16(data + at + 2);
		records++;
		if (len < WIRE_RECORD_HEADER || len % 8 != 0 || at + len > size) {
			kv_put16(data + at + 2, (uint16_t)(size - at));
			break;
		}
		at += len;
	}
	kv_put16(data, WIRE_MAGIC);
	data[2] = WIRE_VERSION;
	data[3] = records;
	kv_put16(data + 24, (uint16_t)size);
	data[27] = 0;
	kv_put32(data + 28, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t even = KV_MIN(size, (size_t)KV_MSG_MAX) & ~(size_t)7;
	uint8_t *mended;
	read_requests(data, size);
	read_replies(data, size);
	if (even < WIRE_FRAME_HEADER)
		return 0;
	mended = malloc(even);
	check(mended != NULL, "no memory");
	memcpy(mended, data, even);
	mend(mended, even);
	read_requests(mended, even);
	read_replies(mended, even);
	free(mended);
	return 0;
}
