/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions.c -- further sessions: whose turn it is on a link, and sessions at real kv-servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/conn/serve.h"
#include "kvclient/logical/node_sessions.h"
#include "kvclient/request/lanes.h"
#include "kvclient/pool/hosted.h"
#include "server.h"

/* ---- turns, without a server ---- */

enum { LANES = 3, REQS = 40 };

/* A link with three further sessions, of `credits` each. */
static struct {
	struct kvc_client client;
	struct kc_node node;
	struct kvc_session *session[LANES];
	struct kc_session_at *at[LANES];
	struct kc_lane lane[LANES];
	struct kc_req req[REQS];
	unsigned used;
	struct kc_attachment *attachment;
	struct kc_link *link;
} w;

static int world_up(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	kv_list_init(&w.client.sessions);
	assert_int_equal(loop_create(&(struct loop_options){.name = "lanes"}, &w.client.loop, NULL), 0);
	w.node.client = &w.client;
	w.attachment = calloc(1, sizeof(*w.attachment) + sizeof(struct kc_link));
	assert_non_null(w.attachment);
	w.attachment->node = &w.node;
	w.attachment->shards = w.attachment->links_per_shard = 1;
	w.link = &w.attachment->link[0];
	w.link->attachment = w.attachment;
	w.attachment->num_links = 1;
	kv_list_init(&w.link->queue);
	kv_list_init(&w.link->parked);
	kv_list_init(&w.link->sent);
	kv_list_init(&w.link->turns);
	for (unsigned i = 0; i < LANES; i++) {
		w.session[i] = calloc(1, sizeof(*w.session[i]) + sizeof(struct kc_session_at));
		assert_non_null(w.session[i]);
		w.session[i]->refs = 1;
		w.session[i]->num_at = 1;
		w.session[i]->client = &w.client;
		w.at[i] = &w.session[i]->at[0];
		*w.at[i] = (struct kc_session_at){
			.session = w.session[i], .node = &w.node, .credits = 100, .number = i + 1, .lane = &w.lane[i]};
		kv_list_init(&w.lane[i].queue);
		kv_list_init(&w.lane[i].turn);
	}
	return 0;
}

static int world_down(void **state)
{
	(void)state;
	for (unsigned i = 0; i < LANES; i++)
		free(w.session[i]);
	free(w.attachment);
	loop_destroy(&w.client.loop);
	return 0;
}

/* lane LANES: the connection's own queue. */
static struct kc_req *queue(unsigned lane)
{
	struct kc_req *r = &w.req[w.used++];
	r->link = w.link;
	r->wire.type = WIRE_GET;
	kv_list_init(&r->node);
	if (lane == LANES) {
		kv_list_add_tail(&w.link->queue, &r->node);
		return r;
	}
	r->session = w.at[lane];
	kc_lane_add(w.link, r);
	return r;
}

static struct kc_req *send_one(void)
{
	struct kc_req *r = kc_turn_head(w.link);
	kv_list_del(&r->node);
	kc_turn_taken(w.link, r);
	return r;
}

/* A server that has said goodbye is told it, too, when nothing of ours is queued or out there. */
static void a_request_in_a_lane_is_under_way(void **state)
{
	struct kc_req *r;
	(void)state;
	assert_true(kc_serve_idle(w.attachment));
	queue(0);
	assert_false(kc_serve_idle(w.attachment));
	r = send_one();
	assert_true(kc_serve_idle(w.attachment));
	kv_list_add_tail(&w.link->sent, &r->node);
	assert_false(kc_serve_idle(w.attachment));
}

/* The handle is given back while a server's answer is out, and that is a refusal: there is nothing to wait for any
 * more. */
