/* SPDX-License-Identifier: Apache-2.0 */
/* test_channel.c -- frames, releases and bells of a channel. Tests with two threads use one mapping for both sides, so
 * that ThreadSanitizer sees that they meet. */
#include "tests/local/pair.h"
#include "tests/short.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE = 64, BELL_MS = 20000, THREADS = 4 };

/* ---- one mapping for both sides ---- */

static bool one_mapping;
static void *mapping;
static unsigned mapped;

int __real_kv_memfd_map(int fd, uint64_t len, bool writable, void **out, struct kv_error *err);
int __wrap_kv_memfd_map(int fd, uint64_t len, bool writable, void **out, struct kv_error *err);
int __wrap_kv_memfd_map(int fd, uint64_t len, bool writable, void **out, struct kv_error *err)
{
	if (one_mapping && mapped > 0) {
		mapped++;
		*out = mapping;
		return 0;
	}
	int rc = __real_kv_memfd_map(fd, len, writable, out, err);
	if (rc == 0 && one_mapping) {
		mapping = *out;
		mapped = 1;
	}
	return rc;
}

int __real_munmap(void *base, size_t len);
int __wrap_munmap(void *base, size_t len);
int __wrap_munmap(void *base, size_t len)
{
	if (mapped > 0 && base == mapping && --mapped > 0)
		return 0;
	return __real_munmap(base, len);
}

/* ---- bells without system calls, of the server alone: a sleep lasts so short that many fit in a test ---- */

static bool quick_bells;
static _Atomic unsigned bells;

ssize_t __real_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
	if (!quick_bells)
		return __real_send(fd, buf, len, flags);
	atomic_fetch_add(&bells, 1);
	return 1;
}

ssize_t __real_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
	unsigned n;
	if (!quick_bells)
		return __real_recv(fd, buf, len, flags);
	n = atomic_exchange(&bells, 0);
	errno = EAGAIN;
	return n ? (ssize_t)n : -1;
}

static struct pair p;

static int set_up(void **state)
{
	one_mapping = *state != NULL;
	quick_bells = false;
	p = pair_make();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pair_close(&p);
	return 0;
}

/* A frame whose number and length its bytes show. */
static uint32_t frame_fill(uint8_t *buf, uint64_t number, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		buf[i] = (uint8_t)(number * 31 + i * 7 + len);
	return len;
}

static bool frame_is(const uint8_t *buf, uint32_t len, uint64_t number, uint32_t wanted_len)
{
	uint8_t wanted[KV_MSG_MAX];
	frame_fill(wanted, number, wanted_len);
	return len == wanted_len && memcmp(buf, wanted, len) == 0;
}

static uint32_t random_len(struct kv_prng *prng)
{
	return 1 + (uint32_t)kv_prng_below(prng, kv_prng_below(prng, 4) ? 200 : KV_MSG_MAX);
}

/* ---- frames ---- */

static void frames_arrive_whole_and_in_order(void **state)
{
	enum { ROUNDS = 20000, AHEAD = 24 };
	struct kv_prng prng = check_seed();
	(void)state;
	for (unsigned way = 0; way < 2; way++) {
		struct local_channel *from = way ? p.client : p.server, *to = way ? p.server : p.client;
		uint64_t sent = 0, got = 0;
		uint32_t lens[AHEAD], len;
		uint8_t buf[KV_MSG_MAX];
		for (unsigned i = 0; i < ROUNDS; i++) {
			if (sent - got < AHEAD && kv_prng_below(&prng, 2)) {
				len = lens[sent % AHEAD] = random_len(&prng);
				assert_int_equal(local_send(from, buf, frame_fill(buf, sent, len)), 0);
				sent++;
			} else if (got < sent) {
				assert_int_equal(local_receive(to, buf, &len), 1);
				assert_true(frame_is(buf, len, got, lens[got % AHEAD]));
				got++;
			} else {
				assert_int_equal(local_receive(to, buf, &len), 0);
			}
		}
	}
}

