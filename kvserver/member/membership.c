/* SPDX-License-Identifier: Apache-2.0 */
/* membership.c -- the thread that asks a source for the members of the cluster (source.h), guards the answers
 * (guard.h), and keeps the view for /view, /metrics and clients.
 *
 * Only this thread of kv-server speaks to etcd and Kubernetes. If it is blocked or slow, changes of the view are
 * delayed, and nothing else.
 *
 * `lock` guards the members read by other threads; this thread alone writes them, and makes no calls out under the
 * lock. A drain is reported here to the source; clients hear of it by kvs_server_drains. */
#include "kvserver/member/membership.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "kvserver/member/guard.h"
#include "kvserver/member/private.h"
#include "kvserver/member/saved.h"
#include "kvserver/member/web.h"

enum { NICE = 5, STOP_PATIENCE_S = 2, WHO_BYTES = 700 };

#define SECOND_NS          1000000000ull
#define PING_FIRST_NS      (1 * SECOND_NS) /* between two pings of doubted members; doubled each time ... */
#define PING_MOST_NS       (30 * SECOND_NS)
#define PING_LOOK_NS       100000000ull /* and for retries */
#define VIEW_PAUSE_NS      100000000ull /* minimum between two views */
#define LEAVE_NS           SECOND_NS
#define SAVED_WAIT_NS      (2 * SECOND_NS) /* from the start; then the saved view is used */
#define SAVE_PAUSE_NS      SECOND_NS
#define SAVE_AGAIN_NS      (3600 * SECOND_NS) /* the file's age is the time since the source confirmed the view */
#define LEASE_DEFAULT_NS   (10 * SECOND_NS)
#define JOINING_DEFAULT_NS (600 * SECOND_NS) /* as long as clients settle after a change */

/* Pings of doubted members. */
struct pings {
	struct ping *now; /* NULL: none */
	uint64_t at, pause_ns;
};

struct later {
	struct kv_view view;
	uint64_t taken_ns; /* of the last change; 0: none */
	bool waits;
};

struct reports {
	uint32_t weight;
	bool drain, self_logged;
	uint64_t own_checked;
	bool unannounced, unannounced_logged; /* on_view must be called again; logged */
	uint64_t source, epoch;               /* of the last answer; epoch 0: none */
	uint64_t trouble_from_ns;
};

struct keeping {
	struct kv_view view;
	uint64_t origin, age_ms, until_ns;
	struct saving *saving;
	uint64_t save_at; /* KV_NEVER: no save is due */
	int failed;       /* the logged code */
};

struct membership {
	struct membership_options opt;
	struct source_setup setup;
	struct source_sink sink;
	const struct source_class *class;
	struct source *source;
	struct web *web;
	pthread_t thread;
	_Atomic bool stop, draining;
	_Atomic uint32_t weight;
	/* the thread's */
	struct guard guard;
	struct pings pings;
	struct later later;
	struct reports reports;
	struct keeping kept;
	/* under the lock */
	pthread_mutex_t lock;
	pthread_cond_t over_set;
	bool over;                 /* the thread touches nothing any more */
	struct membership_now now; /* without `silence_ns` */
	struct kv_member self;     /* this server in the last view that had it; without a name: none had */
	uint64_t heard_ns;         /* 0: never */
};

/* ---- log lines ---- */

/* A list of names, possibly long: names without room are counted. */
struct who {
	char text[WHO_BYTES];
	size_t len;
	unsigned more;
};

static void who_add(struct who *w, const char *what, const char *id, const char *detail)
{
	enum { TAIL = 32 };
	char part[KV_NAME_MAX + KV_HOST_MAX + 64];
	int len = snprintf(part, sizeof(part), "%s%s%s%s%s%s%s", w->len ? ", " : "", id, detail[0] ? " (" : "", detail,
			   detail[0] ? ")" : "", what[0] ? " " : "", what);
	if (w->more || w->len + (size_t)len + TAIL >= sizeof(w->text)) {
		w->more++;
		return;
	}
	memcpy(w->text + w->len, part, (size_t)len + 1);
	w->len += (size_t)len;
}

