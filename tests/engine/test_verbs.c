/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs.c -- what only a machine with an RDMA device can show (tests/verbs): that the sizes chosen for it work,
 * and that others are refused with the way out. */
#include "tests/engine/node.h"

#include "engine/budget.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#define NOBODY "10.9.200.1"
#define SECOND 1000000000ull

enum { SENT_MIN = 20 }; /* a loop that waits for an address makes a turn in 2 s */

static const uint8_t data[64] = {1};

static int open_verbs(struct kv_error *err)
{
	static const struct te_handlers none;
	const struct te_options o = {.provider = "verbs"};
	struct te *te = NULL;
	int rc = te_open(&o, &none, NULL, &te, err);
	te_close(&te);
	return rc;
}

static int here(void **state)
{
	struct te_rdma one[1];
	(void)state;
	if (te_rdma_list("", NULL, one, 1) > 0)
		return 0;
	print_message("no RDMA device is here\n");
	return 0;
}

static void skip_without_a_device(void)
{
	struct te_rdma one[1];
	if (te_rdma_list("", NULL, one, 1) == 0) {
		print_message("this machine has no RDMA device: make check-verbs has one\n");
		skip();
	}
}

static void the_sizes_that_programs_choose_work(void **state)
{
	struct kv_error err = {0};
	(void)state;
	skip_without_a_device();
	if (open_verbs(&err))
		fail_msg("%s", err.text);
}

static void a_queue_that_no_device_has_is_refused_with_the_number_that_fits(void **state)
{
	struct kv_error err = {0};
	char keep[32], *advice;
	(void)state;
	skip_without_a_device();
	snprintf(keep, sizeof(keep), "%s", getenv("FI_UNIVERSE_SIZE"));
	setenv("FI_UNIVERSE_SIZE", "4000000", 1);
	assert_int_equal(open_verbs(&err), -KV_ELIMIT);
	advice = strstr(err.text, "set FI_UNIVERSE_SIZE=");
	assert_non_null(advice);
	char *number = strchr(advice, '=') + 1;
	number[strspn(number, "0123456789")] = '\0';
	assert_true(atoi(number) >= atoi(keep));
	setenv("FI_UNIVERSE_SIZE", number, 1);
	assert_int_equal(open_verbs(&err), 0);
	setenv("FI_UNIVERSE_SIZE", keep, 1);
}

static void a_shared_receive_context_is_refused(void **state)
{
	struct kv_error err = {0};
	(void)state;
	skip_without_a_device();
	setenv("FI_OFI_RXM_USE_SRX", "1", 1);
	assert_int_equal(open_verbs(&err), -KV_ENOTSUP);
	assert_non_null(strstr(err.text, "FI_OFI_RXM_USE_SRX"));
	setenv("FI_OFI_RXM_USE_SRX", "0", 1);
	assert_int_equal(open_verbs(&err), 0);
	unsetenv("FI_OFI_RXM_USE_SRX");
}

static void exchange(struct node *from, struct te_peer *peer)
{
	struct result r;
	te_msg_send(from->te, peer, 0, msg_for(from, &r, data, sizeof(data)), KV_NEVER);
	WAIT(r.done);
	assert_int_equal(r.status, 0);
}

/* A peer at an address of the guest's network that no host has. */
static struct te_peer *nobody_open(struct node *n, const struct node *like)
{
	struct te_address address;
	struct te_peer *nobody = NULL;
	struct sockaddr_in in;
	assert_int_equal(te_address(like->te, 0, &address), 0);
	memcpy(&in, address.data, sizeof(in));
	in.sin_addr.s_addr = inet_addr(NOBODY);
	memcpy(address.data, &in, sizeof(in));
	assert_int_equal(te_peer_open(n->te, &address, 1, &nobody, NULL), 0);
	return nobody;
}

static uint64_t after(uint64_t ns)
{
	return kv_clock_now(&kv_clock_monotonic) + ns;
}

