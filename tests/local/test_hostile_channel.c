/* SPDX-License-Identifier: Apache-2.0 */
/* test_hostile_channel.c -- the other side of a channel stores anything anywhere, before our calls and during them.
 * Each of our calls ends with a frame of a right length or a code; a broken channel stays so. The mapping ends at a
 * page that nobody may touch.
 *
 * The layout is channel.c's own. This test knows only that indexes and flags stand in the first page. */
#include "tests/local/pair.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIFE = 400, LIVES = 3000, FIRST_PAGE = 4096, FRAMES_MAX = LOCAL_RING_BYTES / 64 };

static struct pair p;
static uint8_t *memory; /* a mapping of the hostile side's own */
static uint64_t memory_len;

int __real_kv_memfd_map(int fd, uint64_t len, bool writable, void **out, struct kv_error *err);
int __wrap_kv_memfd_map(int fd, uint64_t len, bool writable, void **out, struct kv_error *err);

/* A page without rights in front and behind: a read beyond the channel ends the test. The pages stay after a close. */
int __wrap_kv_memfd_map(int fd, uint64_t len, bool writable, void **out, struct kv_error *err)
{
	uint8_t *room = mmap(NULL, len + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	(void)writable;
	(void)err;
	assert_true(room != MAP_FAILED);
	*out = mmap(room + 4096, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	assert_true(*out != MAP_FAILED);
	return 0;
}

static void begin(void)
{
	struct local_shard s;
	struct stat st;
	assert_int_equal(local_channel_make(&p.server, NULL), 0);
	s = pair_fds(p.server);
	assert_int_equal(fstat(s.fd[LOCAL_CHANNEL], &st), 0);
	memory_len = (uint64_t)st.st_size;
	memory = mmap(NULL, memory_len, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd[LOCAL_CHANNEL], 0);
	assert_true(memory != MAP_FAILED);
	assert_int_equal(local_channel_open(&s, &p.client, NULL), 0);
	local_channel_passed(p.server);
}

static void end(void)
{
	pair_close(&p);
	munmap(memory, memory_len);
}

static uint64_t odd_number(struct kv_prng *prng, uint64_t now)
{
	static const uint64_t edges[] = {0,          1,         7,         8, 16, KV_MSG_MAX, LOCAL_RING_BYTES,
					 UINT32_MAX, INT64_MAX, UINT64_MAX};
	switch (kv_prng_below(prng, 4)) {
	case 0:
		return kv_prng_next(prng);
	case 1:
		return edges[kv_prng_below(prng, KV_COUNT(edges))];
	case 2:
		return now + kv_prng_below(prng, 512) * 8 - 2048;
	default:
		return now + kv_prng_below(prng, 2 * LOCAL_RING_BYTES) - LOCAL_RING_BYTES;
	}
}

/* Store a number somewhere, mostly where it matters. */
static void scribble(struct kv_prng *prng)
{
	uint64_t room = kv_prng_below(prng, 3) ? 1024 : memory_len, at = kv_prng_below(prng, room / 8) * 8;
	uint64_t *word;
	at = kv_prng_below(prng, 2) ? at / 128 * 128 : at; /* where indexes begin */
	word = (uint64_t *)(void *)(memory + at);
	__atomic_store_n(word, odd_number(prng, __atomic_load_n(word, __ATOMIC_RELAXED)), __ATOMIC_RELAXED);
}

/* All frames that are there, at most as many as a ring can hold while nobody writes. */
static void receive(struct local_channel *ch, bool quiet)
{
	uint8_t buf[KV_MSG_MAX];
	uint32_t len = 0;
	int rc = 1;
	for (unsigned n = 0; rc == 1 && n <= FRAMES_MAX; n++) {
		rc = local_receive(ch, buf, &len);
		assert_true(rc == 1 || rc == 0 || rc == -KV_EPROTO || rc == -KV_EPEERDOWN);
		assert_true(rc != 1 || (len > 0 && len <= KV_MSG_MAX));
	}
	assert_true(!quiet || rc != 1);
	if (rc == -KV_EPROTO) {
		assert_int_equal(local_receive(ch, buf, &len), -KV_EPROTO);
		assert_int_equal(local_send(ch, buf, 1), -KV_EPROTO);
		assert_int_equal(local_sleep(ch), -EAGAIN);
	}
}

static void send_one(struct local_channel *ch, struct kv_prng *prng)
{
	uint8_t buf[KV_MSG_MAX] = {0};
	int rc = local_send(ch, buf, 1 + (uint32_t)kv_prng_below(prng, KV_MSG_MAX));
	assert_true(rc == 0 || rc == -KV_EBUSY || rc == -KV_EPROTO || rc == -KV_EPEERDOWN);
}

static void releases_take(struct local_channel *ch, bool quiet)
{
	uint64_t lease;
	unsigned n = 0;
	while (n <= LOCAL_LEASES_MAX && local_released(ch, &lease) == 1)
		n++;
	assert_true(!quiet || n <= LOCAL_LEASES_MAX);
}

/* A call of the honest side. quiet: nobody scribbles meanwhile. */
static void honest_call(struct local_channel *ch, bool server, bool quiet, struct kv_prng *prng)
{
	switch (kv_prng_below(prng, 6)) {
	case 0:
	case 1:
		receive(ch, quiet);
		break;
	case 2:
		send_one(ch, prng);
		break;
	case 3:
		if (server)
			releases_take(ch, quiet);
		else
			local_release(ch, kv_prng_next(prng) >> 1);
		break;
	case 4:
		(void)local_sleep(ch);
		break;
	default:
		local_wake(ch);
	}
}

static void scribbles_between_calls_harm_nobody(void **state)
{
	struct kv_prng prng = check_seed();
	(void)state;
	for (unsigned life = 0; life < LIVES; life++) {
		bool server = life % 2;
		begin();
		for (unsigned i = 0; i < LIFE; i++) {
			struct local_channel *victim = server ? p.server : p.client;
			if (kv_prng_below(&prng, 8) == 0)
				scribble(&prng);
			else if (kv_prng_below(&prng, 3) == 0)
				send_one(server ? p.client : p.server, &prng);
			else
				honest_call(victim, server, true, &prng);
		}
		end();
	}
}

static _Atomic bool over;

static void *scribbling_thread(void *arg)
{
	struct kv_prng prng;
	kv_prng_seed(&prng, *(uint64_t *)arg);
	while (!atomic_load(&over))
		for (unsigned i = 0; i < 64; i++)
			scribble(&prng);
	return NULL;
}

static void scribbles_during_calls_harm_nobody(void **state)
{
	struct kv_prng prng = check_seed();
	(void)state;
	for (unsigned life = 0; life < LIVES / 20; life++) {
		bool server = life % 2;
		uint64_t seed = kv_prng_next(&prng);
		pthread_t thread;
		begin();
		atomic_store(&over, false);
		assert_int_equal(pthread_create(&thread, NULL, scribbling_thread, &seed), 0);
		for (unsigned i = 0; i < LIFE; i++)
			honest_call(server ? p.server : p.client, server, false, &prng);
		atomic_store(&over, true);
		pthread_join(thread, NULL);
		end();
	}
}

/* The only word of the first page with this value. */
static uint64_t *index_with(uint64_t value)
{
	uint64_t *found = NULL;
	for (unsigned i = 0; i < FIRST_PAGE / sizeof(uint64_t); i++) {
		uint64_t *word = (uint64_t *)(void *)memory + i;
		assert_true(*word != value || !found);
		found = *word == value ? word : found;
	}
	assert_non_null(found);
	return found;
}

/* A ring in which each line is the beginning of a frame gives each once. */
static void a_ring_full_of_frames_ends(void **state)
{
	(void)state;
	for (uint64_t len = 1; len <= KV_MSG_MAX; len = len * 2 + 1) {
		uint8_t buf[KV_MSG_MAX];
		uint32_t got;
		unsigned n = 0;
		begin();
		for (uint64_t at = FIRST_PAGE; at < memory_len; at += 8)
			*(uint64_t *)(void *)(memory + at) = len;
		while (n <= FRAMES_MAX && local_receive(p.server, buf, &got) == 1) {
			assert_int_equal(got, len);
			n++;
		}
		assert_in_range(n, LOCAL_RING_BYTES / (KV_MSG_MAX + 64), LOCAL_RING_BYTES / 64);
		end();
	}
}

static void an_impossible_taken_is_refused(void **state)
{
	static const int64_t off[] = {LOCAL_RING_BYTES + 64, -64, -128, 1, 4, 8, INT64_MIN, INT64_MAX - 63};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(off); i++) {
		uint8_t buf[KV_MSG_MAX] = {0};
		uint32_t len;
		uint64_t *taken;
		begin();
		assert_int_equal(local_send(p.server, buf, 8), 0);
		assert_int_equal(local_receive(p.client, buf, &len), 1);
		while (local_send(p.server, buf, 8) == 0)
			;
		taken = index_with(64);
		*taken += (uint64_t)off[i];
		assert_int_equal(local_send(p.server, buf, 8), -KV_EPROTO);
		assert_int_equal(local_send(p.server, buf, 8), -KV_EPROTO);
		assert_int_equal(local_receive(p.server, buf, &len), -KV_EPROTO);
		end();
	}
}

static void an_impossible_length_is_refused(void **state)
{
	static const uint64_t lens[] = {KV_MSG_MAX + 1, INT32_MAX, (uint64_t)1 << 32, ((uint64_t)1 << 32) + 8,
					UINT64_MAX};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(lens); i++) {
		uint8_t buf[KV_MSG_MAX] = "length!";
		uint32_t len;
		uint8_t *frame;
		begin();
		assert_int_equal(local_send(p.client, buf, 8), 0);
		frame = memmem(memory, memory_len, buf, 8);
		assert_non_null(frame);
		memcpy(frame - 8, &lens[i], sizeof(lens[i]));
		assert_int_equal(local_receive(p.server, buf, &len), -KV_EPROTO);
		memcpy(frame - 8, &(uint64_t){8}, 8);
		assert_int_equal(local_receive(p.server, buf, &len), -KV_EPROTO);
		end();
	}
}

