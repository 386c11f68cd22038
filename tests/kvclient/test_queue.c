/* SPDX-License-Identifier: Apache-2.0 */
/* test_queue.c -- queues: every id is reaped once, by its deadline, whatever servers, loops and other threads do; and
 * afterwards nothing touches what was the caller's. */
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
#include <sys/socket.h>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/kvclient.h"
#include "kvclient/queue/queue.h"
#include "loop/sanitize.h"
#include "server.h"

enum { CLIENTS = 3, KEYS = 64, VALUE = 5000, POISON = 0xA5 };
#define PATIENCE_MS 120000
#define PATIENCE_NS 120000000000ull

static struct test_server server[2];
static const struct test_server *const both[] = {&server[0], &server[1]};
static struct kvc_pool *pool;
static char name[KEYS][24];

static struct kvc_call within(uint64_t ms)
{
	return (struct kvc_call){.size = sizeof(struct kvc_call), .timeout_ns = ms * 1000000};
}

static struct kvc_key key_at(unsigned i)
{
	return (struct kvc_key){name[i % KEYS], strlen(name[i % KEYS])};
}

static struct kvc_queue *queue_open(struct kvc_pool *p, uint32_t depth)
{
	struct kvc_queue_options o = {.size = sizeof(o), .depth = depth};
	struct kvc_queue *q = NULL;
	struct kv_error err = {0};
	if (kvc_queue_open(p, &o, &q, &err) < 0)
		fail_msg("kvc_queue_open: %s", err.text);
	return q;
}

/* Wait on the descriptor, as a host does, until something was reaped. */
static struct kvc_completion reap_one(struct kvc_queue *q)
{
	struct pollfd p = {.fd = kvc_queue_fd(q), .events = POLLIN};
	struct kvc_completion c = {0};
	int n;
	while ((n = kvc_reap(q, &c, 1)) == 0)
		if (poll(&p, 1, PATIENCE_MS) != 1)
			fail_msg("no completion came");
	assert_int_equal(n, 1);
	return c;
}

static bool readable(struct kvc_queue *q)
{
	struct pollfd p = {.fd = kvc_queue_fd(q), .events = POLLIN};
	return poll(&p, 1, 0) == 1;
}

static bool poisoned(const uint8_t *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (at[i] != POISON)
			return false;
	return true;
}

static struct kvc_item item_of(unsigned i, void *data)
{
	return (struct kvc_item){.key = key_at(i), .data = data, .len = VALUE, .result = 77};
}

