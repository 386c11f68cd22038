/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_channel.c -- the memory of a channel: whatever the other side stores there, between whichever calls, each call
 * ends with a frame of a right length or a code, and a broken channel stays so.
 *
 * The input is a program of the hostile side and of ours. The first byte says which side is ours. Then each byte is a
 * step; steps that store are followed by a place (4 bytes) and a number (8 bytes). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/host.h"
#include "local/local.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS_MAX = 4096, FIRST_PAGE = 4096, LINE = 64 };

static struct local_channel *ours, *theirs;
static uint8_t *memory;
static uint64_t memory_len;
static bool server;

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz_channel: %s\n", what);
	abort();
}

/* Without memory or descriptors there is nothing to try. */
static bool begin(void)
{
	struct local_channel *a = NULL, *b = NULL;
	struct local_shard s = {.shards = 1};
	struct stat st;
	if (local_channel_make(&a, NULL) < 0)
		return false;
	local_channel_fds(a, &s);
	memory_len = fstat(s.fd[LOCAL_CHANNEL], &st) == 0 ? (uint64_t)st.st_size : 0;
	memory = mmap(NULL, memory_len, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd[LOCAL_CHANNEL], 0);
	s.fd[LOCAL_CHANNEL] = dup(s.fd[LOCAL_CHANNEL]);
	s.fd[LOCAL_BELL] = dup(s.fd[LOCAL_BELL]);
	if (memory == MAP_FAILED || local_channel_open(&s, &b, NULL) < 0) {
		local_channel_close(&a);
		return false;
	}
	local_channel_passed(a);
	ours = server ? a : b;
	theirs = server ? b : a;
	return true;
}

static void end(void)
{
	local_channel_close(&ours);
	local_channel_close(&theirs);
	munmap(memory, memory_len);
}

static void receive_all(struct local_channel *ch)
{
	uint8_t buf[KV_MSG_MAX];
	uint32_t len;
	unsigned n = 0;
	int rc;
	while ((rc = local_receive(ch, buf, &len)) == 1) {
		check(len > 0 && len <= KV_MSG_MAX, "a frame of an impossible length");
		check(++n <= LOCAL_RING_BYTES / LINE, "more frames than a ring can hold");
	}
	check(rc == 0 || rc == -KV_EPROTO || rc == -KV_EPEERDOWN, "an unknown code");
	if (rc == -KV_EPROTO)
		check(local_receive(ch, buf, &len) == -KV_EPROTO && local_send(ch, buf, 1) == -KV_EPROTO,
		      "a broken channel goes on");
}

static void releases(void)
{
	uint64_t lease;
	unsigned n = 0;
	if (!server) {
		local_release(ours, 1);
		return;
	}
	while (local_released(ours, &lease) == 1)
		check(++n <= LOCAL_LEASES_MAX, "more releases than places");
}

static void send_one(struct local_channel *ch, uint32_t len)
{
	static const uint8_t buf[KV_MSG_MAX];
	int rc = local_send(ch, buf, len % KV_MSG_MAX + 1);
	check(rc == 0 || rc == -KV_EBUSY || rc == -KV_EPROTO || rc == -KV_EPEERDOWN, "an unknown code");
}

/* Store a number, in a word of the first page or anywhere. Returns the bytes of input used. */
static size_t store(const uint8_t *data, size_t size, bool first_page, bool add)
{
	uint32_t place = 0;
	uint64_t number = 0, *word;
	memcpy(&place, data, KV_MIN(size, sizeof(place)));
	memcpy(&number, data + KV_MIN(size, sizeof(place)),
	       size > sizeof(place) ? KV_MIN(size - sizeof(place), sizeof(number)) : 0);
	word = (uint64_t *)(void *)(memory + place % ((first_page ? FIRST_PAGE : memory_len) / 8) * 8);
	*word = add ? *word + number : number;
	return KV_MIN(size, sizeof(place) + sizeof(number));
}

static size_t step(const uint8_t *data, size_t size)
{
	uint8_t what = data[0];
	switch (what % 10) {
	case 0:
	case 1:
		return 1 + store(data + 1, size - 1, true, what % 10);
	case 2:
	case 3:
		return 1 + store(data + 1, size - 1, false, what % 10 == 3);
	case 4:
		send_one(theirs, what * 16u);
		return 1;
	case 5:
		send_one(ours, what * 16u);
		return 1;
	case 6:
		releases();
		return 1;
	case 7:
		(void)local_sleep(ours);
		return 1;
	case 8:
		local_wake(ours);
		return 1;
	default:
		receive_all(ours);
		return 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t at = 1;
	if (size == 0)
		return 0;
	server = data[0] & 1;
	if (!begin())
		return 0;
	for (unsigned n = 0; at < size && n < STEPS_MAX; n++)
		at += step(data + at, size - at);
	receive_all(ours);
	releases();
	end();
	return 0;
}
