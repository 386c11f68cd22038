/* SPDX-License-Identifier: Apache-2.0 */
/* publish_encode.c -- events in MessagePack, as vLLM and SGLang publish them.
 *
 * A message is [time, [event, ...], rank]. An event is a map with its name under "type", or an array with its name
 * first. vLLM's fields, in its order, are those that it requires: block_hashes (here the keys, as bytes),
 * parent_block_hash, token_ids, block_size, lora_id, medium, lora_name. A store knows keys and no tokens, so token_ids
 * is empty and block_size 0, as in the events of vLLM's own tiers. */
#include <string.h>

#include "kvserver/events/msgpack.h"
#include "kvserver/events/publish.h"

static const char *const media[] = {[WIRE_TIER_MEMORY] = "CPU", [WIRE_TIER_DISK] = "STORAGE"};

struct run {
	uint32_t at, count;
	uint8_t what, tier;
};

static bool run_next(const struct wire_events *v, uint32_t *at, struct run *out)
{
	struct wire_event e;
	*out = (struct run){.at = *at};
	while (*at < v->events_len) {
		uint32_t next = *at;
		if (wire_event_take(v->events, v->events_len, &next, &e))
			break;
		if (out->count > 0 && (e.what != out->what || e.tier != out->tier || e.key_len == 0))
			break;
		out->what = e.what;
		out->tier = e.tier;
		out->count++;
		*at = next;
	}
	return out->count > 0;
}

static void field(struct msgpack *m, enum publish_format format, const char *name)
{
	if (format == PUBLISH_MAP)
		msgpack_text(m, name);
}

static void begin(struct msgpack *m, enum publish_format format, uint32_t fields, const char *name)
{
	if (format == PUBLISH_MAP)
		msgpack_map(m, 1 + fields);
	else
		msgpack_array(m, 1 + fields);
	field(m, format, "type");
	msgpack_text(m, name);
}

static void hashes(struct msgpack *m, enum publish_format format, const struct wire_events *v, const struct run *r)
{
	uint32_t at = r->at;
	field(m, format, "block_hashes");
	msgpack_array(m, r->count);
	for (uint32_t i = 0; i < r->count; i++) {
		struct wire_event e;
		(void)wire_event_take(v->events, v->events_len, &at, &e);
		msgpack_bytes(m, e.key, e.key_len);
	}
}

static void stored(struct msgpack *m, enum publish_format format, const struct wire_events *v, const struct run *r)
{
	begin(m, format, 7, "BlockStored");
	hashes(m, format, v, r);
	field(m, format, "parent_block_hash");
	msgpack_nil(m);
	field(m, format, "token_ids");
	msgpack_array(m, 0);
	field(m, format, "block_size");
	msgpack_uint(m, 0);
	field(m, format, "lora_id");
	msgpack_nil(m);
	field(m, format, "medium");
	msgpack_text(m, media[r->tier]);
	field(m, format, "lora_name");
	msgpack_nil(m);
}

static void removed(struct msgpack *m, enum publish_format format, const struct wire_events *v, const struct run *r)
{
	begin(m, format, 2, "BlockRemoved");
	hashes(m, format, v, r);
	field(m, format, "medium");
	msgpack_text(m, media[r->tier]);
}

size_t publish_encode(const struct wire_events *v, enum publish_format format, double time_s, uint8_t *buf, size_t cap)
{
	struct msgpack m = {.buf = buf, .cap = cap};
	struct run r;
	uint32_t at = 0, runs = 0;
	while (run_next(v, &at, &r))
		runs++;
	msgpack_array(&m, 3);
	msgpack_double(&m, time_s);
	msgpack_array(&m, runs);
	at = 0;
	while (run_next(v, &at, &r)) {
		if (r.what == WIRE_EVENT_STORED)
			stored(&m, format, v, &r);
		else if (r.what == WIRE_EVENT_REMOVED)
			removed(&m, format, v, &r);
		else
			begin(&m, format, 0, "AllBlocksCleared");
	}
	msgpack_uint(&m, 0);
	return m.len;
}
