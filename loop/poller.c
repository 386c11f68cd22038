/* SPDX-License-Identifier: Apache-2.0 */
/* poller.c -- the pollers of a loop before and after a sleep.
 *
 * For a wait_fd the ring has a one-shot poll request, pending until it fires. arm() comes first (fi_trywait, which may
 * clear the descriptor), then the request, which sees the level and later changes. A poller without a wait_fd is polled
 * in growing steps while it is active; so is one whose descriptor fires while poll() finds nothing, until it finds an
 * event.
 *
 * The kernel may use the request after its poller's memory is gone, so it lives in a struct watch, freed when an
 * orphaned request completes. */
#include "loop/poller.h"

#include <poll.h>
#include <stdlib.h>

#include "loop/inside.h"

enum { FALSE_ALARMS_MAX = 8 };

struct watch {
	struct ring_op op;
	struct kv_list node;        /* poller_set.watches */
	struct loop_poller *poller; /* NULL: orphaned */
	bool pending;               /* the ring has the request */
	bool alarmed;               /* it fired, and poll() found nothing since */
	uint8_t false_alarms;
};

void poller_set_init(struct poller_set *set)
{
	kv_list_init(&set->all);
	kv_list_init(&set->watches);
	set->cursor = NULL;
	set->polled = NULL;
	set->refused = false;
	set->step_ns = POLLER_STEP_MIN_NS;
}

static void watch_free(struct watch *watch)
{
	kv_list_del(&watch->node);
	free(watch);
}

void poller_set_fini(struct poller_set *set)
{
	KV_LIST_EACH_SAFE (n, &set->watches)
		watch_free(KV_LIST_ENTRY(n, struct watch, node));
}

static void fired(struct ring_op *op)
{
	struct watch *watch = KV_CONTAINER(op, struct watch, op);
	watch->pending = false;
	watch->alarmed = true;
	if (!watch->poller)
		watch_free(watch);
}

static void watch_drop(struct ring *ring, struct watch *watch)
{
	if (!watch->pending) {
		watch_free(watch);
		return;
	}
	watch->poller = NULL;
	ring_cancel(ring, &watch->op);
}

static struct watch *watch_new(struct poller_set *set, struct loop_poller *p)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	if (!watch)
		return NULL;
	watch->poller = p;
	kv_list_add_tail(&set->watches, &watch->node);
	return watch;
}

int loop_poller_add(struct loop *loop, struct loop_poller *p)
{
	p->priv = watch_new(&loop->pollers, p);
	if (!p->priv)
		return -KV_ENOMEM;
	kv_list_add_tail(&loop->pollers.all, &p->node);
	return 0;
}

void loop_poller_del(struct loop *loop, struct loop_poller *p)
{
	if (!p->priv)
		return;
	if (loop->pollers.cursor == &p->node)
		loop->pollers.cursor = p->node.next;
	if (loop->pollers.polled == p)
		loop->pollers.polled = NULL;
	kv_list_del(&p->node);
	watch_drop(loop->ring, p->priv);
	p->priv = NULL;
}

int loop_poller_refd(struct loop *loop, struct loop_poller *p)
{
	struct watch *watch = watch_new(&loop->pollers, p);
	if (!watch)
		return -KV_ENOMEM;
	watch_drop(loop->ring, p->priv);
	p->priv = watch;
	return 0;
}

static int poll_one(struct poller_set *set, struct loop_poller *p)
{
	set->polled = p;
	int found = p->poll(p);
	if (!set->polled)
		return found; /* it deleted itself and may be freed */
	struct watch *watch = p->priv;
	if (found > 0)
		watch->false_alarms = 0;
	else if (watch->alarmed && watch->false_alarms < FALSE_ALARMS_MAX)
		watch->false_alarms++;
	watch->alarmed = false;
	return found;
}

int poller_poll_all(struct poller_set *set)
{
	int found = 0;
	for (set->cursor = set->all.next; set->cursor != &set->all;) {
		struct loop_poller *p = KV_LIST_ENTRY(set->cursor, struct loop_poller, node);
		set->cursor = set->cursor->next;
		found += poll_one(set, p);
	}
	set->cursor = NULL;
	set->polled = NULL;
	if (found > 0) {
		set->step_ns = POLLER_STEP_MIN_NS;
		set->refused = false;
	}
	return found;
}

static bool is_active(struct loop_poller *p)
{
	return !p->active || p->active(p);
}

bool poller_any_active(struct poller_set *set, bool *out_blind)
{
	bool any = false;
	*out_blind = false;
	KV_LIST_EACH (n, &set->all) {
		struct loop_poller *p = KV_LIST_ENTRY(n, struct loop_poller, node);
		if (!is_active(p))
			continue;
		any = true;
		*out_blind |= p->wait_fd < 0;
	}
	return any;
}

static void watch_start(struct ring *ring, struct watch *watch, int fd)
{
	if (watch->pending)
		return;
	watch->op = (struct ring_op){.kind = RING_POLL, .fd = fd, .events = POLLIN, .done = fired, .quiet = true};
	watch->pending = true;
	ring_submit(ring, &watch->op);
}

bool poller_arm_all(struct poller_set *set, struct ring *ring, uint64_t *wait_ns)
{
	bool stepping = false;
	if (kv_list_empty(&set->all))
		return true;
	KV_LIST_EACH (n, &set->all) {
		struct loop_poller *p = KV_LIST_ENTRY(n, struct loop_poller, node);
		struct watch *watch = p->priv;
		if (p->wait_fd < 0) {
			stepping |= is_active(p);
			continue;
		}
		if (p->arm && p->arm(p) < 0) {
			if (set->refused)
				ring_relax(ring); /* arm() refused before, and poll() found nothing: spare the CPU */
			set->refused = true;
			return false;
		}
		if (watch->false_alarms < FALSE_ALARMS_MAX)
			watch_start(ring, watch, p->wait_fd);
		else
			stepping = true;
	}
	set->refused = false;
	*wait_ns = KV_MIN(*wait_ns, stepping ? set->step_ns : POLLER_SLEEP_MAX_NS);
	if (stepping)
		set->step_ns = KV_MIN(2 * set->step_ns, POLLER_STEP_MAX_NS);
	return true;
}