/* A bell that rings without end, descriptors in it, or other flags of the hostile side's end. */
static void a_bell_that_is_misused_blocks_nobody(void **state)
{
	uint8_t buf[KV_MSG_MAX] = {0};
	unsigned rings = 0;
	(void)state;
	begin();
	for (int fd = local_wait_fd(p.client), n = 0; n < 100000; n++)
		rings += send(fd, "xxxxxxxx", 8, MSG_DONTWAIT | MSG_NOSIGNAL) == 8;
	assert_true(rings > 0);
	for (unsigned i = 0; i < 1000 && bell_rang(p.server); i++) {
		(void)local_sleep(p.server);
		local_wake(p.server);
	}
	/* The hostile side hears no bell: the server's socket fills, and the server sends on. */
	for (unsigned i = 0; i < 2000; i++) {
		uint32_t len;
		(void)local_sleep(p.client);
		assert_int_equal(local_send(p.server, buf, 8), 0);
		assert_int_equal(local_receive(p.client, buf, &len), 1);
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scribbles_between_calls_harm_nobody),
		cmocka_unit_test(scribbles_during_calls_harm_nobody),
		cmocka_unit_test(a_ring_full_of_frames_ends),
		cmocka_unit_test(an_impossible_taken_is_refused),
		cmocka_unit_test(an_impossible_length_is_refused),
		cmocka_unit_test(a_bell_that_is_misused_blocks_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
