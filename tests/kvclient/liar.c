/* SPDX-License-Identifier: Apache-2.0 */
/* liar.c -- see liar.h. One loop: a coroutine per control connection, the engine as its poller. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "liar.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/bootstrap.h"
#include "engine/engine.h"
#include "host/host.h"
#include "local/local.h"
#include "loop/loop.h"
#include "server.h"

enum { CONNS = 1024, REGIONS = 16, BEAT_MS = 100, CHUNK = 65536 };
#define SEND_NS 30000000000ull /* what it sends must not be lost on a busy machine */

struct lseal {
	struct kv_seal seal;
	uint64_t seen[KV_WINDOW_WIDTH / 64];
};

struct lconn {
	uint32_t number, mark;
	uint64_t client_id;
	uint8_t secret[BOOT_FRAME_SECRET];
	struct kv_macs macs[KV_SHARDS_MAX];              /* of the shards that were used, and ... */
	struct lseal *seal[KV_SHARDS_MAX][KV_RAILS_MAX]; /* ... of the links */
	unsigned shard; /* of the frame that is being answered: they are all the same to it */
	int fd;
	struct boot_conn *boot;
	struct co *co;
	struct te_peer *peer;
	struct te_address addr;
	int opened;
	int told; /* the control lie that this connection has heard */
	uint32_t region[REGIONS];
	struct te_remote remote[REGIONS];
	struct te_key key[REGIONS];
	unsigned regions;
	uint8_t nonce[LOCAL_NONCE_LEN];
	struct local_channel *channel; /* NULL: the fabric */
	int local_fd;                  /* -1: none */
};

_Atomic int liar_lie;
_Atomic uint64_t liar_sessions;
_Atomic unsigned liar_failures;
const char *_Atomic liar_script;
_Atomic unsigned liar_checks;
_Atomic uint64_t liar_leases, liar_releases;
const char *liar_provider;
_Atomic bool liar_pull, liar_lands, liar_local;
_Atomic uint64_t liar_landed, liar_strewn;
void (*_Atomic liar_welcome)(struct wire_ctrl_msg *m);
void (*_Atomic liar_region)(const struct wire_region *w, bool answered);
void (*_Atomic liar_revoke)(uint32_t id);

static struct {
	struct loop *loop;
	struct loop_poller releases;
	pthread_t thread;
	struct te *te;
	struct te_info info;
	struct boot_context *boot;
	int listen_fd, local_listen_fd;
	struct sockaddr_storage addr;
	char address[64], local_name[LOCAL_NAME_MAX];
	struct kv_area area, landing;
	struct te_region *region, *landing_region;
	uint64_t checksum;
	struct lconn *conn[CONNS]; /* all there ever were: kept until the end */
	unsigned conns;
	_Atomic unsigned alive;
	_Atomic bool stopping;
} liar;

static const struct kv_log quiet = {.level = KV_LOG_OFF, .write = kv_log_stderr};
static const uint8_t token[KV_TOKEN_LEN] = "a liar's token";

/* ---- the fabric ---- */

static struct lconn *conn_of(uint32_t session)
{
	for (unsigned i = 0; i < liar.conns; i++)
		if (liar.conn[i]->number == session && liar.conn[i]->peer)
			return liar.conn[i];
	return NULL;
}

static void reply_raw(struct lconn *c, unsigned link, const void *bytes, uint32_t len)
{
	struct te_msg *msg = te_msg_acquire(liar.te);
	if (!msg)
		return;
	memcpy(msg->data, bytes, len);
	msg->len = len;
	te_msg_send(liar.te, c->peer, link, msg, loop_now(liar.loop) + SEND_NS);
}

static struct kv_seal *seal_of(struct lconn *c, unsigned shard, unsigned link)
{
	struct lseal **s = &c->seal[shard][link];
	if (!*s) {
		*s = calloc(1, sizeof(**s));
		if (!*s ||
		    (!c->macs[shard].out && boot_frame_macs(c->secret, c->number, shard, true, &c->macs[shard]) != 0))
			abort();
		kv_seal_init(&(*s)->seal, &c->macs[shard], link, (*s)->seen, KV_WINDOW_WIDTH);
	}
	return &(*s)->seal;
}

static void reply(struct lconn *c, unsigned link, const struct wire_reply *r)
{
	int lie = r->type == WIRE_GET ? atomic_load(&liar_lie) : LIE_NONE;
	struct wire_frame frame = {.session = c->number,
				   .mark = c->mark + (lie == LIE_MARK || lie == LIE_LOCAL_MARK),
				   .link = (uint8_t)link,
				   .shard = (uint8_t)(c->shard + (lie == LIE_LOCAL_SHARD))};
	uint8_t buf[KV_MSG_MAX];
	struct wire_writer w;
	uint32_t len;
	wire_frame_begin(&w, buf, sizeof(buf), &frame);
	if (wire_reply_add(&w, r) != 0)
		return;
	len = wire_frame_end(&w);
	if (!c->channel && wire_seal(seal_of(c, c->shard, link), buf, len) != 0)
		return;
	buf[8] ^= lie == LIE_TAG;
	reply_raw(c, link, buf, len);
	if (lie == LIE_REPLAY)
		reply_raw(c, link, buf, len);
}

static void moved(struct te_xfer *x, int status)
{
	(void)status;
	free(x);
}