static const char *who_end(struct who *w)
{
	if (w->more)
		snprintf(w->text + w->len, sizeof(w->text) - w->len, ", and %u more", w->more);
	return w->text;
}

static void changes_add(struct who *w, const struct kv_member *was, const struct kv_member *is)
{
	static const char *const joined[] = {
		[KV_MEMBER_JOINING] = "joins", [KV_MEMBER_UP] = "joined", [KV_MEMBER_DRAINING] = "joined, draining"};
	char what[KV_NAME_MAX + 32];
	if (!was)
		who_add(w, joined[is->state], is->node_id, is->address);
	else if (strcmp(was->address, is->address) != 0)
		who_add(w, "moved", is->node_id, is->address);
	else if (was->incarnation != is->incarnation)
		who_add(w, "has restarted", is->node_id, "");
	else if (was->state != is->state) {
		snprintf(what, sizeof(what), "is %s", kv_member_state_name(is->state));
		who_add(w, what, is->node_id, "");
	} else if (was->weight != is->weight) {
		snprintf(what, sizeof(what), "has weight %u", is->weight);
		who_add(w, what, is->node_id, "");
	} else if (strcmp(was->zone, is->zone) != 0) {
		snprintf(what, sizeof(what), "is in zone %s", is->zone);
		who_add(w, what, is->node_id, "");
	}
}

static void change_log(struct membership *m, const struct kv_view *was, const struct kv_view *is)
{
	struct who who = {.text = ""};
	for (unsigned i = 0; i < is->count; i++)
		changes_add(&who, kv_view_find(was, is->member[i].node_id), &is->member[i]);
	for (unsigned i = 0; i < was->count; i++)
		if (!kv_view_find(is, was->member[i].node_id))
			who_add(&who, "left", was->member[i].node_id, "");
	kv_event(m->opt.log, KV_LOG_INFO,
		 KV_EVENT("view", KV_FIELD("source", m->class->name), KV_NUMBER("epoch", is->epoch),
			  KV_NUMBER("members", is->count), KV_FIELD("changes", who_end(&who))),
		 "view %llu by %s: %s; %u member%s", (unsigned long long)is->epoch, m->class->name, who_end(&who),
		 is->count, kv_plural(is->count));
}

/* Once: whether this server finds itself. Clients use it by the view's name and address. */
static void self_check(struct membership *m)
{
	const struct kv_member *self = &m->opt.self, *by_id = kv_view_find(&m->guard.view, self->node_id);
	const struct kv_member *by_address =
		self->address[0] ? members_by_address(&m->guard.view, self->address) : NULL;
	if (m->class->registers || m->reports.self_logged ||
	    atomic_load(&m->draining)) /* a draining server may be taken out */
		return;
	m->reports.self_logged = !by_id;
	if (!by_id && by_address && m->opt.named)
		kv_event(m->opt.log, KV_LOG_WARN,
			 KV_EVENT("member_name", KV_FIELD("named", by_address->node_id),
				  KV_FIELD("node_id", self->node_id)),
			 "--members names %s %s, but --node-id is %s: clients that learn the view "
			 "refuse this server; give --node-id %s, or another list",
			 by_address->address, by_address->node_id, self->node_id, by_address->node_id);
	else if (!by_id && !by_address)
		kv_event(m->opt.log, KV_LOG_WARN,
			 KV_EVENT("member_missing", KV_FIELD("node_id", self->node_id),
				  KV_FIELD("address", self->address)),
			 "--members names no member %s%s%s: clients that learn the view do not use this server",
			 self->node_id, self->address[0] ? " and none at " : "", self->address);
}

