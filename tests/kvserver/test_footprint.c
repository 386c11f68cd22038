/* SPDX-License-Identifier: Apache-2.0 */
/* test_footprint.c -- what a client with 32 links costs a server: every byte that the server's threads take of the
 * allocator from its TCP connection to its first region, OpenSSL's for TLS and for the keys of frames too, and what the
 * allocator has around each piece. libfabric's own are left out: nobody here can make them fewer. So many links are
 * those of a machine with EFA, which has no doorkeeper, and there is none here; over tcp it has 192 bytes for each
 * address.
 *
 * Counted is where memory is taken: this program has malloc and its kin itself, which all that is linked with it use,
 * and passes on to libc's. A piece counts if it was asked for by this program, libcrypto or libssl on a thread of the
 * server; pieces are remembered, so that it does not matter which thread frees them. Aligned ones are pools that all
 * clients share; the stack of a connection's coroutine is mapped, and no piece. */
#include <link.h>
#include <malloc.h>
#include <netinet/in.h>
#include <openssl/opensslv.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/kvserver/talk.h"

#include "kvserver/server/server.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTED 0
#else
#define COUNTED 1
#endif

/* OpenSSL 3.5 has 8 KiB more for a connection, and keeps the 10 KiB of keys of its group with ML-KEM. */
#define TLS_MORE (OPENSSL_VERSION_NUMBER >= 0x30500000L ? 20 << 10 : 0)

enum {
	LINKS = KV_RAILS_MAX,
	MEMORY = (64 << 10) + TLS_MORE,
	SHARD = 3584 /* more for each further shard */,
	CLIENTS = 4,
	LOOKS = 50,
	HEADER = 8 /* of a piece, by the allocator */
};

/* ---- the count ---- */

enum { PIECES = 1 << 16, RANGES = 64 };

static struct {
	pthread_mutex_t lock;
	bool on;
	struct {
		uintptr_t from, to;
	} range[RANGES]; /* of the code whose pieces count */
	unsigned ranges;
	struct {
		void *at;
		size_t bytes;
	} piece[PIECES]; /* a table by hash; at is NULL: free, GONE: was used */
	size_t bytes, pieces;
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define GONE ((void *)1)

static _Thread_local bool bystander; /* a thread that is none of the server's */

#if COUNTED
#define SEEN __attribute__((visibility("default"))) /* by libraries */

void *__libc_malloc(size_t len);
void *__libc_calloc(size_t n, size_t len);
void *__libc_realloc(void *at, size_t len);
void __libc_free(void *at);

static bool counts(const void *caller)
{
	for (unsigned i = 0; i < heap.ranges; i++)
		if ((uintptr_t)caller >= heap.range[i].from && (uintptr_t)caller < heap.range[i].to)
			return true;
	return false;
}

static size_t slot_of(const void *at)
{
	return (size_t)(((uintptr_t)at >> 4) * 0x9E3779B97F4A7C15ull >> 48);
}

static void *taken(void *at, const void *caller)
{
	size_t i = slot_of(at);
	if (!heap.on || bystander || !at || !counts(caller))
		return at;
	pthread_mutex_lock(&heap.lock);
	if (heap.pieces == PIECES / 2)
		abort();
	while (heap.piece[i].at && heap.piece[i].at != GONE)
		i = (i + 1) % PIECES;
	heap.piece[i].at = at;
	heap.piece[i].bytes = malloc_usable_size(at) + HEADER;
	heap.bytes += heap.piece[i].bytes;
	heap.pieces++;
	pthread_mutex_unlock(&heap.lock);
	return at;
}

static void given(void *at)
{
	if (!heap.on || !at)
		return;
	pthread_mutex_lock(&heap.lock);
	for (size_t i = slot_of(at); heap.piece[i].at; i = (i + 1) % PIECES) {
		if (heap.piece[i].at != at)
			continue;
		heap.bytes -= heap.piece[i].bytes;
		heap.pieces--;
		heap.piece[i].at = GONE;
		break;
	}
	pthread_mutex_unlock(&heap.lock);
}

SEEN void *malloc(size_t len)
{
	return taken(__libc_malloc(len), __builtin_return_address(0));
}

SEEN void *calloc(size_t n, size_t len)
{
	return taken(__libc_calloc(n, len), __builtin_return_address(0));
}

SEEN void *realloc(void *at, size_t len)
{
	given(at);
	return taken(__libc_realloc(at, len), __builtin_return_address(0));
}

SEEN void free(void *at)
{
	given(at);
	__libc_free(at);
}
#endif

static int range_add(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size, (void)arg;
	if (info->dlpi_name[0] && !strstr(info->dlpi_name, "/libcrypto.") && !strstr(info->dlpi_name, "/libssl."))
		return 0;
	for (unsigned i = 0; i < info->dlpi_phnum && heap.ranges < RANGES; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		heap.range[heap.ranges].from = info->dlpi_addr + p->p_vaddr;
		heap.range[heap.ranges++].to = info->dlpi_addr + p->p_vaddr + p->p_memsz;
	}
	return 0;
}

static size_t heap_bytes(void)
{
	size_t n;
	pthread_mutex_lock(&heap.lock);
	n = heap.bytes;
	pthread_mutex_unlock(&heap.lock);
	return n;
}

/* ---- a client of many rails, as far as the server can know ---- */

static unsigned shards;

static const char psk[] = "test:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/* Every rail has an address of its own, which no rail of another client has: one that several have is kept once. */
static struct wire_ctrl_msg hello(unsigned client, unsigned rails)
{
	struct wire_ctrl_msg m = hello_make(te);
	m.hello.rails = (uint16_t)rails;
	for (unsigned i = 0; i < rails; i++) {
		m.hello.addr[i] = m.hello.addr[0];
		if (test_provider_speaks_tcp())
			((struct sockaddr_in *)m.hello.addr[i].data)->sin_port =
				htons((uint16_t)(1024 + client * LINKS + i));
	}
	return m;
}

static void region(struct boot_conn *c, unsigned rails)
{
	static uint8_t keys[LINKS * 16];
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_REGION,
				  .region = {.id = 1,
					     .parts = 1,
					     .rails = (uint16_t)rails,
					     .len_bytes = 4096,
					     .part_bytes = 4096,
					     .keys = keys}};
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_REGION_OK && m.region_ok.status == WIRE_OK);
}