static void a_refusal_ends_a_session_that_was_given_back(void **state)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_REFUSE, .session_refuse = {.id = 7, .status = WIRE_FULL}};
	struct kc_session_at *at = w.at[0];
	(void)state;
	kc_sessions_init(&w.node.sessions);
	co_queue_init(&w.session[0]->changed);
	at->state = KC_SESSION_ASKED;
	at->id = 7;
	w.session[0]->refs = 2; /* the closing call's, and the question's */
	w.session[0]->gone = true;
	kv_list_add_tail(&w.node.sessions.asked, &at->list);
	w.node.sessions.num_asked = 1;
	assert_int_equal(kc_sessions_message(&w.node, &m), 0);
	assert_int_equal(at->state, KC_SESSION_NONE); /* what kvc_session_close_await waits for */
	assert_int_equal(w.session[0]->refs, 1);
	assert_int_equal(w.node.sessions.num_asked, 0);
	assert_string_equal(w.node.sessions.refusal, "");
}

/* What a refusal says is what calls return: nothing that makes them try again at once, or takes it for an answer about
 * a key. */
static void a_refusal_is_one_of_those_there_are(void **state)
{
	static const struct {
		int32_t status;
		int code;
	} rows[] = {{WIRE_DENIED, -KV_EDENIED}, {WIRE_FULL, -KV_EFULL},      {WIRE_CLOSING, -KV_ELEFT},
		    {WIRE_INVALID, -KV_EINVAL}, {WIRE_NOMEM, -KV_ENOMEM},    {WIRE_STALE, -KV_EPROTO},
		    {WIRE_BUSY, -KV_EPROTO},    {WIRE_NOTFOUND, -KV_EPROTO}, {WIRE_FABRIC, -KV_EPROTO},
		    {WIRE_CORRUPT, -KV_EPROTO}, {WIRE_TIMEOUT, -KV_EPROTO},  {WIRE_CANCELED, -KV_EPROTO},
		    {999, -KV_EPROTO}};
	struct kc_session_at *at = w.at[0];
	(void)state;
	kc_sessions_init(&w.node.sessions);
	co_queue_init(&w.session[0]->changed);
	for (uint32_t i = 0; i < KV_COUNT(rows); i++) {
		struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_REFUSE,
					  .session_refuse = {.id = i + 1, .status = rows[i].status}};
		at->state = KC_SESSION_ASKED;
		at->id = i + 1;
		w.session[0]->refs = 2;
		kv_list_add_tail(&w.node.sessions.asked, &at->list);
		w.node.sessions.num_asked = 1;
		assert_int_equal(kc_sessions_message(&w.node, &m), 0);
		assert_int_equal(at->state, KC_SESSION_REFUSED);
		assert_int_equal(at->status, rows[i].code);
	}
}

/* The sessions of the next n requests, as letters; o: the connection's own. */
static const char *order(unsigned n)
{
	static char text[REQS + 1];
	unsigned i;
	for (i = 0; i < n && !kv_list_empty(&w.link->turns); i++) {
		const struct kc_req *r = send_one();
		text[i] = "oabc"[r->session ? r->session->number : 0];
	}
	text[i] = 0;
	return text;
}

static void sessions_take_turns_of_four(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++)
		queue(0);
	queue(1);
	for (unsigned i = 0; i < 5; i++)
		queue(2);
	assert_string_equal(order(REQS), "aaaabccccaaaacaa");
	assert_true(kv_list_empty(&w.link->turns));
}

static void the_connections_own_session_has_a_turn_after_each(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 9; i++)
		queue(LANES);
	for (unsigned i = 0; i < 6; i++)
		queue(0);
	queue(1);
	assert_string_equal(order(REQS), "aaaaoooobooooaa"); /* the last of the own one is sent without a turn */
	assert_false(kv_list_empty(&w.link->queue));
}

/* A PING checks that the link works: no session's turn stands before it. */
static void a_ping_waits_for_nobodys_turn(void **state)
{
	struct kc_req *ping;
	(void)state;
	queue(0);
	ping = queue(LANES);
	ping->wire.type = WIRE_PING;
	assert_ptr_equal(kc_turn_head(w.link), ping);
}

