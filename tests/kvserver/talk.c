/* SPDX-License-Identifier: Apache-2.0 */
/* talk.c -- the two ends of talk.h. */
#include "tests/kvserver/talk.h"

#include <netinet/in.h>

struct loop *loop;
struct te *te;
struct boot_context *ctx;
struct kvs_server *server;
const struct kv_log sink = {.level = KV_LOG_OFF, .write = kv_log_stderr};

static char failure[256];
static void (*body)(void);
static bool body_done;

void talk_up(const struct kvs_options *o)
{
	const struct loop_options lo = {.name = "test", .log = &sink};
	const struct boot_security security = {.psk = o->psk};
	const struct te_handlers nothing = {0};
	struct te_options to = {.provider = test_provider(), .messages = 16, .receives = 16};
	struct kv_hostport hp = {.host = "127.0.0.1"};
	struct kv_error err = {0};
	socklen_t len;
	te_env_for_programs();
	if (kv_hostport_resolve(&hp, &to.local, &len, &err) != 0 || loop_create(&lo, &loop, &err) != 0 ||
	    boot_context_create(&security, false, &sink, &ctx, &err) != 0 ||
	    te_open(&to, &nothing, NULL, &te, &err) != 0 || kvs_server_create(o, &server, &err) != 0 ||
	    kvs_server_start(server, &err) != 0)
		fail_msg("%s", err.text);
}

void talk_down(void)
{
	kvs_server_stop(server, 1000000000);
	kvs_server_destroy(&server);
	te_close(&te);
	boot_context_destroy(&ctx);
	loop_destroy(&loop);
}

uint64_t soon(void)
{
	return loop_now(loop) + WAIT_NS;
}

static void run_body(void *arg)
{
	(void)arg;
	body();
	body_done = true;
}

void in_coroutine_untold(void (*fn)(void))
{
	uint64_t until = loop_now(loop) + 10 * WAIT_NS;
	body = fn;
	body_done = false;
	assert_int_equal(co_spawn(loop, run_body, NULL, "test"), 0);
	while (!body_done) {
		assert_true(loop_now(loop) < until);
		loop_turn(loop, 10000000);
	}
}

void in_coroutine(void (*fn)(void))
{
	in_coroutine_untold(fn);
	told();
}

void told(void)
{
	char text[sizeof(failure)];
	memcpy(text, failure, sizeof(text));
	failure[0] = 0;
	if (text[0])
		fail_msg("%s", text);
}

void talk_failed(const char *file, int line, const char *what)
{
	if (talk_ok())
		snprintf(failure, sizeof(failure), "%s:%d: %s", file, line, what);
}

bool talk_ok(void)
{
	return !failure[0];
}

struct sockaddr_storage server_addr(const struct kvs_server *s)
{
	struct kv_hostport hp;
	struct sockaddr_storage a;
	socklen_t len;
	char text[KV_HOST_MAX];
	expect(kv_hostport_parse(kvs_server_address(s, text, sizeof(text)), &hp, NULL) == 0);
	expect(kv_hostport_resolve(&hp, &a, &len, NULL) == 0);
	return a;
}

struct boot_conn *dial(const struct kvs_server *s, struct boot_context *with)
{
	struct sockaddr_storage a = server_addr(s);
	struct boot_conn *c = NULL;
	struct kv_error err;
	const struct boot_server to = {.addr = &a, .addr_len = sizeof(struct sockaddr_in)};
	boot_connect_await(with, &to, 5000, soon(), &c, &err);
	return c;
}

int next(struct boot_conn *c, struct wire_ctrl_msg *m)
{
	int rc;
	do
		rc = boot_recv_await(c, m, soon());
	while (rc == 0 && m->type == WIRE_CTRL_HEARTBEAT);
	return rc;
}
