/* SPDX-License-Identifier: Apache-2.0 */
/* loops.c -- the loops of a server, their coroutines, and their threads. */
#include "kvserver/server/private.h"

#include <stdio.h>

#include "kvserver/server/server.h"

enum { BEATS_MAX = 1024, OTHERS = HANDSHAKES_MAX + BEATS_MAX + LOCAL_STRANGERS_MAX };

static int loops_create(struct kvs_server *s, struct kv_error *err)
{
	struct loop_options options = {.name = "kv-control",
				       .log = s->opt.log,
				       .clock = s->opt.clock,
				       .entropy = s->opt.entropy,
				       /* One for each connection, with an attachment or without, one for each local
					* client, and those that send. */
				       .coroutines_max = 2 * s->clients.slots + OTHERS};
	char name[16];
	int rc = 0;
	if (s->opt.loops) {
		s->control = s->opt.loops[0];
		memcpy(s->shard_loop, s->opt.loops + 1, s->opt.shards * sizeof(s->shard_loop[0]));
		return 0;
	}
	rc = loop_create(&options, &s->control, err);
	options.spin_ns = s->opt.spin_ns;
	options.coroutines_max = 0;
	options.name = name;
	for (unsigned i = 0; rc == 0 && i < s->opt.shards; i++) {
		snprintf(name, sizeof(name), "kv-shard-%u", i % KV_SHARDS_MAX);
		rc = loop_create(&options, &s->shard_loop[i], err);
	}
	return rc;
}

/* Limit the clients to half of the control loop's coroutines, less those for strangers and sending: a client may be a
 * local one as well. If address space was short, it has fewer than requested. */
static void clients_fit(struct kvs_server *s)
{
	struct loop_stats stats;
	unsigned all;
	loop_stats(s->control, &stats);
	all = (unsigned)stats.coroutines_max;
	s->clients.max = all > 2 * OTHERS ? (all - OTHERS) / 2 : KV_MAX(all / 4, 1u);
	s->strangers.max = KV_MIN(s->strangers.max, KV_MAX(all / 4, 1u));
}

int loops_make(struct kvs_server *s, struct kv_error *err)
{
	int rc = loops_create(s, err);
	if (rc == 0)
		clients_fit(s);
	return rc;
}

void loops_free(struct kvs_server *s)
{
	if (s->opt.loops)
		return;
	for (unsigned i = 0; i < s->opt.shards; i++)
		loop_destroy(&s->shard_loop[i]);
	loop_destroy(&s->control);
}

/* ---- threads ---- */

static void *thread_run(void *arg)
{
	loop_run(arg);
	return NULL;
}

int threads_start(struct kvs_server *s, struct kv_error *err)
{
	for (unsigned i = 0; i <= s->opt.shards; i++) {
		int rc = pthread_create(&s->threads.thread[i], NULL, thread_run,
					i == 0 ? s->control : s->shard_loop[i - 1]);
		if (rc)
			return kv_fail(err, -rc,
				       "starting thread %u of %u: %s; "
				       "look at ulimit -u and -v, and at the pids limit of a container",
				       i + 1, s->opt.shards + 1, kv_strerror(-rc));
		s->threads.count++;
	}
	return 0;
}

void threads_join(struct kvs_server *s)
{
	for (unsigned i = 0; i < s->threads.count; i++)
		loop_stop(i == 0 ? s->control : s->shard_loop[i - 1]);
	for (unsigned i = 0; i < s->threads.count; i++)
		pthread_join(s->threads.thread[i], NULL);
	s->threads.count = 0;
}
