/* SPDX-License-Identifier: Apache-2.0 */
/* test_life.c -- the life of a request on a link that has no engine: what it leaves behind when its call lets go of it
 * early, what an orphan keeps, and what may end one whose endpoint is not closed yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kvclient/request/admission.h"
#include "kvclient/request/attachment.h"
#include "kvclient/request/fence.h"
#include "kvclient/request/lanes.h"
#include "kvclient/request/life.h"
#include "kvclient/request/private.h"
#include "kvclient/request/requests.h"

#define BUFFER (1ull << 20)

/* A client of one server, which has one shard and one link, and a further session there with one lane. */
static struct {
	struct kvc_pool pool;
	struct kvc_client client;
	struct kc_node node;
	struct kc_attachment *attachment;
	struct kc_link *link;
	struct kvc_session *session;
	struct kc_lane lane;
	struct kc_wait wait;
	void *memory;
} w;

static void link_up(void)
{
	w.attachment = calloc(1, sizeof(*w.attachment) + sizeof(struct kc_link));
	assert_non_null(w.attachment);
	w.attachment->node = &w.node;
	w.attachment->refs = 1;
	w.attachment->open = true;
	w.attachment->credits = 100;
	w.attachment->num_links = w.attachment->shards = w.attachment->links_per_shard = 1;
	w.node.attachment = w.attachment;
	w.link = &w.attachment->link[0];
	w.link->attachment = w.attachment;
	w.link->credits = 100;
	kv_list_init(&w.link->dirty_node);
	kv_list_init(&w.link->queue);
	kv_list_init(&w.link->parked);
	kv_list_init(&w.link->cancels);
	kv_list_init(&w.link->sent);
	kv_list_init(&w.link->releases.node);
	kv_list_init(&w.link->turns);
	assert_int_equal(kc_map_init(&w.link->map, 100), 0);
}

static void lane_up(void)
{
	w.session = calloc(1, sizeof(*w.session) + sizeof(struct kc_session_at));
	assert_non_null(w.session);
	w.session->refs = 1;
	w.session->num_at = 1;
	w.session->client = &w.client;
	w.session->at[0] = (struct kc_session_at){.session = w.session,
						  .node = &w.node,
						  .state = KC_SESSION_OPEN,
						  .credits = 100,
						  .number = 1,
						  .lane = &w.lane};
	kv_list_init(&w.lane.queue);
	kv_list_init(&w.lane.turn);
	kv_list_add_tail(&w.client.sessions, &w.session->node);
}

static int world_up(void **state)
{
	struct kvc_client *c = &w.client;
	(void)state;
	memset(&w, 0, sizeof(w));
	w.pool.room = c->num_nodes = 1;
	w.node.client = c;
	c->pool = &w.pool;
	c->node = &w.node;
	assert_int_equal(kc_requests_open(c), 0);
	c->requests->room.imm_limit = 100;
	kv_list_init(&c->sessions);
	assert_non_null(w.memory = aligned_alloc(4096, BUFFER));
	assert_int_equal(loop_create(&(struct loop_options){.name = "life"}, &c->loop, NULL), 0);
	assert_int_equal(kc_reqs_init(&c->reqs, KC_REQS), 0);
	assert_int_equal(kc_buffer_init(&c->buffer, w.memory, BUFFER), 0);
	link_up();
	lane_up();
	return 0;
}

static int world_down(void **state)
{
	(void)state;
	kc_map_fini(&w.link->map);
	kc_buffer_fini(&w.client.buffer);
	kc_requests_close(&w.client);
	kc_reqs_fini(&w.client.reqs);
	loop_destroy(&w.client.loop);
	free(w.attachment);
	free(w.session);
	free(w.memory);
	return 0;
}

static struct kc_req *request(uint64_t piece_bytes, uint32_t imms)
{
	struct kc_need need = {.piece_bytes = piece_bytes, .imms = imms, .node = &w.node};
	struct kc_req *r;
	assert_int_equal(kc_room_try(&w.client, &need, &r), 0);
	r->wire.type = WIRE_GET;
	r->deadline_ns = KV_NEVER;
	return r;
}

/* As frames.c does, but that nothing goes out. */
static void send_it(struct kc_req *r)
{
	r->id = ++w.link->next_id;
	kc_req_advance(r, KC_REQ_SENT);
	w.link->credits--;
	kc_map_put(&w.link->map, r->id, r);
	kv_list_del(&r->node);
	kv_list_add_tail(&w.link->sent, &r->node);
}