/* Once per address list: whether clients that learn the view reach this server at all its addresses. */
static void own_check(struct membership *m)
{
	const struct kv_member *by_id = kv_view_find(&m->guard.view, m->opt.self.node_id);
	char foreign[KV_WHERE_MAX];
	uint64_t hash = by_id ? kv_hash_key(by_id->address, strlen(by_id->address), 0) | 1 : 0;
	struct kv_hostport ignored;
	unsigned n;
	if (!by_id || !m->opt.listen[0] || m->class->registers || m->reports.own_checked == hash)
		return;
	m->reports.own_checked = hash;
	n = own_foreign(by_id->address, m->opt.listen, m->opt.self.address, foreign);
	if (n)
		kv_event(m->opt.log, KV_LOG_WARN,
			 KV_EVENT("member_address", KV_FIELD("address", foreign), KV_FIELD("listens", m->opt.listen)),
			 "--members %s has this server, %s, at %s, and it listens on %s: "
			 "clients %s; listen on both families with --listen-addr [::]:PORT, "
			 "correct the source, or give --advertise if that address leads here",
			 m->class->name, m->opt.self.node_id, foreign, m->opt.listen,
			 kv_where_at(by_id->address, n, &ignored) ? "try that address in vain, and then another one"
								  : "do not reach it");
}

/* ---- the view ---- */

static int view_pass(struct membership *m)
{
	return m->opt.on_view ? m->opt.on_view(m->opt.arg, &m->guard.view) : 0;
}

/* A busy loop is no trouble yet. */
static void view_announce(struct membership *m)
{
	int rc = view_pass(m);
	m->reports.unannounced = rc != 0;
	if (rc && rc != -KV_EBUSY && !m->reports.unannounced_logged)
		kv_event(m->opt.log, KV_LOG_WARN,
			 KV_EVENT("view_untold", KV_NUMBER("epoch", m->guard.view.epoch),
				  KV_FIELD("reason", kv_strerror(rc))),
			 "view %llu cannot be announced to clients yet: %s", (unsigned long long)m->guard.view.epoch,
			 kv_strerror(rc));
	m->reports.unannounced_logged = rc && (m->reports.unannounced_logged || rc != -KV_EBUSY);
}

/* The epoch grows while this server runs, and over a restart with a saved view. */
static uint64_t epoch_least(const struct membership *m, const struct kv_view *was)
{
	const struct kv_view *view = &m->guard.view, *saved = &m->kept.view;
	if (was->epoch && was->source == view->source)
		return was->epoch + 1;
	if (saved->epoch && saved->source == view->source)
		return saved->epoch + !kv_view_same(saved, view);
	return 1;
}

/* The guard has another view. */
static void view_take(struct membership *m, const struct kv_view *was)
{
	struct kv_view *view = &m->guard.view;
	const struct kv_member *self = kv_view_find(view, m->opt.self.node_id);
	int rc;
	view->epoch = KV_MIN(KV_MAX(view->epoch, epoch_least(m, was)), MEMBERS_EPOCH_MAX);
	pthread_mutex_lock(&m->lock);
	rc = members_copy(view, &m->now.view);
	m->now.changes++;
	m->self = self ? *self : m->self;
	pthread_mutex_unlock(&m->lock);
	if (rc)
		kv_event(m->opt.log, KV_LOG_WARN, KV_EVENT("view_no_memory", KV_NUMBER("members", view->count)),
			 "no memory for a view of %u members: /view shows the former one", view->count);
	change_log(m, was, view);
	self_check(m);
	own_check(m);
	view_announce(m);
	m->kept.save_at = KV_MIN(m->kept.save_at, kv_now());
}

static void no_memory_log(const struct membership *m, const struct kv_view *named)
{
	kv_event(m->opt.log, KV_LOG_WARN, KV_EVENT("view_no_memory", KV_NUMBER("members", named->count)),
		 "no memory for a view of %u members: it stays as it is", named->count);
}

