/* SPDX-License-Identifier: Apache-2.0 */
/* tls.c -- a TCP connection with TLS for each client, on a few threads that block.
 *
 * The limit of descriptors (RLIMIT_NOFILE) is known beforehand, and memory is checked; every ADDRESS_CLIENTS
 * connections have a source address of their own, 127.0.0.2 and on, since a pair of addresses has some 28,000 ports.
 * Where it has fewer, the next addresses are taken, up to ADDRESS_SHIFTS times. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/host.h"
#include "kvbench/load/bench.h"
#include "kvbench/steps/peer.h"
#include "kvbench/steps/secure.h"

enum {
	ADDRESS_CLIENTS = 16000,
	ADDRESS_SHIFTS = 64,
	ADDRESS_STEP = 16,
	FILES_KEPT = 64,
	LOOK_EVERY = 32,
	THREADS_MAX = 256
};

#define MEMORY_KEPT (512ull << 20) /* of the machine: beyond it the kernel kills somebody */
#define PAUSE_NS    100000000ull

struct tls_client {
	int fd; /* 0: none */
	struct secure *secure;
	uint64_t due_ns;
	uint32_t came;
};

struct tls_side;

struct tls_worker {
	struct tls_side *side;
	unsigned index;
	pthread_t thread;
	struct step_times *times;
	unsigned char *message;
};

struct tls_side {
	struct step *t;
	struct secure_context *ctx;
	struct tls_client *client;
	struct tls_worker *worker;
	struct step_times *times; /* of each worker */
	unsigned threads;
	uint32_t reach; /* clients to try */
	uint16_t port;
	pid_t peer;
	pthread_mutex_t lock; /* of the reason for the end */
	_Atomic bool stop;
	_Atomic unsigned shift; /* of source addresses: how often their ports were at an end */
};

static void stop(struct tls_side *s, const char *fmt, const char *what)
{
	pthread_mutex_lock(&s->lock);
	step_fail(s->t, STEP_PROVIDER, -KV_ELIMIT, fmt, what);
	pthread_mutex_unlock(&s->lock);
	s->stop = true;
}

/* ---- the peer ---- */

static int peer_start(struct tls_side *s)
{
	int fd = peer_listen(&s->port), rc = fd;
	if (fd >= 0) {
		s->peer = fork();
		if (s->peer == 0)
			_exit(peer_main(s->t->opt, fd));
		rc = s->peer < 0 ? -errno : 0;
		close(fd);
	}
	if (rc < 0)
		step_fail(s->t, STEP_PROVIDER, -KV_ELIMIT, "the process for the other end cannot be started: %s",
			  kv_strerror(rc));
	return rc;
}

static void peer_stop(struct tls_side *s)
{
	struct kv_process p = {0};
	int status;
	if (s->peer <= 0)
		return;
	kv_process_read((int)s->peer, &p);
	s->t->rss.peer = p.rss;
	kill(s->peer, SIGKILL);
	waitpid(s->peer, &status, 0);
}

/* ---- connecting ---- */

static const char *why_not(int error)
{
	switch (error) {
	case EMFILE:
	case ENFILE:
		return "descriptors are at an end (RLIMIT_NOFILE): raise `ulimit -n`";
	case EADDRNOTAVAIL:
		return "ports are at an end: widen net.ipv4.ip_local_port_range";
	case ENOBUFS:
	case ENOMEM:
		return "memory of the kernel's sockets is at an end (net.ipv4.tcp_mem)";
	default:
		return kv_strerror(-error);
	}
}

static int tcp_connect_from(const struct tls_side *s, uint32_t i, unsigned shift)
{
	struct sockaddr_in from = {.sin_family = AF_INET,
				   .sin_addr.s_addr =
					   htonl(INADDR_LOOPBACK + 1 + i / ADDRESS_CLIENTS + shift * ADDRESS_STEP)};
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(s->port)};
	const struct timeval still = {.tv_sec = PEER_SOCKET_S};
	int one = 1, error, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &still, sizeof(still));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &still, sizeof(still));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0 &&
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	error = errno;
	close(fd);
	return -error;
}

