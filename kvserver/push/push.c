/* SPDX-License-Identifier: Apache-2.0 */
/* push.c -- a server that ends pushes its values to the other servers, as a client of theirs.
 *
 * It opens a pool to this server, and so hears the view and the drain: keys are placed where all clients will look.
 * Blocks come from the shards in lots (lot.h), the hottest first, and are put as batches of copies (kvclient/copy.h): a
 * DELETE at the key's next server makes it refuse them. After each lot it rests as the allowed rate requires. A block
 * with a wrong checksum is not pushed: a new checksum would hide the damage.
 *
 * Unread values older than half the age of the oldest block take only free memory of the others, and are evicted there
 * first. A shard ends when FULL_ROW values in a row found no room, or after a round without a push; failed values are
 * retried in the next round. All end after LOTS_FAILED lots in a row reached no server. Reasons:
 * decisions/016-what-a-drain-pushes.md. */
#include "kvserver/push/push.h"

#include <stdlib.h>
#include <time.h>

#include "kvclient/copy.h"
#include "kvserver/push/peers.h"
#include "kvserver/server/server.h"
#include "kvserver/push/lot.h"

enum { LOTS_FAILED = 3, FULL_ROW = 64, SPACES_OPEN = 64 };

#define BUFFER_BYTES (64ull << 20)
#define OTHERS_NS    5000000000ull /* to hear the view with the drain; for a member whose connection broke */
#define POLL_NS      20000000ull
#define LOOP_NS      5000000000ull /* a loop without a turn for this time is abandoned */
#define CONNECT_NS   1000000000ull /* a member that does not answer must not use up the time */
#define PUT_NS       2000000000ull /* a lot; the others are there, or it is not worth waiting. Plus, for each byte: */
#define BYTE_NS      10ull

struct source {
	struct lot *lot; /* NULL: owned by its loop, which does not turn */
	bool over;
	unsigned round, full_row;      /* full_row: consecutive values without room */
	uint64_t put, fate[LOT_FATES]; /* in this round */
	uint64_t left, gone;
	enum kv_left why; /* for values not tried in this round */
};

/* A session at the other servers, for values of another namespace than the default one. */
struct push_space {
	char name[KV_SPACE_MAX + 1];
	struct kvc_session *session; /* NULL: none yet */
};

struct push {
	const struct push_options *opt;
	struct kvc_pool *pool;
	struct kv_view view; /* the pool's */
	unsigned other;      /* a server of the pool that took values last, */
	uint64_t attaches;   /* and how often the pool had attached to it by then */
	struct source source[KV_SHARDS_MAX];
	struct push_space space[SPACES_OPEN];
	unsigned space_next;      /* to be closed for another one */
	unsigned shards, failing; /* failing: consecutive lots without a push */
	bool alone;
	struct kv_drained result;
};