static int setup(void **state)
{
	struct kvc_options o;
	struct kv_error err = {0};
	uint8_t value[VALUE];
	(void)state;
	for (unsigned i = 0; i < KEYS; i++)
		snprintf(name[i], sizeof(name[0]), "value-%u", i);
	test_server_up(&server[0], "queue-0");
	if (!server[0].pid)
		return 0;
	test_server_start(&server[1], "queue-1");
	o = test_options(both, 2, CLIENTS);
	o.peer_timeout_ns = PATIENCE_NS; /* a busy machine loses no connection */
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	for (unsigned i = 0; i < KEYS; i++) {
		struct kvc_call call = within(PATIENCE_MS);
		test_fill(value, VALUE, i);
		assert_int_equal(kvc_put(pool, key_at(i), value, VALUE, &call), 0);
	}
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

/* ---- many threads ---- */

enum { THREADS = 4, SLOTS = 48, ITEMS = 4, IDS = KV_TSAN || KV_ASAN ? 3000 : 12000 };

/* A submission, which its thread fills and the thread that reaps gives back. */
struct slot {
	_Atomic bool out;
	_Atomic int64_t id;
	unsigned use;
	struct kvc_item item[ITEMS];
	char key[ITEMS][32];
	uint8_t data[ITEMS][VALUE];
};

static struct kvc_queue *queue;
static struct slot *slots; /* THREADS * SLOTS */
static atomic_uint wrong, refused;

/* What the slot asks for in this use: by turns each operation, with an item that is not there. */
static unsigned slot_fill(struct slot *s, unsigned t, unsigned use)
{
	unsigned n = 1 + use % ITEMS;
	s->use = use;
	for (unsigned i = 0; i < n; i++) {
		unsigned k = (use * 7 + i) % KEYS;
		bool put = use % 4 == 1, absent = use % 4 == 3 || (use % 4 != 1 && i == 3);
		if (put)
			snprintf(s->key[i], sizeof(s->key[i]), "put-%u-%u", t, k);
		else
			snprintf(s->key[i], sizeof(s->key[i]), absent ? "absent-%u" : "value-%u", k);
		if (!poisoned(s->data[i], VALUE))
			atomic_fetch_add(&wrong, 1);
		if (put)
			test_fill(s->data[i], VALUE, k);
		s->item[i] = (struct kvc_item){
			.key = {s->key[i], strlen(s->key[i])}, .data = s->data[i], .len = VALUE, .result = 77};
	}
	return n;
}

static bool slot_right(const struct slot *s, const struct kvc_completion *c)
{
	unsigned kind = s->use % 4, n = 1 + s->use % ITEMS;
	static const unsigned op[] = {KVC_OP_GET, KVC_OP_PUT, KVC_OP_EXISTS, KVC_OP_DELETE};
	bool miss = kind == 3 || (kind == 0 && n == 4);
	if (c->n != n || c->items != s->item || c->op != op[kind] || c->result != (miss ? -KV_ENOTFOUND : 0))
		return false;
	for (unsigned i = 0; i < n; i++) {
		int64_t want = kind == 0   ? (i == 3 ? -KV_ENOTFOUND : VALUE)
			       : kind == 1 ? 0
			       : kind == 2 ? i != 3
					   : -KV_ENOTFOUND;
		if (s->item[i].result != want)
			return false;
		if (want == VALUE && !test_same(s->data[i], VALUE, (s->use * 7 + i) % KEYS))
			return false;
	}
	return true;
}

static void *submitter(void *arg)
{
	int64_t (*const submit[])(struct kvc_queue *, struct kvc_item *, unsigned, const struct kvc_call *,
				  uint64_t) = {kvc_submit_get, kvc_submit_put, kvc_submit_exists, kvc_submit_delete};
	unsigned t = (unsigned)(uintptr_t)arg;
	for (unsigned use = 0; use < IDS; use++) {
		struct slot *s = &slots[t * SLOTS + use % SLOTS];
		struct kvc_call call = within(PATIENCE_MS);
		unsigned n;
		int64_t id;
		while (atomic_load(&s->out))
			sched_yield();
		n = slot_fill(s, t, use);
		atomic_store(&s->out, true);
		while ((id = submit[use % 4](queue, s->item, n, &call, t * SLOTS + use % SLOTS)) == -KV_EBUSY) {
			atomic_fetch_add(&refused, 1);
			sched_yield();
		}
		if (id <= 0)
			atomic_fetch_add(&wrong, 1);
	}
	return NULL;
}

/* Fewer places than slots, so that some submissions are refused, and fewer in a reap than may wait. */
static void four_threads_submit_and_one_reaps(void **state)
{
	pthread_t thread[THREADS];
	unsigned reaped = 0;
	uint8_t *seen;
	int64_t last = 0;
	(void)state;
	test_server_need(&server[0]);
	seen = calloc(THREADS * SLOTS, 1);
	slots = calloc(THREADS * SLOTS, sizeof(*slots));
	assert_true(slots && seen);
	for (unsigned i = 0; i < THREADS * SLOTS; i++)
		memset(slots[i].data, POISON, sizeof(slots[i].data));
	queue = queue_open(pool, 100);
	for (unsigned t = 0; t < THREADS; t++)
		assert_int_equal(pthread_create(&thread[t], NULL, submitter, (void *)(uintptr_t)t), 0);
	while (reaped < THREADS * IDS) {
		struct pollfd p = {.fd = kvc_queue_fd(queue), .events = POLLIN};
		struct kvc_completion c[7];
		int n;
		if (poll(&p, 1, PATIENCE_MS) != 1)
			fail_msg("%u of %u were reaped, and no more come", reaped, THREADS * IDS);
		n = kvc_reap(queue, c, KV_COUNT(c));
		assert_true(n >= 0);
		for (int i = 0; i < n; i++) {
			struct slot *s = &slots[c[i].tag];
			assert_true(c[i].tag < THREADS * SLOTS && atomic_load(&s->out));
			assert_true(c[i].id > 0 && (int64_t)c[i].id != last);
			last = (int64_t)c[i].id;
			if (!slot_right(s, &c[i]))
				fail_msg("use %u of slot %u ended with %s", s->use, (unsigned)c[i].tag,
					 kvc_errname(c[i].result));
			memset(s->data, POISON, sizeof(s->data));
			memset(s->item, 0, sizeof(s->item));
			atomic_store(&s->out, false);
		}
		reaped += (unsigned)n;
	}
	for (unsigned t = 0; t < THREADS; t++)
		assert_int_equal(pthread_join(thread[t], NULL), 0);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_int_equal(kvc_reap(queue, &(struct kvc_completion){0}, 1), 0);
	assert_int_equal(kvc_queue_close(&queue), 0);
	for (unsigned i = 0; i < THREADS * SLOTS; i++)
		for (unsigned k = 0; k < ITEMS; k++)
			assert_true(poisoned(slots[i].data[k], VALUE));
	free(slots);
	free(seen);
}

/* ---- the descriptor ---- */

static void the_descriptor_is_readable_as_long_as_completions_wait(void **state)
{
	static uint8_t data[8][VALUE];
	struct kvc_item item[8];
	struct kvc_queue *q;
	struct kvc_completion c;
	(void)state;
	test_server_need(&server[0]);
	q = queue_open(pool, 0);
	assert_false(readable(q));
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 8; i++) {
			item[i] = item_of(i, data[i]);
			assert_true(kvc_submit_get(q, &item[i], 1, NULL, i) > 0);
		}
		for (unsigned i = 0; i < 8; i++) {
			c = reap_one(q);
			assert_int_equal(c.result, 0);
			assert_int_equal(c.items[0].result, VALUE);
		}
		while (readable(q)) /* a thread was late to ring */
			assert_int_equal(kvc_reap(q, &c, 1), 0);
	}
	/* All are over, and none was reaped: it stays readable until the last one is. */
	for (unsigned i = 0; i < 8; i++)
		assert_true(kvc_submit_get(q, &item[i], 0, NULL, i) > 0);
	for (unsigned i = 0; i < 8; i++) {
		assert_true(readable(q));
		assert_int_equal(kvc_reap(q, &c, 1), 1);
		assert_int_equal(c.tag, i);
		assert_int_equal(c.n, 0);
	}
	assert_false(readable(q));
	assert_int_equal(kvc_queue_close(&q), 0);
}

/* ---- one call, many items ---- */

static void a_large_batch_keeps_its_places(void **state)
{
	enum { N = 48, LEN = 200000 };
	static uint8_t data[N][LEN];
	static char text[N][24];
	struct kvc_item item[N];
	struct kvc_call call = within(PATIENCE_MS);
	struct kvc_phases phases = {.size = sizeof(phases)};
	const struct kvc_layout unset = {0};
	struct kvc_queue *q;
	(void)state;
	test_server_need(&server[0]);
	q = queue_open(pool, 0);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < N; i++) {
			snprintf(text[i], sizeof(text[i]), "large-%u", i);
			item[i] = (struct kvc_item){.key = {text[i], strlen(text[i])}, .data = data[i], .len = LEN};
			if (round == 0)
				test_fill(data[i], LEN, i);
			else
				memset(data[i], 0, LEN);
		}
		if (round == 0)
			assert_true(kvc_submit_put(q, item, N, &call, 1) > 0);
		else
			assert_true(kvc_submit_get(q, item, N, &call, 2) > 0);
		assert_int_equal(reap_one(q).result, 0);
		for (unsigned i = 0; i < N; i++) {
			assert_int_equal(item[i].result, round ? LEN : 0);
			assert_true(test_same(data[i], LEN, i));
		}
	}
	/* Each has its own result; the code of the whole is that of the first. */
	item[5].key = (struct kvc_key){"missing", 7};
	item[40].len = LEN - 1;
	item[41].layout = &unset;
	call.phases = &phases;
	assert_true(kvc_submit_get(q, item, N, &call, 3) > 0);
	assert_int_equal(reap_one(q).result, -KV_ENOTFOUND);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(item[i].result, i == 5    ? -KV_ENOTFOUND
						 : i == 40 ? -KV_ETOOBIG
						 : i == 41 ? -KV_EINVAL
							   : LEN);
	assert_true(phases.total_ns > 0);
	/* More keys than a window of EXISTS has, of which some are wrong, and a DELETE of them. */
	item[41].layout = NULL;
	item[40].key.len = 0;
	call.phases = NULL;
	assert_true(kvc_submit_exists(q, item, N, &call, 4) > 0);
	assert_int_equal(reap_one(q).result, -KV_EINVAL);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(item[i].result, i == 5 ? 0 : i == 40 ? -KV_EINVAL : 1);
	assert_true(kvc_submit_delete(q, item, N, &call, 5) > 0);
	assert_int_equal(reap_one(q).result, -KV_ENOTFOUND);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(item[i].result, i == 5 ? -KV_ENOTFOUND : i == 40 ? -KV_EINVAL : 0);
	assert_true(kvc_submit_exists(q, item, N, &call, 6) > 0);
	assert_int_equal(reap_one(q).result, -KV_EINVAL);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(item[i].result, i == 40 ? -KV_EINVAL : 0);
	assert_int_equal(kvc_queue_close(&q), 0);
}