static void a_session_without_credits_stands_in_nobodys_way(void **state)
{
	struct kc_req *first;
	(void)state;
	w.at[0]->credits = 2;
	first = queue(0);
	for (unsigned i = 0; i < 4; i++)
		queue(0);
	queue(1);
	assert_string_equal(order(REQS), "aab");
	assert_int_equal(w.lane[0].active, 2);
	kc_lane_credit(first); /* its reply came */
	assert_null(first->session);
	assert_string_equal(order(REQS), "a");
	assert_int_equal(w.lane[0].active, 2);
}

static void a_request_that_leaves_the_queue_takes_its_lane_along(void **state)
{
	struct kc_req *r = queue(0);
	(void)state;
	kv_list_del(&r->node);
	kc_lane_left(r);
	assert_true(kv_list_empty(&w.link->turns));
	assert_null(r->session); /* it was never sent: there is nothing to give back */
	assert_int_equal(w.session[0]->refs, 1);
}

/* A frame is switched once for all requests of a session in a row, and back. */
static void a_frame_is_switched_where_the_session_changes(void **state)
{
	uint8_t buf[KV_MSG_MAX];
	struct wire_frame frame = {.session = 1};
	const struct kc_session_at *whose = NULL;
	struct wire_writer out;
	(void)state;
	struct kc_req *a = queue(0), *own = queue(LANES);
	wire_frame_begin(&out, buf, sizeof(buf), &frame);
	assert_true(kc_frame_switch(&out, a, &whose));
	assert_ptr_equal(whose, w.at[0]);
	assert_int_equal(out.len, WIRE_FRAME_HEADER + WIRE_SESSION_BYTES);
	assert_true(kc_frame_switch(&out, own, &whose));
	assert_null(whose);
	/* Not without room for what it is for. */
	out.cap = out.len + WIRE_SESSION_BYTES + wire_request_size(&a->wire) - 1;
	assert_false(kc_frame_switch(&out, a, &whose));
	assert_null(whose);
}

/* ---- at real servers ---- */

static struct test_server server;
static const struct test_server *const one[] = {&server};

static void need_server(void)
{
	if (!test_server_binary()) {
		print_message("kv-server is not built (KV_SERVER or build/MODE/kv-server)\n");
		skip();
	}
}

static struct kvc_pool *pool_up(const char *const *more, unsigned clients)
{
	need_server();
	kvc_program_setup();
	test_server_start_with(&server, "one", more);
	return test_pool(one, 1, clients);
}

static void pool_down(struct kvc_pool **pool)
{
	kvc_pool_close(pool);
	test_server_kill(&server);
	server.address[0] = 0;
}

static struct kvc_session *open_one(struct kvc_pool *pool, unsigned w_index, const char *psk)
{
	struct kvc_session_options o = {.size = sizeof(o), .psk = psk};
	struct kvc_session *s = NULL;
	struct kv_error err = {0};
	if (kvc_session_open(pool, w_index, &o, &s, &err) != 0)
		fail_msg("%s", err.text);
	assert_non_null(s);
	return s;
}

static struct kvc_key key_of(char *buf, unsigned n)
{
	return (struct kvc_key){buf, (size_t)snprintf(buf, 32, "key %u", n)};
}

static void forget_work(struct kvc_client *client, unsigned worker, void *arg)
{
	struct kvc_session *s = *(struct kvc_session **)arg;
	(void)client, (void)worker;
	free(s->at[0].lane);
	s->at[0].lane = NULL;
	s->at[0].state = KC_SESSION_NONE;
}

/* What is left of a session that was granted when there was no memory for it, after the goodbye. */
static void a_session_that_met_a_shortage_of_memory_is_opened_by_the_next_call(void **state)
{
	struct kvc_pool *pool = pool_up(NULL, 1);
	struct kvc_session *s = open_one(pool, 0, NULL);
	struct kvc_call call = {.size = sizeof(call), .session = s};
	struct kvc_session_info info = {.size = sizeof(info)};
	(void)state;
	assert_int_equal(kvc_run(pool, 1, forget_work, &s), 0);
	assert_int_equal(kvc_session_info(pool, s, 0, &info), 0);
	assert_false(info.open);
	assert_int_equal(kvc_put(pool, (struct kvc_key){"k", 1}, "value", 5, &call), 0);
	assert_int_equal(kvc_session_info(pool, s, 0, &info), 0);
	assert_true(info.open);
	assert_int_equal(kvc_session_close(pool, &s, 0), 0);
	pool_down(&pool);
}