/* Write `length` bytes of the value to the client. Returns the number of writes. */
static uint32_t push(struct lconn *c, const struct wire_request *q, uint64_t offset, uint64_t length, uint32_t imm)
{
	struct te_xfer *x = calloc(1, sizeof(*x));
	uint32_t chunks;
	unsigned i = 0;
	while (i < c->regions && c->region[i] != q->dest.region)
		i++;
	if (!x || i == c->regions || length == 0) {
		free(x);
		return 0;
	}
	*x = (struct te_xfer){.dir = TE_WRITE,
			      .peer = c->peer,
			      .link = TE_LINK_ANY,
			      .local = liar.region,
			      .local_offset = offset,
			      .remote = &c->remote[i],
			      .at = {.offset = q->dest.offset, .slice = length, .count = 1},
			      .with_imm = true,
			      .imm = imm,
			      .deadline_ns = loop_now(liar.loop) + SEND_NS,
			      .done = moved};
	chunks = te_xfer_chunks(liar.te, x);
	if (te_xfer_start(liar.te, x) < 0) {
		free(x);
		return 0;
	}
	return chunks;
}

/* How many bytes a GET asks for: 0 is all up to the end, of which its destination takes so many. */
static uint64_t asked(const struct wire_request *q)
{
	return q->get.length ? q->get.length : q->dest.slice * q->dest.count;
}

static const uint8_t zeros[KV_INLINE_MAX];

/* Let the client read it in place. */
static void answer_local(struct lconn *c, unsigned link, const struct wire_request *q)
{
	int lie = atomic_load(&liar_lie);
	struct wire_reply r = {.type = WIRE_GET, .flags = WIRE_GET_LEASED, .id = q->id};
	uint64_t length = LIAR_VALUE - KV_MIN(q->get.offset, (uint64_t)LIAR_VALUE);
	if (lie == LIE_LEASE_SILENT || lie == LIE_SILENT)
		return;
	if (q->get.length)
		length = KV_MIN(length, q->get.length);
	r.get.value_len = lie == LIE_LEASE_LONG ? 1ull << 40 : LIAR_VALUE;
	r.get.generation = 5;
	r.get.checksum = liar.checksum;
	r.get.lease = atomic_fetch_add(&liar_leases, 1) + 1;
	r.get.lease_us = UINT32_MAX;
	r.get.at = q->get.offset + (lie == LIE_LEASE_OTHER ? 4096 : 0);
	if (lie == LIE_LEASE_OUTSIDE)
		r.get.at = UINT64_MAX - 10;
	if (lie == LIE_LEASE_EDGE)
		r.get.at = liar.area.len_bytes - length + 1;
	if (lie == LIE_LOCAL_EMPTY || lie == LIE_LOCAL_POSTED || lie == LIE_LOCAL_FOLLOWS || lie == LIE_LOCAL_INLINE ||
	    lie == LIE_LOCAL_BUSY) {
		atomic_fetch_sub(&liar_leases, 1);
		r.flags = lie == LIE_LOCAL_FOLLOWS ? WIRE_GET_FOLLOWS : 0;
		r.get.lease = r.get.at = r.get.lease_us = 0;
	}
	r.get.posted = lie == LIE_LOCAL_POSTED ? 3 : 0;
	if (lie == LIE_LOCAL_INLINE)
		r.get.inline_data = (struct wire_bytes){zeros, sizeof(zeros)};
	if (lie == LIE_LOCAL_BUSY)
		r.status = WIRE_BUSY;
	if (lie == LIE_LOCAL_JUNK)
		reply_raw(c, link, liar.area.base, 500);
	reply(c, link, &r);
	if (lie == LIE_LEASE_TWICE)
		reply(c, link, &r);
	if (lie == LIE_LOCAL_CLOSE && c->local_fd >= 0) {
		atomic_store(&liar_lie, LIE_NONE);
		io_close(liar.loop, c->local_fd);
		c->local_fd = -1;
	}
}

/* Let the client read it. */
static void answer_lease(struct lconn *c, unsigned link, const struct wire_request *q)
{
	int lie = atomic_load(&liar_lie);
	struct wire_reply r = {.type = WIRE_GET, .flags = WIRE_GET_LEASED, .id = q->id};
	uint64_t length = q->get.offset < LIAR_VALUE ? KV_MIN(asked(q), LIAR_VALUE - q->get.offset) : 0;
	if (lie == LIE_LEASE_SILENT)
		return;
	r.get.value_len = lie == LIE_LEASE_LONG ? 1ull << 40 : LIAR_VALUE;
	r.get.generation = 5;
	r.get.checksum = liar.checksum;
	r.get.lease = atomic_fetch_add(&liar_leases, 1) + 1;
	r.get.lease_us = lie == LIE_LEASE_SHORT ? 1 : 30000000;
	r.get.at = lie == LIE_LEASE_OUTSIDE ? 1ull << 50
		   : lie == LIE_LEASE_EDGE  ? liar.area.len_bytes - 10
					    : q->get.offset;
	r.get.at += lie == LIE_LEASE_OTHER ? 4096 : 0;
	if (lie == LIE_LEASE_PUSHED)
		push(c, q, q->get.offset, length, q->get.imm);
	reply(c, link, &r);
	if (lie == LIE_LEASE_TWICE)
		reply(c, link, &r);
}

/* The next step of the script; 0: it is over, or there is none (a storm of lies). */
static char script_step(void)
{
	const char *at = atomic_load(&liar_script);
	if (!at)
		return 0;
	if (*at)
		atomic_store(&liar_script, at + 1);
	return *at;
}