static void nothing_is_left(void)
{
	const struct kvc_client *c = &w.client;
	assert_int_equal(c->reqs.used, 0);
	assert_int_equal(c->requests->room.imm_used, 0);
	assert_int_equal(c->buffer.free_bytes, BUFFER);
	assert_int_equal(c->requests->unsafe.orphan_bytes, 0);
	assert_true(kv_list_empty(&c->requests->unsafe.orphans));
	assert_int_equal(w.node.share.reqs, 0);
	assert_int_equal(w.node.share.bytes, 0);
	assert_int_equal(w.node.share.out, 0);
	assert_int_equal(w.wait.left, 0);
}

static void one_that_is_released_queued_is_gone(void **state)
{
	struct kc_req *r = request(8 << 10, 3);
	(void)state;
	kc_req_submit(w.link, r, &w.wait);
	assert_int_equal(w.wait.left, 1);
	kc_req_release(&w.client, r);
	assert_true(kv_list_empty(&w.link->queue));
	nothing_is_left();
}

/* Else the link would look for a request in a lane that has none. */
static void one_that_is_released_queued_takes_its_lane_along(void **state)
{
	struct kc_req *r = request(0, 0);
	(void)state;
	r->session = &w.session->at[0];
	kc_req_submit(w.link, r, &w.wait);
	assert_false(kv_list_empty(&w.link->turns));
	kc_req_release(&w.client, r);
	assert_true(kv_list_empty(&w.lane.queue));
	assert_true(kv_list_empty(&w.link->turns));
	nothing_is_left();
}

/* Its call goes while it is out: it keeps its piece until its write was counted, and its entry until both its reply and
 * the answer to its CANCEL came. */
static void an_orphan_keeps_what_may_still_be_written(void **state)
{
	struct kc_req *r = request(8 << 10, 1);
	struct kvc_client *c = &w.client;
	(void)state;
	kc_req_submit(w.link, r, &w.wait);
	send_it(r);
	r->wire.dest.count = 1;
	kc_req_cancel(r, -KV_ETIMEOUT);
	assert_int_equal(r->state, KC_REQ_GIVEN_UP);
	kc_req_release(c, r);
	assert_int_equal(r->state, KC_REQ_ORPHAN);
	assert_int_equal(c->requests->unsafe.orphan_bytes, 8 << 10);
	assert_int_equal(c->buffer.free_bytes, BUFFER - (8 << 10));
	r->said = KC_SAID_WRITES; /* the answer to its CANCEL */
	r->mem.posted = 1;
	kc_req_settle(c, r);
	assert_int_equal(r->state, KC_REQ_ORPHAN);
	kc_client_immediate(c, 0, kc_req_imm(r));
	assert_int_equal(r->state, KC_REQ_LATE);
	assert_int_equal(c->buffer.free_bytes, BUFFER);
	assert_int_equal(c->reqs.used, 1);
	assert_true(kc_map_del(&w.link->map, r->id)); /* its reply */
	r->id = 0;
	r->said = KC_SAID_REPLY;
	kc_req_settle(c, r);
	assert_int_equal(r->state, KC_REQ_FREE);
	nothing_is_left();
}

/* The server's immediates say nothing of an endpoint that was given up: until that is closed it may still be written
 * to. */
static void one_in_limbo_ends_when_its_endpoint_is_closed(void **state)
{
	struct kc_req *r = request(0, 2);
	(void)state;
	kc_req_submit(w.link, r, &w.wait);
	send_it(r);
	r->mem.callers = true;
	r->wire.dest.count = 1;
	r->mem.posted = 2;
	r->said = KC_SAID_WRITES;
	kc_attachment_limbo(w.attachment, -KV_ERESET);
	assert_int_equal(w.attachment->refs, 2); /* it names the link */
	for (unsigned i = 0; i < 2; i++)
		kc_client_immediate(&w.client, 0, kc_req_imm(r));
	assert_int_not_equal(r->state, KC_REQ_DONE);
	assert_int_equal(w.wait.left, 1);
	kc_fence_over(&w.client);
	assert_int_equal(r->state, KC_REQ_DONE);
	assert_int_equal(r->status, -KV_ERESET);
	assert_int_equal(w.attachment->refs, 1);
	kc_req_release(&w.client, r);
	nothing_is_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_that_is_released_queued_is_gone, world_up, world_down),
		cmocka_unit_test_setup_teardown(one_that_is_released_queued_takes_its_lane_along, world_up, world_down),
		cmocka_unit_test_setup_teardown(an_orphan_keeps_what_may_still_be_written, world_up, world_down),
		cmocka_unit_test_setup_teardown(one_in_limbo_ends_when_its_endpoint_is_closed, world_up, world_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
