/* SPDX-License-Identifier: Apache-2.0 */
/* requests.c -- a client's data of this room: made before its engine, and freed after it. */
#include "kvclient/request/requests.h"

#include <stdlib.h>

#include "kvclient/request/admission.h"
#include "kvclient/request/landing.h"
#include "kvclient/request/pack.h"
#include "kvclient/request/private.h"
#include "kvclient/request/pull.h"

int kc_requests_open(struct kvc_client *c)
{
	struct kc_requests *own = calloc(1, sizeof(*own));
	if (!own)
		return -KV_ENOMEM;
	own->client = c;
	kv_list_init(&own->room.starving);
	kv_list_init(&own->room.behind);
	kv_list_init(&own->unsafe.orphans);
	kv_list_init(&own->unsafe.limbo);
	co_queue_init(&own->unsafe.over);
	kv_list_init(&own->out.dirty);
	kv_list_init(&own->out.releasing);
	own->out.release_timer.fire = kc_release_fire;
	own->out.again.fire = kc_push_again;
	c->requests = own;
	return 0;
}

void kc_requests_engine(struct kvc_client *c)
{
	c->requests->room.imm_limit = kc_room_imm_limit(&c->info);
}

static void flusher(void *client)
{
	struct kvc_client *c = client;
	struct kc_out *out = &c->requests->out;
	out->flusher = co_self();
	while (!out->flusher_stop) {
		kc_link_flush(c);
		co_park_await(KV_NEVER);
	}
	out->flusher = NULL;
	kc_client_ended(c);
}

int kc_requests_start(struct kvc_client *c)
{
	int rc = co_spawn(c->loop, flusher, c, "kvc flush");
	if (rc == 0)
		kc_client_began(c);
	return rc;
}

void kc_requests_stop(struct kvc_client *c)
{
	c->requests->out.flusher_stop = true;
	if (c->requests->out.flusher)
		co_wake(c->requests->out.flusher);
}

void kc_requests_quiet(struct kvc_client *c)
{
	loop_timer_cancel(c->loop, &c->requests->out.release_timer);
	loop_timer_cancel(c->loop, &c->requests->out.again);
}

void kc_requests_close(struct kvc_client *c)
{
	if (!c->requests)
		return;
	kc_pulls_fini(c);
	kc_pushes_fini(c);
	kc_packs_fini(c);
	free(c->requests);
	c->requests = NULL;
}