static void a_thousand_keys_are_looked_up_at_once(void **state)
{
	enum { N = 1300 };
	static struct kvc_item item[N];
	static char text[N][24];
	struct kvc_call call = within(PATIENCE_MS);
	struct kvc_queue *q;
	(void)state;
	test_server_need(&server[0]);
	q = queue_open(pool, 0);
	for (unsigned i = 0; i < N; i++) {
		snprintf(text[i], sizeof(text[i]), i % 3 ? "value-%u" : "absent-%u", i % 3 ? i % KEYS : i);
		item[i] = (struct kvc_item){.key = {text[i], strlen(text[i])}, .result = 77};
	}
	assert_true(kvc_submit_exists(q, item, N, &call, 0) > 0);
	assert_int_equal(reap_one(q).result, 0);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(item[i].result, i % 3 != 0);
	assert_int_equal(kvc_queue_close(&q), 0);
}

static void a_session_submits_as_others_do(void **state)
{
	static uint8_t data[VALUE];
	struct kvc_item item = item_of(3, data);
	struct kvc_call call = within(PATIENCE_MS);
	struct kvc_session *session = NULL;
	struct kv_error err = {0};
	struct kvc_queue *q;
	(void)state;
	test_server_need(&server[0]);
	q = queue_open(pool, 0);
	assert_int_equal(kvc_session_open(pool, 1, NULL, &session, &err), 0);
	call.session = session;
	assert_true(kvc_submit_get(q, &item, 1, &call, 0) > 0);
	assert_int_equal(reap_one(q).result, 0);
	assert_true(test_same(data, VALUE, 3));
	assert_int_equal(kvc_session_close(pool, &session, 0), 0);
	assert_int_equal(kvc_queue_close(&q), 0);
}

/* ---- servers that are not there ---- */

/* A port where a connection is taken and nobody ever answers. */
static int hole_open(char *entry, size_t cap)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	snprintf(entry, cap, "127.0.0.1:%u", ntohs(at.sin_port));
	return fd;
}

static struct kvc_pool *pool_behind(const char *entry, unsigned threads)
{
	const char *names[] = {entry};
	struct kvc_options o = {.size = sizeof(o),
				.num_clients = 2,
				.num_threads = threads,
				.servers = names,
				.num_servers = 1,
				.provider = test_provider(),
				.connect_timeout_ns = 1000 * PATIENCE_NS,
				.log_level = 0};
	struct kvc_pool *p = NULL;
	struct kv_error err = {0};
	if (kvc_pool_open(&o, &p, &err) < 0)
		fail_msg("kvc_pool_open: %s", err.text);
	return p;
}

static int64_t submit_kind(struct kvc_queue *q, unsigned kind, struct kvc_item *item, unsigned n,
			   const struct kvc_call *call)
{
	switch (kind % 4) {
	case 0:
		return kvc_submit_get(q, item, n, call, kind);
	case 1:
		return kvc_submit_put(q, item, n, call, kind);
	case 2:
		return kvc_submit_exists(q, item, n, call, kind);
	default:
		return kvc_submit_delete(q, item, n, call, kind);
	}
}

static void ids_end_by_their_deadlines_without_any_server(void **state)
{
	static uint8_t data[4][VALUE];
	char entry[64];
	int fd = hole_open(entry, sizeof(entry));
	struct kvc_pool *p = pool_behind(entry, 2);
	struct kvc_queue *q = queue_open(p, 0);
	struct kvc_call call = within(50);
	struct kvc_item item[4];
	unsigned seen = 0;
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		item[i] = item_of(i, data[i]);
		assert_true(submit_kind(q, i, &item[i], 1, &call) > 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		struct kvc_completion c = reap_one(q);
		assert_int_equal(c.result, -KV_ETIMEOUT);
		assert_int_equal(c.items[0].result, -KV_ETIMEOUT);
		seen |= 1u << c.tag;
	}
	assert_int_equal(seen, 15);
	/* Cancelled while it waits for the connection, which would be for very long. */
	call.timeout_ns = 1000 * PATIENCE_NS;
	for (unsigned i = 0; i < 4; i++) {
		int64_t id = submit_kind(q, i, &item[i], 1, &call);
		struct kvc_completion c;
		assert_true(id > 0);
		usleep(i * 1000);
		assert_int_equal(kvc_cancel(q, (uint64_t)id), 0);
		c = reap_one(q);
		assert_int_equal(c.id, id);
		assert_int_equal(c.result, -KV_ECANCELED);
		assert_int_equal(kvc_cancel(q, (uint64_t)id), -KV_ENOTFOUND);
	}
	assert_int_equal(kvc_queue_close(&q), 0);
	kvc_pool_close(&p);
	close(fd);
	/* A port that refuses: the server is down, and says so at once. */
	p = pool_behind(entry, 1);
	q = queue_open(p, 0);
	call = within(PATIENCE_MS);
	for (unsigned i = 0; i < 8; i++) {
		call.flags = i < 4 ? 0 : KVC_DOWN_IS_MISS;
		assert_true(submit_kind(q, i, &item[0], 1, &call) > 0);
		assert_int_equal(reap_one(q).result, i < 4 || i == 5 ? -KV_EPEERDOWN : i == 6 ? 0 : -KV_ENOTFOUND);
		assert_int_equal(item[0].result, i < 4 || i == 5 ? -KV_EPEERDOWN : i == 6 ? 0 : -KV_ENOTFOUND);
	}
	assert_int_equal(kvc_queue_close(&q), 0);
	kvc_pool_close(&p);
}

