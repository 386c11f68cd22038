/* SPDX-License-Identifier: Apache-2.0 */
/* test_control.c -- control messages: each limit in the encoder and in the decoder, versions, lengths, address and key
 * tables. */
#include "samples.h"

static uint8_t buf[4 + KV_CTRL_MAX];

static struct wire_ctrl_msg golden(const char *name)
{
	for (size_t i = 0; i < golden_ctrls_n; i++) {
		if (strcmp(golden_ctrls[i].name, name) == 0)
			return golden_ctrls[i].want;
	}
	fail_msg("no golden message %s", name);
	return golden_ctrls[0].want;
}

static int encode(const struct wire_ctrl_msg *m)
{
	int rc = wire_ctrl_encode(m, buf, sizeof(buf));
	return rc < 0 ? rc : 0;
}

/* Decode the golden message with `width` bytes at `at` replaced. */
static int decode_patched(const char *name, size_t at, size_t width, uint64_t value)
{
	for (size_t i = 0; i < golden_ctrls_n; i++) {
		size_t len;
		uint8_t *data, little[8];
		int rc;
		if (strcmp(golden_ctrls[i].name, name) != 0)
			continue;
		data = unhex(golden_ctrls[i].hex, &len);
		kv_put64(little, value);
		assert_true(at + width <= len);
		memcpy(data + at, little, width);
		rc = check_ctrl(data, len);
		free(data);
		return rc;
	}
	fail_msg("no golden message %s", name);
	return 0;
}

static void the_length_is_known_from_four_bytes(void **state)
{
	uint8_t p[4];
	(void)state;
	assert_int_equal(wire_ctrl_length(NULL, 0), 0);
	kv_put32(p, 4);
	assert_int_equal(wire_ctrl_length(p, 3), 0);
	assert_int_equal(wire_ctrl_length(p, 4), 8);
	kv_put32(p, 3);
	assert_int_equal(wire_ctrl_length(p, 4), -KV_EPROTO);
	kv_put32(p, KV_CTRL_MAX);
	assert_int_equal(wire_ctrl_length(p, 4), 4 + KV_CTRL_MAX);
	kv_put32(p, KV_CTRL_MAX + 1);
	assert_int_equal(wire_ctrl_length(p, 4), -KV_EPROTO);
	kv_put32(p, UINT32_MAX);
	assert_int_equal(wire_ctrl_length(p, 4), -KV_EPROTO);
}

static void messages_of_unknown_types_are_refused(void **state)
{
	(void)state;
	for (unsigned type = 0; type < 300; type++) {
		struct wire_ctrl_msg m = {.type = (enum wire_ctrl)type};
		bool empty = (type >= WIRE_CTRL_GOODBYE && type <= WIRE_CTRL_SESSION_BEGIN) ||
			     type == WIRE_CTRL_ARENAS || type == WIRE_CTRL_LANDINGS;
		assert_int_equal(decode_patched("goodbye", 4, 2, type), empty ? 1 : -KV_EPROTO);
		if (type == 0 || type > WIRE_CTRL_EVENTS)
			assert_int_equal(encode(&m), -KV_EINVAL);
	}
	assert_int_equal(decode_patched("goodbye", 6, 2, 1), -KV_EPROTO); /* reserved */
}

static void events_keep_their_limits(void **state)
{
	const unsigned what = 48, key_len = 50; /* of the first event */
	(void)state;
	assert_int_equal(decode_patched("events", what, 1, WIRE_EVENT_REMOVED), 1);
	assert_int_equal(decode_patched("events", what, 1, 0), -KV_EPROTO);
	assert_int_equal(decode_patched("events", what, 1, WIRE_EVENT_HIDDEN + 1), -KV_EPROTO);
	assert_int_equal(decode_patched("events", what, 1, WIRE_EVENT_HIDDEN), -KV_EPROTO);  /* with a key */
	assert_int_equal(decode_patched("events", what, 1, WIRE_EVENT_CLEARED), -KV_EPROTO); /* with a key */
	assert_int_equal(decode_patched("events", what + 1, 1, 2), -KV_EPROTO);
	assert_int_equal(decode_patched("events", key_len, 1, 0), -KV_EPROTO);
	assert_int_equal(decode_patched("events", key_len, 1, 4), -KV_EPROTO);
	assert_int_equal(decode_patched("events", 8, 8, 0), -KV_EPROTO);   /* no epoch */
	assert_int_equal(decode_patched("events", 16, 8, 23), -KV_EPROTO); /* a hole between first and next */
	assert_int_equal(decode_patched("events", 24, 4, WIRE_EVENTS_GAP), -KV_EPROTO);
	assert_int_equal(decode_patched("events", 24, 4, 4), -KV_EPROTO);
	assert_int_equal(decode_patched("events", 28, 4, 1), -KV_EPROTO); /* a shard, without a snapshot */
	assert_int_equal(decode_patched("events_page", what, 1, WIRE_EVENT_REMOVED), -KV_EPROTO);
	assert_int_equal(decode_patched("events_ask", 24, 4, WIRE_EVENTS_GAP), -KV_EPROTO);
}

