/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ctrl.c -- control messages: any bytes are an error or a message, and what decodes encodes to the same bytes.
 *
 * Each input is read twice: as it is, and with a length prefix that agrees with it. */
#include <stdio.h>
#include <stdlib.h>

#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz_ctrl: %s\n", what);
	abort();
}

static void touch_welcome(const struct wire_welcome_msg *w)
{
	struct wire_blob_addr a;
	check(w->shards >= 1 && w->shards <= KV_SHARDS_MAX && w->rails >= 1 && w->rails <= KV_RAILS_MAX,
	      "shards or rails");
	for (unsigned rail = 0; rail < w->rails; rail++)
		check(wire_welcome_addr(w, w->shards - 1u, rail, &a) == 0 && a.len >= 1 && a.len <= KV_ADDR_MAX,
		      "an address");
}

static void touch_region(const struct wire_region *r)
{
	volatile uint64_t sum = 0;
	uint64_t base, key;
	check((r->len_bytes - 1) / r->part_bytes < r->parts, "the last byte has no part");
	for (unsigned rail = 0; rail < r->rails; rail++) {
		for (uint32_t part = 0; part < r->parts; part++) {
			wire_region_key(r, rail, part, &base, &key);
			sum += base ^ key;
		}
	}
	(void)sum;
}

static void touch_events(const struct wire_events *v)
{
	uint32_t at = 0;
	volatile uint64_t sum = 0;
	for (uint32_t i = 0; i < v->count; i++) {
		struct wire_event e;
		check(wire_event_take(v->events, v->events_len, &at, &e) == 0, "an event");
		for (unsigned k = 0; k < e.key_len; k++)
			sum += e.key[k];
		for (unsigned k = 0; k < e.space_len; k++)
			sum += e.space[k];
	}
	check(at == v->events_len, "bytes behind the events");
	(void)sum;
}

static void read_message(const uint8_t *data, size_t size)
{
	static struct wire_ctrl_msg m;
	uint8_t *again;
	int rc = wire_ctrl_decode(data, size, &m);
	check(rc == 0 || rc == -KV_EPROTO || rc == -KV_EVERSION, "another error");
	if (rc == -KV_EVERSION)
		check(m.type == WIRE_CTRL_HELLO && m.hello.version_min <= m.hello.version_max,
		      "a version error of no HELLO");
	if (rc)
		return;
	check(wire_ctrl_length(data, size) == (int)size, "the length is another");
	if (m.type == WIRE_CTRL_WELCOME)
		touch_welcome(&m.welcome);
	if (m.type == WIRE_CTRL_REGION)
		touch_region(&m.region);
	if (m.type == WIRE_CTRL_EVENTS)
		touch_events(&m.events);
	again = malloc(size);
	check(again != NULL, "no memory");
	check(wire_ctrl_encode(&m, again, size) == (int)size, "a decoded message does not encode");
	check(memcmp(data, again, size) == 0, "a message encodes to other bytes");
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *mended;
	read_message(data, size);
	if (size < WIRE_CTRL_HEADER)
		return 0;
	mended = malloc(size);
	check(mended != NULL, "no memory");
	memcpy(mended, data, size);
	kv_put32(mended, (uint32_t)(size - 4));
	read_message(mended, size);
	free(mended);
	return 0;
}
