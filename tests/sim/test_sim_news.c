/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_news.c -- a change of a view of 1,000 members reaches 1,000 clients of a server, under virtual time.
 *
 * The server is whole and real: its control loop, its view, its heartbeats. The clients have control connections alone,
 * by the client library's own code (bootstrap/), and do what a client does with a view (kvclient/conn/serve.c): ask
 * once, and ask again when there is news of another one. In a cluster of 1,000 servers each client has such a
 * connection to every server, and asks one of them. So a server tells all of its clients the news, and few of them the
 * view: the rest have it from the others. Where one server answers for all, every client asks it. Time here is what
 * heartbeats and the network take, not what a processor does: what that costs is counted in messages and writes.
 *
 * KVRAIL_SIM_CLIENTS=N for more of them: the simulated ring tries every waiting request again, so its time grows with
 * N * N (10,000 clients: minutes). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "kvclient/core/client.h"
#include "kvclient/pool/hosted.h"
#include "tests/kvserver/hello.h"
#include "tests/sim/world.h"

enum { CLIENTS = 1000, CLIENTS_SANITIZED = 200, CLIENTS_MAX = 10000, MEMBERS = 1000, AT_ONCE = 32 };

#define REACHED_NS (2 * SECOND + 100 * MS) /* heartbeats of 1,000 idle clients are 2 s apart */

static struct world world;

static struct {
	struct loop *loop;
	struct boot_context *ctx;
	struct wire_ctrl_msg hello;
	unsigned clients, begun, ready, gone;
	bool stop;
	unsigned ask_each; /* one client in so many asks for the view: the others hear of it elsewhere */
	kv_u128 digest;    /* of the view that clients shall have */
	unsigned news, asked, views, apart, have; /* since the change; apart: news that did not come with a heartbeat */
	uint64_t changed_ns, last_ns;
} t;

/* The view that a server is told: member i of a thousand has this weight. */
static void view_tell(uint64_t epoch, uint32_t first_weight)
{
	struct kv_view v = {.source = 1, .epoch = epoch};
	for (unsigned i = 0; i < MEMBERS; i++) {
		struct kv_member m = {.weight = i ? 1 : first_weight, .state = KV_MEMBER_UP, .incarnation = 7 + i};
		snprintf(m.node_id, sizeof(m.node_id), "kv-server-%u", i);
		snprintf(m.address, sizeof(m.address), "kv-server-%u.kv-server.default.svc:7411", i);
		snprintf(m.zone, sizeof(m.zone), "zone-%u", i % 3);
		assert_int_equal(kv_view_add(&v, &m), 0);
	}
	t.digest = kv_view_digest(&v);
	assert_int_equal(kvs_server_view_set(world.server[0].server, &v), 0);
	kv_view_fini(&v);
}

/* ---- a client ---- */

static uint64_t soon(void)
{
	return loop_now(t.loop) + 10 * SECOND;
}

