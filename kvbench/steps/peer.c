/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c -- a few threads that answer on many connections.
 *
 * A thread waits for all its sockets and serves one at a time, blocking: a client in the middle of a message continues
 * at once, since its thread does nothing else. A socket that stands still for PEER_SOCKET_S is dropped. It listens on
 * 127.0.0.1 alone, and answers only clients with the key. */
#include "kvbench/steps/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kvbench/load/bench.h"
#include "kvbench/steps/secure.h"

enum { EVENTS = 64, BACKLOG = 4096 };

struct peer_talk {
	int fd;
	struct secure *secure;
};

struct peer_server {
	const struct step_options *opt;
	struct secure_context *ctx;
	unsigned char *message;
	int listen_fd;
};

int peer_listen(uint16_t *out_port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) < 0) {
		int rc = -errno;
		if (fd >= 0)
			close(fd);
		return rc;
	}
	*out_port = ntohs(at.sin_port);
	return fd;
}

static void talk_end(struct peer_talk *k)
{
	secure_close(&k->secure);
	close(k->fd);
	free(k);
}

static void accept_one(struct peer_server *s, int epoll_fd)
{
	const struct timeval still = {.tv_sec = PEER_SOCKET_S};
	struct epoll_event event = {.events = EPOLLIN};
	struct peer_talk *k;
	int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return; /* another thread has it; or the descriptors are at an end, which the other side sees first */
	k = calloc(1, sizeof(*k));
	if (!k) {
		close(fd);
		return;
	}
	k->fd = fd;
	event.data.ptr = k;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &still, sizeof(still));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &still, sizeof(still));
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		talk_end(k);
}

static void serve(struct peer_server *s, struct peer_talk *k)
{
	unsigned char question[PEER_QUESTION] = {0};
	int rc;
	if (!k->secure)
		rc = secure_open(s->ctx, k->fd, &k->secure);
	else
		rc = secure_read(k->secure, question, sizeof(question));
	if (rc == 0 && k->secure && question[0] == 'Q')
		rc = secure_write(k->secure, s->message, s->opt->value_size);
	if (rc < 0)
		talk_end(k);
}

static void *thread_main(void *arg)
{
	struct peer_server *s = arg;
	struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE}, got[EVENTS];
	int fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, s->listen_fd, &event) < 0)
		return NULL;
	for (;;) {
		int n = epoll_wait(fd, got, EVENTS, -1);
		for (int i = 0; i < n; i++) {
			if (got[i].data.ptr)
				serve(s, got[i].data.ptr);
			else
				accept_one(s, fd);
		}
		if (n < 0 && errno != EINTR)
			return NULL;
	}
}

int peer_main(const struct step_options *options, int listen_fd)
{
	struct peer_server s = {.opt = options, .message = malloc(options->value_size), .listen_fd = listen_fd};
	struct kv_error err = {0};
	pthread_t thread;
	unsigned started = 0;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() == 1 || !s.message ||
	    secure_context_create(true, &s.ctx, &err) < 0)
		return BENCH_NO_START;
	for (uint64_t i = 0; i < options->value_size; i++)
		s.message[i] = peer_byte(i);
	for (; started < options->num_threads; started++)
		if (pthread_create(&thread, NULL, thread_main, &s))
			break;
	if (started > 0)
		pthread_join(thread, NULL); /* it never ends: the parent does, or kills this process */
	return BENCH_NO_START;
}