static void doubts_log(struct membership *m, unsigned named)
{
	struct who who = {.text = ""};
	for (unsigned i = 0; i < m->guard.doubted.count; i++)
		who_add(&who, "", m->guard.doubted.member[i].node_id, "");
	kv_event(m->opt.log, KV_LOG_WARN,
		 KV_EVENT("members_doubted", KV_FIELD("source", m->class->name), KV_NUMBER("named", named),
			  KV_NUMBER("members", m->guard.view.count), KV_FIELD("kept", who_end(&who))),
		 "--members %s names %u member%s of the former %u: the others stay while they answer: %s; if they "
		 "should leave, stop them, or remove half of them at a time",
		 m->class->name, named, kv_plural(named), m->guard.view.count, who_end(&who));
}

static bool doubted_others(const struct membership *m, struct kv_view *out)
{
	if (members_copy(&m->guard.doubted, out))
		return false;
	members_remove(out, m->opt.self.node_id);
	if (m->opt.self.address[0]) {
		const struct kv_member *self = members_by_address(out, m->opt.self.address);
		if (self)
			members_remove(out, self->node_id);
	}
	return out->count > 0;
}

static void ping_begin(struct membership *m)
{
	struct kv_view whom = {0};
	if (doubted_others(m, &whom) && ping_start(&whom, &m->pings.now))
		m->pings.now = NULL; /* no thread, no memory: the next time */
	kv_view_fini(&whom);
	m->pings.pause_ns = KV_MIN(KV_MAX(m->pings.pause_ns * 2, PING_FIRST_NS), PING_MOST_NS);
	m->pings.at = kv_now() + m->pings.pause_ns / m->setup.pace;
}

static void doubted_update(struct membership *m)
{
	pthread_mutex_lock(&m->lock);
	m->now.doubted = m->guard.doubted.count;
	pthread_mutex_unlock(&m->lock);
}

static void ping_end(struct membership *m)
{
	struct kv_view silent = {0}, was = {0};
	if (!m->pings.now || !ping_take(&m->pings.now, &silent))
		return;
	if (members_copy(&m->guard.view, &was) == 0 && guard_silent(&m->guard, &silent)) {
		doubted_update(m);
		view_take(m, &was);
	}
	kv_view_fini(&silent);
	kv_view_fini(&was);
}

static uint64_t ping_turn(struct membership *m, uint64_t now)
{
	ping_end(m);
	if (m->pings.now)
		return now + PING_LOOK_NS;
	if (m->guard.doubted.count == 0) {
		m->pings.pause_ns = m->pings.at = 0;
		return KV_NEVER;
	}
	if (now >= m->pings.at)
		ping_begin(m);
	return m->pings.now ? now + PING_LOOK_NS : m->pings.at;
}

/* ---- reports of the source ---- */

static void heard(struct membership *m)
{
	uint64_t now = kv_now(), from = m->reports.trouble_from_ns;
	m->reports.trouble_from_ns = 0;
	pthread_mutex_lock(&m->lock);
	m->heard_ns = now;
	m->now.state = SOURCE_OK;
	m->now.saved = false;
	m->now.trouble[0] = '\0';
	pthread_mutex_unlock(&m->lock);
	if (from)
		kv_event(m->opt.log, KV_LOG_INFO,
			 KV_EVENT("source_back", KV_FIELD("source", m->class->name),
				  KV_NUMBER("after_ms", (now - from) / 1000000)),
			 "--members %s answers again, after %.1f s", m->class->name, (double)(now - from) / 1e9);
}

/* Epochs of another source, or lower ones of this one: it was wiped or restored, or its clock was ahead. */
static void source_compare(struct membership *m, const struct kv_view *named)
{
	bool other = named->source != m->reports.source, back = !other && named->epoch < m->reports.epoch;
	if (m->reports.epoch && (other || back)) {
		pthread_mutex_lock(&m->lock);
		m->now.restarts++;
		pthread_mutex_unlock(&m->lock);
		kv_event(m->opt.log, KV_LOG_WARN,
			 KV_EVENT("source_restarted", KV_FIELD("source", m->class->name),
				  KV_NUMBER("from", m->reports.epoch), KV_NUMBER("to", named->epoch),
				  KV_FIELD("other", other ? "yes" : "no")),
			 "--members %s %s, and its epoch was %llu and is %llu: "
			 "was it wiped or restored, or was a clock ahead?",
			 m->class->name, other ? "is another source now" : "counts backwards",
			 (unsigned long long)m->reports.epoch, (unsigned long long)named->epoch);
	}
	m->reports.source = named->source;
	m->reports.epoch = named->epoch;
}