static void answer_get(struct lconn *c, unsigned link, const struct wire_request *q)
{
	int lie = atomic_load(&liar_lie);
	struct wire_reply r = {.type = WIRE_GET, .id = q->id};
	uint64_t length = q->get.offset < LIAR_VALUE ? KV_MIN(asked(q), LIAR_VALUE - q->get.offset) : 0;
	uint32_t imm = q->get.imm;
	char step = lie == LIE_SCRIPT ? script_step() : 0;
	atomic_fetch_add(&liar_checks, (q->flags & WIRE_GET_CHECK) != 0);
	if (step == 'b') {
		r.status = WIRE_BUSY;
		reply(c, link, &r);
		return;
	}
	if (lie == LIE_IMM_GENERATION)
		imm += 0x10000;
	if (lie == LIE_IMM_SLOT)
		imm |= 0xFFFF;
	r.get.value_len = LIAR_VALUE;
	r.get.generation = 5;
	r.get.checksum = liar.checksum;
	if (lie != LIE_INLINE_SHORT && lie != LIE_INLINE_LONG && lie != LIE_BEFORE)
		r.get.posted = push(c, q, q->get.offset, length, imm);
	if (lie == LIE_INLINE_SHORT || lie == LIE_INLINE_LONG)
		r.get.inline_data = (struct wire_bytes){liar.area.base, 100};
	if (lie == LIE_INLINE_LONG)
		r.get.value_len = 10;
	if (lie == LIE_BEFORE) {
		r.flags |= WIRE_GET_FOLLOWS | WIRE_GET_PACK;
		r.get.before = 100;
	}
	if (lie == LIE_IMM_MORE)
		push(c, q, 0, 1, imm);
	r.id += lie == LIE_WRONG_ID ? 100000 : 0;
	r.status = lie == LIE_STATUS ? 999 : WIRE_OK;
	if (lie == LIE_FABRIC && atomic_load(&liar_failures) > 0) {
		atomic_fetch_sub(&liar_failures, 1);
		r.status = WIRE_FABRIC;
	}
	r.get.posted += lie == LIE_POSTED_MORE;
	r.get.posted -= lie == LIE_POSTED_LESS && r.get.posted > 0;
	r.get.posted = lie == LIE_POSTED_NONE ? 0 : r.get.posted;
	r.get.value_len = lie == LIE_LENGTH ? 1ull << 40 : r.get.value_len;
	r.get.checksum ^= lie == LIE_BYTES || step == 'c';
	if (lie == LIE_TYPE)
		r = (struct wire_reply){.type = WIRE_PUT, .id = q->id, .put.generation = 3};
	if (lie == LIE_JUNK)
		reply_raw(c, link, liar.area.base, 500);
	if (lie != LIE_SILENT && lie != LIE_CANCEL)
		reply(c, link, &r);
	if (lie == LIE_TWICE)
		reply(c, link, &r);
}

/* Whether the bytes of a PUT lie where it says; counted. */
static bool landed_right(const struct wire_request *q)
{
	bool inside = q->dest.slice <= LIAR_LANDING && q->dest.offset <= LIAR_LANDING - q->dest.slice;
	const uint8_t *at = (const uint8_t *)liar.landing.base + q->dest.offset;
	bool right = inside && kv_hash_block(at, q->dest.slice) == q->put.checksum;
	atomic_fetch_add(right ? &liar_landed : &liar_strewn, 1);
	return right;
}

/* PUTs that were not answered when they came. */
static struct late {
	struct lconn *c;
	unsigned link;
	int lie;
	bool told; /* CANCEL is told that it was answered */
	struct wire_request q;
} late[64];
static unsigned num_late;

/* False: it is answered now. */
static bool late_keep(struct lconn *c, unsigned link, const struct wire_request *q, int lie)
{
	uint8_t last = q->key.data[q->key.len - 1];
	bool odd = last & 1, some = lie == LIE_LANDED_HALF || lie == LIE_LANDED_PART;
	if (!(lie == LIE_LANDED_LATE || (some && odd)) || num_late == KV_COUNT(late))
		return false;
	late[num_late++] = (struct late){c, link, lie, lie != LIE_LANDED_PART || last & 2, *q};
	return true;
}

/* Whether CANCEL of this id has an answer. */
static bool late_told(const struct lconn *c, uint64_t id)
{
	for (unsigned i = 0; i < num_late; i++)
		if (late[i].c == c && late[i].q.id == id)
			return late[i].told;
	return true;
}

/* Answer them now: the bytes still lie where they landed, unless the client has begun anew since, or was told that they
 * need not. */
static void late_answer(int lie)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < num_late; i++) {
		const struct late *l = &late[i];
		struct wire_reply r = {.type = WIRE_PUT, .id = l->q.id, .put.generation = 5};
		if (l->lie == lie) {
			late[kept++] = *l;
			continue;
		}
		if (!l->c->peer)
			continue;
		r.status = l->lie == LIE_LANDED_LATE || landed_right(&l->q) ? WIRE_OK : WIRE_CORRUPT;
		reply(l->c, l->link, &r);
		if (l->lie == LIE_LANDED_LATE)
			reply(l->c, l->link, &r);
	}
	num_late = kept;
}

/* The client has written its bytes: a value of one range. */
static void answer_landed(struct lconn *c, unsigned link, const struct wire_request *q)
{
	int lie = atomic_load(&liar_lie);
	char step = lie == LIE_SCRIPT ? script_step() : 0;
	struct wire_reply r = {.type = WIRE_PUT, .id = q->id + (lie == LIE_LANDED_ID ? 100000 : 0)};
	bool odd = q->key.data[q->key.len - 1] & 1, right;
	late_answer(lie);
	if (late_keep(c, link, q, lie))
		return;
	right = landed_right(q);
	r.put.generation = 5;
	if (lie == LIE_LANDED_CORRUPT || step == 'c' || !right)
		r.status = WIRE_CORRUPT;
	if (step == 'b')
		r.status = WIRE_BUSY;
	if (lie == LIE_LANDED_ODD && odd)
		r.status = WIRE_NOMEM;
	if (lie == LIE_LANDED_INVALID)
		r.status = WIRE_INVALID;
	if (lie == LIE_LANDED_TYPE)
		r = (struct wire_reply){.type = WIRE_GET, .id = q->id, .get.value_len = 4711};
	if (lie != LIE_LANDED_SILENT && lie != LIE_LANDED_UNSEEN && lie != LIE_LANDED_POSTED)
		reply(c, link, &r);
	if (lie == LIE_LANDED_TWICE)
		reply(c, link, &r);
}

