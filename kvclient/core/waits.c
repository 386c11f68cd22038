/* SPDX-License-Identifier: Apache-2.0 */
/* waits.c -- waits of a call. Three kinds are known to kvc_cancel, kvc_queue_close and the pool's end: for its requests
 * (transfer/call.c: kc_call_wait_await), for room (request/admission.c), and here for all else. scripts/check-waits.sh
 * finds others. A wait is in the client's list while it lasts. Its coroutine carries the address of the call's stop
 * (co_set_mark). Ending a wait wakes its whole queue. */
#include "kvclient/core/waits.h"

struct wait_entry {
	struct kv_list node;
	struct co_queue *queue;
	const bool *stop;
};

void kc_wait_stop_set(const bool *stop)
{
	co_set_mark(stop);
}

const bool *kc_wait_stop(void)
{
	return co_mark();
}

int kc_wait_over(const struct kvc_client *c)
{
	const bool *stop = kc_wait_stop();
	if (c->closing)
		return -KV_ECLOSED;
	return stop && *stop ? -KV_ECANCELED : 0;
}

int kc_wait_queue_await(struct kvc_client *c, struct co_queue *q, uint64_t deadline_ns)
{
	struct wait_entry w = {.queue = q, .stop = kc_wait_stop()};
	int over = kc_wait_over(c), rc;
	if (over < 0)
		return over;
	kv_list_add_tail(&c->waits.all, &w.node);
	rc = co_queue_wait_await(q, deadline_ns);
	kv_list_del(&w.node);
	over = kc_wait_over(c);
	return over < 0 ? over : rc;
}

int kc_wait_time_await(struct kvc_client *c, uint64_t until_ns)
{
	int rc;
	do
		rc = kc_wait_queue_await(c, &c->waits.time, until_ns);
	while (rc == 0);
	return rc == -KV_ETIMEOUT ? 0 : rc;
}

void kc_waits_init(struct kvc_client *c)
{
	kv_list_init(&c->waits.all);
	co_queue_init(&c->waits.time);
}

/* Woken coroutines run later, so the list stays as it is. */
void kc_waits_stop(struct kvc_client *c, const bool *stop)
{
	KV_LIST_EACH (n, &c->waits.all) {
		const struct wait_entry *w = KV_LIST_ENTRY(n, const struct wait_entry, node);
		if (w->stop == stop)
			co_queue_wake_all(w->queue);
	}
}

void kc_waits_close(struct kvc_client *c)
{
	KV_LIST_EACH (n, &c->waits.all)
		co_queue_wake_all(KV_LIST_ENTRY(n, const struct wait_entry, node)->queue);
}
