/* SPDX-License-Identifier: Apache-2.0 */
/* child.c -- see child.h. The socket carries one hello each way; a child ends when it closes, or when it has
 * lived for three waits of a test. */
#include "tests/engine/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { CHILD_FD = 3, CHILD_LIFE_WAITS = 3 };

static void hello_of(struct child_hello *h, struct node *node, struct area *area)
{
	struct te_info info;
	te_info(node->te, &info);
	memset(h, 0, sizeof(*h));
	h->chunk = info.chunk_bytes;
	assert_int_equal(te_address(node->te, 0, &h->address), 0);
	h->len = area->len;
	h->base = area->remote.keys[0].base;
	h->key = area->remote.keys[0].key;
	h->virt = area->remote.virt;
}

static bool hello_read(int fd, struct child_hello *h)
{
	return recv(fd, h, sizeof(*h), MSG_WAITALL) == (ssize_t)sizeof(*h);
}

static bool hello_write(int fd, const struct child_hello *h)
{
	return send(fd, h, sizeof(*h), MSG_NOSIGNAL) == (ssize_t)sizeof(*h);
}

static void remote_of(struct area *a, struct te_key *key, const struct child_hello *h)
{
	memset(a, 0, sizeof(*a));
	*key = (struct te_key){.base = h->base, .key = h->key};
	a->len = h->len;
	a->remote = (struct te_remote){
		.len_bytes = h->len, .part_bytes = h->len, .parts = 1, .rails = 1, .virt = h->virt, .keys = key};
}

void child_start(struct child *c, enum child_role role, const char *provider, struct node *node, struct area *area)
{
	char role_text[8];
	char *argv[] = {(char *)(uintptr_t)"peer", role_text, (char *)(uintptr_t)provider, NULL};
	struct child_hello mine;
	posix_spawn_file_actions_t actions;
	int fds[2];
	memset(c, 0, sizeof(*c));
	snprintf(role_text, sizeof(role_text), "%d", (int)role);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	assert_int_equal(posix_spawn_file_actions_adddup2(&actions, fds[1], CHILD_FD), 0);
	assert_int_equal(posix_spawn(&c->pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	c->fd = fds[0];
	hello_of(&mine, node, area);
	assert_true(hello_write(c->fd, &mine));
	assert_true(hello_read(c->fd, &c->hello));
	remote_of(&c->remote, &c->key, &c->hello);
}

void child_signal(struct child *c, int sig)
{
	int status;
	assert_int_equal(kill(c->pid, sig), 0);
	if (sig == SIGSTOP)
		assert_int_equal(waitpid(c->pid, &status, WUNTRACED), c->pid);
}

/* What shm leaves behind when it cannot run its handlers: "kvrail-NAMESPACE-PID-UNIQUE". */
static void shm_clean(pid_t pid)
{
	char part[32], path[300];
	DIR *d = opendir("/dev/shm");
	snprintf(part, sizeof(part), "-%d-", (int)pid);
	for (struct dirent *e; d && (e = readdir(d));)
		if (strncmp(e->d_name, "kvrail-", 7) == 0 && strstr(e->d_name, part)) {
			snprintf(path, sizeof(path), "/dev/shm/%s", e->d_name);
			unlink(path);
		}
	if (d)
		closedir(d);
}

void child_end(struct child *c)
{
	if (c->pid > 0) {
		kill(c->pid, SIGKILL);
		waitpid(c->pid, NULL, 0);
		shm_clean(c->pid);
	}
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->pid = 0;
}

struct te_peer *child_peer(struct child *c, struct node *node)
{
	struct te_peer *peer = NULL;
	assert_int_equal(te_peer_open(node->te, &c->hello.address, 1, &peer, NULL), 0);
	return peer;
}

/* ---- in the child ---- */

struct writer {
	struct te_xfer x;
	uint32_t round;
	bool busy;
};

static void write_done(struct te_xfer *x, int status)
{
	struct writer *w = x->arg;
	(void)status;
	w->busy = false;
}

static void stamp(struct writer *w, const struct node *n, struct area *local)
{
	struct te_info info;
	te_info(n->te, &info);
	w->round++;
	for (uint64_t at = 0, end; at < local->len; at = end) {
		end = KV_MIN(at + info.chunk_bytes, local->len);
		memcpy(local->base + at, &w->round, sizeof(w->round));
		memcpy(local->base + end - sizeof(w->round), &w->round, sizeof(w->round));
	}
}

static void write_again(struct writer *w, struct node *n, struct te_peer *peer, struct area *local, struct area *remote)
{
	if (w->busy)
		return;
	stamp(w, n, local);
	memset(&w->x, 0, sizeof(w->x));
	w->x = (struct te_xfer){.dir = TE_WRITE,
				.peer = peer,
				.link = TE_LINK_ANY,
				.local = local->region,
				.remote = &remote->remote,
				.at = {.slice = remote->len, .count = 1},
				.with_imm = true,
				.imm = w->round,
				.deadline_ns = KV_NEVER,
				.done = write_done,
				.arg = w};
	w->busy = te_xfer_start(n->te, &w->x) >= 0;
}

static bool parent_gone(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return poll(&p, 1, 0) != 0;
}

static void run(enum child_role role, const char *provider)
{
	struct te_options o = {.chunk_bytes = (uint32_t)CHILD_AREA};
	struct child_hello mine, theirs;
	struct writer w = {0};
	struct node n;
	struct area local, remote;
	struct te_key key;
	struct te_peer *peer;
	node_open(&n, provider, &o);
	area_open(&local, &n, CHILD_AREA, 0, 99);
	hello_of(&mine, &n, &local);
	if (!hello_read(CHILD_FD, &theirs) || te_peer_open(n.te, &theirs.address, 1, &peer, NULL) ||
	    !hello_write(CHILD_FD, &mine))
		_exit(1);
	remote_of(&remote, &key, &theirs);
	uint64_t end = kv_clock_now(&kv_clock_monotonic) + CHILD_LIFE_WAITS * WAIT_NS;
	while (kv_clock_now(&kv_clock_monotonic) < end && !parent_gone(CHILD_FD)) {
		node_poll_all();
		if (role == CHILD_WRITE)
			write_again(&w, &n, peer, &local, &remote);
	}
	node_close(&n);
}

bool child_main(int argc, char **argv)
{
	if (argc != 3 || strcmp(argv[0], "peer") != 0)
		return false;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run((enum child_role)atoi(argv[1]), argv[2]);
	return true;
}
