/* SPDX-License-Identifier: Apache-2.0 */
/* test_rdma.c -- the kernel's answer about RDMA objects. */
#include "tests/check.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>

#include "host/host.h"

static size_t put(uint8_t *at, uint16_t type, const void *data, size_t len)
{
	struct nlattr a = {.nla_len = (uint16_t)(sizeof(a) + len), .nla_type = type};
	memset(at, 0, NLA_ALIGN(a.nla_len));
	memcpy(at, &a, sizeof(a));
	if (len)
		memcpy(at + sizeof(a), data, len);
	return NLA_ALIGN(a.nla_len);
}

static size_t put_entry(uint8_t *at, const char *name, uint64_t count)
{
	uint8_t inner[64];
	size_t n = put(inner, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, name, strlen(name) + 1);
	n += put(inner + n, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, &count, sizeof(count));
	return put(at, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY | NLA_F_NESTED, inner, n);
}

/* What the kernel tells about one device. */
static size_t put_device(uint8_t *at, uint64_t qps, uint64_t cqs, uint64_t mrs)
{
	uint8_t inner[256];
	size_t n = put_entry(inner, "pd", 3), m;
	n += put_entry(inner + n, "cq", cqs);
	n += put_entry(inner + n, "qp", qps);
	n += put_entry(inner + n, "mr", mrs);
	m = put(at, RDMA_NLDEV_ATTR_DEV_NAME, "rxe0", 5);
	return m + put(at + m, RDMA_NLDEV_ATTR_RES_SUMMARY | NLA_F_NESTED, inner, n);
}

static void objects_of_a_device_are_read(void **state)
{
	struct kv_rdma_used used;
	uint8_t buf[512];
	(void)state;
	kv_rdma_used_parse(buf, put_device(buf, 500, 1001, 7), &used);
	assert_string_equal(used.device, "rxe0");
	assert_int_equal(used.qps, 500);
	assert_int_equal(used.cqs, 1001);
	assert_int_equal(used.mrs, 7);
	kv_rdma_used_parse(buf, 0, &used);
	assert_string_equal(used.device, "");
	assert_true(used.qps == KV_UNKNOWN && used.cqs == KV_UNKNOWN && used.mrs == KV_UNKNOWN);
}

/* Every prefix, and lengths that lie. The sanitizers look on. */
static void an_answer_that_is_cut_or_lies_is_survived(void **state)
{
	struct kv_rdma_used used;
	uint8_t buf[512];
	size_t n = put_device(buf, 500, 1001, 7);
	(void)state;
	for (size_t cut = 0; cut < n; cut++) {
		uint8_t *copy = malloc(cut ? cut : 1);
		assert_non_null(copy);
		memcpy(copy, buf, cut);
		kv_rdma_used_parse(copy, cut, &used);
		free(copy);
	}
	for (size_t at = 0; at < n; at++)
		for (unsigned v = 0; v < 256; v += 51) {
			uint8_t keep = buf[at];
			buf[at] = (uint8_t)v;
			kv_rdma_used_parse(buf, n, &used);
			buf[at] = keep;
		}
}

static void told(const struct kv_rdma_used *used, void *arg)
{
	unsigned *count = arg;
	assert_true(used->device[0]);
	++*count;
}

static void this_machine_is_asked(void **state)
{
	unsigned count = 0;
	(void)state;
	kv_rdma_used_each(told, &count);
	print_message("the kernel tells of %u RDMA device%s\n", count, kv_plural(count));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_of_a_device_are_read),
		cmocka_unit_test(an_answer_that_is_cut_or_lies_is_survived),
		cmocka_unit_test(this_machine_is_asked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