static struct boot_conn *attach(unsigned client, unsigned rails)
{
	struct wire_ctrl_msg m = hello(client, rails);
	struct boot_conn *c = dial(server, ctx);
	if (!c)
		return NULL;
	expect(boot_send_await(c, &m, soon()) == 0);
	expect(next(c, &m) == 0 && m.type == WIRE_CTRL_WELCOME);
	if (talk_ok())
		region(c, rails);
	return c;
}

/* The least that is seen in a while, and in a longer one if that is more than it may be: what it had for an answer or a
 * beat it frees when the kernel has taken that. */
static size_t bytes_at_rest(size_t most)
{
	uint64_t until = soon();
	size_t n = heap_bytes();
	for (unsigned i = 0; i < LOOKS || (n > most && loop_now(loop) < until); i++) {
		co_sleep_await(loop_now(loop) + 1000000);
		n = KV_MIN(n, heap_bytes());
	}
	return n;
}

static void attach_all(void)
{
	const size_t most = MEMORY + (shards - 1) * SHARD;
	const unsigned rails = LINKS / shards,
		       rails_of[CLIENTS] = {rails, 1, rails,
					    rails}; /* of the first OpenSSL makes things that it keeps */
	struct boot_conn *c[CLIENTS];
	for (unsigned i = 0; i < CLIENTS; i++) {
		size_t before = bytes_at_rest(SIZE_MAX), took;
		c[i] = attach(i, rails_of[i]);
		took = bytes_at_rest(i == 0 ? SIZE_MAX : before + most) - before;
		print_message("%zu bytes with %u links of %u shards%s\n", took, rails_of[i] * shards, shards,
			      i == 0 ? ", the first" : "");
		expect(i == 0 || took <= most);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		boot_close(&c[i]);
}

static void a_client_with_32_links_takes_64_kib_or_so_and_little_more_with_many_shards(void **state)
{
	(void)state;
	if (!COUNTED) {
		print_message("a sanitizer has an allocator of its own, whose bytes say nothing\n");
		skip();
	}
	in_coroutine(attach_all);
}

static int up_with(unsigned n)
{
	const struct kvs_options o = {.listen_addr = "127.0.0.1:0",
				      .psk = psk,
				      .shards = shards = n,
				      .memory_bytes = 16 << 20,
				      .max_clients = CLIENTS,
				      .door = TE_DOOR_OFF,
				      .heartbeat_ms = 3600000, /* nothing comes by itself */
				      .provider = test_provider(),
				      .log = &sink};
	talk_up(&o);
	return 0;
}

/* Of one shard with 32 NICs, and of eight with four: as many links. */
static int up_one(void **state)
{
	(void)state;
	return up_with(1);
}

static int up_eight(void **state)
{
	(void)state;
	return up_with(8);
}

static int down(void **state)
{
	(void)state;
	talk_down();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_client_with_32_links_takes_64_kib_or_so_and_little_more_with_many_shards, up_one, down),
		cmocka_unit_test_setup_teardown(
			a_client_with_32_links_takes_64_kib_or_so_and_little_more_with_many_shards, up_eight, down),
	};
	bystander = true;
	dl_iterate_phdr(range_add, NULL);
	heap.on = COUNTED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