static void sleep_until(uint64_t until_ns)
{
	const struct timespec at = {.tv_sec = (time_t)(until_ns / 1000000000),
				    .tv_nsec = (long)(until_ns % 1000000000)};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* ---- the pool ---- */

/* An event of ours replaces the library's own. */
static void log_line(void *arg, int level, const char *line)
{
	const struct kv_log *log = arg;
	const char *fields = strstr(line, " | event=");
	int len = (int)(fields ? (size_t)(fields - line) : strlen(line));
	char reason[KV_FIELD_TEXT_MAX + 2];
	snprintf(reason, sizeof(reason), "%.*s", len, line);
	kv_event(log, (enum kv_log_level)level, KV_EVENT("drain_push_trouble", KV_FIELD("reason", reason)),
		 "push: %.*s", len, line);
}

static int pool_open_at(struct push *p, const struct kv_member *m, struct kv_error *err)
{
	const struct push_options *o = p->opt;
	char server[sizeof(m->node_id) + sizeof(m->address) + 1];
	const char *servers[] = {server};
	struct kvc_options ko = {.size = sizeof(ko),
				 .buffer_bytes = BUFFER_BYTES,
				 .servers = servers,
				 .num_servers = KV_COUNT(servers),
				 .timeout_ns = PUT_NS,
				 .connect_timeout_ns = CONNECT_NS,
				 .flags = KVC_OPEN_WAIT,
				 .log_level = (int)KV_LOG_WARN,
				 .log = log_line,
				 .log_arg = (void *)(uintptr_t)o->server->opt.log};
	snprintf(server, sizeof(server), "%s=%s", m->node_id, m->address);
	return peers_open(o->server, o->server_name, &ko, &p->pool, err);
}

/* This server may be unreachable at its own address, or full, as when several drain at a time. Others know of the drain
 * as well, where the source does. */
static int pool_open(struct push *p, struct kv_error *err)
{
	const struct push_options *o = p->opt;
	uint64_t until_ns = KV_MIN(kv_now() + OTHERS_NS, o->until_ns);
	struct kv_error again;
	int rc = pool_open_at(p, o->self, err);
	for (uint32_t i = 0; rc < 0 && i < o->view->count && kv_now() < until_ns; i++)
		if (strcmp(o->view->member[i].node_id, o->self->node_id) != 0 &&
		    pool_open_at(p, &o->view->member[i], &again) == 0)
			rc = 0;
	return rc;
}

/* ---- the members ---- */

static int server_ask(const struct push *p, unsigned i, struct kvc_server_info *out)
{
	*out = (struct kvc_server_info){.size = sizeof(*out)};
	return kvc_server_info(p->pool, 0, i, out);
}

static uint64_t epoch_ask(const struct push *p)
{
	struct kvc_counters c = {.size = sizeof(c)};
	return kvc_counters(p->pool, &c) == 0 ? c.view_epoch : 0;
}

static int member_add(struct kv_view *v, const struct kvc_server_info *info)
{
	const char *address = strchr(info->name, '='); /* "NAME=HOST:PORT": the pool has no server without a name */
	struct kv_member m = {.weight = info->weight,
			      .state = (enum kv_member_state)info->member_state,
			      .incarnation = info->member_incarnation};
	if (!info->member[0] || !address)
		return 0;
	snprintf(m.node_id, sizeof(m.node_id), "%s", info->member);
	snprintf(m.zone, sizeof(m.zone), "%s", info->zone);
	snprintf(m.address, sizeof(m.address), "%.*s", (int)sizeof(m.address) - 1, address + 1);
	return kv_view_add(v, &m);
}

static int members_read(const struct push *p, struct kv_view *out)
{
	struct kvc_server_info info;
	int rc = 0;
	for (unsigned i = 0; rc == 0; i++) {
		rc = server_ask(p, i, &info);
		if (rc == -KV_EINVAL)
			return 0;
		if (rc == 0)
			rc = member_add(out, &info);
		else if (rc == -KV_ENOTFOUND)
			rc = 0;
	}
	return rc;
}

/* Read the pool's view if it has changed. One that changes during the read is read again in the next check. */
static void view_read(struct push *p)
{
	struct kv_view v = {.epoch = epoch_ask(p)};
	if (v.epoch == p->view.epoch)
		return;
	if (members_read(p, &v) == 0 && epoch_ask(p) == v.epoch) {
		kv_view_fini(&p->view);
		p->view = v;
	} else {
		kv_view_fini(&v);
	}
}

/* Whether keys are placed without this server. Until then, or while no other member is up, the library would put values
 * to this server. Waited for OTHERS_NS at most. */
static bool self_goes(struct push *p)
{
	const struct kv_member *self;
	view_read(p);
	if (p->view.epoch == 0)
		return false;
	self = kv_view_find(&p->view, p->opt->self->node_id);
	if (!self || self->state == KV_MEMBER_DRAINING)
		return true;
	kv_view_fini(&p->view); /* to be read again: the drain changes no epoch */
	return false;
}

static bool takes(const struct push *p, const struct kvc_server_info *info)
{
	return info->state == KVC_SERVER_UP && info->member[0] && info->member_state != KVC_MEMBER_DRAINING &&
	       strcmp(info->member, p->opt->self->node_id) != 0;
}

static bool others_up(struct push *p)
{
	struct kvc_server_info info;
	unsigned at = p->other;
	int rc = server_ask(p, at, &info);
	bool found = rc == 0 && takes(p, &info);
	rc = 0;
	for (unsigned i = 0; !found && (rc == 0 || rc == -KV_ENOTFOUND); i++) {
		rc = server_ask(p, at = i, &info);
		found = rc == 0 && takes(p, &info);
	}
	if (!found)
		return false;
	p->other = at;
	p->attaches = info.attaches;
	return true;
}

static bool others_take(struct push *p)
{
	return self_goes(p) && others_up(p);
}

static bool others_wait(struct push *p)
{
	uint64_t until_ns = KV_MIN(kv_now() + OTHERS_NS, p->opt->until_ns);
	while (!others_take(p)) {
		if (kv_now() >= until_ns) {
			p->alone = true;
			return false;
		}
		sleep_until(kv_now() + POLL_NS);
	}
	return true;
}

static int others_find(struct push *p, struct kv_error *err)
{
	if (others_wait(p))
		return 0;
	if (!self_goes(p))
		return kv_fail(err, -KV_ETIMEOUT, "the others' view of this server does not change");
	return kv_fail(err, -KV_EPEERDOWN, "no other member that stays answers");
}

/* ---- lots ---- */

static bool sound(const struct lot_item *it)
{
	return kv_hash_block(it->data, it->len) == it->checksum;
}

static enum lot_fate fate_of(int64_t rc)
{
	switch ((int)rc) {
	case 0:
		return LOT_PUSHED;
	case -KV_ENOTFOUND:
		return LOT_OUTDATED;
	case -KV_ETOOBIG:
		return LOT_TOO_BIG;
	case -KV_ENOMEM:
	case -KV_EBUSY:
		return LOT_FULL;
	case -KV_ETIMEOUT:
	case -KV_EPEERDOWN:
	case -KV_ELEFT:
	case -KV_EPROVIDER:
	case -KV_ECLOSED:
		return LOT_UNREACHED;
	default:
		return LOT_REFUSED;
	}
}

/* The session of a namespace; NULL: the default one. 0 or a code. */
static int session_of(struct push *p, const char *space, struct kvc_session **out)
{
	struct push_space *to;
	struct kv_error err;
	*out = NULL;
	if (!space[0])
		return 0;
	for (unsigned i = 0; i < SPACES_OPEN && !*out; i++)
		if (strcmp(p->space[i].name, space) == 0)
			*out = p->space[i].session;
	if (*out)
		return 0;
	to = &p->space[p->space_next++ % SPACES_OPEN];
	(void)kvc_session_close(p->pool, &to->session, PUT_NS);
	to->session = NULL;
	snprintf(to->name, sizeof(to->name), "%s", space);
	return kc_session_open_in(p->pool, to->name, &to->session, &err) == 0 ? (*out = to->session, 0) : err.code;
}

/* Put the items from `at` on of one namespace, with the same time to live and the same class `old`. Returns their
 * number. */
static unsigned items_put(struct push *p, struct lot *lot, unsigned at)
{
	const struct lot_item *first = &lot->item[at];
	struct kvc_item item[LOT_BLOCKS] = {0};
	uint64_t born_ns[LOT_BLOCKS] = {0};
	struct kvc_call call = {.size = sizeof(call), .ttl_s = first->ttl_s, .timeout_ns = PUT_NS};
	unsigned n = 0;
	int rc = session_of(p, first->space, &call.session);
	for (; at + n < lot->count && first[n].ttl_s == first->ttl_s && first[n].old == first->old &&
	       strcmp(first[n].space, first->space) == 0;
	     n++) {
		const struct lot_item *it = &first[n];
		call.timeout_ns += it->len * BYTE_NS;
		item[n] = (struct kvc_item){.key = {it->key, it->key_len}, .data = it->data, .len = it->len};
		born_ns[n] = it->born_ns;
		if (!sound(it))
			item[n].len = 0; /* refused: -KV_EINVAL */
	}
	if (rc == 0)
		(void)kc_copy_batch(p->pool, item, born_ns, n, first->old, &call);
	for (unsigned i = 0; rc < 0 && i < n; i++)
		item[i].result = rc;
	for (unsigned i = 0; i < n; i++)
		lot->item[at + i].fate = item[i].len ? fate_of(item[i].result) : LOT_DAMAGED;
	return n;
}

/* Put the items, once. False: another member was away for a moment, so some may have reached this server: put all
 * again. */
static bool items_put_all(struct push *p, struct lot *lot)
{
	unsigned other = p->other;
	uint64_t attaches = p->attaches;
	for (unsigned i = 0; i < lot->count;)
		i += items_put(p, lot, i);
	return others_take(p) && p->other == other && p->attaches == attaches;
}

static void fate_count(struct push *p, struct source *s, const struct lot_item *it)
{
	struct kv_drained *r = &p->result;
	s->fate[it->fate]++;
	s->put += it->fate == LOT_PUSHED || it->fate == LOT_OUTDATED;
	s->full_row = it->fate == LOT_FULL ? s->full_row + 1 : it->fate == LOT_PUSHED ? 0 : s->full_row;
	r->values += it->fate == LOT_PUSHED;
	r->bytes += it->fate == LOT_PUSHED ? it->len : 0;
	r->left[KV_LEFT_TOO_BIG] += it->fate == LOT_TOO_BIG;
	r->left[KV_LEFT_DAMAGED] += it->fate == LOT_DAMAGED;
}

static void lot_put(struct push *p, struct source *s)
{
	struct lot *lot = s->lot;
	uint64_t bytes = 0, begun_ns = kv_now();
	unsigned pushed = 0, unreached = 0;
	bool sure = items_put_all(p, lot);
	while (!sure && others_wait(p) && kv_now() < p->opt->until_ns)
		sure = items_put_all(p, lot);
	for (unsigned i = 0; i < lot->count; i++) {
		struct lot_item *it = &lot->item[i];
		if (p->alone)
			it->fate = LOT_UNREACHED;
		else if (!sure && it->fate == LOT_PUSHED)
			it->fate = LOT_UNTRIED;
		pushed += it->fate == LOT_PUSHED;
		unreached += it->fate == LOT_UNREACHED;
		bytes += it->len;
		fate_count(p, s, it);
	}
	p->failing = pushed ? 0 : p->failing + (unreached > 0);
	sleep_until(KV_MIN(begun_ns + (uint64_t)((double)bytes * 1e9 / (double)p->opt->bytes_s), p->opt->until_ns));
}

static void deletes_repeat(struct push *p, const struct lot *lot)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = PUT_NS};
	for (unsigned i = 0; i < lot->deleted_count; i++) {
		const struct lot_deleted *d = &lot->deleted[i];
		if (session_of(p, d->space, &call.session) == 0)
			(void)kc_delete_at(p->pool, (struct kvc_key){d->key, d->key_len}, d->time_ns, &call);
	}
}