static void members_take(struct membership *m, const struct kv_view *named)
{
	struct kv_view was = {0};
	unsigned doubts = 0;
	int changed = members_copy(&m->guard.view, &was);
	m->later.waits = false;
	source_compare(m, named);
	if (changed == 0)
		changed = guard_hear(&m->guard, named, kv_now(), &doubts);
	if (changed < 0)
		no_memory_log(m, named);
	if (changed >= 0)
		doubted_update(m);
	if (changed > 0) {
		m->later.taken_ns = kv_now();
		view_take(m, &was);
	}
	if (doubts) {
		pthread_mutex_lock(&m->lock);
		m->now.refused++;
		pthread_mutex_unlock(&m->lock);
		doubts_log(m, named->count);
		m->pings.pause_ns = m->pings.at = 0;
	}
	kv_view_fini(&was);
}

/* A source may report many changes at once, as when a thousand servers start, and each costs a log line and a view for
 * each client: those within VIEW_PAUSE_NS are merged. */
static void on_members(void *arg, const struct kv_view *named)
{
	struct membership *m = arg;
	if (atomic_load(&m->stop))
		return;
	heard(m);
	if (kv_now() - m->later.taken_ns >= VIEW_PAUSE_NS || m->later.taken_ns == 0)
		members_take(m, named);
	else if (members_copy(named, &m->later.view) == 0)
		m->later.waits = true;
	else
		no_memory_log(m, named);
}

static uint64_t waiting_turn(struct membership *m, uint64_t now)
{
	if (m->later.waits && now - m->later.taken_ns >= VIEW_PAUSE_NS)
		members_take(m, &m->later.view);
	return m->later.waits ? m->later.taken_ns + VIEW_PAUSE_NS : KV_NEVER;
}

static void on_alive(void *arg)
{
	struct membership *m = arg;
	if (!atomic_load(&m->stop))
		heard(m);
}

static void on_trouble(void *arg, const char *why)
{
	struct membership *m = arg;
	bool first = m->reports.trouble_from_ns == 0, other;
	if (atomic_load(&m->stop)) /* this thread may have been left behind: the log may be freed */
		return;
	if (first)
		m->reports.trouble_from_ns = kv_now();
	pthread_mutex_lock(&m->lock);
	other = strncmp(m->now.trouble, why, sizeof(m->now.trouble) - 1) != 0;
	m->now.state = SOURCE_UNREACHABLE;
	snprintf(m->now.trouble, sizeof(m->now.trouble), "%s", why);
	pthread_mutex_unlock(&m->lock);
	if (first)
		kv_event(m->opt.log, KV_LOG_WARN,
			 KV_EVENT("source_lost", KV_FIELD("source", m->class->name), KV_FIELD("reason", why),
				  KV_NUMBER("members", m->guard.view.count)),
			 m->guard.view.epoch ? "--members %s: %s; the view stays as it is, with %u member%s"
					     : "--members %s: %s; this server has no view yet, and is not ready",
			 m->class->name, why, m->guard.view.count, kv_plural(m->guard.view.count));
	else if (other)
		kv_debug(m->opt.log, "--members %s: %s", m->class->name, why);
}

/* (A draining server is taken out on purpose.) */
static void on_away(void *arg, bool away)
{
	struct membership *m = arg;
	if (m->opt.on_away && !(away && atomic_load(&m->draining)))
		m->opt.on_away(m->opt.arg, away);
}