static void every_call_works_with_a_session(void **state)
{
	struct kvc_pool *pool = pool_up(NULL, 2);
	struct kvc_session *s = open_one(pool, 1, NULL);
	struct kvc_call call = {.size = sizeof(call), .session = s};
	struct kvc_session_info info = {.size = sizeof(info)};
	static uint8_t put[300000], got[300000];
	struct kvc_item items[40];
	char name[40][32];
	uint8_t found[3];
	unsigned prefix;
	(void)state;
	assert_int_equal(test_stat(pool, "further_sessions"), 1);
	test_fill(put, sizeof(put), 1);
	for (unsigned i = 0; i < 3; i++) {
		const size_t sizes[] = {100, 5000, 300000};
		assert_int_equal(kvc_put(pool, key_of(name[i], i), put, sizes[i], &call), 0);
		memset(got, 0, sizeof(got));
		assert_int_equal(kvc_get(pool, key_of(name[i], i), got, sizeof(got), &call), sizes[i]);
		assert_true(test_same(got, sizes[i], 1));
	}
	assert_int_equal(kvc_exists(pool,
				    (struct kvc_key[]){key_of(name[0], 0), key_of(name[1], 1), key_of(name[3], 77)}, 3,
				    found, &prefix, &call),
			 0);
	assert_int_equal(prefix, 2);
	for (unsigned i = 0; i < 40; i++)
		items[i] = (struct kvc_item){.key = key_of(name[i], 100 + i), .data = put + i, .len = 2000};
	assert_int_equal(kvc_put_batch(pool, items, 40, &call), 0);
	for (unsigned i = 0; i < 40; i++)
		items[i].data = got + (size_t)i * 2000;
	assert_int_equal(kvc_get_batch(pool, items, 40, &call), 0);
	for (unsigned i = 0; i < 40; i++)
		assert_memory_equal(got + (size_t)i * 2000, put + i, 2000);
	assert_int_equal(kvc_touch(pool, key_of(name[0], 0), &call), 0);
	assert_int_equal(kvc_ping(pool, &call), 0);
	assert_int_equal(kvc_delete(pool, key_of(name[0], 0), &call), 0);
	assert_int_equal(kvc_session_info(pool, s, 0, &info), 0);
	assert_true(info.open);
	assert_int_equal(info.client, 1);
	assert_int_equal(info.credits, 32);
	assert_int_equal(info.credits_in_use, 0);
	assert_int_equal(info.queued, 0);
	assert_true(info.requests >= 90);
	assert_int_equal(info.replies, info.requests);
	assert_int_equal(kvc_session_close(pool, &s, 0), 0);
	assert_null(s);
	assert_int_equal(test_stat(pool, "further_sessions"), 0);
	assert_int_equal(test_stat(pool, "over_credit"), 0);
	assert_int_equal(test_stat(pool, "bad_tag"), 0);
	assert_int_equal(test_stat(pool, "unknown_session"), 0);
	pool_down(&pool);
}

static void nonsense_is_refused(void **state)
{
	struct kvc_pool *pool = pool_up(NULL, 2);
	struct kvc_session *s = NULL;
	struct kvc_session_options o = {.size = sizeof(o), .psk = "no colon"};
	struct kvc_session_info info = {.size = sizeof(info)};
	struct kv_error err;
	(void)state;
	assert_int_equal(kvc_session_open(NULL, 0, NULL, &s, &err), -KV_EINVAL);
	assert_int_equal(kvc_session_open(pool, 0, NULL, NULL, &err), -KV_EINVAL);
	assert_int_equal(kvc_session_open(pool, 0, &o, &s, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "no ':'"));
	o.size = 1;
	assert_int_equal(kvc_session_open(pool, 0, &o, &s, &err), -KV_EINVAL);
	assert_null(s);
	assert_int_equal(kvc_session_close(pool, &s, 0), 0);
	assert_int_equal(kvc_session_close(pool, NULL, 0), -KV_EINVAL);
	assert_int_equal(kvc_session_info(pool, NULL, 0, &info), -KV_EINVAL);
	s = open_one(pool, 0, NULL);
	assert_int_equal(kvc_session_info(pool, s, 1, &info), -KV_EINVAL);
	pool_down(&pool); /* with a session that is open */
}