static void lot_heard(struct push *p, struct source *s)
{
	const struct lot *lot = s->lot;
	deletes_repeat(p, lot);
	s->left = lot->left;
	s->gone = lot->gone;
	if (lot->round == s->round)
		return;
	s->over = s->round > 0 && s->put == 0;
	s->round = lot->round;
	if (s->over)
		return;
	s->put = 0;
	memset(s->fate, 0, sizeof(s->fate));
}

static bool shard_turn(struct push *p, struct source *s)
{
	if (!s->lot || s->over)
		return false;
	if (lot_next_wait(s->lot, kv_now() + LOOP_NS) < 0) {
		s->lot = NULL;
		return false;
	}
	lot_heard(p, s);
	if (!s->over && s->lot->count)
		lot_put(p, s);
	if (s->full_row >= FULL_ROW) {
		s->why = KV_LEFT_FULL;
		s->over = true;
	}
	s->over |= s->lot->over;
	return !s->over;
}

static bool goes_on(struct push *p)
{
	if (kv_now() >= p->opt->until_ns)
		return false;
	p->alone |= p->failing >= LOTS_FAILED;
	return !p->alone && others_wait(p);
}

static void shards_run(struct push *p)
{
	bool more = true;
	while (more && goes_on(p)) {
		more = false;
		for (unsigned i = 0; i < p->shards && goes_on(p); i++)
			more |= shard_turn(p, &p->source[i]);
	}
}