static int tcp_connect(struct tls_side *s, uint32_t i)
{
	for (;;) {
		unsigned shift = s->shift;
		int fd = tcp_connect_from(s, i, shift);
		if (fd != -EADDRNOTAVAIL || shift == ADDRESS_SHIFTS)
			return fd;
		/* Another thread may have done so. */
		atomic_compare_exchange_strong(&s->shift, &shift, shift + 1);
	}
}

static bool client_connect(struct tls_worker *w, uint32_t i)
{
	struct tls_side *s = w->side;
	uint64_t now = kv_clock_now(&kv_clock_monotonic);
	int rc, fd = tcp_connect(s, i);
	if (fd < 0) {
		stop(s, "%s", why_not(-fd));
		return false;
	}
	s->client[i].fd = fd;
	rc = secure_open(s->ctx, fd, &s->client[i].secure);
	if (rc < 0) {
		stop(s, "the TLS handshake failed: %s", kv_strerror(rc));
		return false;
	}
	kv_hist_add(&w->times->connect, kv_clock_now(&kv_clock_monotonic) - now);
	return true;
}

static void *connect_main(void *arg)
{
	struct tls_worker *w = arg;
	struct tls_side *s = w->side;
	uint32_t looks = 0;
	for (uint32_t i = w->index; i < s->reach && !s->stop && !step_over(s->t); i += s->threads) {
		if (looks++ % LOOK_EVERY == 0 && kv_memory_available() < MEMORY_KEPT)
			stop(s, "memory of this %s is at an end", "machine (or cgroup)");
		else if (!client_connect(w, i))
			break;
	}
	return NULL;
}

/* ---- talking ---- */

static void message(struct tls_worker *w, struct tls_client *c)
{
	struct tls_side *s = w->side;
	const struct step_options *o = s->t->opt;
	static const unsigned char question[PEER_QUESTION] = {'Q'};
	uint64_t begun = o->think_ns ? c->due_ns : kv_clock_now(&kv_clock_monotonic);
	uint64_t now, right = 0;
	int rc = secure_write(c->secure, question, sizeof(question));
	if (rc == 0)
		rc = secure_read(c->secure, w->message, o->value_size);
	now = kv_clock_now(&kv_clock_monotonic);
	while (rc == 0 && right < o->value_size && w->message[right] == peer_byte(right))
		right++;
	if (rc < 0) {
		s->t->failed++;
		secure_close(&c->secure);
		stop(s, "a connection ended: %s", kv_strerror(rc));
	} else if (right < o->value_size) {
		s->t->wrong++;
		stop(s, "a message had wrong %s", "bytes");
	} else {
		s->t->messages++;
		c->came++;
		kv_hist_add(&w->times->latency, now - begun);
	}
	c->due_ns = now + o->think_ns;
}

static void *talk_main(void *arg)
{
	struct tls_worker *w = arg;
	struct tls_side *s = w->side;
	for (uint32_t m = 0; m < s->t->opt->messages; m++)
		for (uint32_t i = w->index; i < s->reach; i += s->threads) {
			struct tls_client *c = &s->client[i];
			uint64_t now = kv_clock_now(&kv_clock_monotonic);
			for (; c->due_ns > now && !step_over(s->t); now = kv_clock_now(&kv_clock_monotonic)) {
				uint64_t ns = KV_MIN(c->due_ns - now, PAUSE_NS);
				nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
			}
			if (step_over(s->t))
				return NULL;
			if (c->secure)
				message(w, c);
		}
	return NULL;
}

/* ---- all of it ---- */