static void a_hello_says_which_versions_it_speaks(void **state)
{
	(void)state;
	assert_int_equal(decode_patched("hello", 10, 2, 7), 1);
	assert_int_equal(decode_patched("hello", 8, 2, 0), 1);
	assert_int_equal(decode_patched("hello", 8, 2, 6), -KV_EPROTO); /* 6..5 */
	assert_int_equal(decode_patched("hello", 8, 4, 0x00070006), -KV_EVERSION);
	assert_int_equal(decode_patched("hello", 8, 4, 0), -KV_EVERSION);
}

/* The rest of a HELLO of another version is not read: it may have any layout. */
static void a_hello_of_another_version_is_told_apart(void **state)
{
	uint8_t *data = malloc(13);
	struct wire_ctrl_msg m;
	(void)state;
	assert_non_null(data);
	memset(data, 0xff, 13);
	kv_put32(data, 9);
	kv_put16(data + 4, WIRE_CTRL_HELLO);
	kv_put16(data + 6, 0);
	kv_put16(data + 8, 6);
	kv_put16(data + 10, 7);
	assert_int_equal(wire_ctrl_decode(data, 13, &m), -KV_EVERSION);
	assert_int_equal(m.type, WIRE_CTRL_HELLO);
	assert_int_equal(m.hello.version_min, 6);
	assert_int_equal(m.hello.version_max, 7);
	assert_int_equal(m.hello.rails, 0);
	free(data);
}

static void a_hello_keeps_its_limits(void **state)
{
	struct wire_ctrl_msg m = golden("hello");
	(void)state;
	m.hello.version_min = 6;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.hello.version_max = 6;
	assert_int_equal(encode(&m), 0); /* a later client's hello */
	m = golden("hello");
	m.hello.rails = 0;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.hello.rails = KV_RAILS_MAX + 1;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.hello.rails = 3; /* the third address is empty */
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.hello.addr[2].len = KV_ADDR_MAX;
	assert_int_equal(encode(&m), 0);
	m.hello.addr[2].len = KV_ADDR_MAX + 1;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m = golden("hello");
	m.hello.chunk_bytes = 0;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m = golden("hello");
	memset(m.hello.provider, 'x', sizeof(m.hello.provider));
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.hello.provider[sizeof(m.hello.provider) - 1] = 0;
	assert_int_equal(encode(&m), 0);
}

/* There is only one encoding for "no prior attachment". */
static void a_hello_names_a_prior_session_with_its_token(void **state)
{
	struct wire_ctrl_msg m = golden("hello");
	(void)state;
	m.hello.prior.session = 0;
	assert_int_equal(encode(&m), -KV_EINVAL); /* a token without a session */
	memset(m.hello.prior.token, 0, sizeof(m.hello.prior.token));
	assert_int_equal(encode(&m), 0);
	m.hello.prior.token[sizeof(m.hello.prior.token) - 1] = 1;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.hello.prior.session = 1;
	assert_int_equal(encode(&m), 0);
	assert_int_equal(decode_patched("hello", 60, 4, 0), -KV_EPROTO);
	assert_int_equal(decode_patched("hello", 60, 4, 0xffffffff), 1);
	assert_int_equal(decode_patched("hello", 64, 8, 0), 1); /* a token that is half zeros is a token */
}