static int greet_await(struct boot_conn **out, struct wire_ctrl_msg *m)
{
	struct sockaddr_storage a = {0};
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons(world.server[0].port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct boot_server server = {.addr = &a, .addr_len = sizeof(to)};
	struct kv_error err;
	int rc;
	memcpy(&a, &to, sizeof(to));
	rc = boot_connect_await(t.ctx, &server, 5000, soon(), out, &err);
	if (rc == 0)
		rc = boot_send_await(*out, &t.hello, soon());
	if (rc == 0)
		rc = boot_recv_await(*out, m, soon());
	return rc == 0 && m->type != WIRE_CTRL_WELCOME ? -KV_EPROTO : rc;
}

static int ask_await(struct boot_conn *c, kv_u128 digest)
{
	const struct wire_ctrl_msg m = {.type = WIRE_CTRL_VIEW_ASK, .view_news.digest = digest};
	return boot_send_await(c, &m, soon());
}

static kv_u128 digest_of(const struct wire_view *w)
{
	struct kv_view v;
	kv_u128 digest;
	if (wire_view_take(w, &v) < 0)
		return 0;
	digest = v.count == MEMBERS ? kv_view_digest(&v) : 0;
	kv_view_fini(&v);
	return digest;
}

/* The client has a view, or knows of one that another server gives it. */
static void heard(kv_u128 *have, kv_u128 digest)
{
	*have = digest;
	if (digest != t.digest)
		return;
	t.have++;
	t.last_ns = loop_now(t.loop);
}

/* Take one message; beat_ns: when the last heartbeat came. */
static int message_await(struct boot_conn *c, unsigned me, const struct wire_ctrl_msg *m, kv_u128 *have,
			 uint64_t *beat_ns)
{
	if (m->type == WIRE_CTRL_HEARTBEAT)
		*beat_ns = loop_now(t.loop);
	if (m->type == WIRE_CTRL_VIEW) {
		t.views++;
		heard(have, digest_of(&m->view));
	}
	if (m->type != WIRE_CTRL_VIEW_NEWS || m->view_news.digest == *have)
		return 0;
	if (!*have) { /* the answer to the first question */
		heard(have, m->view_news.digest);
		return 0;
	}
	t.news++;
	t.apart += *beat_ns != loop_now(t.loop);
	if (me % t.ask_each == 0) {
		t.asked++;
		return ask_await(c, *have);
	}
	heard(have, m->view_news.digest);
	return 0;
}

static void client_run(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	kv_u128 have = 0;
	uint64_t beat_ns = 0;
	struct boot_conn *c = NULL;
	struct wire_ctrl_msg m;
	int rc = greet_await(&c, &m);
	if (rc == 0)
		rc = ask_await(c, t.digest); /* it has the view already, and is told of others from now on */
	t.ready++;
	while (rc == 0 && !t.stop) {
		rc = boot_recv_await(c, &m, loop_now(t.loop) + SECOND);
		if (rc == 0)
			rc = message_await(c, me, &m, &have, &beat_ns);
		else if (rc == -KV_ETIMEOUT)
			rc = 0;
	}
	if (rc < 0)
		world_wrong(&world, "client %u: %s", me, kv_errname(rc));
	if (c)
		boot_close(&c);
	t.gone++;
}

/* ---- the world ---- */

static bool begun_ready(void *arg)
{
	(void)arg;
	return t.ready == t.begun;
}

static bool all_have(void *arg)
{
	(void)arg;
	return t.have == t.clients;
}

static bool all_gone(void *arg)
{
	(void)arg;
	return t.gone == t.begun;
}

static unsigned clients_wanted(void)
{
	const char *text = getenv("KVRAIL_SIM_CLIENTS");
	unsigned all = world_seeds(CLIENTS) < CLIENTS ? CLIENTS_SANITIZED : CLIENTS;
	return text ? (unsigned)atoi(text) : all;
}

/* A pool gives the clients' HELLO an address, and is killed then: it would dial a thousand members that are not there.
 */
static void clients_open(void)
{
	struct boot_security none = {0};
	struct kv_error err;
	t.hello = hello_make(kc_pool_client(world.pool[0].pool, 0)->te);
	world_pool_crash(&world, 0);
	t.loop = world_loop(&world, "clients", 0);
	assert_int_equal(boot_context_create(&none, false, NULL, &t.ctx, &err), 0);
	while (t.begun < t.clients) {
		for (unsigned i = 0; i < AT_ONCE && t.begun < t.clients; i++, t.begun++)
			assert_int_equal(co_spawn(t.loop, client_run, (void *)(uintptr_t)t.begun, "client"), 0);
		world_run(&world, begun_ready, NULL, 20 * SECOND, "clients are not let in");
	}
	world_run(&world, all_have, NULL, 20 * SECOND, "clients do not get the view that they asked for");
}

/* The view changes, and every client knows soon. */
static void change(uint64_t epoch, unsigned ask_each)
{
	t.ask_each = ask_each;
	t.news = t.asked = t.views = t.apart = t.have = 0;
	t.changed_ns = world_now(&world);
	view_tell(epoch, 1 + (uint32_t)epoch);
	world_run(&world, all_have, NULL, REACHED_NS, "a change does not reach all clients in 2 s");
	print_message("%u clients, %u members: all know after %.0f ms; %u news, %u views\n", t.clients, MEMBERS,
		      (double)(t.last_ns - t.changed_ns) / 1e6, t.news, t.views);
	assert_int_equal(t.news, t.clients); /* each is told once, ... */
	assert_int_equal(t.apart, 0);        /* ... by a write that is made anyway, ... */
	assert_int_equal(t.views, t.asked);  /* ... and has the view if it asks */
	assert_int_equal(t.asked, (t.clients + ask_each - 1) / ask_each);
}

static void change_for(unsigned clients, unsigned ask_each)
{
	const struct world_options o = {
		.seed = 1, .clients = 1, .memory_bytes = 16 << 20, .max_clients = CLIENTS_MAX + 100};
	memset(&t, 0, sizeof(t));
	t.clients = clients;
	world_open(&world, &o);
	/* What is written at once arrives at once. */
	*sim_world_net(world.sim) = (struct sim_net){
		.delay_min_ns = 100 * US, .delay_max_ns = 100 * US, .window_bytes = 1 << 20, .split = false};
	view_tell(1, 1);
	clients_open();
	world_sleep(&world, 5 * SECOND); /* what clients said has made no heartbeat due any more */
	change(2, ask_each);
	t.stop = true;
	world_run(&world, all_gone, NULL, 20 * SECOND, "clients do not end");
	boot_context_destroy(&t.ctx);
	world_close(&world);
}

static void a_change_of_a_thousand_members_reaches_a_thousand_clients(void **state)
{
	(void)state;
	change_for(clients_wanted(), MEMBERS); /* this server is one of a thousand that clients ask */
}

static void the_only_server_that_answers_tells_them_all(void **state)
{
	(void)state;
	change_for(clients_wanted() / 10, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_change_of_a_thousand_members_reaches_a_thousand_clients),
					   cmocka_unit_test(the_only_server_that_answers_tells_them_all)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
