/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.c -- a server that was out of the cluster, with its memory kept, may have missed DELETEs sent to other servers.
 *
 *   OVER --the view lacks it, or its source has lost it--> AWAY --it is a member again--> BACK
 *   ^ |                                                    ^                            ^ |  HEARD_NS: all clients
 *   | +------ it stood still for longer than clients wait -|----------------------------+ |  know it
 *   |                                                      +------- it is lost again -----+
 *   +-- the others have reported their memory, or do not answer in time -- ASKING <-----+
 *                                                                            |  with a tier: AGAIN_NS later once more
 *                                                                            +--> BACK
 *
 * A server is BACK when it is a member for the first time: it may have missed that namespaces were cleared.
 *
 * AWAY hides the values stored before it (store/doubt.h), BACK also those stored between AWAY and BACK. Then the
 * program asks the other members for deleted keys (kvs_options.recall). All who were members since have to answer
 * (gone.h): a server with a tier waits for them, for PATIENCE_NS. Without that all hidden values are dropped. */
#include "kvserver/conn/doubt.h"

#include <stdlib.h>

#include "kvserver/server/server.h"

#define HEARD_NS                                                                                                       \
	3000000000ull /* until all clients have a view with this server, and repeat older DELETEs here                 \
			 (kvclient/conn/deletes_owed.c) */
#define ANSWER_NS 10000000000ull
#define STILL_NS  1900000000ull /* clients wait for 2 s by default, and for two heartbeats in any case */
#define LOOK_NS   250000000ull

#define AGAIN_NS    5000000000ull
#define PATIENCE_NS 600000000000ull /* a tier is worth it; later tombstones may be forgotten (store/tombs.h) */

#define LOST_NS 5000000000ull /* others may have had a view without this server for this long before it hears of it */

/* ---- messages to the shards ---- */

static void hide(struct kvs_server *s)
{
	shard_doubt_hide(&s->doubt_orders, loop_now(s->control), s->doubts.first);
}

static void gone_publish(struct kvs_server *s)
{
	struct doubt_orders *to = &s->doubt_orders;
	atomic_store(&to->away_ns, gone_last_ns(&s->doubts.gone));
	atomic_store(&to->lost_ns, s->doubts.gone.lost_ns);
}

static void names_publish(struct kvs_server *s)
{
	struct doubt_orders *to = &s->doubt_orders;
	pthread_mutex_lock(&to->lock);
	to->names = gone_names(&s->doubts.gone, to->name);
	pthread_mutex_unlock(&to->lock);
	atomic_fetch_add(&to->names_number, 1);
}

/* ---- states ---- */

static void enter(struct kvs_server *s, enum doubt_state to, uint64_t for_ns)
{
	struct doubts *d = &s->doubts;
	d->state = to;
	loop_timer_cancel(s->control, &d->timer);
	if (for_ns)
		loop_timer_arm(s->control, &d->timer, loop_now(s->control) + for_ns);
}

static int64_t now_less(const struct kvs_server *s, uint64_t ns)
{
	return (int64_t)(loop_now(s->control) - ns);
}

static void begin(struct kvs_server *s, enum doubt_state to, uint64_t for_ns, int64_t since_ns)
{
	if (s->doubts.state == DOUBT_OVER || s->doubts.first) {
		s->doubts.since_ns = since_ns;
		s->doubts.first = s->doubts.waits_logged = false;
		control_set(s, WIRE_STAT_DOUBTS, atomic_load(&s->control_stat[WIRE_STAT_DOUBTS]) + 1);
	}
	enter(s, to, for_ns);
	hide(s);
}

static void lost(struct kvs_server *s)
{
	if (s->doubts.state != DOUBT_AWAY)
		kv_event(s->opt.log, KV_LOG_WARN, KV_EVENT("values_doubted"),
			 "this server is not a member of the cluster now: "
			 "its values are hidden until it knows which of them were deleted");
	begin(s, DOUBT_AWAY, 0, now_less(s, LOST_NS));
}

void doubt_restored(struct kvs_server *s, uint64_t ago_ns)
{
	int64_t since_ns = now_less(s, kv_deadline(ago_ns, LOST_NS));
	begin(s, DOUBT_AWAY, 0, since_ns);
	s->doubts.since_ns = KV_MIN(s->doubts.since_ns, since_ns);
}

/* ago_ns: how long ago it began, if this is no return. */
static void back(struct kvs_server *s, uint64_t ago_ns)
{
	s->doubts.until_ns = s->tier.count ? loop_now(s->control) + PATIENCE_NS : 0;
	begin(s, DOUBT_BACK, HEARD_NS, now_less(s, ago_ns)); /* values stored in between are hidden as well */
}