/* Requests to a server that are not over, of all clients. */
static unsigned requests(struct kvc_pool *p, unsigned server_index)
{
	unsigned n = 0;
	for (unsigned c = 0; c < kvc_num_clients(p); c++) {
		struct kvc_server_info i = {.size = sizeof(i)};
		if (kvc_server_info(p, c, server_index, &i) == 0)
			n += i.inflight + i.queued;
	}
	return n;
}

/* What was submitted is over at the first server, and out at the second, which stands still. */
static void half_wait(struct kvc_pool *p)
{
	while (requests(p, 1) == 0 || requests(p, 0) > 0)
		usleep(1000);
}

/* Every client has every server again. */
static void servers_wait(struct kvc_pool *p)
{
	struct kvc_server_info i;
	test_server_cont(&server[1]); /* if a test that failed has left it */
	for (unsigned c = 0; c < kvc_num_clients(p); c++)
		for (unsigned s = 0; s < 2; s++) {
			do {
				usleep(1000);
				i = (struct kvc_server_info){.size = sizeof(i)};
				assert_int_equal(kvc_server_info(p, c, s, &i), 0);
			} while (i.state != KVC_SERVER_UP || i.links_up < i.links);
		}
}

/* Whether the deadline was enough for the keys of the other server. */
static bool stopped_server_costs(struct kvc_queue *q, uint64_t ms)
{
	static uint8_t data[4][KEYS][VALUE];
	static struct kvc_item item[4][KEYS];
	struct kvc_call call = within(ms);
	bool enough = true;
	servers_wait(pool);
	test_server_stop(&server[1]);
	for (unsigned k = 0; k < 4; k++) {
		for (unsigned i = 0; i < KEYS; i++) {
			item[k][i] = item_of(i, data[k][i]);
			test_fill(data[k][i], VALUE, i);
			if (k == 3) /* nothing of what others look for */
				item[k][i].key = (struct kvc_key){name[i] + 1, strlen(name[i]) - 1};
		}
		assert_true(submit_kind(q, k, item[k], KEYS, &call) > 0);
	}
	for (unsigned k = 0; k < 4; k++) {
		static const int64_t good[] = {VALUE, 0, 1, -KV_ENOTFOUND};
		struct kvc_completion c = reap_one(q);
		unsigned lost = 0;
		for (unsigned i = 0; i < KEYS; i++) {
			int64_t rc = c.items[i].result;
			lost += rc == -KV_ETIMEOUT;
			if (rc != -KV_ETIMEOUT)
				assert_int_equal(rc, good[c.tag]);
		}
		assert_true(lost > 0);
		enough &= lost < KEYS;
		memset(data[c.tag], POISON, sizeof(data[0]));
	}
	test_server_cont(&server[1]);
	/* It writes what it was asked for: nowhere that is the caller's. */
	servers_wait(pool);
	for (unsigned k = 0; k < 4; k++)
		assert_true(poisoned(data[k][0], sizeof(data[k])));
	return enough;
}

static void a_stopped_server_costs_its_own_keys(void **state)
{
	struct kvc_queue *q;
	uint64_t ms = 300;
	(void)state;
	test_server_need(&server[0]);
	q = queue_open(pool, 0);
	while (!stopped_server_costs(q, ms)) /* a slow machine */
		assert_true((ms *= 2) < PATIENCE_MS);
	assert_int_equal(kvc_queue_close(&q), 0);
}

/* ---- items in parts ---- */

enum { LAYERS = 5 };

/* All keys, in parts. */
struct layered {
	uint64_t end[LAYERS];
	struct kvc_arrival arrival[KEYS];
	struct kvc_layout layout[KEYS];
	struct kvc_item item[KEYS];
	uint8_t data[KEYS][VALUE];
};

static void layered_make(struct layered *l)
{
	memset(l, 0, sizeof(*l));
	for (unsigned k = 0; k < LAYERS; k++)
		l->end[k] = (k + 1) * VALUE / LAYERS;
	for (unsigned i = 0; i < KEYS; i++) {
		l->layout[i] = (struct kvc_layout){.size = sizeof(l->layout[i]),
						   .num_parts = LAYERS,
						   .part_ends = l->end,
						   .arrival = &l->arrival[i]};
		l->item[i] = item_of(i, l->data[i]);
		l->item[i].layout = &l->layout[i];
	}
}

/* How many items are there as a whole, with the right bytes. */
static unsigned layered_whole(const struct layered *l)
{
	uint8_t want[VALUE];
	unsigned whole = 0;
	for (unsigned i = 0; i < KEYS; i++) {
		if (kvc_arrival_parts(&l->arrival[i]) < LAYERS)
			continue;
		test_fill(want, VALUE, i);
		assert_memory_equal(l->data[i], want, VALUE);
		whole++;
	}
	return whole;
}

/* The id cannot end, for one of two servers stands still; a host that only waits sees the parts of the other. */
static void the_descriptor_tells_of_parts(void **state)
{
	static struct layered l;
	struct kvc_queue_options o = {.size = sizeof(o), .flags = KVC_QUEUE_PARTS};
	struct kvc_call call = within(1000 * PATIENCE_MS);
	struct kvc_queue *q = NULL;
	struct kvc_completion c;
	struct kv_error err;
	struct pollfd p = {.events = POLLIN};
	(void)state;
	test_server_need(&server[0]);
	assert_int_equal(kvc_queue_open(pool, &o, &q, &err), 0);
	p.fd = kvc_queue_fd(q);
	servers_wait(pool);
	test_server_stop(&server[1]);
	layered_make(&l);
	assert_true(kvc_submit_get(q, l.item, KEYS, &call, 0) > 0);
	do { /* also where all parts are here already */
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		assert_int_equal(kvc_reap(q, &c, 1), 0);
	} while (layered_whole(&l) == 0);
	test_server_cont(&server[1]);
	assert_int_equal(reap_one(q).result, 0);
	assert_int_equal(layered_whole(&l), KEYS);
	assert_int_equal(kvc_queue_close(&q), 0);
}