static void on_unnamed(void *arg, const char *address, unsigned members)
{
	struct membership *m = arg;
	if (!atomic_load(&m->stop))
		kv_event(m->opt.log, KV_LOG_WARN,
			 KV_EVENT("members_unnamed", KV_FIELD("address", address), KV_NUMBER("members", members)),
			 "--members %s: the name of %s is unknown: %u member%s named by address here; a server that "
			 "knows the name places keys differently",
			 m->class->name, address, members, members == 1 ? " is" : "s are");
}

/* ---- the saved view ---- */

static void saved_open(struct membership *m)
{
	struct kv_error err = {0};
	struct kv_member *self;
	int rc;
	m->kept.save_at = KV_NEVER;
	if (!m->opt.state_dir)
		return;
	m->kept.origin = saved_origin(m->opt.members, m->opt.cluster ? m->opt.cluster : "");
	rc = saved_read(m->opt.state_dir, m->kept.origin, members_now_ms(), &m->kept.view, &m->kept.age_ms, &err);
	if (rc && rc != -KV_ENOTFOUND)
		kv_event(m->opt.log, KV_LOG_WARN, KV_EVENT("saved_view_refused", KV_FIELD("reason", err.text)),
			 "--state-dir: %s", err.text);
	m->kept.until_ns = kv_now() + SAVED_WAIT_NS / m->setup.pace;
	self = (struct kv_member *)(uintptr_t)kv_view_find(&m->kept.view, m->opt.self.node_id);
	if (self && self->state == KV_MEMBER_DRAINING) /* the process before this one drained */
		self->state = KV_MEMBER_UP;
	if (self)
		self->incarnation = m->opt.self.incarnation;
}

/* The source has not answered in time. Later the guard compares its members with these. */
static void saved_take(struct membership *m)
{
	const struct kv_view none = {0};
	if (members_copy(&m->kept.view, &m->guard.view))
		return;
	kv_event(m->opt.log, KV_LOG_WARN,
		 KV_EVENT("saved_view", KV_FIELD("source", m->class->name), KV_NUMBER("epoch", m->kept.view.epoch),
			  KV_NUMBER("members", m->kept.view.count), KV_NUMBER("age_sec", m->kept.age_ms / 1000)),
		 "--members %s does not answer: this server begins with its last view, %u member%s, saved %llu s ago",
		 m->class->name, m->kept.view.count, kv_plural(m->kept.view.count),
		 (unsigned long long)m->kept.age_ms / 1000);
	pthread_mutex_lock(&m->lock);
	m->now.saved = true;
	pthread_mutex_unlock(&m->lock);
	view_take(m, &none);
}

static void save_end(struct membership *m, uint64_t now)
{
	struct kv_error err = {0};
	int rc;
	if (!m->kept.saving || !saving_take(&m->kept.saving, &rc, &err))
		return;
	if (rc && rc != m->kept.failed)
		kv_event(m->opt.log, KV_LOG_WARN, KV_EVENT("view_unsaved", KV_FIELD("reason", err.text)),
			 "--state-dir: %s; this server continues without it", err.text);
	m->kept.failed = rc;
	m->kept.save_at = KV_MIN(m->kept.save_at, now + SAVE_AGAIN_NS / m->setup.pace);
}

/* Returns when the next turn is due. */
static uint64_t saved_turn(struct membership *m, uint64_t now)
{
	if (m->kept.view.count && !m->heard_ns && !m->guard.view.epoch) {
		if (now < m->kept.until_ns)
			return m->kept.until_ns;
		saved_take(m);
	}
	if (!m->opt.state_dir || !m->guard.view.count || !m->heard_ns || m->now.state != SOURCE_OK)
		return KV_NEVER;
	save_end(m, now);
	if (!m->kept.saving && now >= m->kept.save_at) {
		m->kept.save_at = now + SAVE_PAUSE_NS;
		if (saving_start(m->opt.state_dir, m->kept.origin, &m->guard.view, &m->kept.saving) == 0)
			m->kept.save_at = KV_NEVER;
	}
	return m->kept.saving ? now + PING_LOOK_NS : m->kept.save_at;
}