/* A member for the first time: copies may come that are older than a clear. Clients that had the view earlier may have
 * put values here already, which stay visible. */
static void arrive(struct kvs_server *s)
{
	s->doubts.since_ns = now_less(s, 0);
	s->doubts.until_ns = 0;
	s->doubts.first = true;
	enter(s, DOUBT_BACK, HEARD_NS);
	hide(s);
}

/* ---- a server that stood still ---- */

static uint64_t stood_still_ns(struct kvs_server *s)
{
	uint64_t limit_ns = atomic_load(&s->doubt_orders.still_ns), now_ns = loop_now(s->control);
	uint64_t gap_ns = now_ns - s->doubts.seen_ns;
	bool stood;
	s->doubts.seen_ns = now_ns;
	pthread_mutex_lock(&s->doubt_orders.lock);
	stood = s->doubt_orders.stood;
	s->doubt_orders.stood = false;
	pthread_mutex_unlock(&s->doubt_orders.lock);
	if (limit_ns == 0)
		return 0;
	if (gap_ns > limit_ns + LOOK_NS)
		return gap_ns;
	return stood ? limit_ns : 0;
}

static bool stood_still(struct kvs_server *s)
{
	uint64_t ns = stood_still_ns(s);
	if (ns == 0)
		return false;
	kv_event(s->opt.log, KV_LOG_WARN, KV_EVENT("stood_still", KV_NUMBER("ms", ns / 1000000)),
		 "this server stood still for %.1f s, and others may have replaced it: its values are hidden until it "
		 "knows which of them were deleted",
		 (double)ns / 1e9);
	if (s->doubts.state == DOUBT_AWAY)
		hide(s);
	else
		back(s, ns + LOOK_NS);
	return true;
}

static void look_fire(struct loop_timer *t)
{
	struct kvs_server *s = KV_CONTAINER(t, struct kvs_server, doubts.look);
	(void)stood_still(s);
	gone_forget(&s->doubts.gone, loop_now(s->control));
	gone_publish(s);
	loop_timer_arm(s->control, t, loop_now(s->control) + LOOK_NS);
}

/* Nobody replaces a lone server. And if the program asks nobody, all values would be dropped. */
static void looks_set(struct kvs_server *s, bool on)
{
	struct doubts *d = &s->doubts;
	if (on == loop_timer_armed(&d->look))
		return;
	atomic_store(&s->doubt_orders.still_ns, on ? KV_MAX(STILL_NS, s->opt.heartbeat_ms * 1900000ull) : 0);
	d->seen_ns = loop_now(s->control);
	if (on)
		loop_timer_arm(s->control, &d->look, d->seen_ns + LOOK_NS);
	else
		loop_timer_cancel(s->control, &d->look);
}

/* ---- the end of a doubt ---- */

/* verdicts: the others' memory; NULL, or without verdicts: not all have answered. */
static void judge(struct kvs_server *s, struct doubt_verdicts *verdicts)
{
	enter(s, DOUBT_OVER, 0);
	if (s->doubts.first)
		kv_debug(s->opt.log, "the other members %s which namespaces were cleared",
			 verdicts && verdicts->verdict ? "have reported" : "did not all report");
	else if (verdicts && verdicts->verdict)
		kv_event(s->opt.log, KV_LOG_INFO, KV_EVENT("values_judged", KV_NUMBER("deleted", verdicts->count)),
			 "the values are visible again, without the deleted ones: "
			 "the other members know of %u deleted keys",
			 verdicts->count);
	else
		kv_event(s->opt.log, KV_LOG_WARN, KV_EVENT("values_dropped"),
			 "the hidden values are dropped: the other members did not report which of them were deleted");
	s->doubts.until_ns = 0;
	shard_doubt_judge(&s->doubt_orders, verdicts);
}

/* False: there was time enough. */
static bool again(struct kvs_server *s)
{
	struct doubts *d = &s->doubts;
	if (loop_now(s->control) >= d->until_ns)
		return false;
	if (!d->waits_logged)
		kv_event(s->opt.log, KV_LOG_WARN, KV_EVENT("values_wait"),
			 "not all members of the cluster have reported which values were deleted; those on the tier "
			 "stay hidden until they do, for %u min at most",
			 (unsigned)(PATIENCE_NS / 60000000000ull));
	d->waits_logged = true;
	enter(s, DOUBT_BACK, AGAIN_NS);
	return true;
}

