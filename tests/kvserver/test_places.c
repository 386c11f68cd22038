/* SPDX-License-Identifier: Apache-2.0 */
/* test_places.c -- the places of tenants among a server's clients: their sessions_max, what is kept for others, and
 * another table. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvserver/server/server.h"
#include "kvserver/tenant/places.h"
#include "tests/kvserver/control.h"

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* Two tenants, one that has a limit, and the operators. */
static const char table[] =
	"{\"tenants\": [{\"name\": \"a\", \"identities\": [\"a\"], \"namespaces\": {\"a\": \"rw\"}},"
	"{\"name\": \"b\", \"identities\": [\"b\"], \"namespaces\": {\"b\": \"rw\"}},"
	"{\"name\": \"c\", \"identities\": [\"c\"], \"namespaces\": {\"c\": \"rw\"}, \"sessions_max\": 1},"
	"{\"name\": \"ops\", \"identities\": [\"ops\"], \"namespaces\": {\"*\": \"rwdpc\"}}]}";

enum { PLACES = 16, PART = PLACES / 2 / 4 };

/* ---- counts alone ---- */

static struct tenants *parsed(const char *text)
{
	struct tenants *t = NULL;
	struct kv_error err;
	if (tenants_parse(text, strlen(text), "t.json", &t, &err))
		fail_msg("%s", err.text);
	return t;
}

static void follow(struct places *p, const char *text)
{
	struct tenants *t = parsed(text);
	assert_int_equal(places_follow(p, t), 0);
	tenants_unref(&t);
}

static unsigned take_all(struct places *p, const char *name, uint64_t open)
{
	unsigned n = 0;
	while (open + n < PLACES && places_left(p, places_find(p, name), PLACE_SESSION, open + n, PLACES)) {
		places_take(places_find(p, name), PLACE_SESSION);
		n++;
	}
	return n;
}

static void each_tenant_finds_its_part(void **state)
{
	struct places p = {0};
	unsigned a, b;
	(void)state;
	places_init(&p);
	follow(&p, table);
	assert_int_equal(places_find(&p, "c")->sessions_max, 1);
	assert_true(places_find(&p, "a")->sessions_max == UINT64_MAX);
	assert_null(places_find(&p, ""));
	a = take_all(&p, "a", 0);
	assert_int_equal(a, PLACES - PART - 1 - PART); /* b and ops have a part each, and c needs one place */
	b = take_all(&p, "b", a);
	assert_int_equal(b, PART);
	assert_int_equal(take_all(&p, "c", a + b), PART); /* its sessions_max is another question */
	for (unsigned i = 0; i < a; i++)
		places_give(&p, places_find(&p, "a"), PLACE_SESSION);
	assert_int_equal(take_all(&p, "b", b + PART), PLACES - (b + PART) - PART - PART);
	KV_LIST_EACH (n, &p.all)
		KV_LIST_ENTRY(n, struct tenant_places, node)->taken[PLACE_SESSION] = 0;
	places_fini(&p);
}

static void a_tenant_alone_may_have_all(void **state)
{
	struct places p = {0};
	(void)state;
	places_init(&p);
	follow(&p, "{\"tenants\": [{\"name\": \"a\", \"identities\": [\"a\"], \"namespaces\": {}}]}");
	assert_int_equal(take_all(&p, "a", 0), PLACES);
	for (unsigned i = 0; i < PLACES; i++)
		places_give(&p, places_find(&p, "a"), PLACE_SESSION);
	places_fini(&p);
}

static void a_removed_tenant_is_forgotten_with_its_last_place(void **state)
{
	static const char less[] = "{\"tenants\": [{\"name\": \"b\", \"identities\": [\"b\"], \"namespaces\": {}},"
				   "{\"name\": \"d\", \"identities\": [\"d\"], \"namespaces\": {}}]}";
	struct place_row row[8], rest;
	struct places p = {0};
	struct tenant_places *a;
	(void)state;
	places_init(&p);
	follow(&p, table);
	a = places_find(&p, "a");
	places_take(a, PLACE_CONN);
	places_take(a, PLACE_SESSION);
	places_take(places_find(&p, "b"), PLACE_SESSION);
	follow(&p, less);
	assert_null(places_find(&p, "a"));
	assert_null(places_find(&p, "c"));
	assert_int_equal(places_read(&p, row, 8, &rest), 2);
	assert_string_equal(row[0].name, "b");
	assert_string_equal(row[1].name, "d");
	assert_int_equal(row[0].sessions, 1);
	assert_int_equal(rest.sessions, 1);
	follow(&p, table); /* it returns with what it has */
	assert_ptr_equal(places_find(&p, "a"), a);
	assert_int_equal(places_read(&p, row, 1, &rest), 1);
	assert_string_equal(row[0].name, "a");
	assert_int_equal(rest.sessions, 1);
	follow(&p, less);
	places_give(&p, a, PLACE_SESSION);
	assert_int_equal(places_read(&p, row, 8, &rest), 2);
	places_give(&p, a, PLACE_CONN);
	assert_ptr_equal(KV_LIST_ENTRY(p.all.prev, struct tenant_places, node), places_find(&p, "d"));
	places_give(&p, places_find(&p, "b"), PLACE_SESSION);
	places_fini(&p);
}