static void a_hello_with_a_wrong_field_is_refused(void **state)
{
	(void)state;
	assert_int_equal(decode_patched("hello", 52, 4, 0), -KV_EPROTO); /* chunk bytes */
	assert_int_equal(decode_patched("hello", 58, 2, 0), -KV_EPROTO); /* rails */
	assert_int_equal(decode_patched("hello", 58, 2, 1), -KV_EPROTO);
	assert_int_equal(decode_patched("hello", 58, 2, 3), -KV_EPROTO);
	assert_int_equal(decode_patched("hello", 58, 2, 33), -KV_EPROTO);
	assert_int_equal(decode_patched("hello", 80, 2, 10), -KV_EPROTO); /* provider's length */
	assert_int_equal(decode_patched("hello", 80, 2, 64), -KV_EPROTO);
	assert_int_equal(decode_patched("hello", 84, 1, 0), -KV_EPROTO);   /* a zero byte in a string */
	assert_int_equal(decode_patched("hello", 106, 2, 64), -KV_EPROTO); /* cluster's length */
	assert_int_equal(decode_patched("hello", 120, 2, 3), -KV_EPROTO);  /* the namespace's length */
	assert_int_equal(decode_patched("hello", 120, 2, 65), -KV_EPROTO);
	assert_int_equal(decode_patched("hello", 122, 1, 0x1f), -KV_EPROTO); /* not text */
	assert_int_equal(decode_patched("hello", 125, 1, 0x80), -KV_EPROTO);
	assert_int_equal(decode_patched("hello", 126, 2, 0), -KV_EPROTO); /* an empty address */
	assert_int_equal(decode_patched("hello", 126, 2, 65), -KV_EPROTO);
}

static void the_longest_strings_and_addresses_fit(void **state)
{
	struct wire_ctrl_msg m = golden("hello"), got;
	int len;
	(void)state;
	memset(m.hello.provider, 'p', KV_NAME_MAX - 1);
	memset(m.hello.fabric, 'f', KV_NAME_MAX - 1);
	memset(m.hello.cluster, 'c', KV_NAME_MAX - 1);
	memset(m.hello.space, 's', KV_SPACE_MAX);
	m.hello.rails = KV_RAILS_MAX;
	for (unsigned i = 0; i < KV_RAILS_MAX; i++)
		m.hello.addr[i].len = KV_ADDR_MAX;
	len = wire_ctrl_encode(&m, buf, sizeof(buf));
	assert_int_equal(len,
			 8 + 72 + 3 * (2 + KV_NAME_MAX - 1) + 8 + 2 + KV_SPACE_MAX + KV_RAILS_MAX * (2 + KV_ADDR_MAX));
	assert_int_equal(wire_ctrl_decode(buf, (size_t)len, &got), 0);
	assert_ctrl(&got, &m);
}

static void a_welcome_keeps_its_limits(void **state)
{
	struct wire_ctrl_msg m = golden("welcome");
	(void)state;
	m.welcome.addrs_len--;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m = golden("welcome");
	m.welcome.shards = 1; /* two addresses too many */
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.welcome.shards = 0;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.welcome.shards = KV_SHARDS_MAX + 1;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m = golden("welcome");
	m.welcome.version = WIRE_VERSION + 1;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m = golden("welcome");
	m.welcome.value_max = KV_VALUE_MAX + 1;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m = golden("welcome");
	m.welcome.chunk_bytes = 0;
	assert_int_equal(encode(&m), -KV_EINVAL);
}

static void a_welcome_with_a_wrong_field_is_refused(void **state)
{
	(void)state;
	assert_int_equal(decode_patched("welcome", 8, 2, 6), -KV_EPROTO);  /* version */
	assert_int_equal(decode_patched("welcome", 10, 2, 0), -KV_EPROTO); /* shards */
	assert_int_equal(decode_patched("welcome", 10, 2, 65), -KV_EPROTO);
	assert_int_equal(decode_patched("welcome", 10, 2, 4), -KV_EPROTO);  /* 4 x 2 addresses */
	assert_int_equal(decode_patched("welcome", 10, 4, 0x00010004), 1);  /* 4 x 1 */
	assert_int_equal(decode_patched("welcome", 12, 2, 33), -KV_EPROTO); /* rails */
	assert_int_equal(decode_patched("welcome", 14, 2, 0xFFFF),
			 1); /* unknown flags are ignored: they are offers of a newer server */
	assert_int_equal(decode_patched("welcome", 68, 4, 0), -KV_EPROTO); /* chunk bytes */
	assert_int_equal(decode_patched("welcome", 84, 8, KV_VALUE_MAX + 1), -KV_EPROTO);
	assert_int_equal(decode_patched("welcome", 118, 2, 1), -KV_EPROTO); /* reserved */
	assert_int_equal(decode_patched("welcome", 120, 2, 7), -KV_EPROTO); /* node id's length */
}