static void answer(struct lconn *c, unsigned link, const struct wire_request *q)
{
	int lie = atomic_load(&liar_lie);
	struct wire_reply r = {.type = q->type, .id = q->id};
	if (q->type == WIRE_RELEASE) {
		atomic_fetch_add(&liar_releases, q->release.count);
		return;
	}
	if (q->type == WIRE_GET && q->flags & WIRE_GET_PULL && q->dest.count == 0) {
		answer_local(c, link, q);
		return;
	}
	if (q->type == WIRE_GET && q->flags & WIRE_GET_PULL) {
		answer_lease(c, link, q);
		return;
	}
	if (q->type == WIRE_GET) {
		answer_get(c, link, q);
		return;
	}
	if (q->type == WIRE_PUT && q->flags & WIRE_PUT_LANDED) {
		answer_landed(c, link, q);
		return;
	}
	if (q->type == WIRE_PING)
		r.ping.cookie = q->ping.cookie;
	if (q->type == WIRE_CANCEL) {
		/* Of what was answered: what was said then. A lie is stuck to. */
		r.cancel.id = lie == LIE_CANCEL ? ~q->cancel.id : q->cancel.id;
		r.cancel.state = WIRE_CANCEL_DONE;
		r.cancel.posted = lie == LIE_CANCEL ? UINT32_MAX - 1 : LIAR_CHUNKS + (lie == LIE_POSTED_MORE);
		if (lie == LIE_LEASE_SILENT || (lie >= LIE_LANDED_SILENT && lie <= LIE_LANDED_PART))
			r.cancel.posted = 0;
		if (lie == LIE_LANDED_UNSEEN)
			r.cancel.state = WIRE_CANCEL_UNSEEN;
		if (!late_told(c, q->cancel.id))
			return;
	}
	if (c->told == LIE_VOID)
		return;
	if (lie != LIE_SILENT || q->type == WIRE_PING)
		reply(c, link, &r);
}

static void on_message(void *arg, unsigned rail, const uint8_t *data, size_t len)
{
	struct wire_reader reader;
	struct wire_frame frame;
	struct wire_request q;
	struct lconn *c;
	(void)arg, (void)rail;
	if (wire_frame_open(&reader, data, len, &frame) != 0 || !(c = conn_of(frame.session)) ||
	    frame.shard >= KV_SHARDS_MAX || frame.link >= KV_RAILS_MAX ||
	    wire_unseal(seal_of(c, frame.shard, frame.link), data, len) != 0)
		return;
	c->shard = frame.shard;
	while (wire_request_next(&reader, &q) == 1)
		if (q.type != WIRE_SESSION && q.type != WIRE_PROVE) /* it believes anybody */
			answer(c, frame.link, &q);
}

static void on_local(void *arg, struct te_peer *peer, const uint8_t *data, size_t len)
{
	struct wire_reader reader;
	struct wire_frame frame;
	struct wire_request q;
	struct lconn *c;
	(void)arg;
	if (wire_frame_open(&reader, data, len, &frame) != 0 || !(c = conn_of(frame.session)) || c->peer != peer)
		return;
	c->shard = frame.shard;
	while (wire_request_next(&reader, &q) == 1)
		if (q.type != WIRE_SESSION && q.type != WIRE_PROVE)
			answer(c, frame.link, &q);
}

static bool never_active(struct loop_poller *p)
{
	(void)p;
	return false;
}

/* In each turn of the loop, as kv-server does: a release that nobody takes keeps the loop awake. */
static int releases_take(struct loop_poller *p)
{
	uint64_t lease;
	int n = 0;
	(void)p;
	for (unsigned i = 0; i < liar.conns; i++)
		while (liar.conn[i]->channel && local_released(liar.conn[i]->channel, &lease) == 1)
			n++;
	atomic_fetch_add(&liar_releases, (unsigned)n);
	return n;
}

/* ---- the control connection ---- */

static uint64_t in(uint64_t ns)
{
	return loop_now(liar.loop) + ns;
}

/* ---- its memory on this host ---- */

static int local_ask(struct lconn *c)
{
	int lie = c->client_id >= LIAR_NEWCOMER ? atomic_load(&liar_lie) : LIE_NONE, rc;
	struct wire_ctrl_msg r = {.type = WIRE_CTRL_LOCAL};
	if (lie == LIE_JOIN_SILENT)
		return 0;
	loop_random(liar.loop, c->nonce, sizeof(c->nonce));
	memcpy(r.local.nonce, c->nonce, sizeof(c->nonce));
	memcpy(r.local.proof, c->nonce, sizeof(c->nonce));
	snprintf(r.local.name, sizeof(r.local.name), "%s", lie == LIE_JOIN_NAME ? "@nobody" : liar.local_name);
	if (lie == LIE_JOIN_LONG)
		memset(r.local.name, 'x', sizeof(r.local.name) - 1);
	if (lie == LIE_JOIN_REFUSE) {
		r.local.status = 4711;
		r.local.name[0] = 0;
		snprintf(r.local.text, sizeof(r.local.text), "no\r\n\033[2Jyou are \xff root");
	}
	rc = boot_send_await(c->boot, &r, in(1000000000));
	return rc || lie != LIE_JOIN_TWICE ? rc : boot_send_await(c->boot, &r, in(1000000000));
}

static struct lconn *conn_with(const uint8_t nonce[LOCAL_NONCE_LEN])
{
	for (unsigned i = 0; i < liar.conns; i++)
		if (liar.conn[i]->peer && memcmp(liar.conn[i]->nonce, nonce, LOCAL_NONCE_LEN) == 0)
			return liar.conn[i];
	return NULL;
}

