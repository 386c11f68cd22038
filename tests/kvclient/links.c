/* SPDX-License-Identifier: Apache-2.0 */
/* links.c -- see links.h. */
#include "links.h"

#include "kvclient/conn/deletes_owed.h"
#include "kvclient/core/waits.h"
#include "kvclient/request/life.h"
#include "kvclient/request/private.h"
#include "kvclient/request/requests.h"

struct links links;

static uint64_t clock_now(const struct kv_clock *clock)
{
	(void)clock;
	return links.now_ns;
}

static const struct kv_clock still_clock = {.now_ns = clock_now};

static void log_line(void *arg, enum kv_log_level level, const char *line)
{
	(void)arg, (void)level;
	snprintf(links.logged, sizeof(links.logged), "%s", line);
}

static void client_up(void)
{
	struct kvc_client *c = &links.client;
	const struct loop_options options = {.name = "links", .clock = &still_clock};
	links.pool.log = (struct kv_log){.level = KV_LOG_INFO, .write = log_line};
	c->num_nodes = 1;
	links.pool.room = 1;
	links.pool.server = &links.server;
	links.pool.loads.down = &links.down;
	snprintf(links.server.entry.text, sizeof(links.server.entry.text), "server-a");
	c->pool = &links.pool;
	c->node = &links.node;
	assert_int_equal(kc_requests_open(c), 0);
	assert_int_equal(kc_owed_init(c), 0);
	kv_list_init(&c->sessions);
	kc_waits_init(c);
	assert_int_equal(loop_create(&options, &c->loop, NULL), 0);
	assert_int_equal(kc_reqs_init(&c->reqs, KC_REQS), 0);
	c->nodes.own = &links.own;
	links.node.client = c;
	kc_node_renew(&links.node);
	links.own.pulse.beat_ns = 100 * MS;
}

static void link_up(unsigned shard, unsigned index)
{
	struct kc_attachment *s = links.attachment;
	struct kc_link *l = &s->link[shard * s->links_per_shard + index];
	l->attachment = s;
	l->shard = (uint16_t)shard;
	l->index = (uint16_t)index;
	l->credits = LINK_CREDITS;
	l->reserve = LINK_RESERVE;
	kv_list_init(&l->dirty_node);
	kv_list_init(&l->queue);
	kv_list_init(&l->parked);
	kv_list_init(&l->cancels);
	kv_list_init(&l->sent);
	kv_list_init(&l->releases.node);
	kv_list_init(&l->turns);
	assert_int_equal(kc_map_init(&l->map, LINK_CREDITS), 0);
}

void links_up(unsigned shards, unsigned per_shard)
{
	struct kc_attachment *s;
	memset(&links, 0, sizeof(links));
	links.now_ns = 1000000 * MS;
	client_up();
	s = calloc(1, sizeof(*s) + shards * per_shard * sizeof(s->link[0]));
	assert_non_null(s);
	links.attachment = links.node.attachment = s;
	links.link = s->link;
	s->node = &links.node;
	s->refs = 1;
	s->open = true;
	s->credits = LINK_CREDITS;
	s->shards = (uint16_t)shards;
	s->links_per_shard = (uint16_t)per_shard;
	s->num_links = shards * per_shard;
	for (unsigned i = 0; i < s->num_links; i++)
		link_up(i / per_shard, i % per_shard);
}

void links_engine(void)
{
	struct kc_attachment *s = links.attachment;
	const struct te_handlers nothing = {0};
	struct te_options options = {.provider = test_provider(), .messages = 16, .receives = 16};
	struct kv_hostport loopback = {.host = "127.0.0.1"};
	struct te_address addr[KV_RAILS_MAX];
	struct kv_error err = {0};
	socklen_t len;
	te_env_for_programs();
	assert_int_equal(kv_hostport_resolve(&loopback, &options.local, &len, &err), 0);
	if (te_open(&options, &nothing, NULL, &links.client.te, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(te_address(links.client.te, 0, &addr[0]), 0);
	for (unsigned i = 1; i < s->links_per_shard; i++)
		addr[i] = addr[0];
	for (unsigned i = 0; i < s->shards; i++)
		assert_int_equal(te_peer_open(links.client.te, addr, s->links_per_shard, &s->peer[i], &err), 0);
}

int links_down(void **state)
{
	struct kc_attachment *s = links.attachment;
	(void)state;
	for (unsigned i = 0; i < s->shards; i++)
		te_peer_close(&s->peer[i]);
	te_close(&links.client.te);
	for (unsigned i = 0; i < s->num_links; i++)
		kc_map_fini(&s->link[i].map);
	free(s);
	kc_requests_close(&links.client);
	kc_owed_fini(&links.client);
	kc_reqs_fini(&links.client.reqs);
	loop_destroy(&links.client.loop);
	return 0;
}

/* ---- a coroutine ---- */

static struct {
	void (*fn)(void);
	bool over;
} run;

static void run_main(void *arg)
{
	(void)arg;
	run.fn();
	run.over = true;
}

void links_run(void (*fn)(void), void (*meanwhile)(void))
{
	run.fn = fn;
	run.over = false;
	assert_int_equal(co_spawn(links.client.loop, run_main, NULL, "test"), 0);
	for (unsigned turns = 0; !run.over; turns++) {
		assert_in_range(turns, 0, 100000);
		loop_turn(links.client.loop, 0);
		links.now_ns += MS;
		if (meanwhile)
			meanwhile();
	}
}

struct kc_req *links_ping(const struct kc_link *l)
{
	return kv_list_empty(&l->queue) ? NULL : KV_LIST_ENTRY(l->queue.next, struct kc_req, node);
}

void links_answer(struct kc_link *l, int status)
{
	struct kc_req *r = links_ping(l);
	assert_non_null(r);
	assert_int_equal(r->wire.type, WIRE_PING);
	kv_list_del(&r->node);
	r->at.sent_ns = links.now_ns;
	r->at.replied_ns = links.now_ns + MS;
	kc_req_end(&links.client, r, status);
}