static void the_largest_welcome_fits(void **state)
{
	static uint8_t addrs[KV_SHARDS_MAX * KV_RAILS_MAX * (2 + KV_ADDR_MAX)];
	struct wire_ctrl_msg m = golden("welcome"), got;
	struct wire_blob_addr a;
	uint8_t one[KV_ADDR_MAX];
	int len;
	(void)state;
	m.welcome.shards = KV_SHARDS_MAX;
	m.welcome.rails = KV_RAILS_MAX;
	m.welcome.addrs = addrs;
	m.welcome.addrs_len = 0;
	for (unsigned i = 0; i < KV_SHARDS_MAX * KV_RAILS_MAX; i++) {
		memset(one, (int)(i % 251), sizeof(one));
		assert_int_equal(wire_addr_pack(addrs, sizeof(addrs), &m.welcome.addrs_len, one, sizeof(one)), 0);
	}
	assert_int_equal(wire_addr_pack(addrs, sizeof(addrs), &m.welcome.addrs_len, one, 1), -KV_ETOOBIG);
	len = wire_ctrl_encode(&m, buf, sizeof(buf));
	assert_int_equal(len, 120 + 2 + 6 + 2 + 4 + sizeof(addrs));
	assert_int_equal(wire_ctrl_decode(buf, (size_t)len, &got), 0);
	assert_int_equal(wire_welcome_addr(&got.welcome, 63, 31, &a), 0);
	assert_int_equal(a.data[0], (63 * 32 + 31) % 251);
}

static void a_welcome_gives_each_shards_addresses(void **state)
{
	struct wire_ctrl_msg m = golden("welcome");
	struct wire_blob_addr a;
	(void)state;
	for (unsigned shard = 0; shard < 2; shard++) {
		for (unsigned rail = 0; rail < 2; rail++) {
			assert_int_equal(wire_welcome_addr(&m.welcome, shard, rail, &a), 0);
			assert_int_equal(a.len, 4 + 2 * shard + rail);
			assert_int_equal(a.data[0], 0x10 + 2 * shard + rail);
			assert_int_equal(a.data[a.len], 0); /* zeros follow the address */
		}
	}
	assert_int_equal(wire_welcome_addr(&m.welcome, 2, 0, &a), -KV_EPROTO);
	assert_int_equal(wire_welcome_addr(&m.welcome, 0, 2, &a), -KV_EPROTO);
	m.welcome.addrs_len = 10;
	assert_int_equal(wire_welcome_addr(&m.welcome, 0, 1, &a), -KV_EPROTO);
}

static void addresses_are_packed_while_they_fit(void **state)
{
	uint8_t *small = malloc(10), addr[KV_ADDR_MAX + 1] = {1, 2, 3, 4, 5};
	uint32_t len = 0;
	(void)state;
	assert_non_null(small);
	assert_int_equal(wire_addr_pack(small, 10, &len, addr, 0), -KV_EINVAL);
	assert_int_equal(wire_addr_pack(small, 10, &len, addr, KV_ADDR_MAX + 1), -KV_ETOOBIG);
	assert_int_equal(wire_addr_pack(small, 10, &len, addr, 9), -KV_ETOOBIG);
	assert_int_equal(wire_addr_pack(small, 10, &len, addr, 5), 0);
	assert_int_equal(len, 7);
	assert_int_equal(wire_addr_pack(small, 10, &len, addr, 2), -KV_ETOOBIG);
	assert_int_equal(wire_addr_pack(small, 10, &len, addr, 1), 0);
	assert_int_equal(len, 10);
	free(small);
}

