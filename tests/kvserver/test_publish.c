/* SPDX-License-Identifier: Apache-2.0 */
/* test_publish.c -- events as vLLM and SGLang publish them: the bytes, the option, and what a server sends over a
 * transport that only remembers. tests/engines/events.sh reads the same with vLLM's own structures over ZeroMQ. */
#include "tests/check.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "kvclient/kvclient.h"
#include "kvserver/events/publish.h"
#include "kvserver/kvserver.h"

/* ---- bytes ---- */

static void pack(uint8_t *buf, struct wire_events *v, uint8_t what, uint8_t tier, const char *key)
{
	const struct wire_event e = {
		.what = what, .tier = tier, .key_len = (uint8_t)strlen(key), .key = (const uint8_t *)key, .bytes = 7};
	assert_int_equal(wire_event_pack(buf, WIRE_EVENTS_BYTES, &v->events_len, &e), 0);
	v->count++;
}

static void check_bytes(const struct wire_events *v, enum publish_format format, const void *want, size_t len)
{
	uint8_t got[512];
	assert_int_equal(publish_encode(v, format, 1.5, got, sizeof(got)), len);
	assert_memory_equal(got, want, len);
	memset(got, 0xaa, sizeof(got));
	assert_int_equal(publish_encode(v, format, 1.5, got, 5), len); /* no room: nothing behind it is written */
	assert_int_equal(got[5], 0xaa);
}

#define BYTES(v, format, text) check_bytes(v, format, text, sizeof(text) - 1)
#define TIME                   "\x93\xcb\x3f\xf8\0\0\0\0\0\0"

static void events_are_written_as_their_readers_expect(void **state)
{
	static uint8_t buf[WIRE_EVENTS_BYTES];
	struct wire_events v = {.events = buf};
	(void)state;
	BYTES(&v, PUBLISH_MAP, TIME "\x90\0");
	pack(buf, &v, WIRE_EVENT_STORED, WIRE_TIER_MEMORY, "a");
	pack(buf, &v, WIRE_EVENT_STORED, WIRE_TIER_MEMORY, "bc");
	BYTES(&v, PUBLISH_ARRAY,
	      TIME "\x91\x98\xab"
		   "BlockStored"
		   "\x92\xc4\1a\xc4\2bc"
		   "\xc0\x90\0\xc0\xa3"
		   "CPU\xc0\0");
	BYTES(&v, PUBLISH_MAP,
	      TIME "\x91\x88\xa4type\xab"
		   "BlockStored"
		   "\xac"
		   "block_hashes\x92\xc4\1a\xc4\2bc\xb1parent_block_hash\xc0"
		   "\xa9token_ids\x90\xaa"
		   "block_size\0\xa7lora_id\xc0\xa6medium\xa3"
		   "CPU\xa9lora_name\xc0\0");
	v = (struct wire_events){.events = buf};
	pack(buf, &v, WIRE_EVENT_REMOVED, WIRE_TIER_DISK, "a");
	pack(buf, &v, WIRE_EVENT_CLEARED, 0, "");
	BYTES(&v, PUBLISH_ARRAY,
	      TIME "\x92\x93\xac"
		   "BlockRemoved"
		   "\x91\xc4\1a\xa7STORAGE"
		   "\x91\xb0"
		   "AllBlocksCleared\0");
	BYTES(&v, PUBLISH_MAP,
	      TIME "\x92\x83\xa4type\xac"
		   "BlockRemoved"
		   "\xac"
		   "block_hashes\x91\xc4\1a\xa6medium\xa7STORAGE"
		   "\x81\xa4type\xb0"
		   "AllBlocksCleared\0");
}

/* Many hashes in one event; and the largest message has room. */
static void long_answers_fit_a_message(void **state)
{
	static uint8_t buf[WIRE_EVENTS_BYTES], out[PUBLISH_PAYLOAD_MAX];
	struct wire_events v = {.events = buf};
	size_t len;
	(void)state;
	while (v.events_len + 26 <= sizeof(buf)) {
		pack(buf, &v, WIRE_EVENT_STORED, WIRE_TIER_MEMORY, "x");
		pack(buf, &v, WIRE_EVENT_REMOVED, WIRE_TIER_MEMORY, "x");
	}
	len = publish_encode(&v, PUBLISH_MAP, 0, out, sizeof(out));
	assert_true(len <= sizeof(out) && len > v.events_len);
	v = (struct wire_events){.events = buf};
	while (v.events_len + 13 <= sizeof(buf))
		pack(buf, &v, WIRE_EVENT_STORED, WIRE_TIER_MEMORY, "x");
	len = publish_encode(&v, PUBLISH_ARRAY, 0, out, sizeof(out));
	assert_int_equal(out[10], 0x91);
	assert_int_equal(out[24], 0xdc); /* an array with a length of two bytes */
	assert_int_equal(out[25] << 8 | out[26], v.count);
}