static void a_full_ring_is_busy_until_it_is_read(void **state)
{
	uint8_t buf[KV_MSG_MAX] = {0};
	uint32_t len;
	unsigned n = 0, again = 0;
	(void)state;
	while (local_send(p.client, buf, KV_MSG_MAX) == 0)
		n++;
	assert_int_equal(n, (LOCAL_RING_BYTES - LINE) / (KV_MSG_MAX + LINE));
	assert_int_equal(local_send(p.client, buf, KV_MSG_MAX), -KV_EBUSY);
	assert_int_equal(local_receive(p.server, buf, &len), 1);
	assert_int_equal(local_send(p.client, buf, KV_MSG_MAX), 0);
	assert_int_equal(local_send(p.client, buf, KV_MSG_MAX), -KV_EBUSY);
	while (local_receive(p.server, buf, &len) == 1)
		again++;
	assert_int_equal(again, n);
	/* The other direction has a ring of its own. */
	assert_int_equal(local_send(p.server, buf, 1), 0);
}

static void the_smallest_frames_fill_it(void **state)
{
	uint8_t buf[KV_MSG_MAX] = {0};
	uint32_t len;
	unsigned n = 0;
	(void)state;
	while (local_send(p.server, buf, 1) == 0)
		n++;
	assert_int_equal(n, LOCAL_RING_BYTES / LINE - 1);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(local_receive(p.client, buf, &len), 1);
	assert_int_equal(local_receive(p.client, buf, &len), 0);
}

/* ---- bells ---- */

static void only_a_sleeper_is_rung_and_once(void **state)
{
	uint8_t buf[KV_MSG_MAX] = {0};
	uint32_t len;
	(void)state;
	assert_int_equal(local_send(p.client, buf, 8), 0);
	assert_false(bell_rang(p.server));
	assert_int_equal(local_sleep(p.server), -EAGAIN);
	assert_int_equal(local_receive(p.server, buf, &len), 1);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(local_sleep(p.server), 0);
		assert_false(bell_rang(p.server));
		assert_int_equal(local_send(p.client, buf, 8), 0);
		assert_int_equal(local_send(p.client, buf, 8), 0);
		assert_true(bell_rang(p.server));
		local_wake(p.server);
		assert_false(bell_rang(p.server));
		assert_int_equal(local_receive(p.server, buf, &len), 1);
		assert_int_equal(local_receive(p.server, buf, &len), 1);
		/* Awake, it is not rung. */
		assert_int_equal(local_send(p.client, buf, 8), 0);
		assert_false(bell_rang(p.server));
		assert_int_equal(local_receive(p.server, buf, &len), 1);
	}
	local_wake(p.server);
	local_wake(p.server);
	assert_int_equal(local_sleep(p.server), 0);
	assert_int_equal(local_sleep(p.server), 0);
	local_wake(p.server);
}

static void a_sleeper_is_rung_for_room(void **state)
{
	uint8_t buf[KV_MSG_MAX] = {0};
	uint32_t len;
	(void)state;
	while (local_send(p.server, buf, 1000) == 0)
		;
	assert_int_equal(local_sleep(p.server), 0);
	assert_int_equal(local_receive(p.client, buf, &len), 1);
	local_wake(p.server);
	assert_int_equal(local_sleep(p.server), -EAGAIN);
	assert_int_equal(local_send(p.server, buf, 1000), 0);
	assert_int_equal(local_send(p.server, buf, 1000), -KV_EBUSY);
	assert_int_equal(local_sleep(p.server), 0);
	while (local_receive(p.client, buf, &len) == 1)
		;
	assert_true(bell_rang(p.server));
	local_wake(p.server);
	assert_int_equal(local_send(p.server, buf, 1000), 0);
	/* It awaits no room any more. */
	assert_int_equal(local_sleep(p.server), 0);
	assert_int_equal(local_receive(p.client, buf, &len), 1);
	assert_int_equal(local_receive(p.client, buf, &len), 0);
	assert_false(bell_rang(p.server));
	local_wake(p.server);
}