static void a_refusal_keeps_its_limits(void **state)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_REFUSE}, got;
	int len;
	(void)state;
	memset(m.refuse.text, 't', sizeof(m.refuse.text));
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.refuse.text[sizeof(m.refuse.text) - 1] = 0;
	len = wire_ctrl_encode(&m, buf, sizeof(buf));
	assert_int_equal(len, 8 + 4 + 2 + 511);
	assert_int_equal(wire_ctrl_decode(buf, (size_t)len, &got), 0);
	assert_string_equal(got.refuse.text, m.refuse.text);
	kv_put16(buf + 12, 512);
	kv_put32(buf, (uint32_t)len + 1 - 4);
	buf[len] = 't';
	assert_int_equal(wire_ctrl_decode(buf, (size_t)len + 1, &got), -KV_EPROTO);
}

static void a_region_keeps_its_limits(void **state)
{
	struct wire_ctrl_msg m = golden("region");
	(void)state;
	m.region.len_bytes = 0x400001;
	assert_int_equal(encode(&m), 0);
	m.region.len_bytes = 0x600000;
	assert_int_equal(encode(&m), 0);
	m.region.len_bytes = 0x400000; /* two parts are enough */
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.region.len_bytes = 0x600001; /* three parts are not enough */
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.region.len_bytes = 0;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m = golden("region");
	m.region.part_bytes = 0;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.region.part_bytes = 1;
	m.region.len_bytes = m.region.parts = KV_CTRL_MAX / 16 + 1;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m = golden("region");
	m.region.rails = 0;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.region.rails = KV_RAILS_MAX + 1;
	assert_int_equal(encode(&m), -KV_EINVAL);
}

/* Within every limit, but the table is larger than a control message. */
static void a_region_too_large_for_a_message_is_refused(void **state)
{
	struct wire_ctrl_msg m = golden("region");
	(void)state;
	m.region.parts = KV_CTRL_MAX / 16;
	m.region.rails = KV_RAILS_MAX;
	m.region.part_bytes = 4096;
	m.region.len_bytes = m.region.parts * m.region.part_bytes;
	assert_int_equal(encode(&m), -KV_ETOOBIG);
}

static void a_region_with_a_wrong_field_is_refused(void **state)
{
	(void)state;
	assert_int_equal(decode_patched("region", 12, 2, 0), -KV_EPROTO); /* rails */
	assert_int_equal(decode_patched("region", 12, 2, 1), -KV_EPROTO);
	assert_int_equal(decode_patched("region", 12, 2, 3), -KV_EPROTO);
	assert_int_equal(decode_patched("region", 14, 2, 0), 1); /* flags */
	assert_int_equal(decode_patched("region", 14, 2, 2), -KV_EPROTO);
	assert_int_equal(decode_patched("region", 16, 8, 0), -KV_EPROTO); /* length */
	assert_int_equal(decode_patched("region", 24, 8, 0), -KV_EPROTO); /* part bytes */
	assert_int_equal(decode_patched("region", 32, 4, 0), -KV_EPROTO); /* parts */
	assert_int_equal(decode_patched("region", 32, 4, 0x80000003), -KV_EPROTO);
	assert_int_equal(decode_patched("region", 32, 4, UINT32_MAX), -KV_EPROTO);
	assert_int_equal(decode_patched("region", 36, 4, 1), -KV_EPROTO); /* reserved */
}

static void a_regions_table_gives_back_what_was_put(void **state)
{
	uint8_t *table = malloc(3 * 5 * 16);
	struct wire_region r = {.parts = 5, .rails = 3, .keys = table};
	uint64_t base, key;
	(void)state;
	assert_non_null(table);
	for (unsigned rail = 0; rail < 3; rail++) {
		for (uint32_t part = 0; part < 5; part++)
			wire_region_put(table, 5, rail, part, 100 * rail + part, ~(uint64_t)(100 * rail + part));
	}
	for (unsigned rail = 0; rail < 3; rail++) {
		for (uint32_t part = 0; part < 5; part++) {
			wire_region_key(&r, rail, part, &base, &key);
			assert_int_equal(base, 100 * rail + part);
			assert_int_equal(key, ~(uint64_t)(100 * rail + part));
		}
	}
	free(table);
}

static void revoke_carries_no_status(void **state)
{
	struct wire_ctrl_msg m = golden("revoke");
	(void)state;
	m.region_ok.status = 1;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.type = WIRE_CTRL_REVOKE_OK;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.type = WIRE_CTRL_REGION_OK;
	assert_int_equal(encode(&m), 0);
	m.type = WIRE_CTRL_ADDRESS_OK;
	assert_int_equal(encode(&m), 0);
	assert_int_equal(decode_patched("revoke", 12, 4, 1), -KV_EPROTO);
	assert_int_equal(decode_patched("revoke_ok", 12, 4, 1), -KV_EPROTO);
}

