/* SPDX-License-Identifier: Apache-2.0 */
/* control.c -- see control.h. */
#include "tests/kvserver/control.h"

#include <netinet/in.h>

#include "kvserver/server/server.h"
#include "kvserver/shard/attachment.h"
#include "kvserver/shard/stat.h"

struct kvs_options server_options(void)
{
	return (struct kvs_options){.listen_addr = "127.0.0.1:0",
				    .shards = SHARDS,
				    .memory_bytes = 16 << 20,
				    .max_clients = CLIENTS,
				    .heartbeat_ms = 20,
				    .provider = test_provider(),
				    .log = &sink};
}

int group_up(void **state)
{
	const struct kvs_options o = server_options();
	(void)state;
	talk_up(&o);
	return 0;
}

int group_down(void **state)
{
	(void)state;
	talk_down();
	return 0;
}

struct boot_conn *greet(struct wire_ctrl_msg *m)
{
	struct wire_ctrl_msg h = hello_make(te);
	struct boot_conn *c = dial(server, ctx);
	expect(c != NULL);
	if (!c)
		return NULL;
	expect(boot_send_await(c, &h, soon()) == 0);
	expect(next(c, m) == 0);
	return c;
}

void leave(struct boot_conn *c)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_GOODBYE};
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_GOODBYE_OK);
	m.type = WIRE_CTRL_GOODBYE_DONE;
	expect(boot_send_await(c, &m, soon()) == 0);
	boot_close(&c);
}

uint64_t control_stat(enum wire_stat id)
{
	return atomic_load(&server->control_stat[id]);
}

bool becomes(enum wire_stat id, uint64_t value)
{
	uint64_t until = soon();
	while (control_stat(id) != value && loop_now(loop) < until)
		co_sleep_await(loop_now(loop) + 5000000);
	return control_stat(id) == value;
}

bool open_becomes(unsigned want)
{
	uint64_t until = soon();
	while (atomic_load(&server->clients.open) != want && loop_now(loop) < until)
		co_sleep_await(loop_now(loop) + 5000000);
	return atomic_load(&server->clients.open) == want;
}

struct wire_ctrl_msg region(uint32_t id, uint64_t len)
{
	static uint8_t keys[2 * 16];
	wire_region_put(keys, 1, 0, 0, 4096, 9);
	return (struct wire_ctrl_msg){
		.type = WIRE_CTRL_REGION,
		.region = {.id = id, .parts = 1, .rails = 1, .len_bytes = len, .part_bytes = 1 << 20, .keys = keys}};
}

int32_t ask_region(struct boot_conn *c, uint32_t id, uint64_t len)
{
	struct wire_ctrl_msg m = region(id, len);
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REGION_OK && m.region_ok.id == id);
	return m.region_ok.status;
}

int raw(const void *bytes, size_t len)
{
	struct sockaddr_storage a = server_addr(server);
	int fd = -1;
	expect(io_connect_await(&a, sizeof(struct sockaddr_in), &fd, soon()) == 0);
	if (len)
		expect(io_write_all_await(fd, bytes, len, soon()) == 0);
	return fd;
}

void prior_set(struct wire_ctrl_msg *h, const struct wire_ctrl_msg *welcome)
{
	h->hello.prior.session = welcome->welcome.session;
	memcpy(h->hello.prior.token, welcome->welcome.token, KV_TOKEN_LEN);
}

void again(struct boot_conn *c, struct wire_ctrl_msg *m)
{
	struct wire_ctrl_msg h = hello_make(te);
	prior_set(&h, m);
	expect(boot_send_await(c, &h, soon()) == 0);
	expect(next(c, m) == 0);
}

void only_beats(struct boot_conn *c, unsigned n)
{
	struct wire_ctrl_msg m;
	for (unsigned i = 0; i < n; i++)
		expect(boot_recv_await(c, &m, soon()) == 0 && m.type == WIRE_CTRL_HEARTBEAT);
}

/* ---- the first shard ---- */

struct first_shard seen;

static void see(void *arg)
{
	struct shard *s = arg;
	seen.requests = s->requests.used;
	seen.ending = (unsigned)shard_stat_get(s, WIRE_STAT_ENDING_SESSIONS);
	seen.sessions = s->attachments.count;
	seen.clients = (unsigned)shard_stat_get(s, WIRE_STAT_SESSIONS);
	seen.unknown = shard_stat_get(s, WIRE_STAT_UNKNOWN_SESSION);
	seen.fences = shard_stat_get(s, WIRE_STAT_FENCES);
	seen.fenced_ns = s->fenced_ns;
	atomic_store(&seen.taken, true);
}

void look(void)
{
	uint64_t until = soon();
	atomic_store(&seen.taken, false);
	expect(loop_post(server->shard_loop[0], see, server->shard[0]) == 0);
	while (!atomic_load(&seen.taken) && loop_now(loop) < until)
		co_sleep_await(loop_now(loop) + 1000000);
	expect(atomic_load(&seen.taken));
}

void sessions_become(unsigned all, unsigned ending)
{
	uint64_t until = soon();
	for (look(); (seen.sessions != all || seen.ending != ending) && loop_now(loop) < until; look())
		co_sleep_await(loop_now(loop) + 5000000);
	expect(seen.sessions == all && seen.ending == ending);
}

/* What a transfer that does not end does to a session of the first shard: it is not over. */
static struct {
	uint32_t number;
	bool release;
	_Atomic bool done;
} holding;

static void hold_run(void *arg)
{
	struct shard_attachment *attachment = shard_attachment_find(arg, holding.number);
	if (attachment && holding.release) {
		attachment->request_count--;
		shard_attachment_request_freed(attachment);
	} else if (attachment) {
		attachment->request_count++;
	}
	expect(attachment != NULL);
	atomic_store(&holding.done, true);
}

static void hold_or_release(uint32_t number, bool release)
{
	uint64_t until = soon();
	holding.number = number;
	holding.release = release;
	atomic_store(&holding.done, false);
	expect(loop_post(server->shard_loop[0], hold_run, server->shard[0]) == 0);
	while (!atomic_load(&holding.done) && loop_now(loop) < until)
		co_sleep_await(loop_now(loop) + 1000000);
	expect(atomic_load(&holding.done));
}

void hold(uint32_t number)
{
	hold_or_release(number, false);
}

void release(uint32_t number)
{
	hold_or_release(number, true);
}

int te_reset(struct te *te, struct kv_error *err); /* engine/fence.h; a fence may be one of a client alone */

static void rebuild(void *arg)
{
	te_reset(((struct shard *)arg)->te, NULL);
}

void endpoint_rebuild(void)
{
	expect(loop_post(server->shard_loop[0], rebuild, server->shard[0]) == 0);
}