static int lots_make(struct push *p, const struct kvs_server *server, struct kv_error *err)
{
	for (p->shards = 0; p->shards < KV_SHARDS_MAX && server->shard[p->shards]; p->shards++) {
		struct source *s = &p->source[p->shards];
		s->lot = lot_new(server->shard[p->shards]);
		if (!s->lot)
			return kv_fail(err, -KV_ENOMEM, "no memory for the blocks of shard %u", p->shards);
	}
	return 0;
}

/* ---- the end ---- */

static void left_count(struct kv_drained *r, enum kv_left why, uint64_t n, uint64_t *left)
{
	n = KV_MIN(n, *left);
	r->left[why] += n;
	*left -= n;
}

static void source_end(struct push *p, struct source *s)
{
	struct kv_drained *r = &p->result;
	bool stuck = !s->lot;
	uint64_t left;
	if (s->lot && lot_end_wait(s->lot, kv_now() + LOOP_NS) == 0) {
		deletes_repeat(p, s->lot);
		s->left = s->lot->left;
		s->gone = s->lot->gone;
		lot_free(s->lot);
	} else {
		stuck = true;
		s->left = KV_MAX(s->left, (uint64_t)1); /* the number is unknown */
	}
	s->lot = NULL;
	left = s->left;
	left_count(r, KV_LEFT_FULL, s->fate[LOT_FULL], &left);
	left_count(r, KV_LEFT_UNREACHABLE, s->fate[LOT_UNREACHED], &left);
	left_count(r, KV_LEFT_REFUSED, s->fate[LOT_REFUSED], &left);
	left_count(r, stuck ? KV_LEFT_STUCK : s->why, left, &left);
	r->gone += s->gone;
}