static void without_the_flag_it_tells_of_completions_alone(void **state)
{
	static struct layered l;
	struct kvc_call call = within(1000 * PATIENCE_MS);
	struct kvc_queue *q;
	(void)state;
	test_server_need(&server[0]);
	q = queue_open(pool, 0);
	servers_wait(pool);
	test_server_stop(&server[1]);
	layered_make(&l);
	assert_true(kvc_submit_get(q, l.item, KEYS, &call, 0) > 0);
	half_wait(pool);
	while (layered_whole(&l) == 0)
		usleep(1000);
	assert_false(readable(q));
	test_server_cont(&server[1]);
	assert_int_equal(reap_one(q).result, 0);
	assert_int_equal(kvc_queue_close(&q), 0);
}

static void what_is_under_way_is_cancelled(void **state)
{
	static uint8_t data[KEYS][VALUE];
	struct kvc_item item[KEYS];
	struct kvc_call call = within(1000 * PATIENCE_MS);
	struct kvc_completion c;
	struct kvc_queue *q;
	(void)state;
	test_server_need(&server[0]);
	q = queue_open(pool, 0);
	for (unsigned kind = 0; kind < 4; kind++) {
		unsigned cancelled = 0;
		int64_t id;
		int rc;
		servers_wait(pool);
		test_server_stop(&server[1]);
		for (unsigned i = 0; i < KEYS; i++) {
			item[i] = item_of(i, data[i]);
			test_fill(data[i], VALUE, i);
			if (kind == 3)
				item[i].key = (struct kvc_key){name[i] + 1, strlen(name[i]) - 1};
		}
		assert_true((id = submit_kind(q, kind, item, KEYS, &call)) > 0);
		half_wait(pool);
		assert_int_equal(kvc_cancel(q, (uint64_t)id), 0);
		rc = kvc_cancel(q, (uint64_t)id); /* under way still, or over by now */
		assert_true(rc == 0 || rc == -KV_ENOTFOUND);
		c = reap_one(q);
		assert_int_equal(c.id, id);
		for (unsigned i = 0; i < KEYS; i++) {
			int64_t result = c.items[i].result;
			cancelled += result == -KV_ECANCELED;
			if (result != -KV_ECANCELED)
				assert_int_equal(result, kind == 0   ? VALUE
							 : kind == 1 ? 0
							 : kind == 2 ? 1
								     : -KV_ENOTFOUND);
		}
		assert_true(cancelled > 0 && cancelled < KEYS);
		memset(data, POISON, sizeof(data));
		test_server_cont(&server[1]);
		servers_wait(pool);
		assert_true(poisoned(data[0], sizeof(data)));
	}
	assert_int_equal(kvc_queue_close(&q), 0);
}

/* ---- a loop that stands still ---- */

static struct {
	atomic_bool hold;
	atomic_uint held;
} stuck;

static void hold_thread(struct kvc_client *c, unsigned w, void *arg)
{
	(void)c, (void)w, (void)arg;
	atomic_fetch_add(&stuck.held, 1);
	while (atomic_load(&stuck.hold))
		usleep(1000);
	atomic_fetch_sub(&stuck.held, 1);
}

static void loops_stick(struct kvc_pool *p, unsigned loops)
{
	atomic_store(&stuck.hold, true);
	for (unsigned i = 0; i < loops; i++)
		assert_int_equal(kvc_spawn(p, i, hold_thread, NULL), 0);
	while (atomic_load(&stuck.held) < loops)
		usleep(1000);
}

static void loops_go_on(void)
{
	atomic_store(&stuck.hold, false);
	while (atomic_load(&stuck.held) > 0)
		usleep(1000);
}

static struct kvc_pool *one_loop(unsigned clients)
{
	struct kvc_options o = test_options(both, 2, clients);
	struct kvc_pool *p = NULL;
	struct kv_error err = {0};
	test_server_cont(&server[1]);
	o.num_threads = 1;
	o.peer_timeout_ns = PATIENCE_NS;
	assert_int_equal(kvc_pool_open(&o, &p, &err), 0);
	return p;
}

