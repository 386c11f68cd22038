/* SPDX-License-Identifier: Apache-2.0 */
/* test_queue_storm.c -- a queue in all trouble at once: eight threads submit, with deadlines down to a nanosecond, and
 * give ids up, their own and others'; servers stand still, or are killed and come back, empty; an arena grows and is
 * taken back; children are forked; and at the end the pool is closed under all of it. Every id that was accepted is
 * reaped exactly once, with a result in each item and the right bytes, and afterwards nothing touches what was the
 * caller's. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/kvclient.h"
#include "server.h"
#include "tests/short.h"

enum { CLIENTS = 3, SERVERS = 2, SUBMITTERS = 8, SLOTS = 12, ITEMS = 6, KEYS = 40, VALUE = 40000 };
enum {
	DEPTH = 60 /* fewer than slots */,
	ROUNDS = KV_TSAN || KV_ASAN ? 6 : 12,
	FEW = 3,
	POISON = 0xA5,
	NO_RESULT = 77
};
enum { ALL_SLOTS = SUBMITTERS * SLOTS, PIECES = 8, PIECE = ALL_SLOTS * ITEMS * VALUE / PIECES / 4096 * 4096 };
#define PATIENCE_MS 120000

/* A submission: its thread fills it, and the thread that reaps gives it back. */
struct slot {
	_Atomic bool out;
	_Atomic int64_t id;      /* of the last submission */
	_Atomic int64_t over_id; /* of the last completion */
	enum kvc_op op;
	unsigned n, key[ITEMS];
	struct kvc_item item[ITEMS];
	char name[ITEMS][16];
	uint8_t *data[ITEMS];
};

static struct test_server server[SERVERS];
static struct kvc_pool *pool;
static struct kvc_queue *queue;
static struct slot slots[ALL_SLOTS];
static uint8_t *arena;
static uint64_t seed;
static _Atomic bool all_joined;
static atomic_uint accepted, reaped, got;
/* What was wrong first; no thread but the test's own may fail it. */
static _Atomic(const char *) wrong;

static void note(const char *what)
{
	const char *none = NULL;
	atomic_compare_exchange_strong(&wrong, &none, what);
}