/* ---- a server ---- */

static char keys_file[] = "/tmp/kvrail-keys-XXXXXX", tenants_file[] = "/tmp/kvrail-tenants-XXXXXX";

/* Lines of the server's log, by their events. */
static struct {
	_Atomic unsigned audit_session, audit_untold, audit_refused, client_refused;
} lines;

static void on_event(void *arg, enum kv_log_level level, const char *line, const struct kv_event *event)
{
	const struct {
		const char *name;
		_Atomic unsigned *count;
	} all[] = {{"audit_session", &lines.audit_session},
		   {"audit_untold", &lines.audit_untold},
		   {"audit_refused", &lines.audit_refused},
		   {"client_refused", &lines.client_refused}};
	(void)arg;
	(void)level;
	(void)line;
	for (unsigned i = 0; i < KV_COUNT(all); i++)
		if (strcmp(event->name, all[i].name) == 0)
			atomic_fetch_add(all[i].count,
					 all[i].count == &lines.audit_untold ? event->field[0].number : 1);
}

static void on_line(void *arg, enum kv_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

static const struct kv_log counting = {.level = KV_LOG_INFO, .write = on_line, .event = on_event};

static void write_file(char *path, const char *text)
{
	int fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static int up(void **state)
{
	struct kvs_options o = server_options();
	(void)state;
	write_file(keys_file, "a:" KEY "\nb:" KEY "\nc:" KEY "\nops:" KEY "\n");
	write_file(tenants_file, table);
	o.psk_file = keys_file;
	o.tenants = tenants_file;
	o.max_clients = PLACES;
	o.log = &counting;
	talk_up(&o);
	return 0;
}

static int down(void **state)
{
	(void)state;
	talk_down();
	unlink(keys_file);
	unlink(tenants_file);
	return 0;
}

static struct boot_conn *hello(const char *who, uint64_t client_id, struct wire_ctrl_msg *m)
{
	char psk_text[128];
	const struct boot_security security = {.psk = psk_text};
	struct wire_ctrl_msg h = hello_make(te);
	struct boot_context *own = NULL;
	struct boot_conn *c;
	struct kv_error err;
	snprintf(psk_text, sizeof(psk_text), "%s:" KEY, who);
	expect(boot_context_create(&security, false, &sink, &own, &err) == 0);
	c = dial(server, own);
	boot_context_destroy(&own);
	expect(c != NULL);
	if (!c)
		return NULL;
	snprintf(h.hello.space, sizeof(h.hello.space), "%s", who);
	if (client_id)
		h.hello.client_id = client_id;
	expect(boot_send_await(c, &h, soon()) == 0);
	expect(next(c, m) == 0);
	return c;
}

static bool refused(const char *who, uint64_t client_id, const char *says)
{
	struct wire_ctrl_msg m;
	struct boot_conn *c = hello(who, client_id, &m);
	bool no = m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_FULL && strstr(m.refuse.text, says);
	boot_close(&c);
	return no;
}

static struct boot_conn *welcomed(const char *who, uint64_t client_id)
{
	struct wire_ctrl_msg m;
	struct boot_conn *c = hello(who, client_id, &m);
	expect(m.type == WIRE_CTRL_WELCOME);
	return c;
}

static void all_leave(struct boot_conn **c, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		leave(c[i]);
}

/* One tenant cannot take all places, nor those of servers and operators. */
static void greedy_body(void)
{
	enum { MOST = PLACES - PART - 1 - PART };
	struct boot_conn *c[MOST], *b[PART], *ops;
	uint64_t before = control_stat(WIRE_STAT_OVER_QUOTA);
	struct place_row row[4], rest;
	for (unsigned i = 0; i < MOST; i++)
		c[i] = welcomed("a", 0);
	expect(refused("a", 0, "keeps its last places for other tenants"));
	expect(refused("a", KV_CLUSTER_CLIENT, "keeps its last places for other tenants"));
	expect(control_stat(WIRE_STAT_OVER_QUOTA) == before + 2);
	expect(places_read(&server->places, row, 4, &rest) == 4);
	expect(strcmp(row[0].name, "a") == 0 && row[0].sessions == MOST && row[0].refused == 2);
	for (unsigned i = 0; i < PART; i++)
		b[i] = welcomed("b", 0);
	expect(refused("b", 0, "keeps its last places for other tenants"));
	ops = welcomed("ops", KV_CLUSTER_CLIENT);
	all_leave(c, 1);
	expect(open_becomes(MOST + PART));
	c[0] = welcomed("a", 0);
	all_leave(c, MOST);
	all_leave(b, PART);
	leave(ops);
	expect(open_becomes(0));
	expect(places_read(&server->places, row, 4, &rest) == 4);
	expect(row[0].sessions + row[1].sessions + row[2].sessions + row[3].sessions == 0);
}

static void a_greedy_tenant_leaves_others_their_places(void **state)
{
	(void)state;
	in_coroutine(greedy_body);
}

/* A further session counts, too. */
static void limited_body(void)
{
	struct wire_ctrl_msg m;
	struct boot_conn *c = hello("c", 0, &m);
	struct boot_challenge challenge;
	expect(m.type == WIRE_CTRL_WELCOME);
	memcpy(challenge.token, m.welcome.token, KV_TOKEN_LEN);
	expect(refused("c", 0, "tenant \"c\" has 1 session at this server, as many as its sessions_max"));
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_SESSION_BEGIN};
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_SESSION_CHALLENGE);
	memcpy(challenge.nonce, m.session_challenge.nonce, WIRE_NONCE_LEN);
	m = (struct wire_ctrl_msg){.type = WIRE_CTRL_SESSION_OPEN, .session_open = {.id = 1, .client_id = 5}};
	snprintf(m.session_open.space, sizeof(m.session_open.space), "c");
	expect(boot_prove(c, &challenge, NULL, &m.session_open) == 0);
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_SESSION_REFUSE);
	expect(m.session_refuse.status == WIRE_FULL && strstr(m.session_refuse.text, "sessions_max"));
	leave(c);
	expect(open_becomes(0));
	leave(welcomed("c", 0));
	expect(open_becomes(0));
}