static int file_of(uint64_t len, bool sealed)
{
	int fd = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	if (sealed)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return fd;
}

/* Give it the one shard. */
static void local_give(struct lconn *c, int fd)
{
	int lie = c->client_id >= LIAR_NEWCOMER ? atomic_load(&liar_lie) : LIE_NONE;
	lie = lie == LIE_JOIN_TWICE ? LIE_NONE : lie; /* the rest is true */
	int landing_fd = file_of(LIAR_LANDING, true), rc;
	int odd_fd = file_of(lie == LIE_JOIN_CHANNEL ? 4096 : 1 << 20, lie != LIE_JOIN_UNSEALED);
	struct local_shard s = {.shards = 1, .arena_bytes = liar.area.len_bytes, .landing_bytes = LIAR_LANDING};
	memcpy(s.proof, c->nonce, sizeof(c->nonce));
	s.proof[0] ^= lie == LIE_JOIN_PROOF;
	assert_int_equal(local_channel_make(&c->channel, NULL), 0);
	local_channel_fds(c->channel, &s);
	s.fd[LOCAL_ARENA] = lie == LIE_JOIN_UNSEALED ? odd_fd : liar.area.fd;
	s.fd[LOCAL_LANDING] = landing_fd;
	s.shard = lie == LIE_JOIN_SHARD;
	s.shards += lie == LIE_JOIN_SHARDS;
	s.arena_bytes += lie == LIE_JOIN_LARGER ? 1 << 20 : 0;
	if (lie == LIE_JOIN_CHANNEL)
		s.fd[LOCAL_CHANNEL] = odd_fd;
	if (lie == LIE_JOIN_BELL)
		s.fd[LOCAL_BELL] = odd_fd;
	rc = lie == LIE_JOIN_END ? -1 : 0;
	if (lie == LIE_JOIN_JUNK)
		rc = io_write_all_await(fd, zeros, 100, in(1000000000));
	else if (rc == 0 && lie != LIE_JOIN_STILL)
		rc = local_give_await(fd, &s, in(1000000000));
	/* As kv-server: a client that has given up meanwhile stays on the fabric. */
	if (rc == 0 && lie == LIE_NONE)
		rc = local_ready_await(fd, in(1000000000));
	if (rc == 0 && lie == LIE_NONE)
		rc = te_peer_local(c->peer, c->channel);
	if (rc == 0)
		local_channel_passed(c->channel);
	close(landing_fd);
	close(odd_fd);
	if (rc != 0 || (lie != LIE_NONE && lie != LIE_JOIN_STILL)) {
		local_channel_close(&c->channel);
		io_close(liar.loop, fd);
		return;
	}
	c->local_fd = fd;
}

static void local_main(void *arg)
{
	uint8_t nonce[LOCAL_NONCE_LEN];
	struct lconn *c;
	int fd;
	(void)arg;
	while (!atomic_load(&liar.stopping)) {
		if (local_accept_await(liar.local_listen_fd, &fd, in(50000000)) != 0)
			continue;
		c = local_nonce_await(fd, nonce, in(1000000000)) == 0 ? conn_with(nonce) : NULL;
		if (c && !c->channel)
			local_give(c, fd);
		else
			io_close(liar.loop, fd);
	}
	local_unlisten(&liar.local_listen_fd, liar.local_name);
	atomic_fetch_sub(&liar.alive, 1);
}

static void peer_open(void *arg)
{
	struct lconn *c = arg;
	c->opened = te_peer_open(liar.te, &c->addr, 1, &c->peer, NULL);
	c->opened = c->opened ? c->opened : 1;
	co_wake(c->co);
}

static void peer_close(void *arg)
{
	struct lconn *c = arg;
	te_peer_close(&c->peer);
	local_channel_close(&c->channel);
	if (c->local_fd >= 0)
		io_close(liar.loop, c->local_fd);
	c->local_fd = -1;
	c->opened = 0;
	co_wake(c->co);
}

static int welcome(struct lconn *c)
{
	static uint8_t addrs[KV_SHARDS_MAX * KV_RAILS_MAX * (KV_ADDR_MAX + 2)];
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_WELCOME};
	struct wire_welcome_msg *w = &m.welcome;
	struct te_address a;
	void (*change)(struct wire_ctrl_msg *) = atomic_load(&liar_welcome);
	*w = (struct wire_welcome_msg){.version = WIRE_VERSION,
				       .shards = 1,
				       .rails = 1,
				       .loops = 1,
				       .session = c->number,
				       .chunk_bytes = CHUNK,
				       .credits = 64,
				       .heartbeat_ms = BEAT_MS,
				       .eager_bytes = liar.info.eager_bytes,
				       .incarnation = 1,
				       .value_max = KV_VALUE_MAX,
				       .flags = WIRE_WELCOME_INLINE_PUT | (liar_pull ? WIRE_WELCOME_PULL : 0) |
						(liar_lands ? WIRE_WELCOME_LANDING : 0) |
						(liar_local ? WIRE_WELCOME_LOCAL : 0),
				       .addrs = addrs};
	memcpy(w->token, token, KV_TOKEN_LEN);
	boot_frame_secret(c->boot, token, c->secret);
	if (change)
		change(&m);
	te_address(liar.te, 0, &a);
	for (unsigned i = 0; m.type == WIRE_CTRL_WELCOME && i < (unsigned)w->shards * w->rails; i++)
		wire_addr_pack(addrs, sizeof(addrs), &w->addrs_len, a.data, a.len);
	return boot_send_await(c->boot, &m, in(1000000000));
}

