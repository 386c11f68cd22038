/* SPDX-License-Identifier: Apache-2.0 */
/* deaf.c -- see deaf.h. */
#include "tests/kvserver/deaf.h"

#include <netinet/in.h>

#include "kvserver/server/server.h"
#include "kvserver/shard/shard.h"

enum { BIG = 6 << 20, BIG_GETS = 24 };

static void big_commit(void *arg)
{
	struct shard *s = arg;
	struct block *b, *holder;
	struct room *room;
	if (store_stage(&s->store, "big", 3, BIG, ARENA_LOW, &b, &room) != 0)
		return;
	store_commit(&s->store, b, 0, KV_NEVER, loop_now(s->loop), &holder);
	block_unref(&s->store, b);
}

static void big_drop(void *arg)
{
	struct shard *s = arg;
	struct block *b = store_find(&s->store, "big", 3, loop_now(s->loop));
	if (b)
		store_drop(&s->store, b);
}

static struct {
	struct te *te;
	struct kv_area area;
	struct te_region *region;
	struct te_peer *server;
	struct wire_frame frame;
	struct kv_macs macs;
	struct kv_seal seal;
	uint64_t seen[KV_WINDOW_WIDTH / 64];
	uint64_t next_id, nonce;
	unsigned replies;
} deaf;

struct wire_ctrl_msg deaf_hello, deaf_welcome;

static void deaf_message(void *arg, unsigned rail, const uint8_t *data, size_t len)
{
	struct wire_reader reader;
	struct wire_frame frame;
	struct wire_reply r;
	(void)arg, (void)rail;
	expect(wire_frame_open(&reader, data, len, &frame) == 0 && wire_unseal(&deaf.seal, data, len) == 0);
	expect(frame.mark == deaf.frame.mark);
	if (wire_reply_next(&reader, &r) == 1 && r.type == WIRE_PING)
		deaf.nonce = r.ping.nonce;
	deaf.replies++;
}

void deaf_send(struct wire_request *q, unsigned n)
{
	struct te_msg *msg = te_msg_acquire(deaf.te);
	struct wire_writer w;
	expect(msg != NULL);
	wire_frame_begin(&w, msg->data, KV_MSG_MAX, &deaf.frame);
	for (unsigned i = 0; i < n; i++) {
		q[i].id = q[i].type == WIRE_PROVE ? 0 : deaf.next_id++;
		q[i].time_left_us = UINT32_MAX;
		expect(wire_request_add(&w, &q[i]) == 0);
	}
	msg->len = wire_frame_end(&w);
	expect(wire_seal(&deaf.seal, msg->data, msg->len) == 0);
	msg->sent = NULL;
	te_msg_send(deaf.te, deaf.server, 0, msg, soon());
}

struct boot_conn *deaf_open(void)
{
	const struct te_options options = {
		.provider = test_provider(), .local = server_addr(server), .messages = 64, .receives = 64};
	const struct te_handlers handlers = {.message = deaf_message};
	static uint8_t keys[16];
	struct te_options o = options;
	struct wire_ctrl_msg m = {0}, h = hello_make(te);
	struct te_address mine, theirs;
	struct te_remote announced;
	struct wire_blob_addr a;
	uint8_t secret[BOOT_FRAME_SECRET];
	struct te_key key[8];
	struct boot_conn *c;
	expect(loop_post(server->shard_loop[0], big_commit, server->shard[0]) == 0);
	((struct sockaddr_in *)&o.local)->sin_port = 0;
	memset(&deaf, 0, sizeof(deaf));
	expect(te_open(&o, &handlers, NULL, &deaf.te, NULL) == 0 && kv_area_map(BIG, &deaf.area, NULL) == 0);
	expect(te_region_register(deaf.te, deaf.area.base, deaf.area.len_bytes, TE_REMOTE_READ | TE_REMOTE_WRITE, 0,
				  &deaf.region, NULL) == 0);
	expect(te_address(deaf.te, 0, &mine) == 0);
	h.hello.addr[0].len = mine.len;
	memcpy(h.hello.addr[0].data, mine.data, mine.len);
	c = dial(server, ctx);
	expect(c && boot_send_await(c, &h, soon()) == 0 && next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	deaf_hello = h;
	deaf_welcome = m;
	expect(wire_welcome_addr(&m.welcome, 0, 0, &a) == 0);
	theirs.len = a.len;
	memcpy(theirs.data, a.data, a.len);
	expect(te_peer_open(deaf.te, &theirs, 1, &deaf.server, NULL) == 0);
	deaf.next_id = 1;
	deaf.frame.session = m.welcome.session;
	deaf.frame.mark = h.hello.mark;
	expect(boot_frame_secret(c, m.welcome.token, secret) == 0 &&
	       boot_frame_macs(secret, m.welcome.session, 0, false, &deaf.macs) == 0);
	kv_seal_init(&deaf.seal, &deaf.macs, 0, deaf.seen, KV_WINDOW_WIDTH);
	te_region_announce(deaf.region, &announced, key);
	expect(announced.parts == 1);
	wire_region_put(keys, 1, 0, 0, key[0].base, key[0].key);
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_REGION,
				   .region = {.id = 1,
					      .parts = 1,
					      .rails = 1,
					      .virt = announced.virt,
					      .len_bytes = announced.len_bytes,
					      .part_bytes = announced.part_bytes,
					      .keys = keys}};
	expect(boot_send_await(c, &m, soon()) == 0 && next(c, &m) == 0 && m.type == WIRE_CTRL_REGION_OK);
	expect(m.region_ok.status == WIRE_OK);
	return c;
}

void deaf_gets(void)
{
	struct wire_request ping = {.type = WIRE_PING}, prove = {.type = WIRE_PROVE}, q[BIG_GETS];
	uint64_t until = soon();
	deaf_send(&ping, 1);
	while (deaf.replies == 0 && loop_now(loop) < until) {
		te_poll(deaf.te);
		co_sleep_await(loop_now(loop) + 1000000);
	}
	expect(deaf.replies == 1 && deaf.nonce != 0);
	prove.prove.nonce = deaf.nonce;
	deaf_send(&prove, 1);
	for (unsigned i = 0; i < BIG_GETS; i++)
		q[i] = (struct wire_request){.type = WIRE_GET,
					     .key = {(const uint8_t *)"big", 3},
					     .dest = {.region = 1, .slice = BIG, .count = 1},
					     .get = {.length = BIG, .imm = 1 << 16}};
	deaf_send(q, BIG_GETS);
	for (look(); seen.requests == 0 && loop_now(loop) < until; look())
		te_poll(deaf.te);
	expect(seen.requests > 0); /* more than all sockets hold */
}

void deaf_poll(void)
{
	te_poll(deaf.te);
}

void deaf_close(void)
{
	kv_macs_fini(&deaf.macs);
	te_close(&deaf.te);
}

void deaf_forget(void)
{
	kv_area_unmap(&deaf.area);
	expect(loop_post(server->shard_loop[0], big_drop, server->shard[0]) == 0);
}