static bool ask(struct kvs_server *s)
{
	struct doubts *d = &s->doubts;
	uint64_t left_ns = KV_MAX(gone_last_ns(&d->gone), d->gone.lost_ns);
	bool all_here = left_ns == 0 || (left_ns != KV_NEVER && (int64_t)left_ns < d->since_ns);
	return d->state == DOUBT_BACK && (d->first || all_here) && s->opt.recall &&
	       s->opt.recall(s->opt.recall_arg, &s->views.now, d->since_ns) == 0;
}

static void timer_fire(struct loop_timer *t)
{
	struct kvs_server *s = KV_CONTAINER(t, struct kvs_server, doubts.timer);
	if (stood_still(s))
		return;
	if (ask(s))
		enter(s, DOUBT_ASKING, ANSWER_NS);
	else if (!again(s))
		judge(s, NULL);
}

void doubt_open(struct kvs_server *s)
{
	s->doubts.timer.fire = timer_fire;
	s->doubts.look.fire = look_fire;
	s->doubts.open = true;
}

void doubt_close(struct kvs_server *s)
{
	if (s->doubts.open) {
		loop_timer_cancel(s->control, &s->doubts.timer);
		looks_set(s, false);
	}
	s->doubts.open = false;
}

void doubt_former(struct kvs_server *s, const uint64_t *names, uint32_t count)
{
	gone_former(&s->doubts.gone, names, count, s->node_id);
	gone_publish(s);
}

void doubt_view(struct kvs_server *s, bool lacked)
{
	const struct kv_member *self = s->node_id[0] ? kv_view_find(&s->views.now, s->node_id) : NULL;
	struct doubts *d = &s->doubts;
	bool others = s->views.now.count > 1 && s->opt.recall; /* and they can be asked */
	if (!s->views.now.epoch || !d->open)
		return;
	gone_view(&d->gone, &s->views.now, s->node_id, loop_now(s->control));
	gone_publish(s);
	names_publish(s);
	looks_set(s, self && others && !atomic_load(&s->views.drains));
	if (atomic_load(&s->views.drains))
		return;
	if ((!self || lacked) && d->member) {
		lost(s);
		d->member = false;
	}
	if (self && d->state == DOUBT_AWAY && !d->member)
		back(s, 0);
	else if (self && !d->known && others)
		arrive(s);
	d->known |= self != NULL;
	d->member = self != NULL; /* one marked draining by its source has values as well, and has not drained */
}

/* ---- from other threads ---- */

static void on_lost(void *arg)
{
	struct kvs_server *s = arg;
	if (s->doubts.open && !atomic_load(&s->views.drains))
		lost(s);
}

static void on_found(void *arg)
{
	struct kvs_server *s = arg;
	if (s->doubts.open && s->doubts.state == DOUBT_AWAY)
		back(s, 0);
}

int kvs_server_away(struct kvs_server *s, bool away)
{
	return loop_post(s->control, away ? on_lost : on_found, s);
}

/* On the control loop: a late answer is ignored. */
static void on_recalled(void *arg)
{
	struct kvs_server *s = arg;
	struct doubt_verdicts *verdicts;
	bool answered, more;
	pthread_mutex_lock(&s->lock);
	more = s->doubts.recall_again;
	verdicts = s->doubts.recalled;
	answered = s->doubts.recall_over;
	s->doubts.recalled = NULL;
	s->doubts.recall_over = false;
	pthread_mutex_unlock(&s->lock);
	if (answered && s->doubts.open && !stood_still(s) && s->doubts.state == DOUBT_ASKING && !(more && again(s)))
		judge(s, verdicts);
	else if (verdicts)
		shard_doubt_release(&s->doubt_orders, verdicts);
}

int kvs_server_recalled(struct kvs_server *s, const struct kvs_recalled *r)
{
	struct doubt_verdicts *verdicts = calloc(1, sizeof(*verdicts)), *was;
	if (verdicts) {
		*verdicts = (struct doubt_verdicts){.users = 1,
						    .verdict = r->verdict,
						    .count = r->verdict ? verdicts_sort(r->verdict, r->count) : 0,
						    .space = r->space,
						    .spaces = r->spaces,
						    .floor = r->floor};
	} else {
		free(r->verdict);
		free(r->space);
	}
	pthread_mutex_lock(&s->lock);
	was = s->doubts.recalled;
	s->doubts.recalled = verdicts;
	s->doubts.recall_over = true;
	s->doubts.recall_again = r->again;
	pthread_mutex_unlock(&s->lock);
	if (was)
		shard_doubt_release(&s->doubt_orders, was);
	return loop_post(s->control, on_recalled, s);
}

int kvs_server_recall_again(struct kvs_server *s)
{
	return loop_post(s->control, on_recalled, s);
}
