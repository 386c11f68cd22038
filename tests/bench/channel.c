/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c -- the round trip of a small frame through a channel of local/, in ns: while both sides spin, and with a
 * side that sleeps. For comparison the same over a pair of Unix sockets. Two threads, each on a CPU of its own where
 * there are two; their distance is c2c's. Median and 99th percentile. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/host.h"
#include "local/local.h"
#include "tests/bench/result.h"

enum { FRAME = 100, ROUNDS = 200000, SLEEPS = 20000, WARM = 1000 };

enum way { SPIN, SLEEP, SOCKETS, WAYS };

static const char *const way_name[WAYS] = {"channel, both sides spin", "channel, both sides sleep", "Unix sockets"};

static struct local_channel *end[2];
static int sock[2];
static uint64_t took[ROUNDS];

static void pin(unsigned cpu)
{
	struct kv_cpus cpus = {{0}};
	if (kv_cpus_available() < 2)
		return;
	cpus.bits[0] = 1ull << cpu;
	(void)kv_thread_set_cpus(&cpus);
}

static void take(struct local_channel *ch, bool sleep, uint8_t *buf)
{
	uint32_t len;
	struct pollfd bell = {.fd = local_wait_fd(ch), .events = POLLIN};
	while (local_receive(ch, buf, &len) == 0) {
		if (!sleep)
			continue;
		if (local_sleep(ch) == 0)
			(void)poll(&bell, 1, -1);
		local_wake(ch);
	}
}

static void frame_move(enum way way, unsigned side, bool out, uint8_t *buf)
{
	ssize_t n = FRAME;
	if (way == SOCKETS)
		n = out ? write(sock[side], buf, FRAME) : read(sock[side], buf, FRAME);
	else if (out)
		(void)local_send(end[side], buf, FRAME);
	else
		take(end[side], way == SLEEP, buf);
	if (n != FRAME)
		exit(1);
}

static unsigned rounds(enum way way)
{
	return way == SPIN ? ROUNDS : SLEEPS;
}

static void *answering_thread(void *arg)
{
	enum way way = *(enum way *)arg;
	uint8_t buf[KV_MSG_MAX];
	pin(1);
	for (unsigned i = 0; i < rounds(way) + WARM; i++) {
		frame_move(way, 1, false, buf);
		frame_move(way, 1, true, buf);
	}
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static int measure(enum way way)
{
	uint8_t buf[KV_MSG_MAX] = {0};
	pthread_t thread;
	if (pthread_create(&thread, NULL, answering_thread, &way) != 0)
		return -1;
	pin(0);
	for (unsigned i = 0; i < rounds(way) + WARM; i++) {
		uint64_t begun = now_ns();
		frame_move(way, 0, true, buf);
		frame_move(way, 0, false, buf);
		if (i >= WARM)
			took[i - WARM] = now_ns() - begun;
	}
	pthread_join(thread, NULL);
	qsort(took, rounds(way), sizeof(took[0]), by_size);
	printf("%-28s%8llu ns%8llu ns\n", way_name[way], (unsigned long long)took[rounds(way) / 2],
	       (unsigned long long)took[rounds(way) / 100 * 99]);
	return 0;
}

/* A frame that stays on one side: its own cost, without the way between CPUs. */
static void measure_alone(void)
{
	uint8_t buf[KV_MSG_MAX] = {0};
	uint32_t len;
	uint64_t begun = now_ns();
	for (unsigned i = 0; i < ROUNDS; i++) {
		(void)local_send(end[0], buf, FRAME);
		(void)local_receive(end[1], buf, &len);
	}
	printf("%-28s%8.1f ns\n", "send and receive, one CPU", (double)(now_ns() - begun) / ROUNDS);
	begun = now_ns();
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t lease;
		local_release(end[1], i);
		(void)local_released(end[0], &lease);
	}
	printf("%-28s%8.1f ns\n", "release, one CPU", (double)(now_ns() - begun) / ROUNDS);
}

int main(void)
{
	struct local_shard s = {.shards = 1};
	struct kv_error err = {0};
	if (local_channel_make(&end[0], &err) < 0) {
		fprintf(stderr, "channel: %s\n", err.text);
		return 1;
	}
	local_channel_fds(end[0], &s);
	s.fd[LOCAL_CHANNEL] = dup(s.fd[LOCAL_CHANNEL]);
	s.fd[LOCAL_BELL] = dup(s.fd[LOCAL_BELL]);
	if (local_channel_open(&s, &end[1], &err) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sock) < 0) {
		fprintf(stderr, "channel: %s\n", err.text);
		return 1;
	}
	measure_alone();
	printf("round trip of %d bytes            p50        p99\n", FRAME);
	for (unsigned w = 0; w < WAYS; w++)
		if (measure((enum way)w) < 0)
			return 1;
	return 0;
}
