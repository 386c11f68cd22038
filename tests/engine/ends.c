/* SPDX-License-Identifier: Apache-2.0 */
/* ends.c -- see ends.h. */
#include "tests/engine/ends.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/engine/node.h"

void ends_open(struct ends *e)
{
	struct local_shard s = {.shards = 1};
	struct kv_error err = {0};
	struct stat st;
	if (local_channel_make(&e->server, &err))
		fail_msg("local_channel_make: %s", err.text);
	local_channel_fds(e->server, &s);
	assert_int_equal(fstat(s.fd[LOCAL_CHANNEL], &st), 0);
	e->len = (size_t)st.st_size;
	e->pages = mmap(NULL, e->len, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd[LOCAL_CHANNEL], 0);
	assert_ptr_not_equal(e->pages, MAP_FAILED);
	for (int i = LOCAL_CHANNEL; i < LOCAL_FDS; i++) {
		s.fd[i] = fcntl(s.fd[i], F_DUPFD_CLOEXEC, 0);
		assert_true(s.fd[i] >= 0);
	}
	if (local_channel_open(&s, &e->client, &err))
		fail_msg("local_channel_open: %s", err.text);
	local_channel_passed(e->server);
}

void ends_close(struct ends *e)
{
	munmap(e->pages, e->len);
	local_channel_close(&e->server);
	local_channel_close(&e->client);
}
