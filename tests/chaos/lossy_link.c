/* SPDX-License-Identifier: Apache-2.0 */
/* lossy_link.c -- a bad cable between two network namespaces, for kernels without netem: every packet is lost with a
 * probability or arrives later.
 *
 * usage: lossy_link NAMESPACE_A NAMESPACE_B DELAY_MS LOSS_PERCENT
 * In each namespace it makes a TUN device `v0` (gone when this program ends) and carries IP packets from one to the
 * other. It prints "ready" when the devices are there; the caller gives them addresses. The seed of the losses is
 * KVRAIL_SEED, or printed on standard error.
 *
 * The queue of each direction is bounded like that of a router: what does not fit is dropped. Packets are never
 * reordered. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#include "base/base.h"

enum { QUEUE_MAX = 1024, PACKET_MAX = 1600 };

struct packet {
	uint64_t due_ns;
	uint32_t len;
	uint8_t data[PACKET_MAX];
};

struct direction {
	int from, to;
	struct packet *queue;
	uint32_t head, count;
};

static uint64_t delay_ns;
static uint32_t loss_percent;
static struct kv_prng prng;

/* A TUN device in a namespace made by `ip netns`. */
static int tun_open(const char *space)
{
	struct ifreq ifr = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	char path[256];
	int ns, fd;
	snprintf(path, sizeof(path), "/run/netns/%s", space);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET) < 0) {
		fprintf(stderr, "lossy_link: namespace %s: %s\n", space, strerror(errno));
		return -1;
	}
	close(ns);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	memcpy(ifr.ifr_name, "v0", 3);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &ifr) < 0) {
		fprintf(stderr, "lossy_link: /dev/net/tun: %s\n", strerror(errno));
		return -1;
	}
	return fd;
}

static void take(struct direction *d, uint64_t now_ns)
{
	uint8_t spare[PACKET_MAX];
	for (;;) {
		struct packet *p = d->count < QUEUE_MAX ? &d->queue[(d->head + d->count) % QUEUE_MAX] : NULL;
		ssize_t n = read(d->from, p ? p->data : spare, PACKET_MAX);
		if (n <= 0)
			return;
		if (!p || kv_prng_below(&prng, 100) < loss_percent)
			continue;
		p->len = (uint32_t)n;
		p->due_ns = now_ns + delay_ns;
		d->count++;
	}
}

/* Deliver what is due. Returns when the next packet is. */
static uint64_t give(struct direction *d, uint64_t now_ns)
{
	while (d->count > 0) {
		struct packet *p = &d->queue[d->head];
		if (p->due_ns > now_ns)
			return p->due_ns;
		/* A device that is down or full loses it, as a cable would. */
		if (write(d->to, p->data, p->len) < 0 && errno == EBADFD)
			return KV_NEVER;
		d->head = (d->head + 1) % QUEUE_MAX;
		d->count--;
	}
	return KV_NEVER;
}

static void carry(struct direction *d)
{
	struct pollfd fds[2] = {{.fd = d[0].from, .events = POLLIN}, {.fd = d[1].from, .events = POLLIN}};
	for (;;) {
		uint64_t now = kv_clock_now(&kv_clock_monotonic), next;
		struct timespec wait = {1, 0};
		for (unsigned i = 0; i < 2; i++)
			take(&d[i], now);
		next = KV_MIN(give(&d[0], now), give(&d[1], now));
		if (next != KV_NEVER)
			wait = (struct timespec){(time_t)((next - now) / 1000000000),
						 (long)((next - now) % 1000000000)};
		ppoll(fds, 2, &wait, NULL);
	}
}

int main(int argc, char **argv)
{
	struct direction d[2] = {{0}};
	uint64_t ms, percent, seed = kv_seed_from_env("KVRAIL_SEED");
	int a, b;
	if (argc != 5 || kv_u64_parse(argv[3], &ms) < 0 || kv_u64_parse(argv[4], &percent) < 0 || percent > 100) {
		fprintf(stderr, "usage: lossy_link NAMESPACE_A NAMESPACE_B DELAY_MS LOSS_PERCENT\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fprintf(stderr, "lossy_link: seed %llu\n", (unsigned long long)seed);
	kv_prng_seed(&prng, seed);
	delay_ns = ms * 1000000;
	loss_percent = (uint32_t)percent;
	a = tun_open(argv[1]);
	b = a < 0 ? -1 : tun_open(argv[2]);
	for (unsigned i = 0; i < 2; i++)
		d[i].queue = calloc(QUEUE_MAX, sizeof(*d[i].queue));
	if (b < 0 || !d[0].queue || !d[1].queue)
		return 2;
	d[0].from = d[1].to = a;
	d[1].from = d[0].to = b;
	printf("ready\n");
	fflush(stdout);
	carry(d);
	return 0;
}
