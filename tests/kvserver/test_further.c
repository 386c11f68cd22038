/* SPDX-License-Identifier: Apache-2.0 */
/* test_further.c -- further sessions of a connection: opening, proofs, keys, bounds, and their end. */
#include "tests/kvserver/control.h"

#include <unistd.h>

#include "kvserver/server/server.h"
#include "kvserver/shard/session.h"

#define KEY_A "00112233445566778899aabbccddeeff"

static struct boot_challenge challenge; /* of the connection of `begin` */

/* Say hello and ask for the challenge. */
static struct boot_conn *begin(void)
{
	struct wire_ctrl_msg m;
	struct boot_conn *c = greet(&m);
	expect(m.type == WIRE_CTRL_WELCOME && (m.welcome.flags & WIRE_WELCOME_SESSIONS));
	memcpy(challenge.token, m.welcome.token, KV_TOKEN_LEN);
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_SESSION_BEGIN};
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_SESSION_CHALLENGE);
	memcpy(challenge.nonce, m.session_challenge.nonce, WIRE_NONCE_LEN);
	return c;
}

static struct wire_ctrl_msg question(struct boot_conn *c, uint32_t id, const char *key)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_OPEN, .session_open = {.id = id, .client_id = 5}};
	struct boot_key *k = NULL;
	if (key)
		expect(boot_key_parse(key, &k, NULL) == 0);
	expect(boot_prove(c, &challenge, k, &m.session_open) == 0);
	boot_key_destroy(&k);
	return m;
}

static struct wire_ctrl_msg asked(struct boot_conn *c, struct wire_ctrl_msg m)
{
	uint32_t id = m.session_open.id;
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0);
	expect(m.type == WIRE_CTRL_SESSION_OK ? m.session_ok.id == id
					      : m.type == WIRE_CTRL_SESSION_REFUSE && m.session_refuse.id == id);
	return m;
}

static struct wire_ctrl_msg open_one(struct boot_conn *c, uint32_t id)
{
	return asked(c, question(c, id, NULL));
}

static void close_one(struct boot_conn *c, uint32_t number)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_SESSION_CLOSE, .session_close.session = number};
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_SESSION_CLOSE_OK && m.session_close.session == number &&
	       m.session_close.requests == 0);
}

static void further_body(void)
{
	struct boot_conn *c = begin();
	struct wire_ctrl_msg one = open_one(c, 1), two = open_one(c, 2), again;
	uint64_t opened = control_stat(WIRE_STAT_SESSIONS_OPENED);
	expect(one.type == WIRE_CTRL_SESSION_OK && two.type == WIRE_CTRL_SESSION_OK);
	expect(one.session_ok.session != two.session_ok.session);
	expect(one.session_ok.credits == KVS_CREDITS_DEFAULT / SESSION_CREDITS_SHARE);
	close_one(c, one.session_ok.session);
	close_one(c, one.session_ok.session); /* it is not there: answered like one without requests */
	again = open_one(c, 3);               /* the same place, another number */
	expect(again.type == WIRE_CTRL_SESSION_OK && again.session_ok.session != one.session_ok.session);
	expect(control_stat(WIRE_STAT_SESSIONS_OPENED) == opened + 1);
	leave(c);
}

static void further_sessions_open_and_close(void **state)
{
	(void)state;
	in_coroutine(further_body);
}

/* CLIENTS of 4 in all, 2 of them on one connection; and room again when one goes, or its connection. */
static void further_full_body(void)
{
	struct boot_conn *a = begin(), *b;
	struct wire_ctrl_msg m, first = open_one(a, 1);
	expect(first.type == WIRE_CTRL_SESSION_OK);
	expect(open_one(a, 2).type == WIRE_CTRL_SESSION_OK);
	m = open_one(a, 3);
	expect(m.type == WIRE_CTRL_SESSION_REFUSE && m.session_refuse.status == WIRE_FULL &&
	       strstr(m.session_refuse.text, "--max-sessions"));
	b = begin();
	m = open_one(b, 1);
	expect(m.type == WIRE_CTRL_SESSION_REFUSE && m.session_refuse.status == WIRE_FULL &&
	       strstr(m.session_refuse.text, "--max-clients"));
	boot_close(&b);
	b = greet(&m); /* (that one may not be gone yet) */
	for (unsigned i = 0; m.type != WIRE_CTRL_WELCOME && i < 1000; i++) {
		boot_close(&b);
		co_sleep_await(loop_now(loop) + 10000000);
		b = greet(&m);
	}
	leave(b);
	close_one(a, first.session_ok.session);
	leave(a);
	/* All of them are free again. */
	for (unsigned i = 0; i < 1000 && server->clients.open; i++)
		co_sleep_await(loop_now(loop) + 10000000);
	expect(server->clients.open == 0);
}