/* ---- the option ---- */

static void check_refused(const char *text, const char *part)
{
	struct publish_at at;
	struct kv_error err = {0};
	assert_int_equal(publish_at_parse(text, &at, &err), -KV_EINVAL);
	check_contains(err.text, part);
}

static void the_option_is_read(void **state)
{
	struct publish_at at;
	struct kv_error err;
	char long_text[600];
	(void)state;
	assert_int_equal(publish_at_parse("tcp://127.0.0.1:5557", &at, &err), 0);
	assert_string_equal(at.address, "tcp://127.0.0.1:5557");
	assert_true(!at.replay[0] && !at.topic[0] && at.format == PUBLISH_MAP && !at.connect);
	assert_int_equal(publish_at_parse("tcp://r:1,topic=kv@a@b,connect,format=array,replay=ipc:///run/r", &at, &err),
			 0);
	assert_string_equal(at.replay, "ipc:///run/r");
	assert_string_equal(at.topic, "kv@a@b");
	assert_true(at.connect && at.format == PUBLISH_ARRAY);
	assert_string_equal(at.space, "");
	assert_int_equal(publish_at_parse("tcp://r:1,namespace=vllm-1", &at, &err), 0);
	assert_string_equal(at.space, "vllm-1");
	check_refused("tcp://h:1,namespace=a\nb", "namespace=NAME");
	check_refused("", "the address ''");
	check_refused("127.0.0.1:5557", "tcp://HOST:PORT");
	check_refused("tcp://host", "tcp://HOST:PORT");
	check_refused("tcp://h:1,replay=x", "replay 'x'");
	check_refused("tcp://h:1,format=json", "'format=json'");
	check_refused("tcp://h:1,", "''");
	memset(long_text, 'x', sizeof(long_text));
	memcpy(long_text, "tcp://h:1", 9);
	long_text[sizeof(long_text) - 1] = 0;
	check_refused(long_text, "bytes");
	long_text[200] = 0;
	check_refused(long_text, "the address");
	memcpy(long_text, "tcp://h:1,topic=", 16);
	check_refused(long_text, "topic=TEXT");
}

/* ---- a server ---- */

/* What was sent, and a question. */
static struct {
	pthread_mutex_t lock;
	bool opened, closed, asks, refuse_open;
	uint64_t messages, first, answered, last_answer;
	bool answer_over;
	uint8_t all[1 << 20];
	size_t len;
} sent = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int fake_open(const struct publish_at *at, void **out, struct kv_error *err)
{
	assert_string_equal(at->address, "tcp://127.0.0.1:1");
	if (sent.refuse_open)
		return kv_fail(err, -KV_EINVAL, "the address is in use");
	sent.opened = true;
	*out = &sent;
	return 0;
}

static void fake_close(void *t)
{
	assert_ptr_equal(t, &sent);
	sent.closed = true;
}

static void fake_send(void *t, uint64_t number, const void *payload, size_t len)
{
	(void)t;
	pthread_mutex_lock(&sent.lock);
	if (number != sent.messages || sent.len + len > sizeof(sent.all))
		abort();
	sent.messages++;
	memcpy(sent.all + sent.len, payload, len);
	sent.len += len;
	pthread_mutex_unlock(&sent.lock);
}

static bool fake_asked(void *t, uint64_t *out_number)
{
	bool asks;
	(void)t;
	pthread_mutex_lock(&sent.lock);
	asks = sent.asks;
	sent.asks = false;
	*out_number = sent.first;
	pthread_mutex_unlock(&sent.lock);
	return asks;
}

static int fake_answer(void *t, uint64_t number, const void *payload, size_t len)
{
	(void)t;
	pthread_mutex_lock(&sent.lock);
	if (payload) {
		if (len == 0 || (sent.answered > 0 && number != sent.last_answer + 1))
			abort();
		sent.last_answer = number;
		sent.answered++;
	} else {
		sent.answer_over = number == UINT64_MAX;
	}
	pthread_mutex_unlock(&sent.lock);
	return 0;
}