static void what_no_loop_comes_to_ends_all_the_same(void **state)
{
	static uint8_t data[4][VALUE];
	struct kvc_item item[4];
	struct kvc_call soon = within(30), later = within(1000 * PATIENCE_MS);
	struct kvc_completion c;
	struct kvc_pool *p;
	struct kvc_queue *q;
	int64_t id;
	(void)state;
	test_server_need(&server[0]);
	p = one_loop(1);
	q = queue_open(p, 4);
	memset(data, POISON, sizeof(data));
	loops_stick(p, 1);
	for (unsigned i = 0; i < 4; i++)
		item[i] = item_of(i, data[i]);
	/* Its deadline passes: the descriptor tells. */
	assert_true(kvc_submit_get(q, &item[0], 1, &later, 0) > 0);
	assert_true((id = kvc_submit_get(q, &item[1], 1, &soon, 1)) > 0);
	c = reap_one(q);
	assert_int_equal(c.id, id);
	assert_int_equal(c.result, -KV_ETIMEOUT);
	/* It is cancelled. */
	assert_true((id = kvc_submit_put(q, &item[2], 1, &later, 2)) > 0);
	assert_int_equal(kvc_cancel(q, (uint64_t)id), 0);
	assert_int_equal(kvc_cancel(q, (uint64_t)id), -KV_ENOTFOUND);
	c = reap_one(q);
	assert_int_equal(c.id, id);
	assert_int_equal(c.result, -KV_ECANCELED);
	assert_int_equal(item[2].result, -KV_ECANCELED);
	assert_int_equal(kvc_cancel(q, (uint64_t)id), -KV_ENOTFOUND);
	assert_int_equal(kvc_cancel(q, 0), -KV_ENOTFOUND);
	assert_int_equal(kvc_cancel(q, UINT64_MAX), -KV_ENOTFOUND);
	/* The loop still has both: they take places until it has seen them. */
	assert_true((id = kvc_submit_get(q, &item[3], 1, &later, 3)) > 0);
	assert_int_equal(kvc_submit_get(q, &item[1], 1, &later, 4), -KV_EBUSY);
	assert_int_equal(kvc_reap(q, &c, 1), 0);
	loops_go_on();
	for (unsigned i = 0; i < 2; i++) {
		c = reap_one(q);
		assert_true(c.tag == 0 || c.tag == 3);
		assert_int_equal(c.result, 0);
		assert_true(test_same(data[c.tag], VALUE, (unsigned)c.tag));
	}
	assert_true(poisoned(data[1], VALUE) && poisoned(data[2], VALUE));
	/* All four places are free again. */
	for (unsigned i = 0; i < 4; i++)
		assert_true(kvc_submit_get(q, &item[i], 1, &later, i) > 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(reap_one(q).result, 0);
	assert_int_equal(kvc_queue_close(&q), 0);
	kvc_pool_close(&p);
}

/* ---- a call of kvc_reap is short ---- */

enum { DEEP = 1 << KC_QUEUE_DEPTH_BITS, STUCK = 4000 };

/* Until all ids have ended; each is given once. Calls that find none are those that go on looking. */
static unsigned reap_all(struct kvc_queue *q, unsigned ids, int result, bool in_order)
{
	struct pollfd fd = {.fd = kvc_queue_fd(q), .events = POLLIN};
	uint8_t *seen = calloc(ids, 1);
	unsigned calls = 0, next = 0;
	for (unsigned left = ids; left > 0; calls++) {
		struct kvc_completion c[64];
		uint32_t looked = q->looking ? q->looked : 0;
		int n;
		assert_int_equal(poll(&fd, 1, 10000), 1);
		n = kvc_reap(q, c, KV_COUNT(c));
		assert_in_range(q->looked - (q->looking ? looked : q->looked), 0, KC_REAP_STEPS);
		for (int i = 0; i < n; i++, left--, next++) {
			assert_true(c[i].tag < ids && !seen[c[i].tag] && c[i].result == result);
			assert_true(!in_order || c[i].tag == next);
			seen[c[i].tag] = 1;
		}
	}
	free(seen);
	return calls;
}

/* Those that have ended are turned round some at a time, in their order. */
static void many_completions_are_found_in_steps(void **state)
{
	enum { EXTRA = 10 };
	struct kvc_pool *p;
	struct kvc_queue *q;
	(void)state;
	test_server_need(&server[0]);
	p = one_loop(1);
	q = queue_open(p, DEEP);
	for (unsigned i = 0; i < DEEP; i++)
		assert_true(kvc_submit_get(q, NULL, 0, NULL, i) > 0);
	assert_int_equal(kvc_submit_get(q, NULL, 0, NULL, 0), -KV_EBUSY);
	assert_in_range(reap_all(q, DEEP, 0, true), DEEP / 64 + DEEP / KC_REAP_STEPS - 2,
			DEEP / 64 + DEEP / KC_REAP_STEPS + EXTRA);
	for (unsigned i = 0; i < DEEP; i++)
		assert_true(kvc_submit_get(q, NULL, 0, NULL, i) > 0);
	assert_int_equal(kvc_queue_close(&q), DEEP);
	kvc_pool_close(&p);
}

/* Deadlines that are over are found some at a time; those of later submissions, too. */
static void many_deadlines_are_found_in_steps(void **state)
{
	static struct kvc_item item[STUCK];
	struct kvc_call soon = within(30);
	struct kvc_pool *p;
	struct kvc_queue *q;
	unsigned calls;
	(void)state;
	test_server_need(&server[0]);
	p = one_loop(1);
	q = queue_open(p, DEEP);
	loops_stick(p, 1);
	for (unsigned i = 0; i < STUCK; i++) {
		item[i] = item_of(i % KEYS, NULL);
		assert_true(kvc_submit_delete(q, &item[i], 1, &soon, i) > 0);
	}
	usleep(40 * 1000);
	calls = reap_all(q, STUCK, -KV_ETIMEOUT, false);
	assert_true(calls >= STUCK / 64);
	for (unsigned i = 0; i < STUCK; i++)
		assert_int_equal(item[i].result, -KV_ETIMEOUT);
	loops_go_on();
	assert_int_equal(kvc_queue_close(&q), 0);
	kvc_pool_close(&p);
}

static void a_queue_that_is_full_refuses_and_recovers(void **state)
{
	struct kvc_queue *q;
	struct kvc_completion c[8];
	(void)state;
	test_server_need(&server[0]);
	q = queue_open(pool, 3);
	for (unsigned round = 0; round < 1000; round++) {
		for (unsigned i = 0; i < 3; i++)
			assert_true(kvc_submit_get(q, NULL, 0, NULL, i) > 0);
		assert_int_equal(kvc_submit_get(q, NULL, 0, NULL, 9), -KV_EBUSY);
		assert_int_equal(kvc_reap(q, c, 8), 3);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(c[i].tag, i);
	}
	assert_int_equal(kvc_queue_close(&q), 0);
}

static uint32_t load_of(const struct kvc_queue *q, unsigned lane)
{
	return atomic_load(&q->load[lane]);
}

static void loads_are(const struct kvc_queue *q, uint32_t first, uint32_t second, uint32_t third)
{
	assert_int_equal(load_of(q, 0), first);
	assert_int_equal(load_of(q, 1), second);
	assert_int_equal(load_of(q, 2), third);
}

/* What was reaped of a client goes to that client: its requests leave together, and so do their answers. */
static void a_call_goes_to_the_client_with_the_least_to_do(void **state)
{
	static uint8_t data[16][VALUE];
	struct kvc_call later = within(1000 * PATIENCE_MS);
	struct kvc_item item[16];
	struct kvc_pool *p;
	struct kvc_queue *q;
	int64_t id[16];
	unsigned ended = 0;
	(void)state;
	test_server_need(&server[0]);
	p = one_loop(3);
	q = queue_open(p, 16);
	loops_stick(p, 1);
	for (unsigned i = 0; i < 16; i++)
		item[i] = item_of(i, data[i]);
	for (unsigned i = 0; i < 9; i++)
		assert_true((id[i] = kvc_submit_get(q, &item[i], 1, &later, i)) > 0);
	loads_are(q, 3, 3, 3);
	for (unsigned i = 0; i < 9 && ended < 2; i++) {
		if (atomic_load(&q->entry[id[i] & (q->depth - 1)].part[0].lane) != 1)
			continue;
		assert_int_equal(kvc_cancel(q, (uint64_t)id[i]), 0);
		assert_int_equal(reap_one(q).tag, i);
		ended++;
	}
	loads_are(q, 3, 1, 3);
	/* A client that misses a server is the last choice: its calls end soon, and it would get all. */
	p->loads.down[1] = 1;
	assert_true((id[12] = kvc_submit_get(q, &item[15], 1, &later, 12)) > 0);
	assert_int_equal(kvc_cancel(q, (uint64_t)id[12]), 0);
	assert_int_equal(load_of(q, 1), 1);
	p->loads.down[1] = 0;
	assert_int_equal(reap_one(q).tag, 12);
	assert_true(kvc_submit_get(q, &item[9], 1, &later, 9) > 0);
	assert_true(kvc_submit_get(q, &item[10], 1, &later, 10) > 0);
	loads_are(q, 3, 3, 3);
	/* A batch is as much as its keys. */
	assert_true((id[11] = kvc_submit_get(q, &item[11], 4, &later, 11)) > 0);
	assert_int_equal(load_of(q, 0) + load_of(q, 1) + load_of(q, 2), 13);
	assert_int_equal(KV_MAX(KV_MAX(load_of(q, 0), load_of(q, 1)), load_of(q, 2)), 7);
	loops_go_on();
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(reap_one(q).result, 0);
	loads_are(q, 0, 0, 0);
	assert_int_equal(kvc_queue_close(&q), 0);
	kvc_pool_close(&p);
}

/* A call that its loop takes no more is no load. Each id has an item of its own. */
static void what_is_refused_is_no_load(void **state)
{
	static struct kvc_item item[1u << KC_QUEUE_DEPTH_BITS];
	struct kvc_call later = within(1000 * PATIENCE_MS);
	struct kvc_pool *p;
	struct kvc_queue *q;
	uint32_t taken = 0;
	int64_t rc;
	(void)state;
	test_server_need(&server[0]);
	p = one_loop(3);
	q = queue_open(p, 1u << KC_QUEUE_DEPTH_BITS);
	loops_stick(p, 1);
	do {
		assert_true(taken < KV_COUNT(item)); /* it is the loop that refuses */
		item[taken] = item_of(taken, NULL);
		rc = kvc_submit_exists(q, &item[taken], 1, &later, 0);
	} while (rc > 0 && ++taken);
	assert_int_equal(rc, -KV_EBUSY);
	assert_int_equal(load_of(q, 0) + load_of(q, 1) + load_of(q, 2), taken);
	loops_go_on();
	assert_true(kvc_queue_close(&q) >= 0);
	kvc_pool_close(&p);
}

static void half_of_the_ids_are_for_calls_that_are_not_in_the_background(void **state)
{
	static const struct kvc_call background = {.size = sizeof(background), .flags = KVC_BACKGROUND};
	struct kvc_queue *q;
	struct kvc_completion c[8];
	(void)state;
	test_server_need(&server[0]);
	q = queue_open(pool, 5);
	for (unsigned round = 0; round < 1000; round++) {
		assert_true(kvc_submit_put(q, NULL, 0, &background, 0) > 0);
		assert_true(kvc_submit_put(q, NULL, 0, &background, 1) > 0);
		assert_int_equal(kvc_submit_put(q, NULL, 0, &background, 9), -KV_EBUSY);
		for (unsigned i = 2; i < 5; i++)
			assert_true(kvc_submit_get(q, NULL, 0, NULL, i) > 0);
		assert_int_equal(kvc_submit_get(q, NULL, 0, NULL, 9), -KV_EBUSY);
		assert_int_equal(kvc_reap(q, c, 8), 5);
		for (unsigned i = 0; i < 5; i++) /* others may have all; those in the background are refused then */
			assert_true(kvc_submit_get(q, NULL, 0, NULL, i) > 0);
		assert_int_equal(kvc_submit_put(q, NULL, 0, &background, 9), -KV_EBUSY);
		assert_int_equal(kvc_reap(q, c, 8), 5);
	}
	assert_int_equal(kvc_queue_close(&q), 0);
	q = queue_open(pool, 1); /* of one there is no half */
	assert_true(kvc_submit_put(q, NULL, 0, &background, 0) > 0);
	assert_int_equal(kvc_queue_close(&q), 1);
}

/* ---- the end ---- */

enum { MANY = 300 };
static uint8_t many_data[MANY][VALUE];
static struct kvc_item many[MANY];

static void many_submit(struct kvc_queue *q)
{
	struct kvc_call call = within(1000 * PATIENCE_MS);
	for (unsigned i = 0; i < MANY; i++) {
		many[i] = item_of(i, many_data[i]);
		assert_true(kvc_submit_get(q, &many[i], 1, &call, i) > 0);
	}
}

/* Coroutines are fewer than ids: some are under way, some wait. */
static void closing_a_queue_ends_what_is_under_way(void **state)
{
	struct kvc_queue *q;
	struct kvc_call call = within(PATIENCE_MS);
	uint8_t got[VALUE];
	unsigned cancelled = 0;
	(void)state;
	test_server_need(&server[0]);
	q = queue_open(pool, 0);
	servers_wait(pool);
	test_server_stop(&server[1]);
	many_submit(q);
	half_wait(pool);
	(void)reap_one(q); /* of the other server */
	assert_int_equal(kvc_queue_close(&q), MANY - 1);
	assert_null(q);
	for (unsigned i = 0; i < MANY; i++) {
		assert_true(many[i].result == VALUE || many[i].result == -KV_ECANCELED);
		cancelled += many[i].result < 0;
	}
	assert_true(cancelled > 0);
	memset(many_data, POISON, sizeof(many_data));
	test_server_cont(&server[1]);
	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(kvc_get(pool, key_at(i), got, VALUE, &call), VALUE);
	assert_true(poisoned(many_data[0], sizeof(many_data)));
	assert_int_equal(kvc_queue_close(&q), 0);
	assert_int_equal(kvc_queue_close(NULL), 0);
}

/* Parts that no loop comes to are given up at once; the loop finds them when it goes on. */
static void a_queue_is_closed_while_a_loop_stands_still(void **state)
{
	struct kvc_pool *p;
	struct kvc_queue *q;
	(void)state;
	test_server_need(&server[0]);
	p = one_loop(1);
	q = queue_open(p, 0);
	loops_stick(p, 1);
	many_submit(q);
	assert_int_equal(kvc_queue_close(&q), MANY);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(many[i].result, -KV_ECANCELED);
	memset(many_data, POISON, sizeof(many_data));
	memset(many, 0, sizeof(many));
	loops_go_on();
	kvc_pool_close(&p);
	assert_true(poisoned(many_data[0], sizeof(many_data)));
}

static void closing_the_pool_ends_every_id(void **state)
{
	struct kvc_completion c;
	struct kvc_pool *p;
	struct kvc_queue *q[2];
	unsigned closed = 0;
	(void)state;
	test_server_need(&server[0]);
	p = one_loop(1);
	q[0] = queue_open(p, 0);
	q[1] = queue_open(p, 0);
	test_server_stop(&server[1]);
	many_submit(q[0]);
	kvc_pool_close(&p);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(kvc_reap(q[0], &c, 1), 1);
		assert_true(c.result == 0 || c.result == -KV_ECLOSED);
		assert_int_equal(c.items[0].result, c.result ? c.result : VALUE);
		closed += c.result < 0;
	}
	assert_true(closed > 0);
	assert_int_equal(kvc_reap(q[0], &c, 1), 0);
	assert_int_equal(kvc_submit_get(q[0], many, 1, NULL, 0), -KV_ECLOSED);
	assert_int_equal(kvc_cancel(q[0], c.id), -KV_ECLOSED);
	assert_int_equal(kvc_queue_close(&q[0]), 0);
	assert_int_equal(kvc_queue_close(&q[1]), 0);
	test_server_cont(&server[1]);
}