static void region_keep(struct lconn *c, const struct wire_region *w)
{
	unsigned i = c->regions;
	if (i == REGIONS || w->parts != 1)
		return;
	c->region[i] = w->id;
	wire_region_key(w, 0, 0, &c->key[i].base, &c->key[i].key);
	c->remote[i] = (struct te_remote){w->len_bytes, w->part_bytes, 1, 1, w->virt, &c->key[i]};
	c->regions++;
}

static int arena(struct lconn *c)
{
	int lie = c->client_id >= LIAR_NEWCOMER ? atomic_load(&liar_lie) : LIE_NONE;
	struct wire_ctrl_msg r = {.type = WIRE_CTRL_ARENA};
	struct te_remote told;
	struct te_key key;
	uint8_t packed[16];
	if (lie == LIE_ARENA_NONE)
		return 0;
	te_region_announce(liar.region, &told, &key);
	wire_region_put(packed, 1, 0, 0, key.base + (lie == LIE_ARENA_BASE ? 64 : 0),
			key.key ^ (lie == LIE_ARENA_KEY ? 0x1234 : 0));
	if (lie == LIE_ARENA_SMALL)
		told.len_bytes = told.part_bytes = 1000;
	r.region = (struct wire_region){.id = lie == LIE_ARENA_SHARD ? 7 : 0,
					.parts = 1,
					.rails = 1,
					.virt = told.virt,
					.len_bytes = told.len_bytes,
					.part_bytes = told.part_bytes,
					.keys = packed};
	return boot_send_await(c->boot, &r, in(1000000000));
}

static int landing(struct lconn *c)
{
	int lie = c->client_id >= LIAR_NEWCOMER ? atomic_load(&liar_lie) : LIE_NONE, rc;
	struct wire_ctrl_msg r = {.type = WIRE_CTRL_LANDING};
	struct te_remote told;
	struct te_key key;
	uint8_t packed[17 * 16];
	if (lie == LIE_LANDING_NONE)
		return 0;
	te_region_announce(liar.landing_region, &told, &key);
	r.region = (struct wire_region){.id = lie == LIE_LANDING_SHARD ? 7 : 0,
					.parts = 1,
					.rails = 1,
					.virt = told.virt,
					.len_bytes = told.len_bytes,
					.part_bytes = told.part_bytes,
					.keys = packed};
	if (lie == LIE_LANDING_RAILS)
		r.region.rails = 2;
	if (lie == LIE_LANDING_SPLIT || lie == LIE_LANDING_PARTS) {
		r.region.parts = lie == LIE_LANDING_SPLIT ? 16 : 17;
		r.region.part_bytes = (r.region.len_bytes - 1) / r.region.parts + 1;
	}
	if (lie == LIE_LANDING_HUGE)
		r.region.len_bytes = r.region.part_bytes = 1ull << 43;
	if (lie == LIE_LANDING_TINY)
		r.region.len_bytes = r.region.part_bytes = 1000;
	if (lie == LIE_LANDING_EMPTY)
		r.region.len_bytes = r.region.part_bytes = r.region.parts = 0;
	for (unsigned i = 0; i < r.region.parts * r.region.rails; i++)
		wire_region_put(packed, r.region.parts, i / r.region.parts, i % r.region.parts,
				key.base + (lie == LIE_LANDING_BASE ? 64 : 0) +
					(told.virt ? i % r.region.parts * r.region.part_bytes : 0),
				key.key ^ (lie == LIE_LANDING_KEY ? 0x1234 : 0));
	rc = boot_send_await(c->boot, &r, in(1000000000));
	return rc || lie != LIE_LANDING_TWICE ? rc : boot_send_await(c->boot, &r, in(1000000000));
}

/* Every question for a further session is answered with one; nothing is looked at. */
static int session_control(struct lconn *c, const struct wire_ctrl_msg *m)
{
	int lie = atomic_load(&liar_lie), rc = 0;
	struct wire_ctrl_msg r = {.type = WIRE_CTRL_SESSION_OK};
	if (m->type == WIRE_CTRL_SESSION_BEGIN) {
		r.type = WIRE_CTRL_SESSION_CHALLENGE;
		if (lie == LIE_TWO_CHALLENGES)
			rc = boot_send_await(c->boot, &r, in(1000000000));
		return rc || lie == LIE_NO_CHALLENGE ? rc : boot_send_await(c->boot, &r, in(1000000000));
	}
	if (m->type == WIRE_CTRL_SESSION_CLOSE) {
		r.type = WIRE_CTRL_SESSION_CLOSE_OK;
		r.session_close.session = m->session_close.session + (lie == LIE_PARTING_OTHER);
		return lie == LIE_PARTING_SILENT ? 0 : boot_send_await(c->boot, &r, in(1000000000));
	}
	r.session_ok = (struct wire_session_ok){.id = m->session_open.id + (lie == LIE_SESSION_ID ? 7 : 0),
						.session = m->session_open.id,
						.credits = UINT32_MAX};
	if (lie == LIE_SESSION_RUDE) {
		r = (struct wire_ctrl_msg){.type = WIRE_CTRL_SESSION_REFUSE,
					   .session_refuse = {.id = m->session_open.id, .status = 12345}};
		snprintf(r.session_refuse.text, sizeof(r.session_refuse.text), "no\r\n\033[2Jyou are \xff root");
	} else if (lie == LIE_SESSION_PARTED) {
		r = (struct wire_ctrl_msg){.type = WIRE_CTRL_SESSION_CLOSE_OK, .session_close.session = 3};
	}
	if (lie == LIE_SESSION_TWICE)
		rc = boot_send_await(c->boot, &r, in(1000000000));
	return rc || lie == LIE_SESSION_SILENT ? rc : boot_send_await(c->boot, &r, in(1000000000));
}