/* Until the message to nobody is given up, messages go to the other peer. */
static void exchange_until_lost(struct node *n, struct te_peer *peer, const struct result *lost)
{
	unsigned sent = 0;
	for (; !lost->done; sent++)
		exchange(n, peer);
	printf("# %u messages to another peer meanwhile\n", sent);
	assert_int_equal(lost->status, -KV_ETIMEOUT);
	assert_true(sent >= SENT_MIN);
}

/* libfabric before 1.21 waits for the address inside the posting, 2 s each time (engine/fabric/resolve.c): then hardly
 * one message would go to others meanwhile. */
static void an_address_that_nobody_has_stops_no_other(void **state)
{
	struct te_peer *nobody;
	struct node a, b;
	struct result lost;
	(void)state;
	skip_without_a_device();
	node_open(&a, "verbs", NULL);
	node_open(&b, "verbs", NULL);
	struct te_peer *peer = node_peer(&a, &b);
	exchange(&a, peer);
	nobody = nobody_open(&a, &b);
	te_msg_send(a.te, nobody, 0, msg_for(&a, &lost, data, sizeof(data)), after(5 * SECOND));
	exchange_until_lost(&a, peer, &lost);
	te_peer_close(&nobody);
	te_peer_close(&peer);
	node_close(&b);
	node_close(&a);
}

/* Lines for ip(8) about the neighbour NOBODY of each device, all at once: the kernel must forget it before we hear that
 * the connection is given up. */
static void neighbour(const char *lines)
{
	char command[512];
	snprintf(command, sizeof(command),
		 "for d in /sys/class/net/d[0-9]*; do printf '%s' | sed \"s/DEV/${d##*/}/\"; done | ip -batch -",
		 lines);
	assert_int_equal(system(command), 0);
}

/* The host was there when we asked, and goes while libfabric connects to it. The kernel gives the connection up, and
 * libfabric makes it anew. Only the guest's neighbours are changed so. */
static void an_address_that_nobody_has_any_more_stops_no_other(void **state)
{
	struct te_peer *nobody;
	struct node a, b;
	struct result lost;
	char host[16] = "";
	(void)state;
	skip_without_a_device();
	if (gethostname(host, sizeof(host) - 1) < 0 || strcmp(host, "kvrail-guest") != 0) {
		print_message("only the guest of make check-verbs has such a network\n");
		skip();
	}
	node_open(&a, "verbs", NULL);
	node_open(&b, "verbs", NULL);
	struct te_peer *peer = node_peer(&a, &b);
	exchange(&a, peer);
	neighbour("neigh replace " NOBODY " lladdr 02:00:00:00:00:01 dev DEV nud permanent\\n");
	nobody = nobody_open(&a, &b);
	te_msg_send(a.te, nobody, 0, msg_for(&a, &lost, data, sizeof(data)), after(10 * SECOND));
	for (uint64_t until = after(2 * SECOND); kv_clock_now(&kv_clock_monotonic) < until;)
		exchange(&a, peer);
	neighbour("neigh replace " NOBODY " lladdr 02:00:00:00:00:02 dev DEV nud permanent\\n"
		  "neigh del " NOBODY " dev DEV\\n");
	exchange_until_lost(&a, peer, &lost);
	te_peer_close(&nobody);
	te_peer_close(&peer);
	node_close(&b);
	node_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_sizes_that_programs_choose_work, here),
		cmocka_unit_test_setup(a_queue_that_no_device_has_is_refused_with_the_number_that_fits, here),
		cmocka_unit_test_setup(a_shared_receive_context_is_refused, here),
		cmocka_unit_test_setup_teardown(an_address_that_nobody_has_stops_no_other, here, node_forget_all),
		cmocka_unit_test_setup_teardown(an_address_that_nobody_has_any_more_stops_no_other, here,
						node_forget_all),
	};
	test_env();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