/* The numbers agree, also where their sum does not fit 64 bits. */
static void a_report_of_a_drain_adds_up(void **state)
{
	struct wire_ctrl_msg m = golden("drain_done");
	(void)state;
	m.drained.of++;
	assert_int_equal(encode(&m), -KV_EINVAL);
	assert_int_equal(decode_patched("drain_done", 8, 8, 91), -KV_EPROTO);
	assert_int_equal(decode_patched("drain_done", 8, 8, 101), -KV_EPROTO);
	assert_int_equal(decode_patched("drain_done", 24, 8, 99), -KV_EPROTO);
	assert_int_equal(decode_patched("drain_done", 40, 4, 8), -KV_EPROTO); /* reasons */
	assert_int_equal(decode_patched("drain_done", 40, 4, 10), -KV_EPROTO);
	assert_int_equal(decode_patched("drain_done", 44, 4, 1), -KV_EPROTO);
	assert_int_equal(decode_patched("drain_done", 48, 8, UINT64_MAX), -KV_EPROTO);
	assert_int_equal(decode_patched("drain_done", 48, 8, 8), -KV_EPROTO);
	assert_int_equal(decode_patched("drain_done", 16, 8, 1), 1); /* bytes */
}

static void addresses_and_heartbeats_keep_their_limits(void **state)
{
	struct wire_ctrl_msg m = golden("address");
	(void)state;
	m.address.rails = 0;
	assert_int_equal(encode(&m), -KV_EINVAL);
	m.address.rails = KV_RAILS_MAX + 1;
	assert_int_equal(encode(&m), -KV_EINVAL);
	assert_int_equal(decode_patched("address", 8, 2, 0), -KV_EPROTO);
	assert_int_equal(decode_patched("address", 8, 2, 33), -KV_EPROTO);
	assert_int_equal(decode_patched("address", 10, 2, 1), -KV_EPROTO);
	m = golden("heartbeat");
	m.heartbeat.shards = KV_SHARDS_MAX;
	assert_int_equal(encode(&m), 0);
	m.heartbeat.shards++;
	assert_int_equal(encode(&m), -KV_EINVAL);
	assert_int_equal(decode_patched("heartbeat", 32, 2, 2), -KV_EPROTO);
	assert_int_equal(decode_patched("heartbeat", 32, 2, 65), -KV_EPROTO);
	assert_int_equal(decode_patched("heartbeat", 34, 2, 1), -KV_EPROTO);
	assert_int_equal(decode_patched("heartbeat", 36, 4, 1), -KV_EPROTO);
}

/* The next four have consistent lengths, so that only the limit can refuse them. */
static void a_decoded_address_has_a_length_within_bounds(void **state)
{
	(void)state;
	for (uint32_t n = 0; n <= KV_ADDR_MAX + 2; n++) {
		uint8_t *data = calloc(1, 18 + n);
		struct wire_ctrl_msg m;
		assert_non_null(data);
		kv_put32(data, 14 + n);
		kv_put16(data + 4, WIRE_CTRL_ADDRESS);
		kv_put16(data + 8, 1);
		kv_put16(data + 16, (uint16_t)n);
		assert_int_equal(wire_ctrl_decode(data, 18 + n, &m), n >= 1 && n <= KV_ADDR_MAX ? 0 : -KV_EPROTO);
		free(data);
	}
}

static void a_decoded_heartbeat_has_shards_within_bounds(void **state)
{
	(void)state;
	for (uint32_t n = KV_SHARDS_MAX - 1; n <= 4 * KV_SHARDS_MAX; n++) {
		uint8_t *data = calloc(1, 40 + 8 * n);
		struct wire_ctrl_msg m;
		assert_non_null(data);
		kv_put32(data, 36 + 8 * n);
		kv_put16(data + 4, WIRE_CTRL_HEARTBEAT);
		kv_put16(data + 32, (uint16_t)n);
		assert_int_equal(wire_ctrl_decode(data, 40 + 8 * n, &m), n <= KV_SHARDS_MAX ? 0 : -KV_EPROTO);
		free(data);
	}
}

