/* SPDX-License-Identifier: Apache-2.0 */
/* push.c -- a server that goes hands over what is hot, as a client of the others.
 *
 * It opens a pool of the client library, one client, to this server: so it learns the view, and that it drains, and
 * keys are placed where all clients will look for them. The pool follows the view: members that come while it runs get
 * their share. Blocks come from the shards a lot at a time, in turn (lot.h), and are put as batches. After each lot it
 * rests as long as its bytes take at the rate that is allowed. It is a client with a place beside --max-clients, here
 * and at the others: where clients are as many as this server takes, they are that at the others, too. A block whose
 * bytes do not have their checksum is not put: a new one would hide that.
 *
 * The values are copies, as old as the blocks (kvclient/copy.h): a client may delete a key while its value is under
 * way. It deletes at the server that the value goes to first, which refuses the copy from then on. What another server
 * has in a younger version is deleted here.
 *
 * Whatever fails is left out, since the value can be computed again; LOTS_FAILED lots without one success end it. While
 * this server stays in the pool's view, or no other member is up, the library would put values to this server, which
 * has them: that is waited for, OTHERS_NS at most, and what was put in such a moment is put again, also if the moment
 * was over when we look: one member was up all the while, or the lot is put again. That this server drains, the
 * pool hears from this server, as all clients do (kvs_server_drains).
 *
 * Rejected: a list of all members for the pool. It would not open where one of them has another name than the view
 * says, and would keep the place of each that leaves. Writing into the others' memory by the server's own engine. That
 * would be a second protocol for PUT, with the first one's cases of death and retry. */
#include "kvserver/push/push.h"

#include <stdlib.h>
#include <time.h>

#include "kvclient/copy.h"
#include "kvclient/kvclient.h"
#include "kvserver/control/server.h"
#include "kvserver/push/lot.h"

enum { LOTS_FAILED = 3 };

#define BUFFER_BYTES (64ull << 20)
#define OTHERS_NS    5000000000ull /* to hear the view in which it drains; for a member whose connection broke */
#define POLL_NS      20000000ull
#define LOOP_NS      5000000000ull /* a loop that does not turn for so long is given up */
#define CONNECT_NS   1000000000ull /* a member that does not answer must not use the time up */
#define PUT_NS       2000000000ull /* a lot; the others are there, or it is not worth it. And for each byte: */
#define BYTE_NS      10ull         /* as calls have that name no time */

struct push {
	const struct push_options *opt;
	struct kvc_pool *pool;
	struct kv_view view; /* the pool's */
	unsigned other;      /* a server of the pool that took values last, */
	uint64_t attaches;   /* and how often the pool had attached to it by then */
	struct lot *lot[KV_SHARDS_MAX];
	unsigned shards, failing; /* failing: lots behind each other of which nothing was put */
	struct push_result result;
};