static void further_sessions_count_as_clients_and_are_bounded(void **state)
{
	(void)state;
	in_coroutine(further_full_body);
}

/* Further sessions go with their attachment, and count no more. Wrong proofs count on. */
static void further_again_body(void)
{
	struct wire_ctrl_msg m, welcome = {0}, h = hello_make(te);
	struct boot_conn *c = begin();
	expect(open_one(c, 1).type == WIRE_CTRL_SESSION_OK && open_one(c, 2).type == WIRE_CTRL_SESSION_OK);
	expect(atomic_load(&server->clients.open) == 3);
	expect(boot_send_await(c, &h, soon()) == 0 && next(c, &welcome) == 0 && welcome.type == WIRE_CTRL_WELCOME);
	expect(atomic_load(&server->clients.open) == 1);
	m = question(c, 3, NULL);
	for (unsigned i = 0; i < 5; i++) {
		m = (struct wire_ctrl_msg){.type = WIRE_CTRL_SESSION_BEGIN};
		expect(boot_send_await(c, &m, soon()) == 0 && next(c, &m) == 0 &&
		       m.type == WIRE_CTRL_SESSION_CHALLENGE);
		m = asked(c, question(c, 1, NULL)); /* by the first attachment's token and nonce */
		expect(m.type == WIRE_CTRL_SESSION_REFUSE && m.session_refuse.status == WIRE_DENIED);
		if (i < 4)
			expect(boot_send_await(c, &h, soon()) == 0 && next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	}
	expect(next(c, &m) == -KV_EPEERDOWN);
	boot_close(&c);
	expect(open_becomes(0));
}

static void further_sessions_end_with_their_attachment(void **state)
{
	(void)state;
	in_coroutine(further_again_body);
}

/* A response that was good on one connection, sent on another one, and twice on its own. */
static void replay_body(void)
{
	struct boot_conn *a = begin(), *b;
	struct wire_ctrl_msg m = question(a, 7, NULL), answer;
	uint64_t bad = control_stat(WIRE_STAT_BAD_CONTROL), refused = control_stat(WIRE_STAT_SESSIONS_REFUSED);
	expect(asked(a, m).type == WIRE_CTRL_SESSION_OK);
	answer = asked(a, m);
	expect(answer.type == WIRE_CTRL_SESSION_REFUSE && answer.session_refuse.status == WIRE_INVALID);
	expect(control_stat(WIRE_STAT_BAD_CONTROL) == bad + 1);
	b = begin();
	answer = asked(b, m);
	expect(answer.type == WIRE_CTRL_SESSION_REFUSE && answer.session_refuse.status == WIRE_DENIED);
	expect(control_stat(WIRE_STAT_SESSIONS_REFUSED) == refused + 2);
	leave(a);
	leave(b);
}

static void a_response_is_good_once_on_its_connection(void **state)
{
	(void)state;
	in_coroutine(replay_body);
}

/* Each answer comes later, and the fifth is the last. */
static void guess_body(void)
{
	struct boot_conn *c = begin();
	struct wire_ctrl_msg m;
	uint64_t from = loop_now(loop);
	for (unsigned i = 1; i <= 5; i++) {
		m = question(c, i, NULL);
		m.session_open.proof[i] ^= 1;
		m = asked(c, m);
		expect(m.type == WIRE_CTRL_SESSION_REFUSE && m.session_refuse.status == WIRE_DENIED &&
		       strstr(m.session_refuse.text, "--session-keys"));
	}
	expect(loop_now(loop) - from >=
	       3100 * 1000000ull); /* 100 + 200 + 400 + 800 + 1600 ms: waits of the server's, no measurement */
	expect(next(c, &m) == -KV_EPEERDOWN);
	boot_close(&c);
}

static void a_client_that_guesses_waits_and_is_cut(void **state)
{
	(void)state;
	in_coroutine(guess_body);
}

static void rude_further_body(void)
{
	static const enum wire_ctrl answers[] = {WIRE_CTRL_SESSION_CHALLENGE, WIRE_CTRL_SESSION_OK,
						 WIRE_CTRL_SESSION_REFUSE, WIRE_CTRL_SESSION_CLOSE_OK};
	struct wire_ctrl_msg m;
	struct boot_conn *c = greet(&m);
	/* A question before the challenge. */
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_SESSION_OPEN, .session_open.id = 1};
	expect(boot_send_await(c, &m, soon()) == 0 && next(c, &m) == -KV_EPEERDOWN);
	boot_close(&c);
	/* Two challenges. */
	c = begin();
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_SESSION_BEGIN};
	expect(boot_send_await(c, &m, soon()) == 0 && next(c, &m) == -KV_EPEERDOWN);
	boot_close(&c);
	/* What only a server says. */
	for (unsigned i = 0; i < KV_COUNT(answers); i++) {
		c = greet(&m);
		memset(&m, 0, sizeof(m));
		m.type = answers[i];
		if (m.type == WIRE_CTRL_SESSION_OK)
			m.session_ok = (struct wire_session_ok){.id = 1, .session = 1, .credits = 1};
		else if (m.type == WIRE_CTRL_SESSION_REFUSE)
			m.session_refuse = (struct wire_session_refuse){.id = 1, .status = WIRE_FULL};
		else if (m.type == WIRE_CTRL_SESSION_CLOSE_OK)
			m.session_close.session = 1;
		expect(boot_send_await(c, &m, soon()) == 0 && next(c, &m) == -KV_EPEERDOWN);
		boot_close(&c);
	}
}