static void a_welcome_with_too_many_shards_or_rails_is_refused(void **state)
{
	static const struct {
		uint16_t shards, rails;
		bool good;
	} cases[] = {{KV_SHARDS_MAX, 1, true},
		     {KV_SHARDS_MAX + 1, 1, false},
		     {1, KV_RAILS_MAX, true},
		     {1, KV_RAILS_MAX + 1, false},
		     {0, 1, false},
		     {1, 0, false}};
	const int fixed = 120 + 2 + 6 + 2 + 4;
	(void)state;
	for (size_t i = 0; i < KV_COUNT(cases); i++) {
		struct wire_ctrl_msg m = golden("welcome"), got;
		uint8_t addrs[(KV_SHARDS_MAX + 1) * 3];
		uint32_t n = (uint32_t)cases[i].shards * cases[i].rails, len = 0;
		for (uint32_t k = 0; k < n; k++)
			assert_int_equal(wire_addr_pack(addrs, sizeof(addrs), &len, "a", 1), 0);
		/* Such a peer would send the golden message with other addresses. */
		assert_true(wire_ctrl_encode(&m, buf, sizeof(buf)) > fixed);
		kv_put32(buf, (uint32_t)fixed - 4 + len);
		kv_put16(buf + 10, cases[i].shards);
		kv_put16(buf + 12, cases[i].rails);
		memcpy(buf + fixed, addrs, len);
		assert_int_equal(wire_ctrl_decode(buf, (size_t)fixed + len, &got), cases[i].good ? 0 : -KV_EPROTO);
		m.welcome.shards = cases[i].shards;
		m.welcome.rails = cases[i].rails;
		m.welcome.addrs = addrs;
		m.welcome.addrs_len = len;
		assert_int_equal(encode(&m), cases[i].good ? 0 : -KV_EINVAL);
	}
}

static void a_hello_with_too_many_rails_is_refused(void **state)
{
	uint8_t *data;
	struct wire_ctrl_msg m = golden("hello");
	int len;
	(void)state;
	for (unsigned i = 0; i < KV_RAILS_MAX; i++)
		m.hello.addr[i] = (struct wire_blob_addr){1, {1}};
	m.hello.rails = KV_RAILS_MAX;
	len = wire_ctrl_encode(&m, buf, sizeof(buf));
	assert_true(len > 0);
	assert_int_equal(wire_ctrl_decode(buf, (size_t)len, &m), 0);
	memcpy(buf + len, "\x01\0\x01", 3);
	kv_put32(buf, (uint32_t)len + 3 - 4);
	kv_put16(buf + 54, KV_RAILS_MAX + 1);
	data = exact_copy(buf, (size_t)len + 3);
	assert_int_equal(wire_ctrl_decode(data, (size_t)len + 3, &m), -KV_EPROTO);
	free(data);
}

/* Every capacity that is too small is reported, and nothing is written beyond it (the block has exactly that size). */
static void nothing_is_encoded_into_too_little(void **state)
{
	(void)state;
	for (size_t i = 0; i < golden_ctrls_n; i++) {
		size_t len = strlen(golden_ctrls[i].hex) / 2;
		for (size_t cap = 0; cap <= len; cap++) {
			uint8_t *small = malloc(cap);
			assert_true(small || cap == 0);
			assert_int_equal(wire_ctrl_encode(&golden_ctrls[i].want, small, cap),
					 cap == len ? (int)len : -KV_ETOOBIG);
			free(small);
		}
	}
}