/* A ringer that comes late: its byte arrives when nobody waits for it. */
static void a_late_bell_is_heard_in_the_end(void **state)
{
	uint8_t buf[KV_MSG_MAX] = {0};
	uint32_t len;
	unsigned wakes = 0;
	(void)state;
	assert_int_equal(local_sleep(p.server), 0);
	assert_int_equal(local_send(p.client, buf, 8), 0);
	local_wake(p.server);
	assert_int_equal(local_receive(p.server, buf, &len), 1);
	assert_int_equal(write(local_wait_fd(p.client), "xyz", 3), 3);
	assert_true(bell_rang(p.server));
	while (bell_rang(p.server) && wakes++ < 100) {
		assert_int_equal(local_sleep(p.server), 0);
		local_wake(p.server);
	}
	assert_in_range(wakes, 1, 64);
}

static void the_end_of_the_other_side_is_noticed_after_its_frames(void **state)
{
	uint8_t buf[KV_MSG_MAX] = {0};
	uint32_t len;
	(void)state;
	assert_int_equal(local_send(p.client, buf, 5), 0);
	local_channel_close(&p.client);
	assert_true(bell_rang(p.server));
	assert_int_equal(local_receive(p.server, buf, &len), 1);
	assert_int_equal(len, 5);
	for (unsigned i = 0; local_receive(p.server, buf, &len) == 0; i++) {
		assert_true(i < 100);
		(void)local_sleep(p.server);
		local_wake(p.server);
	}
	assert_int_equal(local_receive(p.server, buf, &len), -KV_EPEERDOWN);
	assert_int_equal(local_send(p.server, buf, 5), -KV_EPEERDOWN);
	assert_int_equal(local_sleep(p.server), -EAGAIN);
}

/* ---- releases ---- */

static void every_lease_may_be_out_and_comes_back_once(void **state)
{
	uint64_t lease;
	(void)state;
	for (unsigned lap = 0; lap < 3; lap++) {
		for (uint64_t i = 0; i < LOCAL_LEASES_MAX; i++)
			local_release(p.client, i * lap);
		for (uint64_t i = 0; i < LOCAL_LEASES_MAX; i++) {
			assert_int_equal(local_released(p.server, &lease), 1);
			assert_int_equal(lease, i * lap);
		}
		assert_int_equal(local_released(p.server, &lease), 0);
	}
}

static void a_release_rings_nobody_and_keeps_the_server_awake(void **state)
{
	uint64_t lease;
	(void)state;
	assert_int_equal(local_sleep(p.server), 0);
	local_release(p.client, 7);
	assert_false(bell_rang(p.server));
	local_wake(p.server);
	assert_int_equal(local_sleep(p.server), -EAGAIN);
	assert_int_equal(local_released(p.server, &lease), 1);
	assert_int_equal(lease, 7);
	assert_int_equal(local_sleep(p.server), 0);
	local_wake(p.server);
}

enum { RELEASES = 50000, OUT_MAX = 4096 };
static _Atomic unsigned out_now;

static void *releasing_thread(void *arg)
{
	uint64_t first = (uint64_t)(uintptr_t)arg * RELEASES;
	for (uint64_t i = 0; i < RELEASES; i++) {
		while (atomic_fetch_add(&out_now, 1) >= OUT_MAX) {
			atomic_fetch_sub(&out_now, 1);
			sched_yield();
		}
		local_release(p.client, first + i);
	}
	return NULL;
}

static void any_thread_releases(void **state)
{
	static uint8_t seen[THREADS * RELEASES];
	pthread_t thread[THREADS];
	uint64_t lease;
	(void)state;
	memset(seen, 0, sizeof(seen));
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, releasing_thread, (void *)i), 0);
	for (unsigned n = 0; n < THREADS * RELEASES;) {
		if (local_released(p.server, &lease) == 0) {
			sched_yield();
			continue;
		}
		assert_true(lease < sizeof(seen));
		assert_int_equal(seen[lease]++, 0);
		atomic_fetch_sub(&out_now, 1);
		n++;
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(local_released(p.server, &lease), 0);
}

/* ---- two threads ---- */

/* Sleep until the bell rings. False: it never did. */
static bool nap(struct local_channel *ch)
{
	struct pollfd bell = {.fd = local_wait_fd(ch), .events = POLLIN};
	bool rang = true;
	if (local_sleep(ch) == 0)
		rang = poll(&bell, 1, BELL_MS) == 1;
	local_wake(ch);
	return rang;
}