static uint64_t dice(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void poison(struct slot *s)
{
	for (unsigned i = 0; i < ITEMS; i++)
		memset(s->data[i], POISON, VALUE);
	memset(s->item, 0, sizeof(s->item));
}

static bool poisoned(const struct slot *s)
{
	for (unsigned i = 0; i < ITEMS; i++)
		if (s->data[i][0] != POISON || memcmp(s->data[i], s->data[i] + 1, VALUE - 1) != 0)
			return false;
	return true;
}

static void slot_fill(struct slot *s, uint64_t *random)
{
	static const enum kvc_op ops[] = {KVC_OP_GET, KVC_OP_GET, KVC_OP_PUT, KVC_OP_PUT, KVC_OP_EXISTS, KVC_OP_DELETE};
	if (!poisoned(s))
		note("something wrote to memory after its completion was reaped");
	s->op = ops[dice(random) % KV_COUNT(ops)];
	s->n = (unsigned)(dice(random) % (ITEMS + 1));
	for (unsigned i = 0; i < s->n; i++) {
		s->key[i] = (unsigned)(dice(random) % KEYS);
		snprintf(s->name[i], sizeof(s->name[i]), "key-%u", s->key[i]);
		if (s->op == KVC_OP_PUT)
			test_fill(s->data[i], VALUE, s->key[i]);
		s->item[i] = (struct kvc_item){
			.key = {s->name[i], strlen(s->name[i])}, .data = s->data[i], .len = VALUE, .result = NO_RESULT};
	}
}

static int64_t slot_submit(struct slot *s, uint64_t *random)
{
	int64_t (*const submit[])(struct kvc_queue *, struct kvc_item *, unsigned, const struct kvc_call *,
				  uint64_t) = {[KVC_OP_GET] = kvc_submit_get,
					       [KVC_OP_PUT] = kvc_submit_put,
					       [KVC_OP_EXISTS] = kvc_submit_exists,
					       [KVC_OP_DELETE] = kvc_submit_delete};
	/* 0: the pool's */
	static const uint64_t timeouts[] = {0, 1, 1000, 100000, 3000000, 50000000, 2000000000};
	struct kvc_call call = {.size = sizeof(call),
				.timeout_ns = timeouts[dice(random) % KV_COUNT(timeouts)],
				.flags = dice(random) % 4 == 0 ? KVC_BACKGROUND : 0};
	return submit[s->op](queue, s->item, s->n, &call, (uint64_t)(s - slots));
}

/* Give up an id: of this slot, or of any. */
static void cancel(const struct slot *s, uint64_t *random)
{
	const struct slot *of = dice(random) % 2 ? s : &slots[dice(random) % ALL_SLOTS];
	int64_t id = atomic_load(&of->id);
	int rc = id > 0 ? kvc_cancel(queue, (uint64_t)id) : 0;
	if (rc != 0 && rc != -KV_ENOTFOUND && rc != -KV_EBUSY && rc != -KV_ECLOSED)
		note("kvc_cancel ended with another code than it says");
}

static void *submitter(void *arg)
{
	uint64_t t = (uint64_t)(uintptr_t)arg, random = seed + 1000003 * (t + 1);
	int64_t id = 0;
	for (unsigned use = 0; id != -KV_ECLOSED && !atomic_load(&wrong); use++) {
		struct slot *s = &slots[t * SLOTS + use % SLOTS];
		if (dice(&random) % 3 == 0)
			cancel(s, &random);
		if (atomic_load(&s->out)) {
			sched_yield();
			continue;
		}
		slot_fill(s, &random);
		atomic_store(&s->out, true);
		id = slot_submit(s, &random);
		if (id > 0) {
			atomic_fetch_add(&accepted, 1);
			atomic_store(&s->id, id);
			if (!atomic_load(&s->out) && atomic_load(&s->over_id) != id)
				note("a completion had another id than its submission");
			continue;
		}
		if (id != -KV_EBUSY && id != -KV_ECLOSED)
			note("a submission ended with another code than it says");
		poison(s);
		atomic_store(&s->out, false);
		sched_yield();
	}
	return NULL;
}

static bool code_is_fit(enum kvc_op op, int64_t code)
{
	switch (code) {
	case -KV_ETIMEOUT:
	case -KV_ECANCELED:
	case -KV_EPEERDOWN:
	case -KV_ECLOSED:
	case -KV_EBUSY:
	case -KV_ENOTFOUND:
		return true;
	default:
		return code == (op == KVC_OP_GET ? VALUE : 0) || (op == KVC_OP_EXISTS && code == 1);
	}
}

/* An item's code that the operation does not have. */
static void note_code(enum kvc_op op, int64_t code)
{
	static char text[64];
	const char *none = NULL;
	static atomic_bool taken;
	if (atomic_exchange(&taken, true))
		return;
	snprintf(text, sizeof(text), "an item of %s ended with %s", kvc_opname(op), kvc_errname((int)code));
	atomic_compare_exchange_strong(&wrong, &none, text);
}

static void completion_check(struct slot *s, const struct kvc_completion *c)
{
	if (!atomic_load(&s->out))
		note("an id was reaped twice");
	if (c->items != s->item || c->n != s->n || c->op != s->op)
		note("a completion is not its submission's");
	for (unsigned i = 0; i < c->n; i++) {
		int64_t code = s->item[i].result;
		if (code == NO_RESULT)
			note("an item has no result");
		else if (!code_is_fit(s->op, code))
			note_code(s->op, code);
		if (s->op != KVC_OP_GET || code != VALUE)
			continue;
		atomic_fetch_add(&got, 1);
		if (!test_same(s->data[i], VALUE, s->key[i]))
			note("a GET had wrong bytes");
	}
}

static void *reaper(void *arg)
{
	struct pollfd p = {.fd = kvc_queue_fd(queue), .events = POLLIN};
	struct kvc_completion c[5];
	(void)arg;
	for (;;) {
		bool last = atomic_load(&all_joined);
		int n = kvc_reap(queue, c, KV_COUNT(c));
		if (n < 0)
			note("kvc_reap failed");
		for (int i = 0; i < n; i++) {
			struct slot *s = &slots[c[i].tag];
			completion_check(s, &c[i]);
			poison(s);
			atomic_store(&s->over_id, (int64_t)c[i].id);
			atomic_store(&s->out, false);
			atomic_fetch_add(&reaped, 1);
		}
		if (n <= 0 && last)
			return NULL;
		if (n <= 0)
			poll(&p, 1, 10);
	}
}

static void pause_ms(unsigned ms)
{
	const struct timespec t = {.tv_nsec = (long)ms * 1000000};
	nanosleep(&t, NULL);
}

/* It calls what a child may call, and ends. */
static void child(void)
{
	struct kvc_queue *mine = queue;
	struct kvc_pool *ours = pool;
	struct kvc_item item = {.key = {"k", 1}, .data = arena, .len = VALUE};
	bool good = kvc_submit_get(queue, &item, 1, NULL, 0) == -KV_ECLOSED && kvc_cancel(queue, 1) == -KV_ECLOSED &&
		    kvc_reap(queue, &(struct kvc_completion){0}, 1) == -KV_ECLOSED && kvc_queue_close(&mine) == 0;
	kvc_pool_close(&ours);
	_exit(good && !ours ? 0 : 1);
}

static void fork_one(void)
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0)
		child();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != 0)
		note("a child of fork was not refused");
}