/* ---- what is not right ---- */

static void what_is_wrong_is_refused(void **state)
{
	struct kvc_queue_options o = {.size = sizeof(o), .depth = 65537};
	struct kvc_call bad = {.size = 1}, flags = {.size = sizeof(flags), .flags = KVC_OPEN_WAIT};
	struct kvc_item item = {.layout = NULL};
	struct kvc_completion c;
	struct kvc_queue *q = NULL;
	(void)state;
	test_server_need(&server[0]);
	assert_int_equal(kvc_queue_open(NULL, NULL, &q, NULL), -KV_EINVAL);
	assert_int_equal(kvc_queue_open(pool, NULL, NULL, NULL), -KV_EINVAL);
	assert_int_equal(kvc_queue_open(pool, &o, &q, NULL), -KV_EINVAL);
	o = (struct kvc_queue_options){.size = sizeof(o), .flags = KVC_QUEUE_PARTS << 1};
	assert_int_equal(kvc_queue_open(pool, &o, &q, NULL), -KV_EINVAL);
	assert_int_equal(kvc_queue_open(pool, NULL, &q, NULL), 0);
	assert_int_equal(kvc_submit_get(NULL, &item, 1, NULL, 0), -KV_EINVAL);
	assert_int_equal(kvc_submit_get(q, NULL, 1, NULL, 0), -KV_EINVAL);
	assert_int_equal(kvc_submit_get(q, &item, 1, &bad, 0), -KV_EINVAL);
	assert_int_equal(kvc_submit_get(q, &item, 1, &flags, 0), -KV_EINVAL);
	assert_int_equal(kvc_reap(NULL, &c, 1), -KV_EINVAL);
	assert_int_equal(kvc_reap(q, NULL, 1), -KV_EINVAL);
	assert_int_equal(kvc_reap(q, NULL, 0), 0);
	assert_int_equal(kvc_cancel(NULL, 1), -KV_EINVAL);
	assert_int_equal(kvc_queue_fd(NULL), -KV_EINVAL);
	for (unsigned i = 0; i < 4; i++) {
		assert_true(submit_kind(q, i, &item, 1, NULL) > 0);
		assert_int_equal(reap_one(q).result, -KV_EINVAL);
	}
	assert_int_equal(kvc_queue_close(&q), 0);
}

