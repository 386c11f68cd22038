/* SPDX-License-Identifier: Apache-2.0 */
/* pair.c -- both ends of a channel in one process. */
#include "tests/local/pair.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

struct local_shard pair_fds(const struct local_channel *server)
{
	struct local_shard s = {.shards = 1};
	for (unsigned i = 0; i < LOCAL_FDS; i++)
		s.fd[i] = -1;
	local_channel_fds(server, &s);
	for (unsigned i = 0; i < LOCAL_FDS; i++)
		if (s.fd[i] >= 0)
			s.fd[i] = fcntl(s.fd[i], F_DUPFD_CLOEXEC, 0);
	return s;
}

struct pair pair_make(void)
{
	struct pair p = {NULL, NULL};
	struct kv_error err = {0};
	if (local_channel_make(&p.server, &err))
		fail_msg("local_channel_make: %s", err.text);
	struct local_shard s = pair_fds(p.server);
	if (local_channel_open(&s, &p.client, &err))
		fail_msg("local_channel_open: %s", err.text);
	local_channel_passed(p.server);
	return p;
}

void pair_close(struct pair *p)
{
	local_channel_close(&p->client);
	local_channel_close(&p->server);
}

bool bell_rang(const struct local_channel *ch)
{
	struct pollfd p = {.fd = local_wait_fd(ch), .events = POLLIN};
	return poll(&p, 1, 0) == 1;
}

unsigned open_files(void)
{
	unsigned n = 0;
	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}
