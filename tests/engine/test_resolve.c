/* SPDX-License-Identifier: Apache-2.0 */
/* test_resolve.c -- when the kernel is asked for a peer's address before libfabric is, with a kernel that answers what
 * the test says. fabric/resolve.c is a part of this program. tests/verbs has the real kernel. */
#include "tests/check.h"

#include "engine/fabric/private.h"

static int fake_open(const char *path, int flags);
static ssize_t fake_write(int fd, const void *buf, size_t len);
static int fake_close(int fd);
static uint64_t fake_now(void);

/* Their headers first: only the calls of fabric/resolve.c are the fake's. */
#include <fcntl.h>
#include <unistd.h>

#define open            fake_open
#define write           fake_write
#define close           fake_close
#define kv_clock_now(c) fake_now()
#undef fi_version
#define fi_version() FI_VERSION(1, 17)
#include "../../engine/fabric/resolve.c"

enum { FD = 77, PEER = 3, ADDR_ERROR = 1 /* an RDMA_CM_EVENT_ */ };
#define MS 1000000ull

static struct {
	uint64_t now;
	unsigned questions, ids; /* asked so far; not destroyed */
	uint32_t next_id, id;    /* of the last question */
	uint64_t uid;
	bool answered; /* an event waits */
	uint32_t event;
} kernel;
static struct fab fab;

static int fake_open(const char *path, int flags)
{
	assert_string_equal(path, "/dev/infiniband/rdma_cm");
	assert_true(flags & O_NONBLOCK);
	return FD;
}

static int fake_close(int fd)
{
	assert_int_equal(fd, FD);
	return 0;
}

static uint64_t fake_now(void)
{
	return kernel.now;
}

/* The struct of a command, and where its answer goes. */
#define COMMAND(type, in, buf)                                                                                         \
	type in;                                                                                                       \
	memcpy(&in, (const uint8_t *)(buf) + sizeof(struct rdma_ucm_cmd_hdr), sizeof(in))
#define ANSWER(in, resp) memcpy((void *)(uintptr_t)(in).response, &(resp), sizeof(resp))

static int create_id(const void *buf)
{
	COMMAND(struct rdma_ucm_create_id, in, buf);
	const struct rdma_ucm_create_id_resp resp = {.id = ++kernel.next_id};
	kernel.id = resp.id;
	kernel.uid = in.uid;
	kernel.ids++;
	ANSWER(in, resp);
	return 0;
}

static int get_event(const void *buf)
{
	COMMAND(struct rdma_ucm_get_event, in, buf);
	struct rdma_ucm_event_resp resp;
	if (!kernel.answered)
		return -1;
	kernel.answered = false;
	memset(&resp, 0, sizeof(resp));
	resp.uid = kernel.uid;
	resp.id = kernel.id;
	resp.event = kernel.event;
	ANSWER(in, resp);
	return 0;
}

static ssize_t fake_write(int fd, const void *buf, size_t len)
{
	struct rdma_ucm_cmd_hdr head;
	int rc = 0;
	assert_int_equal(fd, FD);
	memcpy(&head, buf, sizeof(head));
	switch (head.cmd) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		rc = create_id(buf);
		break;
	case RDMA_USER_CM_CMD_RESOLVE_ADDR:
		kernel.questions++;
		break;
	case RDMA_USER_CM_CMD_GET_EVENT:
		rc = get_event(buf);
		break;
	case RDMA_USER_CM_CMD_DESTROY_ID:
		kernel.ids--;
		break;
	default:
		fail_msg("command %u", head.cmd);
	}
	return rc ? -1 : (ssize_t)len;
}

static void answer(uint32_t event)
{
	kernel.answered = true;
	kernel.event = event;
}

static int begin(void **state)
{
	static const struct fab_quirk verbs = {.verbs = true};
	static struct sockaddr_in at = {.sin_family = AF_INET};
	static struct fi_info info = {.src_addr = &at, .src_addrlen = sizeof(at)};
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	kernel.now = 1000 * MS;
	fab = (struct fab){.quirk = &verbs, .info = &info};
	fab_resolve_open(&fab);
	return fab.resolve ? fab_resolve_insert(&fab, PEER, &at, sizeof(at)) : -1;
}