static struct {
	struct kvc_session **session;
	unsigned count;
	_Atomic unsigned gets, wrong;
	char error[256];
} many;

static void other_client(struct kvc_client *c, unsigned worker, void *arg)
{
	char name[32];
	uint8_t byte;
	struct kvc_session *s = arg;
	struct kvc_call call = {.size = sizeof(call), .session = s};
	if (worker == 1 && kvc_get_await(c, key_of(name, 1), &byte, 1, &call) != -KV_EINVAL)
		atomic_fetch_add(&many.wrong, 1);
	if (worker == 1 && kvc_session_close_await(c, &s, 0) != -KV_EINVAL)
		atomic_fetch_add(&many.wrong, 1);
}

static void a_session_is_of_one_client(void **state)
{
	struct kvc_pool *pool = pool_up(NULL, 2);
	struct kvc_session *s = open_one(pool, 0, NULL);
	(void)state;
	assert_int_equal(kvc_run(pool, 2, other_client, s), 0); /* worker 1 is the other client's */
	assert_int_equal(many.wrong, 0);
	assert_int_equal(kvc_session_close(pool, &s, 0), 0);
	pool_down(&pool);
}

static void open_busy(struct kvc_client *c, unsigned worker, void *arg)
{
	struct kvc_session *s = NULL;
	(void)worker;
	if (kvc_session_open_await(c, NULL, &s, NULL) != 0)
		return;
	s->users++; /* as if a call were in progress */
	*(int *)arg = kvc_session_close_await(c, &s, 0);
	s->users--;
	if (kvc_session_close_await(c, &s, 0) != 0 || s)
		*(int *)arg = 1;
}

/* A larger pool's session, whose client the other one does not have. */
static void a_session_is_of_one_pool(void **state)
{
	struct kvc_pool *pool = pool_up(NULL, 9), *other = test_pool(one, 1, 1);
	struct kvc_session *s = open_one(pool, 8, NULL), *same = s;
	struct kvc_session_info info = {.size = sizeof(info)};
	struct kvc_call call = {.size = sizeof(call), .session = s};
	uint8_t got[64];
	char name[32];
	(void)state;
	assert_int_equal(kvc_get(other, key_of(name, 1), got, sizeof(got), &call), -KV_EINVAL);
	assert_int_equal(kvc_session_info(other, s, 0, &info), -KV_EINVAL);
	assert_int_equal(kvc_session_close(other, &s, 0), -KV_EINVAL);
	assert_ptr_equal(s, same);
	assert_int_equal(kvc_session_close(pool, &s, 0), 0);
	kvc_pool_close(&other);
	pool_down(&pool);
}

static void a_session_with_a_call_in_progress_is_not_closed(void **state)
{
	struct kvc_pool *pool = pool_up(NULL, 1);
	int rc = 0;
	(void)state;
	assert_int_equal(kvc_run(pool, 1, open_busy, &rc), 0);
	assert_int_equal(rc, -KV_EBUSY);
	pool_down(&pool);
}

static void a_server_that_is_full_says_so(void **state)
{
	static const char *const more[] = {"--max-clients", "9", "--max-sessions", "3", NULL};
	struct kvc_pool *pool = pool_up(more, 2);
	struct kvc_session *a[3], *b = NULL;
	struct kv_error err = {0};
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		a[i] = open_one(pool, 0, NULL);
	assert_int_equal(kvc_session_open(pool, 0, NULL, &b, &err), -KV_EFULL);
	assert_non_null(strstr(err.text, "--max-sessions"));
	assert_null(b);
	b = open_one(pool, 1, NULL);
	assert_int_equal(kvc_session_close(pool, &a[1], 0), 0);
	a[1] = open_one(pool, 0, NULL);
	assert_int_equal(test_stat(pool, "further_sessions"), 4);
	assert_int_equal(test_stat(pool, "sessions_refused"), 1);
	pool_down(&pool);
}