struct flood {
	struct local_channel *ch;
	uint64_t seed, frames;
	const char *failure; /* NULL: none */
};

/* Send and receive frames of random lengths, and sleep whenever neither is possible. */
static void *flood_thread(void *arg)
{
	struct flood *f = arg;
	struct kv_prng out_lens, in_lens, whims;
	uint8_t buf[KV_MSG_MAX];
	uint64_t sent = 0, got = 0;
	uint32_t len, next = 0;
	kv_prng_seed(&out_lens, f->seed);
	kv_prng_seed(&in_lens, f->seed);
	kv_prng_seed(&whims, f->seed + 1 + (f->ch == p.client));
	while ((sent < f->frames || got < f->frames) && !f->failure) {
		unsigned done = 0;
		for (uint64_t n = kv_prng_below(&whims, 40); n > 0 && sent < f->frames; n--) {
			next = next ? next : random_len(&out_lens);
			int rc = local_send(f->ch, buf, frame_fill(buf, sent, next));
			if (rc == -KV_EBUSY)
				break;
			if (rc)
				f->failure = "send";
			next = 0;
			sent++;
			done++;
		}
		for (uint64_t n = kv_prng_below(&whims, 40); n > 0 && local_receive(f->ch, buf, &len) == 1; n--) {
			if (!frame_is(buf, len, got, random_len(&in_lens)))
				f->failure = "another frame came";
			got++;
			done++;
		}
		/* With frames left to send and room for them there is no reason to sleep. */
		if (!done && (sent == f->frames || next) && !nap(f->ch))
			f->failure = "no bell";
	}
	return NULL;
}

static void two_threads_lose_no_frame_and_no_bell(void **state)
{
	struct kv_prng prng = check_seed();
	uint64_t seed = kv_prng_next(&prng);
	struct flood f[2] = {{p.server, seed, 20000, NULL}, {p.client, seed, 20000, NULL}};
	pthread_t thread;
	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, flood_thread, &f[0]), 0);
	flood_thread(&f[1]);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < 2; i++)
		if (f[i].failure)
			fail_msg("side %u: %s", i, f[i].failure);
}

/* Each round is a change of threads, which may take a busy machine milliseconds: after ROUNDS_MS there are no more. */
enum { ROUNDS = 200000, FEW = 40000, ROUNDS_MS = 10000, FEW_MS = 2000 };

static _Atomic unsigned rounds, rounds_done;

/* As nap, but awake. */
static bool doze(struct local_channel *ch)
{
	uint64_t until_ns = 0;
	bool rang = true;
	if (local_sleep(ch) == 0)
		for (unsigned n = 0; !(rang = atomic_load(&bells) > 0); n++) {
			if (n % 1024 != 1023)
				continue;
			sched_yield();
			until_ns = until_ns ? until_ns : kv_now() + BELL_MS * 1000000ull;
			if (kv_now() > until_ns)
				break;
		}
	local_wake(ch);
	return rang;
}

static const char *send_each_round(struct local_channel *ch, uint64_t seed)
{
	struct kv_prng prng;
	uint64_t until_ns = kv_now() + test_rounds(ROUNDS_MS, FEW_MS) * 1000000ull;
	kv_prng_seed(&prng, seed);
	for (unsigned i = 0; i < atomic_load(&rounds); i++) {
		for (unsigned n = 1; atomic_load(&rounds_done) < i; n++)
			if (n % 1024 == 0)
				sched_yield();
		if (i % 256 == 0 && kv_now() > until_ns)
			atomic_store(&rounds, i + 1);
		/* Now the reader goes to sleep: be early, late, or in between. */
		for (volatile uint64_t n = kv_prng_below(&prng, 300); n > 0; n = n - 1)
			;
		if (local_send(ch, &i, sizeof(i)))
			return "cannot send";
	}
	return NULL;
}