/* Ids are never 0, a refusal has a cause, and reserved fields are 0. */
static void a_session_message_with_a_wrong_field_is_refused(void **state)
{
	(void)state;
	assert_int_equal(decode_patched("session_open", 8, 4, 1), 1);
	assert_int_equal(decode_patched("session_open", 8, 4, 0), -KV_EPROTO);
	assert_int_equal(decode_patched("session_open", 12, 4, 1), -KV_EPROTO);
	assert_int_equal(decode_patched("session_open", 88, 2, 7), -KV_EPROTO); /* the identity's length */
	assert_int_equal(decode_patched("session_open", 90, 1, 0), -KV_EPROTO);
	assert_int_equal(decode_patched("session_ok", 8, 4, 0), -KV_EPROTO);
	assert_int_equal(decode_patched("session_ok", 12, 4, 0), -KV_EPROTO);
	assert_int_equal(decode_patched("session_ok", 16, 4, 0), -KV_EPROTO);
	assert_int_equal(decode_patched("session_ok", 20, 4, 1), -KV_EPROTO);
	assert_int_equal(decode_patched("session_refuse", 8, 4, 0), -KV_EPROTO);
	assert_int_equal(decode_patched("session_refuse", 12, 4, WIRE_OK), -KV_EPROTO);
	assert_int_equal(decode_patched("session_refuse", 12, 4, UINT32_MAX), 1);
	assert_int_equal(decode_patched("session_close", 8, 4, 0), -KV_EPROTO);
	assert_int_equal(decode_patched("session_close", 12, 4, 1), -KV_EPROTO);
	assert_int_equal(decode_patched("session_close_ok", 12, 4, 1), -KV_EPROTO);
}

static void session_messages_keep_their_limits(void **state)
{
	struct wire_ctrl_msg open = golden("session_open"), ok = golden("session_ok"),
			     refuse = golden("session_refuse"), close = golden("session_close");
	(void)state;
	memset(open.session_open.identity, 'i', WIRE_IDENTITY_MAX - 1);
	assert_int_equal(encode(&open), 0);
	memset(open.session_open.identity, 'i', WIRE_IDENTITY_MAX); /* without a final 0 */
	assert_int_equal(encode(&open), -KV_EINVAL);
	open = golden("session_open");
	open.session_open.id = 0;
	assert_int_equal(encode(&open), -KV_EINVAL);
	ok.session_ok.credits = 0;
	assert_int_equal(encode(&ok), -KV_EINVAL);
	refuse.session_refuse.status = WIRE_OK;
	assert_int_equal(encode(&refuse), -KV_EINVAL);
	close.session_close.requests = 1; /* only the answer has them */
	assert_int_equal(encode(&close), -KV_EINVAL);
	close.type = WIRE_CTRL_SESSION_CLOSE_OK;
	assert_int_equal(encode(&close), 0);
	close.session_close.session = 0;
	assert_int_equal(encode(&close), -KV_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_length_is_known_from_four_bytes),
		cmocka_unit_test(messages_of_unknown_types_are_refused),
		cmocka_unit_test(events_keep_their_limits),
		cmocka_unit_test(a_hello_says_which_versions_it_speaks),
		cmocka_unit_test(a_hello_of_another_version_is_told_apart),
		cmocka_unit_test(a_hello_keeps_its_limits),
		cmocka_unit_test(a_hello_names_a_prior_session_with_its_token),
		cmocka_unit_test(a_hello_with_a_wrong_field_is_refused),
		cmocka_unit_test(the_longest_strings_and_addresses_fit),
		cmocka_unit_test(a_welcome_keeps_its_limits),
		cmocka_unit_test(a_welcome_with_a_wrong_field_is_refused),
		cmocka_unit_test(the_largest_welcome_fits),
		cmocka_unit_test(a_welcome_gives_each_shards_addresses),
		cmocka_unit_test(addresses_are_packed_while_they_fit),
		cmocka_unit_test(a_refusal_keeps_its_limits),
		cmocka_unit_test(a_region_keeps_its_limits),
		cmocka_unit_test(a_region_too_large_for_a_message_is_refused),
		cmocka_unit_test(a_region_with_a_wrong_field_is_refused),
		cmocka_unit_test(a_regions_table_gives_back_what_was_put),
		cmocka_unit_test(revoke_carries_no_status),
		cmocka_unit_test(a_report_of_a_drain_adds_up),
		cmocka_unit_test(addresses_and_heartbeats_keep_their_limits),
		cmocka_unit_test(a_decoded_address_has_a_length_within_bounds),
		cmocka_unit_test(a_decoded_heartbeat_has_shards_within_bounds),
		cmocka_unit_test(a_welcome_with_too_many_shards_or_rails_is_refused),
		cmocka_unit_test(a_hello_with_too_many_rails_is_refused),
		cmocka_unit_test(nothing_is_encoded_into_too_little),
		cmocka_unit_test(a_session_message_with_a_wrong_field_is_refused),
		cmocka_unit_test(session_messages_keep_their_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