static void on_all(struct tls_side *s, void *(*fn)(void *))
{
	unsigned started = 0;
	for (; started < s->threads; started++)
		if (pthread_create(&s->worker[started].thread, NULL, fn, &s->worker[started])) {
			stop(s, "a thread cannot be started%s", "");
			break;
		}
	step_measure(s->t);
	for (unsigned i = 0; i < started; i++)
		pthread_join(s->worker[i].thread, NULL);
	step_measure(s->t);
}

static void step(struct tls_side *s)
{
	struct step *p = s->t;
	uint64_t now = kv_clock_now(&kv_clock_monotonic);
	p->rss.base = kv_memory_rss();
	on_all(s, connect_main);
	p->connect_ns = kv_clock_now(&kv_clock_monotonic) - now;
	for (uint32_t i = 0; i < p->opt->clients; i++)
		p->connected += s->client[i].secure != NULL;
	step_report(s->t);
	now = kv_clock_now(&kv_clock_monotonic);
	for (uint32_t i = 0; i < p->opt->clients; i++)
		s->client[i].due_ns = now + (uint64_t)((double)s->t->opt->think_ns * i / p->opt->clients);
	s->stop = false;
	if (!step_over(s->t))
		on_all(s, talk_main);
	p->talk_ns = kv_clock_now(&kv_clock_monotonic) - now;
	for (uint32_t i = 0; i < p->opt->clients; i++)
		p->verified += s->client[i].came == s->t->opt->messages;
	step_times_take(s->times, s->threads, p);
	if (p->verified < p->opt->clients)
		step_look(p); /* after a signal, or the time: it says which */
}

static bool side_make(struct tls_side *s)
{
	struct rlimit files = {0};
	s->threads = KV_MIN(KV_MIN(s->t->opt->num_threads, s->t->opt->clients), (unsigned)THREADS_MAX);
	s->client = calloc(s->t->opt->clients, sizeof(*s->client));
	s->worker = calloc(s->threads, sizeof(*s->worker));
	s->times = step_times_make(s->threads);
	for (unsigned i = 0; s->worker && s->times && i < s->threads; i++) {
		struct tls_worker *w = &s->worker[i];
		w->side = s;
		w->index = i;
		w->times = &s->times[i];
		w->message = malloc(s->t->opt->value_size);
		if (!w->message)
			return false;
	}
	s->reach = s->t->opt->clients;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < s->reach + (rlim_t)FILES_KEPT) {
		s->reach = files.rlim_cur > FILES_KEPT ? (uint32_t)files.rlim_cur - FILES_KEPT : 0;
		step_fail(s->t, STEP_FILES, -KV_ELIMIT,
			  "descriptors: RLIMIT_NOFILE is %llu (at most %llu), "
			  "a connection takes one on each side; raise `ulimit -n`",
			  (unsigned long long)files.rlim_cur, (unsigned long long)files.rlim_max);
	}
	return s->client && s->worker && s->times;
}

void step_tls_run(struct step *t)
{
	struct tls_side s = {.t = t, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct kv_error err = {0};
	snprintf(t->info.provider, sizeof(t->info.provider), "TCP, TLS 1.3");
	if (!side_make(&s))
		step_fail(t, STEP_PROVIDER, -KV_ELIMIT, "no memory for %u clients", t->opt->clients);
	else if (secure_key_make() < 0 || secure_context_create(false, &s.ctx, &err) < 0)
		step_fail(t, STEP_PROVIDER, -KV_ELIMIT, "%s",
			  err.text[0] ? err.text : "no random bytes from the kernel for a key");
	else if (peer_start(&s) == 0)
		step(&s);
	peer_stop(&s);
	for (uint32_t i = 0; s.client && i < t->opt->clients; i++) {
		secure_close(&s.client[i].secure);
		if (s.client[i].fd > 0)
			close(s.client[i].fd);
	}
	for (unsigned i = 0; s.worker && i < s.threads; i++)
		free(s.worker[i].message);
	secure_context_destroy(&s.ctx);
	free(s.times);
	free(s.worker);
	free(s.client);
}