static int end(void **state)
{
	(void)state;
	fab_resolve_close(&fab);
	return kernel.ids ? -1 : 0; /* none is left in the kernel */
}

static bool known(void)
{
	return fab_resolve_known(&fab, PEER);
}

/* Its neighbour is there, and the kernel has said so. */
static void become_known(void)
{
	assert_false(known());
	answer(ADDR_RESOLVED);
	assert_true(known());
}

static void nothing_is_posted_before_the_kernel_has_answered(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 50; i++, kernel.now += 30 * MS)
		assert_false(known());
	assert_int_equal(kernel.questions, 1);
	answer(ADDR_RESOLVED);
	assert_true(known());
	assert_int_equal(kernel.ids, 0);
}

static void a_neighbour_that_is_not_there_is_asked_for_again_after_a_pause(void **state)
{
	(void)state;
	assert_false(known());
	answer(ADDR_ERROR);
	assert_false(known());
	assert_int_equal(kernel.questions, 1);
	kernel.now += 100 * MS;
	assert_false(known());
	assert_int_equal(kernel.questions, 2);
}

/* The kernel gives a connection that is being made up when its neighbour is silent, and libfabric, which makes it anew
 * in the next posting, would wait for the neighbour. */
static void what_is_known_ages_while_no_posting_is_taken(void **state)
{
	(void)state;
	become_known();
	for (unsigned i = 0; i < 4; i++, kernel.now += 100 * MS) {
		assert_true(known());
		fab_resolve_posted(&fab, PEER, -FI_EAGAIN);
	}
	kernel.now += 2000 * MS;
	assert_false(known());
	assert_int_equal(kernel.questions, 2);
	answer(ADDR_ERROR);
	assert_false(known());
}

static void a_connection_that_stands_costs_no_question(void **state)
{
	(void)state;
	become_known();
	fab_resolve_posted(&fab, PEER, 0);
	kernel.now += 3600000 * MS;
	assert_true(known());
	/* Its queue is full for a moment. */
	fab_resolve_posted(&fab, PEER, -FI_EAGAIN);
	assert_true(known());
	fab_resolve_posted(&fab, PEER, 0);
	kernel.now += 3600000 * MS;
	assert_true(known());
	assert_int_equal(kernel.questions, 1);
}

static void a_connection_that_may_be_made_anew_is_asked_for(void **state)
{
	(void)state;
	become_known();
	fab_resolve_posted(&fab, PEER, 0);
	fab_resolve_posted(&fab, PEER, -FI_EAGAIN);
	kernel.now += 2000 * MS;
	assert_false(known());
	assert_int_equal(kernel.questions, 2);
}

static void a_posting_that_fails_is_followed_by_a_question(void **state)
{
	(void)state;
	become_known();
	fab_resolve_posted(&fab, PEER, 0);
	fab_resolve_posted(&fab, PEER, -FI_ETIMEDOUT);
	assert_false(known());
	assert_int_equal(kernel.questions, 2);
}

static void a_handle_that_is_used_again_is_asked_for(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = 1};
	(void)state;
	become_known();
	fab_resolve_posted(&fab, PEER, 0);
	fab_resolve_remove(&fab, PEER);
	assert_int_equal(fab_resolve_insert(&fab, PEER, &at, sizeof(at)), 0);
	assert_false(known());
	assert_int_equal(kernel.questions, 2);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_posted_before_the_kernel_has_answered, begin, end),
		cmocka_unit_test_setup_teardown(a_neighbour_that_is_not_there_is_asked_for_again_after_a_pause, begin,
						end),
		cmocka_unit_test_setup_teardown(what_is_known_ages_while_no_posting_is_taken, begin, end),
		cmocka_unit_test_setup_teardown(a_connection_that_stands_costs_no_question, begin, end),
		cmocka_unit_test_setup_teardown(a_connection_that_may_be_made_anew_is_asked_for, begin, end),
		cmocka_unit_test_setup_teardown(a_posting_that_fails_is_followed_by_a_question, begin, end),
		cmocka_unit_test_setup_teardown(a_handle_that_is_used_again_is_asked_for, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