static int region(struct lconn *c, const struct wire_region *w)
{
	struct wire_ctrl_msg r = {.type = WIRE_CTRL_REGION_OK, .region_ok.id = w->id};
	void (*see)(const struct wire_region *, bool) = atomic_load(&liar_region);
	int rc;
	region_keep(c, w);
	if (see)
		see(w, false);
	rc = boot_send_await(c->boot, &r, in(1000000000));
	if (see)
		see(w, true);
	return rc;
}

/* What one control message is answered. Not 0: the end. */
static int control(struct lconn *c, struct wire_ctrl_msg *m)
{
	struct wire_ctrl_msg r = {.type = WIRE_CTRL_REGION_OK};
	void (*revoked)(uint32_t);
	switch (m->type) {
	case WIRE_CTRL_REGION:
		return region(c, &m->region);
	case WIRE_CTRL_REVOKE:
		r.type = WIRE_CTRL_REVOKE_OK;
		r.region_ok.id = m->region_ok.id;
		revoked = atomic_load(&liar_revoke);
		if (revoked)
			revoked(m->region_ok.id);
		return boot_send_await(c->boot, &r, in(1000000000));
	case WIRE_CTRL_GOODBYE:
		r.type = WIRE_CTRL_GOODBYE_OK;
		return boot_send_await(c->boot, &r, in(1000000000));
	case WIRE_CTRL_ARENAS:
		return arena(c);
	case WIRE_CTRL_LANDINGS:
		return landing(c);
	case WIRE_CTRL_LOCAL_ASK:
		return local_ask(c);
	case WIRE_CTRL_HEARTBEAT:
		return 0;
	case WIRE_CTRL_SESSION_BEGIN:
	case WIRE_CTRL_SESSION_OPEN:
	case WIRE_CTRL_SESSION_CLOSE:
		return session_control(c, m);
	default:
		return -1;
	}
}

static int control_lie(struct lconn *c)
{
	static const uint8_t junk[] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_REGION_OK, .region_ok = {.id = 4711}};
	int lie = atomic_load(&liar_lie), rc = 0;
	if (c->told == lie || lie < LIE_REGIONS || (lie >= LIE_NO_CHALLENGE && lie <= LIE_PARTING_OTHER))
		return 0;
	c->told = lie;
	if (lie == LIE_VOID) {
		struct te_address a;
		te_address(liar.te, 0, &a);
		atomic_store(&liar_lie, LIE_NONE);
		m = (struct wire_ctrl_msg){.type = WIRE_CTRL_ADDRESS, .address = {.rails = 1, .epoch = 1}};
		m.address.addr[0].len = a.len;
		memcpy(m.address.addr[0].data, a.data, a.len);
		return boot_send_await(c->boot, &m, in(1000000000));
	}
	if (lie == LIE_WELCOME)
		return welcome(c);
	if (lie == LIE_UNASKED) {
		m = (struct wire_ctrl_msg){.type = WIRE_CTRL_LOCAL, .local = {.name = "@unasked"}};
		return boot_send_await(c->boot, &m, in(1000000000));
	}
	if (lie == LIE_BYTES_CONTROL) /* the connection is plain: its socket takes anything */
		return io_write_all_await(c->fd, junk, sizeof(junk), in(1000000000));
	if (lie == LIE_HELLO) {
		m = (struct wire_ctrl_msg){.type = WIRE_CTRL_GOODBYE_DONE};
		return boot_send_await(c->boot, &m, in(1000000000));
	}
	if (lie == LIE_DRAINS) {
		m = (struct wire_ctrl_msg){.type = WIRE_CTRL_DRAIN_OK, .drain.time_ms = 1};
		return boot_send_await(c->boot, &m, in(1000000000));
	}
	if (lie == LIE_DRAINED) {
		m = (struct wire_ctrl_msg){.type = WIRE_CTRL_DRAIN_DONE, .drained = {.values = 1, .of = 1}};
		return boot_send_await(c->boot, &m, in(1000000000));
	}
	rc = boot_send_await(c->boot, &m, in(1000000000));
	m.type = WIRE_CTRL_REVOKE_OK;
	return rc ? rc : boot_send_await(c->boot, &m, in(1000000000));
}

static int serve(struct lconn *c)
{
	uint64_t beat_ns;
	struct wire_ctrl_msg m, beat = {.type = WIRE_CTRL_HEARTBEAT, .heartbeat.shards = 1};
	int rc = boot_recv_await(c->boot, &m, in(5000000000));
	if (rc || m.type != WIRE_CTRL_HELLO)
		return -1;
	c->mark = m.hello.mark;
	c->client_id = m.hello.client_id;
	c->addr.len = m.hello.addr[0].len;
	memcpy(c->addr.data, m.hello.addr[0].data, c->addr.len);
	loop_post(liar.loop, peer_open, c);
	while (c->opened == 0)
		co_park_await(KV_NEVER);
	rc = c->opened < 0 ? c->opened : welcome(c);
	beat_ns = in(BEAT_MS * 1000000ull);
	atomic_fetch_add(&liar_sessions, 1);
	while (rc == 0 && !atomic_load(&liar.stopping)) {
		rc = boot_recv_await(c->boot, &m, beat_ns);
		if (rc == 0)
			rc = control(c, &m);
		else if (rc == -KV_ETIMEOUT)
			rc = 0;
		if (rc == 0 && loop_now(liar.loop) >= beat_ns) {
			beat_ns = in(BEAT_MS * 1000000ull);
			beat.heartbeat.sequence++;
			beat.heartbeat.turns[0] = loop_turns(liar.loop);
			rc = boot_send_await(c->boot, &beat, in(1000000000));
		}
		if (rc == 0 && c->regions)
			rc = control_lie(c);
	}
	return rc;
}