static const struct kvs_transport transport = {fake_open, fake_close, fake_send, fake_asked, fake_answer};

static unsigned times(const char *text)
{
	unsigned n = 0;
	const uint8_t *at = sent.all;
	pthread_mutex_lock(&sent.lock);
	while ((at = memmem(at, (size_t)(sent.all + sent.len - at), text, strlen(text))) != NULL) {
		n++;
		at++;
	}
	pthread_mutex_unlock(&sent.lock);
	return n;
}

static bool soon(bool (*is)(void))
{
	for (unsigned i = 0; i < 2000; i++) {
		if (is())
			return true;
		usleep(10000);
	}
	return false;
}

static bool key_was_sent_twice(void)
{
	return times("a-key") == 2;
}

static bool answer_ended(void)
{
	bool over;
	pthread_mutex_lock(&sent.lock);
	over = sent.answer_over;
	pthread_mutex_unlock(&sent.lock);
	return over;
}

static struct kvs_options options(struct publish_at *at)
{
	assert_int_equal(publish_at_parse("tcp://127.0.0.1:1,format=array", at, NULL), 0);
	return (struct kvs_options){.listen_addr = "127.0.0.1:0",
				    .shards = 2,
				    .memory_bytes = 16 << 20,
				    .provider = test_provider(),
				    .events = true,
				    .events_at = at,
				    .events_transport = &transport,
				    .log = NULL};
}

static void a_server_publishes_what_it_stores_and_removes(void **state)
{
	struct publish_at at;
	struct kvs_options o = options(&at);
	struct kvs_server *server;
	struct kvc_pool *pool;
	char address[KV_HOST_MAX];
	const char *servers[] = {address};
	struct kvc_options client = {.size = sizeof(client),
				     .num_clients = 1,
				     .servers = servers,
				     .num_servers = 1,
				     .provider = test_provider(),
				     .flags = KVC_OPEN_WAIT};
	struct kvc_key key = {"a-key", 5}, other = {"b-key", 5};
	struct kv_error err;
	(void)state;
	if (kvs_server_create(&o, &server, &err) || kvs_server_start(server, &err))
		fail_msg("%s", err.text);
	assert_true(sent.opened);
	kvs_server_address(server, address, sizeof(address));
	client.namespace_name = "other";
	assert_int_equal(kvc_pool_open(&client, &pool, &err), 0);
	assert_int_equal(kvc_put(pool, other, "x", 1, NULL), 0); /* its events are not published */
	assert_int_equal(kvc_namespace_clear(pool, NULL, NULL), 0);
	kvc_pool_close(&pool);
	client.namespace_name = NULL;
	assert_int_equal(kvc_pool_open(&client, &pool, &err), 0);
	assert_int_equal(kvc_put(pool, key, "x", 1, NULL), 0);
	assert_int_equal(kvc_delete(pool, key, NULL), 0);
	assert_true(soon(key_was_sent_twice));
	assert_int_equal(times("AllBlocksCleared"), 1);
	assert_int_equal(times("BlockStored"), 1);
	assert_int_equal(times("BlockRemoved"), 1);
	assert_int_equal(times("b-key"), 0);
	/* A subscriber asks for all messages but the first. */
	pthread_mutex_lock(&sent.lock);
	sent.first = 1;
	sent.asks = true;
	pthread_mutex_unlock(&sent.lock);
	assert_true(soon(answer_ended));
	assert_int_equal(sent.answered, sent.messages - 1);
	assert_int_equal(sent.last_answer, sent.messages - 1);
	kvc_pool_close(&pool);
	kvs_server_destroy(&server);
	assert_true(sent.closed);
}

static void a_socket_that_cannot_be_had_ends_the_start(void **state)
{
	struct publish_at at;
	struct kvs_options o = options(&at);
	struct kvs_server *server;
	struct kv_error err;
	(void)state;
	sent.refuse_open = true;
	assert_int_equal(kvs_server_create(&o, &server, &err), 0);
	assert_int_equal(kvs_server_start(server, &err), -KV_EINVAL);
	check_contains(err.text, "in use");
	kvs_server_destroy(&server);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_are_written_as_their_readers_expect),
		cmocka_unit_test(long_answers_fit_a_message),
		cmocka_unit_test(the_option_is_read),
		cmocka_unit_test(a_server_publishes_what_it_stores_and_removes),
		cmocka_unit_test(a_socket_that_cannot_be_had_ends_the_start),
	};
	return cmocka_run_group_tests_name("kvserver/publish", tests, NULL, NULL);
}