/* The arena grows by a piece; or its first piece is taken back, unless calls use it now. */
static void arena_change(struct kvc_mem **mem, unsigned round)
{
	struct kv_error err = {0};
	unsigned k = round % PIECES;
	int rc;
	if (mem[k]) {
		rc = kvc_unregister(pool, &mem[k]);
		if (rc != 0 && rc != -KV_EBUSY && rc != -KV_ETIMEOUT)
			note("kvc_unregister ended with another code than it says");
		return;
	}
	rc = kvc_register(pool, arena + (size_t)k * PIECE, PIECE, &mem[k], &err);
	if (rc != 0 && rc != -KV_ETIMEOUT)
		note("kvc_register ended with another code than it says");
}

static void arena_make(void)
{
	size_t len = (size_t)ALL_SLOTS * ITEMS * VALUE;
	arena = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(arena != MAP_FAILED);
	for (unsigned i = 0; i < ALL_SLOTS * ITEMS; i++)
		slots[i / ITEMS].data[i % ITEMS] = arena + (size_t)i * VALUE;
	for (unsigned i = 0; i < ALL_SLOTS; i++)
		poison(&slots[i]);
}

static void every_id_is_reaped_once_whatever_happens(void **state)
{
	struct kvc_queue_options depth = {.size = sizeof(depth), .depth = DEPTH};
	struct kvc_mem *mem[PIECES] = {NULL};
	pthread_t thread[SUBMITTERS], reaping;
	(void)state;
	test_server_need(&server[0]);
	seed = ((uint64_t)getpid() << 32 | (uint64_t)time(NULL)) | 1;
	print_message("# seed %llu\n", (unsigned long long)seed);
	arena_make();
	assert_int_equal(kvc_queue_open(pool, &depth, &queue, NULL), 0);
	assert_int_equal(pthread_create(&reaping, NULL, reaper, NULL), 0);
	for (uintptr_t t = 0; t < SUBMITTERS; t++)
		assert_int_equal(pthread_create(&thread[t], NULL, submitter, (void *)t), 0);
	for (unsigned round = 0; round < test_rounds(ROUNDS, FEW) && !atomic_load(&wrong); round++) {
		struct test_server *s = &server[round % SERVERS];
		bool dies = round % 3 != 2; /* else it stands still for a while */
		arena_change(mem, round);
		if (dies)
			test_server_kill(s);
		else
			test_server_stop(s);
		pause_ms(30);
		fork_one();
		arena_change(mem, round + 1);
		if (dies)
			test_server_start(s, s->node_id);
		else
			test_server_cont(s);
		pause_ms(100);
	}
	kvc_pool_close(&pool);
	for (unsigned t = 0; t < SUBMITTERS; t++)
		assert_int_equal(pthread_join(thread[t], NULL), 0);
	atomic_store(&all_joined, true);
	assert_int_equal(pthread_join(reaping, NULL), 0);
	if (atomic_load(&wrong))
		fail_msg("%s", atomic_load(&wrong));
	print_message("# %u ids, %u values\n", atomic_load(&accepted), atomic_load(&got));
	assert_int_equal(atomic_load(&reaped), atomic_load(&accepted));
	assert_int_equal(kvc_queue_close(&queue), 0);
	for (unsigned i = 0; i < ALL_SLOTS; i++)
		assert_true(!atomic_load(&slots[i].out) && poisoned(&slots[i]));
	assert_true(atomic_load(&got) > 0);
	munmap(arena, (size_t)ALL_SLOTS * ITEMS * VALUE);
}

static int setup(void **state)
{
	const struct test_server *const both[] = {&server[0], &server[1]};
	(void)state;
	test_server_up(&server[0], "storm-0");
	if (!server[0].pid)
		return 0;
	test_server_start(&server[1], "storm-1");
	pool = test_pool(both, SERVERS, CLIENTS);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvc_pool_close(&pool);
	test_server_kill(&server[0]);
	test_server_kill(&server[1]);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_id_is_reaped_once_whatever_happens),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