static void conn_main(void *arg)
{
	struct lconn *c = arg;
	struct sockaddr_storage peer = liar.addr;
	c->co = co_self();
	if (boot_accept_await(liar.boot, c->fd, &peer, 0, in(5000000000), &c->boot, NULL) == 0)
		serve(c);
	if (c->peer) {
		loop_post(liar.loop, peer_close, c);
		while (c->opened)
			co_park_await(KV_NEVER);
	}
	boot_close(&c->boot);
	atomic_fetch_sub(&liar.alive, 1);
}

static void accept_main(void *arg)
{
	struct sockaddr_storage peer;
	int fd;
	(void)arg;
	while (!atomic_load(&liar.stopping)) {
		if (io_accept_await(liar.listen_fd, &fd, &peer, in(50000000)) != 0)
			continue;
		if (liar.conns == CONNS) {
			io_close(liar.loop, fd);
			continue;
		}
		struct lconn *c = calloc(1, sizeof(*c));
		c->fd = fd;
		c->local_fd = -1;
		c->number = 1000 + liar.conns;
		liar.conn[liar.conns++] = c;
		atomic_fetch_add(&liar.alive, 1);
		if (co_spawn(liar.loop, conn_main, c, "liar") != 0)
			atomic_fetch_sub(&liar.alive, 1);
	}
	io_close(liar.loop, liar.listen_fd);
	atomic_fetch_sub(&liar.alive, 1);
}

static void *run(void *arg)
{
	(void)arg;
	loop_run(liar.loop);
	return NULL;
}

const char *liar_start(void)
{
	liar_provider = liar_provider ? liar_provider : test_provider();
	struct loop_options lo = {.name = "liar", .log = &quiet};
	struct boot_security none = {0};
	struct te_options to = {
		.provider = liar_provider, .messages = 256, .receives = 256, .chunk_bytes = CHUNK, .log = &quiet};
	struct te_handlers handlers = {.message = on_message, .local = on_local};
	struct kv_hostport hp = {.host = "127.0.0.1"};
	struct kv_error err = {0};
	socklen_t len;
	memset(&liar, 0, sizeof(liar));
	num_late = 0;
	atomic_store(&liar_lie, LIE_NONE);
	atomic_store(&liar_welcome, NULL);
	atomic_store(&liar_region, NULL);
	atomic_store(&liar_revoke, NULL);
	assert_int_equal(kv_hostport_resolve(&hp, &liar.addr, &len, &err), 0);
	to.local = liar.addr;
	assert_int_equal(loop_create(&lo, &liar.loop, &err), 0);
	assert_int_equal(boot_context_create(&none, true, &quiet, &liar.boot, &err), 0);
	if (te_open(&to, &handlers, NULL, &liar.te, &err) != 0)
		fail_msg("%s", err.text);
	te_info(liar.te, &liar.info);
	if (liar_local)
		assert_int_equal(kv_area_map_shared(1 << 20, KV_NODE_ANY, &liar.area, &err), 0);
	else
		assert_int_equal(kv_area_map(1 << 20, &liar.area, &err), 0);
	test_fill(liar.area.base, LIAR_VALUE, LIAR_SEED);
	liar.checksum = kv_hash_block(liar.area.base, LIAR_VALUE);
	assert_int_equal(te_region_register(liar.te, liar.area.base, liar.area.len_bytes,
					    TE_LOCAL | (liar_pull ? TE_REMOTE_READ : 0u), 0, &liar.region, &err),
			 0);
	assert_int_equal(kv_area_map(LIAR_LANDING, &liar.landing, &err), 0);
	assert_int_equal(te_region_register(liar.te, liar.landing.base, LIAR_LANDING, TE_REMOTE_WRITE, 0,
					    &liar.landing_region, &err),
			 0);
	assert_int_equal(te_attach(liar.te, liar.loop), 0);
	liar.releases = (struct loop_poller){.poll = releases_take, .wait_fd = -1, .active = never_active};
	assert_int_equal(loop_poller_add(liar.loop, &liar.releases), 0);
	assert_int_equal(io_listen(liar.loop, &liar.addr, len, &liar.listen_fd, &err), 0);
	atomic_store(&liar.alive, 1 + liar_local);
	assert_int_equal(co_spawn(liar.loop, accept_main, NULL, "accept"), 0);
	if (liar_local) {
		assert_int_equal(local_listen(NULL, &liar.local_listen_fd, liar.local_name, &err), 0);
		assert_int_equal(co_spawn(liar.loop, local_main, NULL, "local"), 0);
	}
	assert_int_equal(pthread_create(&liar.thread, NULL, run, NULL), 0);
	kv_sockaddr_format(&liar.addr, liar.address, sizeof(liar.address));
	return liar.address;
}

static void shut_all(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < liar.conns; i++)
		if (liar.conn[i]->boot)
			boot_shutdown(liar.conn[i]->boot);
}

static void conn_free(struct lconn *c)
{
	for (unsigned i = 0; i < KV_SHARDS_MAX * KV_RAILS_MAX; i++)
		free(c->seal[i / KV_RAILS_MAX][i % KV_RAILS_MAX]);
	for (unsigned i = 0; i < KV_SHARDS_MAX; i++)
		kv_macs_fini(&c->macs[i]);
	free(c);
}

void liar_stop(void)
{
	atomic_store(&liar.stopping, true);
	loop_post(liar.loop, shut_all, NULL);
	while (atomic_load(&liar.alive) > 0)
		usleep(10000);
	loop_stop(liar.loop);
	pthread_join(liar.thread, NULL);
	loop_poller_del(liar.loop, &liar.releases);
	te_detach(liar.te);
	te_close(&liar.te);
	loop_destroy(&liar.loop);
	boot_context_destroy(&liar.boot);
	kv_area_unmap(&liar.area);
	kv_area_unmap(&liar.landing);
	for (unsigned i = 0; i < liar.conns; i++)
		conn_free(liar.conn[i]);
}