static uint64_t now(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

static void sleep_until(uint64_t until_ns)
{
	const struct timespec at = {.tv_sec = (time_t)(until_ns / 1000000000),
				    .tv_nsec = (long)(until_ns % 1000000000)};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* ---- the pool ---- */

/* An event of ours takes the place of the library's own. */
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
	struct kvs_info info;
	struct kvc_options ko = {.size = sizeof(ko),
				 .num_clients = 1,
				 .num_threads = 1,
				 .buffer_bytes = BUFFER_BYTES,
				 .servers = servers,
				 .num_servers = KV_COUNT(servers),
				 .servers_max = KV_VIEW_MAX,
				 .timeout_ns = PUT_NS,
				 .connect_timeout_ns = CONNECT_NS,
				 .settle_ns = 1,
				 .base_client_id = KV_CLUSTER_CLIENT,
				 .flags = KVC_OPEN_WAIT,
				 .psk = o->psk,
				 .psk_file = o->psk ? NULL : o->psk_file,
				 .cert_file = o->cert_file,
				 .key_file = o->key_file,
				 .ca_file = o->ca_file,
				 .crl_file = o->crl_file,
				 .server_name = o->server_name,
				 .cluster = o->cluster,
				 .log_level = (int)KV_LOG_WARN,
				 .log = log_line,
				 .log_arg = (void *)(uintptr_t)o->log};
	snprintf(server, sizeof(server), "%s=%s", m->node_id, m->address);
	kvs_server_info(o->server, &info);
	ko.provider = info.provider;
	return kvc_pool_open(&ko, &p->pool, err);
}

/* This server may have no room for one client more, as several do that drain at a time, or not be reached at its own
 * address. Others know of the drain, too, where the source does. */
static int pool_open(struct push *p, struct kv_error *err)
{
	const struct push_options *o = p->opt;
	uint64_t until_ns = KV_MIN(now() + OTHERS_NS, o->until_ns);
	struct kv_error again;
	int rc = pool_open_at(p, o->self, err);
	for (uint32_t i = 0; rc < 0 && i < o->view->count && now() < until_ns; i++)
		if (strcmp(o->view->member[i].node_id, o->self->node_id) != 0 &&
		    pool_open_at(p, &o->view->member[i], &again) == 0)
			rc = 0;
	return rc;
}

/* ---- the members ---- */

/* Server i of the pool. 0, -KV_ENOTFOUND: it has left; -KV_EINVAL: there are no more; or another code. */
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
	const char *address = strchr(info->name, '='); /* "NAME=HOST:PORT": no server is in the pool without a name */
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

/* All members that the pool knows. 0 or a code. */
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

/* If the pool has another view than the one that was read last, read it. One that changes meanwhile is read again at
 * the next look. */
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

/* Whether keys are placed as if this server had gone. */
static bool self_goes(struct push *p)
{
	const struct kv_member *self;
	view_read(p);
	if (p->view.epoch == 0)
		return false;
	self = kv_view_find(&p->view, p->opt->self->node_id);
	if (!self || self->state == KV_MEMBER_DRAINING)
		return true;
	kv_view_fini(&p->view); /* it is read again: the drain changes no epoch */
	return false;
}

static bool takes(const struct push *p, const struct kvc_server_info *info)
{
	return info->state == KVC_SERVER_UP && info->member[0] && info->member_state != KVC_MEMBER_DRAINING &&
	       strcmp(info->member, p->opt->self->node_id) != 0;
}

/* Whether there is a server to put values to. */
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
	uint64_t until_ns = KV_MIN(now() + OTHERS_NS, p->opt->until_ns);
	while (!others_take(p)) {
		if (now() >= until_ns) {
			p->result.alone = true;
			return false;
		}
		sleep_until(now() + POLL_NS);
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

/* Put the items from `at` on that have the same time to live. Returns how many they are. */
static unsigned items_put(struct push *p, struct lot *lot, unsigned at)
{
	struct kvc_item item[LOT_BLOCKS] = {0};
	uint64_t born_ns[LOT_BLOCKS] = {0};
	struct kvc_call call = {.size = sizeof(call), .ttl_s = lot->item[at].ttl_s, .timeout_ns = PUT_NS};
	unsigned n = 0, last = at;
	for (; last < lot->count && lot->item[last].ttl_s == call.ttl_s; last++, n++)
		call.timeout_ns += lot->item[last].len * BYTE_NS;
	for (unsigned i = 0; i < n; i++) {
		const struct lot_item *it = &lot->item[at + i];
		item[i] = (struct kvc_item){.key = {it->key, it->key_len}, .data = it->data, .len = it->len};
		born_ns[i] = it->born_ns;
		if (!sound(it))
			item[i].len = 0; /* refused: -KV_EINVAL */
	}
	(void)kvc_copy_batch(p->pool, item, born_ns, n, &call);
	for (unsigned i = 0; i < n; i++) {
		lot->item[at + i].pushed = item[i].result == 0;
		lot->item[at + i].outdated = item[i].result == -KV_ENOTFOUND;
	}
	return n;
}

/* Put the items, once. False: another member was not there all the while, so that some may have gone to this server. */
static bool items_put_all(struct push *p, struct lot *lot)
{
	unsigned other = p->other;
	uint64_t attaches = p->attaches;
	for (unsigned i = 0; i < lot->count;)
		i += items_put(p, lot, i);
	return others_take(p) && p->other == other && p->attaches == attaches;
}

/* Put what the lot has, and rest. */
static void lot_put(struct push *p, struct lot *lot)
{
	struct push_result *r = &p->result;
	uint64_t bytes = 0, pushed = 0, begun_ns = now();
	while (!items_put_all(p, lot) && others_wait(p) && now() < p->opt->until_ns)
		;
	for (unsigned i = 0; i < lot->count; i++) {
		struct lot_item *it = &lot->item[i];
		it->pushed &= !p->result.alone;
		pushed += it->pushed;
		bytes += it->pushed ? it->len : 0;
	}
	r->blocks += pushed;
	r->bytes += bytes;
	r->failed += lot->count - pushed;
	p->failing = pushed ? 0 : p->failing + 1;
	sleep_until(KV_MIN(begun_ns + (uint64_t)((double)bytes * 1e9 / (double)p->opt->bytes_s), p->opt->until_ns));
}

/* The next lot of a shard. False: it has none any more, or does not answer. */
static bool shard_turn(struct push *p, unsigned i)
{
	struct lot *lot = p->lot[i];
	if (!lot)
		return false;
	if (lot_next_wait(lot, now() + LOOP_NS) < 0) {
		p->lot[i] = NULL; /* the loop has it */
		return false;
	}
	if (lot->count)
		lot_put(p, lot);
	return !lot->over || lot->count;
}

static bool goes_on(struct push *p)
{
	if (now() >= p->opt->until_ns)
		return false;
	p->result.alone |= p->failing >= LOTS_FAILED;
	return !p->result.alone && others_wait(p);
}

static void shards_run(struct push *p)
{
	bool more = true;
	while (more && goes_on(p)) {
		unsigned i;
		more = false;
		for (i = 0; i < p->shards && goes_on(p); i++)
			more |= shard_turn(p, i);
		more |= i < p->shards; /* the others were not asked */
	}
	p->result.all = !more;
}

static int lots_make(struct push *p, struct kv_error *err)
{
	for (p->shards = 0; p->shards < KV_SHARDS_MAX && p->opt->server->shard[p->shards]; p->shards++) {
		p->lot[p->shards] = lot_new(p->opt->server->shard[p->shards]);
		if (!p->lot[p->shards])
			return kv_fail(err, -KV_ENOMEM, "no memory for the blocks of shard %u", p->shards);
	}
	return 0;
}

int push_run(const struct push_options *options, struct push_result *out, struct kv_error *err)
{
	struct push *p = calloc(1, sizeof(*p));
	int rc;
	*out = (struct push_result){0};
	if (!p)
		return kv_fail(err, -KV_ENOMEM, "no memory");
	p->opt = options;
	rc = pool_open(p, err);
	if (rc == 0)
		rc = others_find(p, err);
	if (rc == 0)
		rc = lots_make(p, err);
	if (rc == 0)
		shards_run(p);
	for (unsigned i = 0; i < p->shards; i++)
		(void)lot_end_wait(&p->lot[i], now() + LOOP_NS);
	kvc_pool_close(&p->pool);
	kv_view_fini(&p->view);
	if (rc == 0)
		*out = p->result;
	free(p);
	return rc;
}
