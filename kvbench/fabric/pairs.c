/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c -- start responders, open and close pairs of ends.
 *
 * A responder on this machine is this program again. A socket joins both: it carries addresses and phases, and its end
 * shows each side that the other has ended. */
#include "kvbench/fabric/pairs.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvbench/fabric/measure.h"
#include "kvbench/fabric/remote.h"
#include "kvbench/fabric/responder.h"
#include "kvbench/setup/signals.h"
#include "probe/probe.h"

enum { REAP_MS = 10000 };

static int child_start(struct fabric_pairs *p, unsigned i, const struct fabric_options *o, struct kv_error *err)
{
	int fds[2], rc;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return kv_fail(err, -errno, "no socket for the responder: %s", kv_strerror(errno));
	rc = fabric_responder_spawn(o, fds[1], &p->pid[i], err);
	close(fds[1]);
	p->fd[i] = fds[0];
	return rc;
}

int fabric_pairs_start(struct fabric_pairs *p, const struct fabric_options *o, struct kv_error *err)
{
	int rc = 0;
	for (; rc == 0 && p->num_started < o->pairs; p->num_started += rc == 0) {
		unsigned i = p->num_started;
		p->fd[i] = -1;
		rc = o->connect ? fabric_dial(o, &p->fd[i], err) : child_start(p, i, o, err);
		if (rc < 0 && p->fd[i] >= 0)
			close(p->fd[i]);
	}
	return rc;
}

static int pair_open(struct fabric_pairs *p, unsigned i, const struct fabric_options *o, struct kv_error *err)
{
	const struct fabric_ask ask = {.magic = FABRIC_MAGIC, .size_max = o->size_max, .span = o->span};
	int rc = end_tell(p->fd[i], &ask, sizeof(ask));
	p->end[i] = calloc(1, sizeof(*p->end[i]));
	if (!p->end[i])
		return kv_fail(err, -KV_ENOMEM, "no memory for a pair of endpoints");
	p->num_open = i + 1;
	if (rc < 0)
		return kv_fail(err, rc, "the responder has ended");
	rc = end_open(p->end[i], o, p->fd[i], bench_interrupted, err);
	if (rc == 0 && i > 0 && (rc = fabric_rest(p->end[i])) < 0)
		kv_fail(err, rc, "the responder does not answer: %s", kv_strerror(rc));
	return rc;
}

int fabric_pairs_open(struct fabric_pairs *p, const struct fabric_options *o, struct kv_error *err)
{
	int rc = 0;
	for (unsigned i = 0; i < p->num_started && rc == 0; i++)
		rc = pair_open(p, i, o, err);
	return rc;
}

/* It ends by itself when the socket closes; one that does not is killed. */
static void child_reap(pid_t pid)
{
	int status;
	if (probe_reap(pid, REAP_MS, &status))
		return;
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

void fabric_pairs_close(struct fabric_pairs *p)
{
	for (unsigned i = 0; i < p->num_open; i++) {
		end_close(p->end[i]);
		free(p->end[i]);
	}
	for (unsigned i = 0; i < p->num_started; i++)
		close(p->fd[i]);
	for (unsigned i = 0; i < p->num_started; i++)
		if (p->pid[i] > 0)
			child_reap(p->pid[i]);
	p->num_open = p->num_started = 0;
}

double fabric_pairs_cpu_seconds(const struct fabric_pairs *p)
{
	double sum = 0;
	for (unsigned i = 0; i < p->num_started; i++)
		sum += p->pid[i] > 0 ? kv_process_cpu_seconds((int)p->pid[i]) : 0;
	return sum;
}