static void *reading_thread(void *arg)
{
	uint8_t buf[KV_MSG_MAX];
	uint32_t len;
	(void)arg;
	for (unsigned i = 0; i < atomic_load(&rounds); i++) {
		while (local_receive(p.server, buf, &len) == 0)
			if (!doze(p.server)) {
				atomic_store(&rounds_done, ROUNDS);
				return (void *)(uintptr_t)"the bell did not ring";
			}
		atomic_store(&rounds_done, i + 1);
	}
	return NULL;
}

static void no_wake_up_is_lost(void **state)
{
	struct kv_prng prng = check_seed();
	pthread_t thread;
	void *reader;
	const char *writer;
	(void)state;
	quick_bells = true;
	atomic_store(&bells, 0);
	atomic_store(&rounds_done, 0);
	atomic_store(&rounds, test_rounds(ROUNDS, FEW));
	assert_int_equal(pthread_create(&thread, NULL, reading_thread, NULL), 0);
	writer = send_each_round(p.client, kv_prng_next(&prng));
	pthread_join(thread, &reader);
	if (reader || writer)
		fail_msg("%s", reader ? (const char *)reader : writer);
}

/* ---- descriptors ---- */

static void descriptors_are_closed(void **state)
{
	unsigned before = open_files();
	struct pair q = pair_make();
	(void)state;
	/* The server has its bell; the client has its bell. */
	assert_int_equal(open_files(), before + 2);
	pair_close(&q);
	assert_null(q.server);
	local_channel_close(&q.server);
	assert_int_equal(open_files(), before);
}

/* Open a channel with another descriptor in place of one; it must be refused, and all closed. */
static void refuse(enum local_fd which, int fd, const char *why)
{
	struct local_shard s = pair_fds(p.server);
	struct local_channel *ch = NULL;
	struct kv_error err = {0};
	close(s.fd[which]);
	s.fd[which] = fd;
	assert_int_equal(local_channel_open(&s, &ch, &err), -KV_EPROTO);
	check_contains(err.text, why);
	assert_null(ch);
	assert_int_equal(s.fd[LOCAL_CHANNEL], -1);
	assert_int_equal(s.fd[LOCAL_BELL], -1);
}

static void other_descriptors_are_refused(void **state)
{
	struct kv_error err = {0};
	unsigned before;
	int fd;
	(void)state;
	local_channel_close(&p.server);
	local_channel_close(&p.client);
	assert_int_equal(local_channel_make(&p.server, &err), 0);
	before = open_files();
	assert_int_equal(kv_memfd_make("short", 65536, &fd, &err), 0);
	refuse(LOCAL_CHANNEL, fd, "shorter");
	fd = memfd_create("unsealed", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 16 << 20), 0);
	refuse(LOCAL_CHANNEL, fd, "sealed");
	refuse(LOCAL_CHANNEL, dup(STDERR_FILENO), "sealed");
	refuse(LOCAL_CHANNEL, -1, "sealed");
	refuse(LOCAL_BELL, dup(STDERR_FILENO), "socket");
	refuse(LOCAL_BELL, -1, "socket");
	assert_int_equal(open_files(), before);
}

#define WITH(test)         cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define IN_ONE_PLACE(test) cmocka_unit_test_prestate_setup_teardown(test, set_up, tear_down, (void *)"one mapping")

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(frames_arrive_whole_and_in_order),
		WITH(a_full_ring_is_busy_until_it_is_read),
		WITH(the_smallest_frames_fill_it),
		WITH(only_a_sleeper_is_rung_and_once),
		WITH(a_sleeper_is_rung_for_room),
		WITH(a_late_bell_is_heard_in_the_end),
		WITH(the_end_of_the_other_side_is_noticed_after_its_frames),
		WITH(every_lease_may_be_out_and_comes_back_once),
		WITH(a_release_rings_nobody_and_keeps_the_server_awake),
		IN_ONE_PLACE(any_thread_releases),
		WITH(any_thread_releases),
		IN_ONE_PLACE(two_threads_lose_no_frame_and_no_bell),
		WITH(two_threads_lose_no_frame_and_no_bell),
		IN_ONE_PLACE(no_wake_up_is_lost),
		WITH(descriptors_are_closed),
		WITH(other_descriptors_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