/* why: for values not tried. */
static void sources_end(struct push *p, enum kv_left why, struct kv_drained *out)
{
	struct kv_drained *r = &p->result;
	for (unsigned i = 0; i < p->shards; i++) {
		if (p->source[i].why != KV_LEFT_FULL)
			p->source[i].why = why;
		source_end(p, &p->source[i]);
	}
	r->of = r->values;
	for (unsigned i = 0; i < KV_LEFT_REASONS; i++)
		r->of += r->left[i];
	*out = *r;
}

int push_run(const struct push_options *options, struct kv_drained *out, struct kv_error *err)
{
	struct push *p = calloc(1, sizeof(*p));
	int rc;
	*out = (struct kv_drained){0};
	if (!p)
		return kv_fail(err, -KV_ENOMEM, "no memory");
	p->opt = options;
	rc = lots_make(p, options->server, err);
	if (rc == 0)
		rc = pool_open(p, err);
	if (rc == 0)
		rc = others_find(p, err);
	if (rc == 0)
		shards_run(p);
	sources_end(p, rc < 0 || p->alone ? KV_LEFT_UNREACHABLE : KV_LEFT_TIME, out);
	kvc_pool_close(&p->pool);
	kv_view_fini(&p->view);
	free(p);
	return rc;
}

void push_none(struct kvs_server *server, enum kv_left why, struct kv_drained *out)
{
	struct push *p = calloc(1, sizeof(*p));
	struct kv_error err;
	*out = (struct kv_drained){0};
	if (!p)
		return;
	(void)lots_make(p, server, &err);
	sources_end(p, why, out);
	free(p);
}
