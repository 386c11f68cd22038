/* SPDX-License-Identifier: Apache-2.0 */
/* victim.c -- one pool with one client, and the two places its values go to: memory that is copied to, and registered
 * memory that the liar writes itself. */
#include "victim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "server.h"

struct victim victim;

static uint64_t now_ns(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

struct kvc_options victim_options(void)
{
	return (struct kvc_options){.size = sizeof(struct kvc_options),
				    .num_clients = 1,
				    .num_threads = 1,
				    .servers = &victim.address,
				    .num_servers = 1,
				    .flags = KVC_OPEN_WAIT,
				    .provider = liar_provider,
				    .buffer_bytes = 16 << 20,
				    .timeout_ns = victim.timeout_ns,
				    .connect_timeout_ns = victim.connect_timeout_ns,
				    .log_level = victim.log ? 2 : 0,
				    .log = victim.log};
}

void victim_start(enum kvc_mode mode)
{
	struct kvc_options o;
	struct kv_error err = {0};
	victim.address = liar_start();
	o = victim_options();
	o.mode = mode;
	if (kvc_pool_open(&o, &victim.pool, &err) < 0)
		fail_msg("%s", err.text);
	for (unsigned i = 0; i < 2; i++)
		victim.dst[i] = aligned_alloc(4096, VICTIM_CAP);
	assert_int_equal(kvc_register(victim.pool, victim.dst[1], VICTIM_CAP, &victim.mem, NULL), 0);
}

void victim_stop(void)
{
	if (!victim.address)
		return;
	kvc_pool_close(&victim.pool);
	liar_stop();
	free(victim.dst[0]);
	free(victim.dst[1]);
}

struct kvc_counters victim_counters(struct kvc_pool *of)
{
	struct kvc_counters n = {.size = sizeof(n)};
	assert_int_equal(kvc_counters(of, &n), 0);
	return n;
}

int64_t victim_get(struct kvc_pool *from, uint8_t *to)
{
	uint64_t began = now_ns(), took;
	memset(to, 0xEE, VICTIM_CAP);
	int64_t rc = kvc_get(from, (struct kvc_key){"k", 1}, to, VICTIM_CAP, NULL);
	took = now_ns() - began;
	assert_true(took < victim.timeout_ns + VICTIM_LATE_NS);
	if (rc >= 0) {
		assert_int_equal(rc, LIAR_VALUE);
		assert_true(test_same(to, LIAR_VALUE, LIAR_SEED));
	}
	return rc;
}

void victim_get_patiently(struct kvc_pool *from, uint8_t *to)
{
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = victim.wait_ns};
	memset(to, 0xEE, VICTIM_CAP);
	assert_int_equal(kvc_get(from, (struct kvc_key){"k", 1}, to, VICTIM_CAP, &call), LIAR_VALUE);
	assert_true(test_same(to, LIAR_VALUE, LIAR_SEED));
}

int64_t victim_get_answered(struct kvc_pool *from, uint8_t *to, int expected)
{
	uint64_t until = now_ns() + victim.wait_ns;
	int64_t rc;
	do
		rc = victim_get(from, to);
	while (rc == -KV_ETIMEOUT && expected != rc && expected != VICTIM_ANY && now_ns() < until);
	return rc;
}

void victim_recovers(void)
{
	uint64_t until = now_ns() + victim.wait_ns;
	atomic_store(&liar_lie, LIE_NONE);
	for (unsigned i = 0; i < 2; i++)
		while (victim_get(victim.pool, victim.dst[i]) < 0)
			assert_true(now_ns() < until);
}

void victim_tell(const char *lie, unsigned dst, int64_t rc, int expected)
{
	print_message("# %s, %s memory: %s\n", lie, dst ? "registered" : "plain",
		      rc < 0 ? kvc_errname((int)rc) : "right bytes");
	if (expected == 0)
		assert_true(rc >= 0);
	else if (expected != VICTIM_ANY)
		assert_int_equal(rc, expected);
}