static void each_identity_needs_its_own_key(void **state)
{
	static char path[] = "/tmp/kvrail-test-keys-XXXXXX";
	static const char text[] = "team-a:00112233445566778899aabbccddeeff\n",
			  other[] = "team-a:ffeeddccbbaa99887766554433221100\n";
	struct kvc_session_options former = {.size = sizeof(former), .psk = "team-a:00112233445566778899aabbccddeeff"};
	const char *const more[] = {"--session-keys", path, NULL};
	struct kvc_session_options o = {.size = sizeof(o), .psk = "team-a:ffeeddccbbaa99887766554433221100"};
	struct kvc_session *s = NULL;
	struct kvc_pool *pool;
	struct kv_error err = {0};
	int fd;
	(void)state;
	need_server();
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	pool = pool_up(more, 1);
	s = open_one(pool, 0, "team-a:00112233445566778899aabbccddeeff");
	assert_int_equal(kvc_session_close(pool, &s, 0), 0);
	assert_int_equal(kvc_session_open(pool, 0, &o, &s, &err), -KV_EDENIED);
	assert_non_null(strstr(err.text, "--session-keys"));
	assert_null(s);
	s = open_one(pool, 0, NULL); /* the connection goes on */
	assert_int_equal(kvc_session_close(pool, &s, 0), 0);
	/* The file has another key from SIGHUP on. Until the former one is denied, it is read. */
	fd = open(path, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, other, sizeof(other) - 1), sizeof(other) - 1);
	close(fd);
	assert_int_equal(kill(server.pid, SIGHUP), 0);
	err = (struct kv_error){0};
	for (unsigned i = 0; i < 3000 && kvc_session_open(pool, 0, &former, &s, &err) == 0; i++) {
		assert_int_equal(kvc_session_close(pool, &s, 0), 0);
		usleep(10000);
	}
	assert_int_equal(err.code, -KV_EDENIED);
	s = open_one(pool, 0, o.psk);
	pool_down(&pool);
	unlink(path);
}

/* The log says why the connection that they share ended: not that the server died. */
static void hear_of_guesses(void *arg, int level, const char *line)
{
	(void)level;
	if (strstr(line, "sessions of logical clients were refused") && strstr(line, "--session-keys"))
		atomic_store((atomic_bool *)arg, true);
}

static void a_connection_ended_for_wrong_keys_says_so(void **state)
{
	static char path[] = "/tmp/kvrail-test-guess-XXXXXX";
	static const char text[] = "team-a:00112233445566778899aabbccddeeff\n";
	const char *const more[] = {"--session-keys", path, NULL};
	struct kvc_session_options wrong = {.size = sizeof(wrong), .psk = "team-a:ffeeddccbbaa99887766554433221100"};
	struct kvc_options o;
	struct kvc_pool *pool = NULL, *first;
	struct kvc_session *s = NULL;
	struct kv_error err = {0};
	atomic_bool heard = false;
	int fd;
	(void)state;
	need_server();
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	first = pool_up(more, 1);
	o = test_options(one, 1, 1);
	o.log = hear_of_guesses;
	o.log_arg = &heard;
	o.log_level = KV_LOG_INFO;
	o.timeout_ns = 20000000000ull;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(kvc_session_open(pool, 0, &wrong, &s, &err), -KV_EDENIED);
	for (unsigned i = 0; i < 3000 && !heard; i++)
		usleep(10000);
	assert_true(heard);
	s = open_one(first, 0, NULL); /* another connection does not notice */
	assert_int_equal(kvc_session_close(first, &s, 0), 0);
	kvc_pool_close(&pool);
	pool_down(&first);
	unlink(path);
}

