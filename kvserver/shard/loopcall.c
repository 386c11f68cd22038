/* SPDX-License-Identifier: Apache-2.0 */
/* loopcall.c -- calls between loops, over loop_post.
 *
 * A call is posted to the shard, and posted back when it is finished. The way back may not fail, because the caller
 * waits. So calls that the home loop's queue refuses stay on the shard, and are offered again every turn, in order. */
#include "kvserver/shard/loopcall.h"

#include "kvserver/shard/shard.h"

static void call_run(void *arg)
{
	struct call *c = arg;
	c->run(c);
}

static void call_done(void *arg)
{
	struct call *c = arg;
	c->done(c);
}

int call_make(struct call *c, struct loop *home)
{
	c->home = home;
	kv_list_init(&c->node);
	return loop_post(c->shard->loop, call_run, c);
}

void call_finish(struct call *c, int status)
{
	struct shard *s = c->shard;
	c->status = status;
	kv_list_add_tail(&s->calls.undelivered, &c->node);
	call_redeliver(s);
}

void call_redeliver(struct shard *s)
{
	while (!kv_list_empty(&s->calls.undelivered)) {
		struct call *c = KV_LIST_ENTRY(s->calls.undelivered.next, struct call, node);
		kv_list_del(&c->node);
		/* Once posted the call is the home loop's: it may be freed before loop_post returns. */
		if (loop_post(c->home, call_done, c) == 0)
			continue;
		kv_list_add_head(&s->calls.undelivered, &c->node);
		return;
	}
}
