/* SPDX-License-Identifier: Apache-2.0 */
/* test_ready.c -- whom a server of a cluster lets in: before it has a view, and from another cluster. */
#include "tests/kvserver/control.h"

#include "kvserver/server/server.h"

static struct boot_conn *knock(uint64_t client_id, const char *cluster, struct wire_ctrl_msg *m)
{
	struct wire_ctrl_msg h = hello_make(te);
	struct boot_conn *c = dial(server, ctx);
	h.hello.client_id = client_id;
	snprintf(h.hello.cluster, sizeof(h.hello.cluster), "%s", cluster);
	expect(boot_send_await(c, &h, soon()) == 0);
	expect(next(c, m) == 0);
	return c;
}

static bool refused(uint64_t client_id, const char *cluster, int32_t status, const char *text)
{
	struct wire_ctrl_msg m;
	struct boot_conn *c = knock(client_id, cluster, &m);
	bool yes = m.type == WIRE_CTRL_REFUSE && m.refuse.status == status && strstr(m.refuse.text, text);
	boot_close(&c);
	return yes;
}

static bool welcome(uint64_t client_id, const char *cluster)
{
	struct wire_ctrl_msg m;
	struct boot_conn *c = knock(client_id, cluster, &m);
	bool yes = m.type == WIRE_CTRL_WELCOME && strcmp(m.welcome.cluster, "prod") == 0;
	leave(c);
	return yes;
}

/* A client would place keys by its own list; kv-client and servers that drain look at it all the same. */
static void unready_body(void)
{
	expect(refused(100, "", wire_error_status(-KV_EPEERDOWN), "it does not know the members"));
	expect(welcome(KV_CLUSTER_CLIENT, ""));
}

static void a_server_without_a_view_lets_no_engine_in(void **state)
{
	(void)state;
	in_coroutine(unready_body);
}

static void cluster_body(void)
{
	expect(refused(100, "test", wire_error_status(-KV_EINVAL), "to the cluster 'test', and this server to 'prod'"));
	expect(refused(100, "a b\n", wire_error_status(-KV_EPROTO), "is invalid"));
	expect(refused(KV_CLUSTER_CLIENT, "prod2", wire_error_status(-KV_EINVAL), "'prod'"));
	expect(welcome(100, "prod"));
	expect(welcome(100, ""));
}

static void with_a_view_it_does_but_for_another_cluster(void **state)
{
	const struct kv_member m = {.node_id = "a", .address = "h:1", .weight = 1, .state = KV_MEMBER_UP};
	struct kv_view v = {.source = 1, .epoch = 1};
	(void)state;
	assert_int_equal(kv_view_add(&v, &m), 0);
	assert_int_equal(kvs_server_view_set(server, &v), 0);
	kv_view_fini(&v);
	in_coroutine(cluster_body);
}

static int up(void **state)
{
	struct kvs_options o = server_options();
	(void)state;
	o.members = true;
	o.cluster = "prod";
	talk_up(&o);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_without_a_view_lets_no_engine_in),
		cmocka_unit_test(with_a_view_it_does_but_for_another_cluster),
	};
	return cmocka_run_group_tests_name("kvserver/ready", tests, up, group_down);
}