/* The sessions are opened again by themselves, and calls wait for them. */
static void sessions_come_back_after_a_restart_of_the_server(void **state)
{
	struct kvc_pool *pool = pool_up(NULL, 2);
	struct kvc_session *s[50];
	struct kvc_session_info info = {.size = sizeof(info)};
	uint8_t value[64], got[64];
	char name[32];
	(void)state;
	test_fill(value, sizeof(value), 5);
	for (unsigned i = 0; i < 50; i++)
		s[i] = open_one(pool, i, NULL);
	test_server_kill(&server);
	test_server_start(&server, "one");
	for (unsigned i = 0; i < 50; i++) {
		struct kvc_call call = {.size = sizeof(call), .session = s[i]};
		int rc;
		for (unsigned k = 0;
		     (rc = kvc_put(pool, key_of(name, i), value, sizeof(value), &call)) == -KV_EPEERDOWN && k < 300;
		     k++)
			usleep(20000); /* until it is up again */
		assert_int_equal(rc, 0);
		assert_int_equal(kvc_get(pool, key_of(name, i), got, sizeof(got), &call), sizeof(got));
		assert_true(test_same(got, sizeof(got), 5));
		assert_int_equal(kvc_session_info(pool, s[i], 0, &info), 0);
		assert_true(info.open);
	}
	assert_int_equal(test_stat(pool, "further_sessions"), 50);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(kvc_session_close(pool, &s[i], 0), 0);
	assert_int_equal(test_stat(pool, "further_sessions"), 0);
	pool_down(&pool);
}

/* ---- many ---- */

enum { KEYS = 64, VALUE = 4096, CLIENTS = 4, WORKERS = 64 };

/* Worker v has every WORKERS-th session: all of its own client. */
static void open_many(struct kvc_client *c, unsigned v, void *arg)
{
	struct kv_error err = {0};
	(void)arg;
	for (unsigned i = v; i < many.count; i += WORKERS)
		if (kvc_session_open_await(c, NULL, &many.session[i], &err) != 0) {
			atomic_fetch_add(&many.wrong, 1);
			snprintf(many.error, sizeof(many.error), "%.250s", err.text);
			return;
		}
}

static void get_many(struct kvc_client *c, unsigned v, void *arg)
{
	uint8_t value[VALUE];
	char name[32];
	(void)arg;
	for (unsigned i = v, round = 0; i < many.count; i += WORKERS, round++) {
		struct kvc_call call = {.size = sizeof(call), .session = many.session[i]};
		unsigned k = (i * 7 + round) % KEYS;
		int64_t n = kvc_get_await(c, key_of(name, k), value, sizeof(value), &call);
		if (n != VALUE || !test_same(value, VALUE, k))
			atomic_fetch_add(&many.wrong, 1);
		atomic_fetch_add(&many.gets, 1);
	}
}

static void close_many(struct kvc_client *c, unsigned v, void *arg)
{
	(void)arg;
	for (unsigned i = v; i < many.count; i += WORKERS)
		if (kvc_session_close_await(c, &many.session[i], 0) != 0)
			atomic_fetch_add(&many.wrong, 1);
}