static void a_child_of_fork_leaves_the_queue_alone(void **state)
{
	static uint8_t data[VALUE];
	struct kvc_item item = item_of(1, data);
	struct kvc_completion c;
	struct kvc_queue *q;
	int status = 0;
	pid_t pid;
	(void)state;
	test_server_need(&server[0]);
	q = queue_open(pool, 0);
	assert_true(kvc_submit_get(q, &item, 1, NULL, 7) > 0);
	pid = fork();
	if (pid == 0) {
		struct kvc_queue *mine = q, *other;
		bool good = kvc_submit_get(q, &item, 1, NULL, 0) == -KV_ECLOSED && kvc_reap(q, &c, 1) == -KV_ECLOSED &&
			    kvc_cancel(q, 1) == -KV_ECLOSED && kvc_queue_fd(q) == -KV_ECLOSED &&
			    kvc_queue_open(pool, NULL, &other, NULL) == -KV_ECLOSED && kvc_queue_close(&mine) == 0 &&
			    !mine;
		_exit(good ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	c = reap_one(q);
	assert_int_equal(c.tag, 7);
	assert_int_equal(c.result, 0);
	assert_true(test_same(data, VALUE, 1));
	assert_int_equal(kvc_queue_close(&q), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(four_threads_submit_and_one_reaps),
		cmocka_unit_test(the_descriptor_is_readable_as_long_as_completions_wait),
		cmocka_unit_test(a_large_batch_keeps_its_places),
		cmocka_unit_test(a_thousand_keys_are_looked_up_at_once),
		cmocka_unit_test(a_session_submits_as_others_do),
		cmocka_unit_test(ids_end_by_their_deadlines_without_any_server),
		cmocka_unit_test(a_stopped_server_costs_its_own_keys),
		cmocka_unit_test(the_descriptor_tells_of_parts),
		cmocka_unit_test(without_the_flag_it_tells_of_completions_alone),
		cmocka_unit_test(what_is_under_way_is_cancelled),
		cmocka_unit_test(what_no_loop_comes_to_ends_all_the_same),
		cmocka_unit_test(many_completions_are_found_in_steps),
		cmocka_unit_test(many_deadlines_are_found_in_steps),
		cmocka_unit_test(a_queue_that_is_full_refuses_and_recovers),
		cmocka_unit_test(a_call_goes_to_the_client_with_the_least_to_do),
		cmocka_unit_test(what_is_refused_is_no_load),
		cmocka_unit_test(half_of_the_ids_are_for_calls_that_are_not_in_the_background),
		cmocka_unit_test(closing_a_queue_ends_what_is_under_way),
		cmocka_unit_test(a_queue_is_closed_while_a_loop_stands_still),
		cmocka_unit_test(closing_the_pool_ends_every_id),
		cmocka_unit_test(what_is_wrong_is_refused),
		cmocka_unit_test(a_child_of_fork_leaves_the_queue_alone),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
