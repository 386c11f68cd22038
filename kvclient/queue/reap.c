/* SPDX-License-Identifier: Apache-2.0 */
/* reap.c -- ids ended from outside: reaped, cancelled, or taken back at their deadline. Any thread can take back an
 * unstarted part: by changing its state it comes to own the items. A started part is stopped by its loop. One kvc_reap
 * looks at KC_REAP_STEPS parts, and the next call resumes; the descriptor stays readable until all were looked at. */
#include "kvclient/queue/queue.h"

/* Take back unstarted parts past their deadline, and watch the future deadlines. If the part can then be taken by its
 * id, the deadline read was that id's: ids are never used again. */
static void deadlines_look(struct kvc_queue *q, uint64_t now_ns, uint32_t *steps)
{
	for (; q->looked < q->depth * q->parts_max && *steps > 0; q->looked++, --*steps) {
		struct kc_queue_part *p = &q->part[q->looked];
		uint64_t word = atomic_load(&p->state), deadline = atomic_load(&p->deadline_ns);
		if ((word & 3) != KC_PART_POSTED)
			continue;
		if (deadline > now_ns)
			q->next_ns = KV_MIN(q->next_ns, deadline);
		else if (kc_part_turn(p, word >> 2, KC_PART_POSTED, KC_PART_TAKEN_BACK))
			kc_part_end(p, -KV_ETIMEOUT);
	}
	if (q->looked < q->depth * q->parts_max)
		return;
	q->looking = false;
	kc_bell_watch(&q->bell, q->next_ns, q->clock);
	kc_bell_watched(&q->bell, q->clock);
}

/* Calls submitted during a look watch their deadlines themselves. */
static void deadlines_step(struct kvc_queue *q, uint64_t now_ns, uint32_t *steps)
{
	if (!q->looking && kc_bell_due(&q->bell, now_ns)) {
		q->looking = true;
		q->looked = 0;
		q->next_ns = KV_NEVER;
	}
	if (q->looking)
		deadlines_look(q, now_ns, steps);
}

static void completion_fill(struct kvc_completion *out, const struct kc_queue_entry *e)
{
	*out = (struct kvc_completion){.id = e->id, .tag = e->tag, .items = e->items, .n = e->n, .op = (uint32_t)e->op};
	for (unsigned i = 0; i < e->n && out->result == 0; i++)
		out->result = e->items[i].result < 0 ? (int)e->items[i].result : 0;
}

static int reap(struct kvc_queue *q, struct kvc_completion *out, unsigned max)
{
	struct kc_queue_entry *e;
	uint32_t look = KC_REAP_STEPS, turn = KC_REAP_STEPS;
	unsigned n = 0;
	deadlines_step(q, kv_clock_now(q->clock), &look);
	while (n < max && (e = kc_entry_next(q, &turn))) {
		completion_fill(&out[n++], e);
		kc_entry_unload(e);
		kc_entry_unhold(e);
	}
	if (q->ready || q->turning || q->looking) { /* loops may not have rung, and find an empty list */
		kc_bell_ring(&q->bell);
	} else if (n == 0 || kc_bell_rung(&q->bell)) {
		kc_bell_still(&q->bell);
		if (atomic_load(&q->done))
			kc_bell_ring(&q->bell);
	}
	return (int)n;
}

int kvc_reap(struct kvc_queue *queue, struct kvc_completion *out, unsigned max)
{
	int n;
	if (!queue || (!out && max > 0) || max > INT32_MAX)
		return -KV_EINVAL;
	if (kc_fork_alien(queue->born))
		return -KV_ECLOSED;
	if (atomic_exchange(&queue->reaping, true))
		return -KV_EBUSY;
	n = reap(queue, out, max);
	atomic_store(&queue->reaping, false);
	return n;
}

static int part_cancel(struct kc_queue_part *p, uint64_t id)
{
	if (kc_part_turn(p, id, KC_PART_POSTED, KC_PART_TAKEN_BACK)) {
		kc_part_end(p, -KV_ECANCELED);
		return 0;
	}
	return atomic_load(&p->state) == kc_part_word(id, KC_PART_STARTED) ? kc_lane_stop(p, id) : 1;
}

int kc_entry_cancel(struct kc_queue_entry *e, uint64_t id)
{
	int result = -KV_ENOTFOUND;
	for (uint32_t k = 0; k < e->queue->parts_max; k++) {
		int rc = part_cancel(&e->part[k], id);
		if (rc < 0 || (rc == 0 && result == -KV_ENOTFOUND))
			result = rc;
	}
	return result;
}

int kvc_cancel(struct kvc_queue *queue, uint64_t id)
{
	uint32_t index = id & ((1u << KC_QUEUE_DEPTH_BITS) - 1);
	int rc;
	if (!queue)
		return -KV_EINVAL;
	if (kc_fork_alien(queue->born))
		return -KV_ECLOSED;
	if (index >= queue->depth || id > INT64_MAX >> 2)
		return -KV_ENOTFOUND;
	rc = kc_queue_enter(queue);
	if (rc < 0)
		return rc;
	rc = kc_entry_cancel(&queue->entry[index], id);
	kc_queue_leave(queue);
	return rc;
}