/* ---- the thread ---- */

/* There is a view, or the source has reported that there are no members yet. */
static void ready_report(struct membership *m)
{
	if (m->now.ready || m->reports.unannounced || (!m->guard.view.epoch && !m->heard_ns))
		return;
	pthread_mutex_lock(&m->lock);
	m->now.ready = true;
	pthread_mutex_unlock(&m->lock);
	if (m->opt.on_ready)
		m->opt.on_ready(m->opt.arg);
}

static void drain_report(struct membership *m)
{
	if (m->reports.drain || !atomic_load(&m->draining))
		return;
	m->reports.drain = true;
	if (m->class->announce)
		m->class->announce(m->source, KV_MEMBER_DRAINING);
}

static void weight_report(struct membership *m)
{
	uint32_t weight = atomic_load(&m->weight);
	if (weight == m->reports.weight)
		return;
	m->reports.weight = weight;
	if (m->class->weigh)
		m->class->weigh(m->source, weight);
}

static void leave(struct membership *m)
{
	uint64_t until = kv_now() + LEAVE_NS;
	while (m->class->leave && !m->class->leave(m->source) && kv_now() < until)
		web_run(m->web, PING_LOOK_NS);
}

static void *membership_run(void *arg)
{
	struct membership *m = arg;
	pthread_setname_np(pthread_self(), "kv-members");
	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
	while (!atomic_load(&m->stop)) {
		uint64_t now = kv_now(), until;
		drain_report(m);
		weight_report(m);
		until = m->class->turn(m->source, now);
		if (atomic_load(&m->stop))
			break;
		until = KV_MIN(until, ping_turn(m, now));
		until = KV_MIN(until, waiting_turn(m, now));
		until = KV_MIN(until, saved_turn(m, now));
		if (m->reports.unannounced)
			view_announce(m);
		until = m->reports.unannounced ? KV_MIN(until, now + PING_LOOK_NS) : until;
		ready_report(m);
		now = kv_now();
		web_run(m->web, until > now ? until - now : 0);
	}
	leave(m);
	pthread_mutex_lock(&m->lock);
	m->over = true;
	pthread_cond_signal(&m->over_set);
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

/* ---- start and stop ---- */

static void setup_fill(const struct membership_options *o, struct source_setup *out)
{
	*out = (struct source_setup){
		.cluster = o->cluster,
		.self = o->self,
		.user = o->user,
		.password_file = o->password_file,
		.token_file = o->token_file,
		.ca_file = o->ca_file,
		.cert_file = o->cert_file,
		.key_file = o->key_file,
		.lease_ns = o->lease_ns ? o->lease_ns : LEASE_DEFAULT_NS,
		.joining_ns = o->joining_ns ? o->joining_ns : JOINING_DEFAULT_NS,
		.pace = KV_MAX(o->pace, 1u),
		.names = o->names,
		.log = o->log,
	};
}

static int options_check(const struct membership_options *o, const struct source_class *class, struct kv_error *err)
{
	if (!class->registers && (o->user || o->password_file || o->cert_file || o->key_file))
		return kv_fail(err, -KV_EINVAL,
			       "--members-user, --members-password-file, "
			       "--members-cert and --members-key go with --members etcd:...");
	if (o->ca_file && !class->asks_http)
		return kv_fail(err, -KV_EINVAL, "--members-ca goes with --members etcd:... and k8s:...");
	if (o->token_file && (class->registers || !class->asks_http))
		return kv_fail(err, -KV_EINVAL, "--members-token-file goes with --members k8s:...");
	if (!class->registers && o->joining_ns)
		return kv_fail(err, -KV_EINVAL,
			       "--joining-sec goes with --members etcd:...: other sources report joining servers");
	if (!class->registers && o->lease_ns)
		return kv_fail(err, -KV_EINVAL,
			       "--lease-sec goes with --members etcd:...: other sources have no lease");
	return 0;
}

static int class_take(const struct membership_options *o, const struct source_class **out, struct source_setup *setup,
		      struct kv_error *err)
{
	int rc;
	setup_fill(o, setup);
	*out = source_class_of(o->members, &setup->spec, err);
	rc = *out ? options_check(o, *out, err) : -KV_EINVAL;
	return rc ? rc : (*out)->check(setup, err);
}

int membership_check(const struct membership_options *options, struct kv_error *err)
{
	const struct source_class *class;
	struct source_setup setup;
	return class_take(options, &class, &setup, err);
}

static void membership_free(struct membership *m)
{
	ping_drop(&m->pings.now);
	saving_drop(&m->kept.saving);
	if (m->source)
		m->class->close(&m->source);
	web_close(&m->web);
	guard_fini(&m->guard);
	kv_view_fini(&m->later.view);
	kv_view_fini(&m->kept.view);
	kv_view_fini(&m->now.view);
	pthread_cond_destroy(&m->over_set);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

int membership_start(const struct membership_options *options, struct membership **out, struct kv_error *err)
{
	struct membership *m = calloc(1, sizeof(*m));
	int rc;
	if (!m)
		return kv_fail(err, -KV_ENOMEM, "no memory for --members");
	pthread_mutex_init(&m->lock, NULL);
	kv_cond_init(&m->over_set);
	m->opt = *options;
	atomic_store(&m->weight, options->self.weight);
	m->reports.weight = options->self.weight;
	rc = class_take(&m->opt, &m->class, &m->setup, err);
	if (rc)
		goto out;
	m->sink = (struct source_sink){.arg = m,
				       .members = on_members,
				       .alive = on_alive,
				       .trouble = on_trouble,
				       .unnamed = on_unnamed,
				       .away = on_away};
	m->setup.sink = &m->sink;
	m->now.source = m->class->name;
	saved_open(m);
	m->web = m->setup.web = web_open();
	if (!m->web || m->class->open(&m->setup, &m->source)) {
		rc = kv_fail(err, -KV_ENOMEM, "no memory for --members %s", m->class->name);
		goto out;
	}
	rc = -pthread_create(&m->thread, NULL, membership_run, m);
	if (rc) {
		kv_fail(err, rc, "starting the thread of --members: %s", kv_strerror(rc));
		goto out;
	}
	*out = m;
	return 0;
out:
	membership_free(m);
	return rc;
}

bool membership_drain(struct membership *m, struct kv_member *out_self)
{
	atomic_store(&m->draining, true);
	web_wake(m->web);
	pthread_mutex_lock(&m->lock);
	*out_self = m->self;
	pthread_mutex_unlock(&m->lock);
	return out_self->node_id[0] != '\0';
}

void membership_weigh(struct membership *m, uint32_t weight)
{
	atomic_store(&m->weight, weight);
	web_wake(m->web);
}

const char *membership_self(const struct membership *m)
{
	return m->opt.self.node_id;
}

int membership_read(struct membership *m, struct membership_now *out)
{
	struct kv_view view = {0};
	uint64_t now = kv_now();
	int rc;
	pthread_mutex_lock(&m->lock);
	rc = members_copy(&m->now.view, &view);
	*out = m->now;
	out->silence_ns = m->heard_ns ? now - KV_MIN(now, m->heard_ns) : KV_NEVER;
	pthread_mutex_unlock(&m->lock);
	out->view = view;
	return rc;
}

void membership_stop(struct membership **membership)
{
	struct membership *m = *membership;
	struct timespec until;
	bool over;
	if (!m)
		return;
	*membership = NULL;
	atomic_store(&m->stop, true);
	web_wake(m->web);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += STOP_PATIENCE_S;
	pthread_mutex_lock(&m->lock);
	while (!m->over && pthread_cond_timedwait(&m->over_set, &m->lock, &until) != ETIMEDOUT)
		;
	over = m->over;
	pthread_mutex_unlock(&m->lock);
	if (!over)
		return;
	pthread_join(m->thread, NULL);
	membership_free(m);
}
