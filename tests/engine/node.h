/* SPDX-License-Identifier: Apache-2.0 */
/* node.h -- an engine with a memory of what happened to it, and pairs of them in one process: what the engine's tests
 * share. */
#ifndef KVRAIL_TESTS_ENGINE_NODE_H
#define KVRAIL_TESTS_ENGINE_NODE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>

#include <cmocka.h>

#include "base/base.h"
#include "engine/engine.h"
#include "tests/provider.h"

enum { NODE_IMMS = 8 };
/* A wait that takes longer has failed: 20 s, or KVRAIL_TEST_WAIT_S, which tests/verbs sets: its machine is emulated. */
uint64_t node_wait_ns(void);
#define WAIT_NS node_wait_ns()

struct node {
	struct te *te;
	uint64_t messages, locals, imms, imm_count[NODE_IMMS]; /* by the low bits of the immediate */
	uint64_t rail_imms[KV_RAILS_MAX];
	uint32_t last_imm;
	uint8_t last[KV_MSG_MAX];
	size_t last_len;
	uint64_t message_sum; /* of the lengths */
	unsigned resets, rooms, fenced;
	int reset_status;
	void (*on_message)(struct node *n, const uint8_t *data, size_t len); /* may be NULL */
	void (*on_immediate)(struct node *n, uint32_t imm);
	void (*on_follow)(struct node *n);
	void (*on_local)(struct node *n, struct te_peer *peer, const uint8_t *data, size_t len);
	void *arg;
};

struct area {
	struct te *te;
	uint8_t *base;
	uint64_t len;
	struct te_region *region;
	struct te_remote remote;
};

/* A node that is polled with the others by node_poll_all, until closed. */
void node_open(struct node *n, const char *provider, struct te_options *options);
void node_close(struct node *n);
/* The direction of a transfer that may be cut in the middle: where a cut read would crash the reader
 * (te_info.read_unsafe), a write. */
enum te_dir node_break_dir(const struct node *n);
int node_poll_all(void);
/* Forget the nodes that a failed test left behind: its stack is gone. A cmocka setup function. */
int node_forget_all(void **state);
#define NODE_CASE(test) cmocka_unit_test_setup(test, node_forget_all)

/* Wait, polling all nodes, until expr; a test failure after WAIT_NS. */
#define WAIT(expr)                                                                                                     \
	do {                                                                                                           \
		uint64_t wait_end = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;                                       \
		while (!(expr)) {                                                                                      \
			node_poll_all();                                                                               \
			if (kv_clock_now(&kv_clock_monotonic) > wait_end)                                              \
				fail_msg("%s:%d: waited too long for: %s", __FILE__, __LINE__, #expr);                 \
		}                                                                                                      \
	} while (0)

/* Poll all nodes for a while. */
void node_poll_for(uint64_t ns);

struct te_peer *node_peer(struct node *from, struct node *to); /* from's peer object for `to` */
void node_readdress(struct te_peer *peer, struct node *to);
/* Fence it, and wait for what the engine has to tell of that. Whether the endpoints were rebuilt for it: else the peer
 * was cut alone. */
bool node_fence(struct node *n, struct te_peer *peer);

/* Memory registered with `n` for everything, filled from a seed (0: zeros). */
void area_open(struct area *a, struct node *n, uint64_t len, uint64_t part_bytes, uint64_t seed);
void area_close(struct area *a);
void fill(uint8_t *p, uint64_t len, uint64_t seed);

/* The result of a transfer or message. */
struct result {
	int done, posting_done, status, progress;
	uint32_t posted_when_told;
};
void xfer_init(struct te_xfer *x, struct result *r, enum te_dir dir, struct te_peer *peer, struct area *local,
	       uint64_t local_offset, struct area *remote, uint64_t remote_offset, uint64_t len);
struct te_msg *msg_for(struct node *n, struct result *r, const void *data, uint32_t len);

/* A test that is made over each provider, but where `unfit` says not. */
struct node_case {
	const char *name;
	void (*run)(void **state); /* *state: the provider's name */
	bool (*unfit)(const char *provider);
};
bool node_is_shm(const char *provider);

/* node_cases_run -- all of them over all providers to test; KVRAIL_TEST_CASES: those whose name contains it. The exit
 * status. */
int node_cases_run(const char *group, const struct node_case *cases, unsigned count);

/* The providers to test: those that KVRAIL_TEST_PROVIDERS or KVRAIL_TEST_PROVIDER names (one that is not here ends the
 * test as failed), or "tcp,shm" as far as they are here. */
unsigned providers(const char *out[], unsigned max);
bool provider_here(const char *name, struct kv_error *err);

/* Call first in main: the environment that makes endpoints small. */
void test_env(void);

#endif