static void sessions_have_a_limit(void **state)
{
	(void)state;
	in_coroutine(limited_body);
}

/* The log gives the reason of a refusal in one line. */
static void one_line_body(void)
{
	struct boot_conn *c = welcomed("c", 0);
	unsigned audits = lines.audit_refused, refusals = lines.client_refused;
	expect(refused("c", 0, "sessions_max"));
	expect(lines.audit_refused == audits + 1);
	expect(lines.client_refused == refusals);
	leave(c);
	expect(open_becomes(0));
}

static void a_refusal_for_a_limit_is_one_line(void **state)
{
	(void)state;
	in_coroutine(one_line_body);
}

/* Sessions beyond the rate of their lines are counted by the next line. */
static void untold_body(void)
{
	enum { LEFT_OUT = 3 };
	unsigned told, untold;
	server->clients.audits_max = UINT_MAX;
	leave(welcomed("a", 0)); /* counts those of other tests */
	told = lines.audit_session;
	untold = lines.audit_untold;
	server->clients.audits_max = 0;
	for (unsigned i = 0; i < LEFT_OUT; i++)
		leave(welcomed("a", 0));
	expect(lines.audit_session == told && lines.audit_untold == untold);
	server->clients.audits_max = UINT_MAX;
	leave(welcomed("a", 0));
	expect(lines.audit_session == told + 1);
	expect(lines.audit_untold == untold + LEFT_OUT);
	expect(open_becomes(0));
}

static void sessions_cannot_fill_the_log(void **state)
{
	(void)state;
	in_coroutine(untold_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_tenant_finds_its_part),
		cmocka_unit_test(a_tenant_alone_may_have_all),
		cmocka_unit_test(a_removed_tenant_is_forgotten_with_its_last_place),
		cmocka_unit_test(a_refusal_for_a_limit_is_one_line), /* first: lines have a rate */
		cmocka_unit_test(a_greedy_tenant_leaves_others_their_places),
		cmocka_unit_test(sessions_have_a_limit),
		cmocka_unit_test(sessions_cannot_fill_the_log),
	};
	return cmocka_run_group_tests(tests, up, down);
}