static void nonsense_about_sessions_ends_the_connection(void **state)
{
	(void)state;
	in_coroutine(rude_further_body);
}

/* A client asks and vanishes without waiting for the answers: nothing of its questions is left. */
static void flood_body(void)
{
	struct boot_conn *c = begin();
	for (uint32_t i = 1; i <= 500; i++) {
		struct wire_ctrl_msg m = question(c, i, NULL);
		expect(boot_send_await(c, &m, soon()) == 0);
	}
	boot_close(&c);
	for (unsigned i = 0; i < 1000 && server->clients.open; i++)
		co_sleep_await(loop_now(loop) + 10000000);
	expect(server->clients.open == 0);
	c = begin();
	expect(open_one(c, 1).type == WIRE_CTRL_SESSION_OK);
	leave(c);
}

static void a_flood_of_questions_leaves_nothing(void **state)
{
	(void)state;
	in_coroutine(flood_body);
}

static char keys_path[] = "/tmp/kvrail-session-keys-XXXXXX";

static void keys_body(void)
{
	struct boot_conn *c = begin();
	struct wire_ctrl_msg m = asked(c, question(c, 1, "team-a:" KEY_A));
	expect(m.type == WIRE_CTRL_SESSION_OK);
	m = asked(c, question(c, 2, "team-b:" KEY_A));
	expect(m.type == WIRE_CTRL_SESSION_REFUSE && m.session_refuse.status == WIRE_DENIED);
	expect(open_one(c, 3).type == WIRE_CTRL_SESSION_OK); /* the connection's own secret goes on being enough */
	leave(c);
}

static void identities_have_keys_of_their_own(void **state)
{
	static const char text[] = "team-a:" KEY_A "\n";
	struct kvs_options o = server_options();
	struct kvs_server *shared = server, *own = NULL;
	int fd = mkstemp(keys_path);
	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	o.session_keys = keys_path;
	assert_int_equal(kvs_server_create(&o, &own, NULL), 0);
	assert_int_equal(kvs_server_start(own, NULL), 0);
	server = own;
	in_coroutine_untold(keys_body);
	server = shared;
	kvs_server_destroy(&own);
	unlink(keys_path);
	o.session_keys = keys_path;
	assert_true(kvs_server_create(&o, &own, NULL) < 0); /* the file is gone */
	told();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(further_sessions_open_and_close),
		cmocka_unit_test(further_sessions_count_as_clients_and_are_bounded),
		cmocka_unit_test(further_sessions_end_with_their_attachment),
		cmocka_unit_test(a_response_is_good_once_on_its_connection),
		cmocka_unit_test(a_client_that_guesses_waits_and_is_cut),
		cmocka_unit_test(nonsense_about_sessions_ends_the_connection),
		cmocka_unit_test(a_flood_of_questions_leaves_nothing),
		cmocka_unit_test(identities_have_keys_of_their_own),
	};
	return cmocka_run_group_tests_name("kvserver/logical", tests, group_up, group_down);
}