static uint64_t resident_kib(pid_t pid)
{
	char path[64], line[256];
	unsigned long long kib = 0;
	FILE *f;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %llu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

static double seconds(uint64_t from_ns)
{
	return (double)(kv_clock_now(&kv_clock_monotonic) - from_ns) / 1e9;
}

/* KVRAIL_SESSIONS of them (2,000) on four clients, each with a GET of its own, round by round. */
static void many_sessions_share_four_clients(void **state)
{
	static const char *const more[] = {"--max-clients", "100100", "--max-sessions", "50000", NULL};
	const char *given = getenv("KVRAIL_SESSIONS");
	struct kvc_pool *pool = pool_up(more, CLIENTS);
	uint64_t from, ours, theirs;
	double opening, getting, closing;
	uint8_t value[VALUE];
	char name[32];
	(void)state;
	many.count = given ? (unsigned)strtoul(given, NULL, 10) : 2000;
	many.session = calloc(many.count, sizeof(struct kvc_session *));
	assert_non_null(many.session);
	for (unsigned k = 0; k < KEYS; k++) {
		test_fill(value, VALUE, k);
		assert_int_equal(kvc_put(pool, key_of(name, k), value, VALUE, NULL), 0);
	}
	assert_int_equal(kvc_run(pool, WORKERS, get_many, NULL), 0); /* stacks and buffers are touched: NULL sessions */
	assert_int_equal(many.wrong, 0);
	ours = resident_kib(getpid());
	theirs = resident_kib(server.pid);
	from = kv_clock_now(&kv_clock_monotonic);
	assert_int_equal(kvc_run(pool, WORKERS, open_many, NULL), 0);
	opening = seconds(from);
	if (many.wrong)
		fail_msg("%s", many.error);
	assert_int_equal(test_stat(pool, "further_sessions"), many.count);
	ours = resident_kib(getpid()) - ours;
	theirs = resident_kib(server.pid) - theirs;
	many.gets = 0;
	from = kv_clock_now(&kv_clock_monotonic);
	for (unsigned round = 0; round < 3; round++)
		assert_int_equal(kvc_run(pool, WORKERS, get_many, NULL), 0);
	getting = seconds(from);
	assert_int_equal(many.wrong, 0);
	assert_int_equal(many.gets, 3 * many.count);
	assert_int_equal(test_stat(pool, "over_credit"), 0);
	from = kv_clock_now(&kv_clock_monotonic);
	assert_int_equal(kvc_run(pool, WORKERS, close_many, NULL), 0);
	closing = seconds(from);
	assert_int_equal(many.wrong, 0);
	assert_int_equal(test_stat(pool, "further_sessions"), 0);
	print_message("# %u sessions on %u clients: opened in %.2f s, %u GETs of %u bytes in %.2f s (%.0f/s), closed "
		      "in %.2f s; resident "
		      "memory: client %.0f bytes a session, server %.0f\n",
		      many.count, CLIENTS, opening, 3 * many.count, VALUE, getting, 3 * many.count / getting, closing,
		      (double)ours * 1024 / many.count, (double)theirs * 1024 / many.count);
	free(many.session);
	pool_down(&pool);
}

static void an_idle_session_costs_little(void **state)
{
	(void)state;
	print_message("# a session: %zu bytes, %zu more for each server, and %zu for each shard of it\n",
		      sizeof(struct kvc_session), sizeof(struct kc_session_at), sizeof(struct kc_lane));
	assert_true(sizeof(struct kvc_session) + sizeof(struct kc_session_at) <= 224);
}

#define TURN_TEST(f) cmocka_unit_test_setup_teardown(f, world_up, world_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TURN_TEST(sessions_take_turns_of_four),
		TURN_TEST(the_connections_own_session_has_a_turn_after_each),
		TURN_TEST(a_ping_waits_for_nobodys_turn),
		TURN_TEST(a_session_without_credits_stands_in_nobodys_way),
		TURN_TEST(a_request_that_leaves_the_queue_takes_its_lane_along),
		TURN_TEST(a_frame_is_switched_where_the_session_changes),
		TURN_TEST(a_request_in_a_lane_is_under_way),
		TURN_TEST(a_refusal_ends_a_session_that_was_given_back),
		TURN_TEST(a_refusal_is_one_of_those_there_are),
		cmocka_unit_test(an_idle_session_costs_little),
		cmocka_unit_test(every_call_works_with_a_session),
		cmocka_unit_test(a_session_that_met_a_shortage_of_memory_is_opened_by_the_next_call),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(a_session_is_of_one_client),
		cmocka_unit_test(a_session_is_of_one_pool),
		cmocka_unit_test(a_session_with_a_call_in_progress_is_not_closed),
		cmocka_unit_test(a_server_that_is_full_says_so),
		cmocka_unit_test(each_identity_needs_its_own_key),
		cmocka_unit_test(a_connection_ended_for_wrong_keys_says_so),
		cmocka_unit_test(sessions_come_back_after_a_restart_of_the_server),
		cmocka_unit_test(many_sessions_share_four_clients),
	};
	return cmocka_run_group_tests_name("kvclient/sessions", tests, NULL, NULL);
}
