/* SPDX-License-Identifier: Apache-2.0 */
/* rig.c -- the two ends of rig.h. */
#include "rig.h"
#include "host/host.h"
#include "tests/doze.h"

struct rig rig;
uint64_t rig_lease_ns;
uint64_t rig_landing_bytes;
uint64_t rig_part_bytes;
bool rig_arena_private;
const struct evict_policy *rig_policy;
uint64_t rig_memory_bytes;
const struct tier_files *rig_tier;

/* ---- the client's engine ---- */

static void keep_reply(const struct wire_frame *frame, const struct wire_reply *r)
{
	struct rig_reply *k = &rig.reply[rig.replies % RIG_REPLIES];
	k->reply = *r;
	k->frame = *frame;
	if (r->type == WIRE_GET && r->get.inline_data.len) {
		memcpy(k->data, r->get.inline_data.data, r->get.inline_data.len);
		k->reply.get.inline_data.data = k->data;
	} else if (r->type == WIRE_EXISTS) {
		memcpy(k->data, r->exists.bitmap, (r->exists.count + 7) / 8);
		k->reply.exists.bitmap = k->data;
		if (r->flags & WIRE_EXISTS_DELETED)
			k->reply.exists.deleted =
				memcpy(k->data + 2 * WIRE_EXISTS_BITMAP, r->exists.deleted, (r->exists.count + 7) / 8);
		if (r->flags & WIRE_EXISTS_TIER)
			k->reply.exists.tier =
				memcpy(k->data + WIRE_EXISTS_BITMAP, r->exists.tier, (r->exists.count + 7) / 8);
	} else if (r->type == WIRE_STAT) {
		memcpy(k->data, r->stat.pairs, r->stat.count * 16);
		k->reply.stat.pairs = k->data;
	} else if (wire_lists(r->type)) {
		memcpy(k->data, r->rows.at, r->rows.count * wire_row_bytes(r->type));
		k->reply.rows.at = k->data;
	}
	if (r->type == WIRE_GET && r->flags & WIRE_GET_FOLLOWS) {
		assert_int_equal(r->get.posted, 0);
		k->reply.get.posted = 1;
		rig.immediates++;
		rig.follows++;
	}
	rig.replies++;
}

static void on_message(void *arg, unsigned rail, const uint8_t *data, size_t len)
{
	struct wire_reader reader;
	struct wire_frame frame;
	struct wire_reply r;
	int rc;
	(void)arg, (void)rail;
	assert_int_equal(wire_frame_open(&reader, data, len, &frame), 0);
	if (frame.session != rig.number) {
		rig.strays++;
		return;
	}
	assert_int_equal(frame.mark, RIG_MARK);
	assert_int_equal(wire_unseal(&rig.seal, data, len), 0);
	while ((rc = wire_reply_next(&reader, &r)) == 1)
		keep_reply(&frame, &r);
	assert_int_equal(rc, 0);
}

/* As on_message, by a channel: without a tag. */
static void on_local(void *arg, struct te_peer *peer, const uint8_t *data, size_t len)
{
	struct wire_reader reader;
	struct wire_frame frame;
	struct wire_reply r;
	int rc;
	(void)arg;
	assert_ptr_equal(peer, rig.server);
	assert_int_equal(wire_frame_open(&reader, data, len, &frame), 0);
	assert_int_equal(frame.session, rig.number);
	assert_int_equal(frame.mark, RIG_MARK);
	rig.locals++;
	while ((rc = wire_reply_next(&reader, &r)) == 1)
		keep_reply(&frame, &r);
	assert_int_equal(rc, 0);
}

static void on_immediate(void *arg, unsigned rail, uint32_t imm)
{
	(void)arg, (void)rail;
	rig.immediates++;
	rig.last_immediate = imm;
}

static void on_reset(void *arg, int status)
{
	(void)arg, (void)status;
	fail_msg("the client's endpoint was reset");
}

struct sockaddr_storage rig_loopback(void)
{
	struct kv_hostport hp = {.host = "127.0.0.1"};
	struct sockaddr_storage a;
	socklen_t len;
	assert_int_equal(kv_hostport_resolve(&hp, &a, &len, NULL), 0);
	return a;
}

static void client_up(void)
{
	struct kv_error err;
	const struct te_options options = {.provider = test_provider(),
					   .local = rig_loopback(),
					   .messages = 64,
					   .receives = 64,
					   .part_bytes = rig_part_bytes,
					   .reads_at_own_risk = true};
	const struct te_handlers handlers = {
		.message = on_message, .local = on_local, .immediate = on_immediate, .reset = on_reset};
	struct te_key *keys;
	if (te_open(&options, &handlers, NULL, &rig.te, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(kv_area_map(RIG_BUFFER, &rig.area, &err), 0);
	assert_int_equal(te_region_register(rig.te, rig.area.base, rig.area.len_bytes,
					    TE_LOCAL | TE_REMOTE_READ | TE_REMOTE_WRITE, 0, &rig.region, &err),
			 0);
	te_region_announce(rig.region, &rig.announced, NULL);
	keys = calloc(rig.announced.parts * rig.announced.rails, sizeof(*keys));
	te_region_announce(rig.region, &rig.announced, keys);
}

/* ---- the shard ---- */

static void on_log(void *arg, enum kv_log_level level, const char *line)
{
	if (level == KV_LOG_ERROR)
		kv_log_stderr(arg, level, line);
	snprintf(rig.logged, sizeof(rig.logged), "%s", line);
	rig.lines++;
}

int rig_up(void **state)
{
	struct kv_error err;
	static const struct kv_log log = {.level = KV_LOG_WARN, .write = on_log};
	const struct loop_options loop_options = {.name = "rig", .log = &log};
	struct shard_options options = {
		.memory_bytes = rig_memory_bytes ? rig_memory_bytes : RIG_MEMORY,
		.attachments_max = RIG_SLOTS,
		.credits = RIG_CREDITS,
		.value_max = RIG_MEMORY,
		.allow_pull = rig_lease_ns > 0,
		.lease_ns = rig_lease_ns,
		.landing_bytes = rig_landing_bytes,
		.arena_private = rig_arena_private,
		.ops = &kvs_ops,
		.policy = rig_policy ? rig_policy : &evict_clock2g,
		.tier_files = rig_tier,
		.tier = {.segment_bytes = 1 << 20, .clock = &kv_clock_monotonic},
		.log = &log,
		.engine = {.provider = test_provider(),
			   .local = rig_loopback(),
			   .messages = 64,
			   .receives = 64,
			   .part_bytes = rig_part_bytes,
			   .reads_at_own_risk = true},
	};
	(void)state;
	te_env_for_programs();
	memset(&rig, 0, sizeof(rig));
	if (loop_create(&loop_options, &rig.loop, &err) != 0)
		fail_msg("%s", err.text);
	options.loop = rig.loop;
	if (shard_create(&options, &kv_entropy_kernel, &kv_clock_monotonic, &rig.shard, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(shard_start(rig.shard), 0);
	client_up();
	return 0;
}

int rig_down(void **state)
{
	(void)state;
	shard_close(rig.shard);
	/* As a server does (shard_closed): the memory of transfers that never end is left to their device. */
	rig_until(!rig.shard->opt.ops->busy(rig.shard));
	shard_destroy(&rig.shard);
	loop_destroy(&rig.loop);
	free(rig.announced.keys);
	te_close(&rig.te);
	kv_area_unmap(&rig.area);
	return 0;
}

void rig_turn(void)
{
	int did = loop_turn(rig.loop, 0);
	doze(did + te_poll(rig.te));
}

void rig_quiet(void)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + 60000000;
	while (kv_clock_now(&kv_clock_monotonic) < until)
		rig_turn();
}

/* ---- a session ---- */

static struct te_address client_address(void)
{
	struct te_address a;
	assert_int_equal(te_address(rig.te, 0, &a), 0);
	return a;
}

static struct te_address server_address(void)
{
	struct te_address a;
	assert_int_equal(te_address(rig.shard->te, 0, &a), 0);
	return a;
}

static void region_make(void)
{
	static uint8_t keys[1024 * 16];
	assert_true(rig.announced.parts <= 1024);
	rig.wire_region = (struct wire_region){.id = 1,
					       .parts = rig.announced.parts,
					       .rails = rig.announced.rails,
					       .virt = rig.announced.virt,
					       .len_bytes = rig.announced.len_bytes,
					       .part_bytes = rig.announced.part_bytes,
					       .keys = keys};
	for (uint32_t part = 0; part < rig.announced.parts; part++)
		wire_region_put(keys, rig.announced.parts, 0, part, rig.announced.keys[part].base,
				rig.announced.keys[part].key);
	assert_int_equal(region_create(&rig.wire_region, 1, &rig.mem), 0);
	assert_int_equal(regions_add(&rig.attachment->regions, rig.mem), 0);
}

struct grant rig_grant = {.rights = TENANT_RIGHTS, .reads_all = true};

int rig_session_open(uint32_t number)
{
	struct session *o;
	return session_open(rig.attachment, number, &rig_grant, &o);
}

int rig_open_unproven(void **state)
{
	struct te_address addr = client_address(), theirs = server_address();
	struct shard_attachment_args args = {.addrs = &addr, .rails = 1, .client_id = 7};
	struct kv_error err;
	(void)state;
	rig.generation++;
	rig.number = (uint32_t)rig.generation << 16 | (rig.generation % RIG_SLOTS);
	args.number = rig.number;
	assert_int_equal(kv_entropy_fill(&kv_entropy_kernel, rig.secret, sizeof(rig.secret)), 0);
	assert_int_equal(boot_frame_macs(rig.secret, rig.number, 0, false, &rig.macs), 0);
	kv_seal_init(&rig.seal, &rig.macs, 0, rig.seen, KV_WINDOW_WIDTH);
	args.frame_secret = rig.secret;
	args.grant = &rig_grant;
	args.mark = RIG_MARK;
	if (shard_attachment_open(rig.shard, &args, &rig.attachment, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(te_peer_open(rig.te, &theirs, 1, &rig.server, &err), 0);
	region_make();
	memset(rig.shard->counts.of, 0, sizeof(rig.shard->counts.of));
	rig.replies = 0;
	rig.strays = 0;
	rig.immediates = rig.follows = rig.locals = 0;
	rig.next_id = 1;
	return 0;
}

/* As if it had been in the reply to a PING. */
int rig_open(void **state)
{
	rig_open_unproven(state);
	rig_prove(rig.attachment->link[0].nonce);
	rig_until(rig.attachment->link[0].proven);
	return 0;
}

static void on_done(struct call *c)
{
	KV_CONTAINER(c, struct rig_call, call)->done = true;
}

struct call *rig_call(struct rig_call *c)
{
	*c = (struct rig_call){.call = {.shard = rig.shard, .done = on_done, .home = rig.loop}};
	return &c->call;
}

void rig_call_run(void (*run)(struct call *c))
{
	static struct rig_call c;
	rig_call(&c)->run = run;
	assert_int_equal(call_make(&c.call, rig.loop), 0);
	rig_until(c.done);
}

static void run_end(struct call *c)
{
	struct shard_attachment *s = rig.attachment;
	rig.attachment = NULL;
	s->parting = !s->gone_away;
	leases_drop(s); /* as after a goodbye: those of a lost session end with their time */
	shard_attachment_end(s, c);
}

void rig_attachment_end(void)
{
	rig_call_run(run_end);
}

/* After each test nothing may be left: no request, no stage, no quarantined byte, no session. */
int rig_close(void **state)
{
	(void)state;
	if (rig.attachment)
		rig_attachment_end();
	te_peer_close(&rig.server);
	free(rig.mem);
	rig_until(!rig.shard->opt.ops->busy(rig.shard)); /* a tier reads on for a GET that has ended */
	rig_quiet();
	kv_seal_fini(&rig.seal);
	kv_macs_fini(&rig.macs);
	assert_int_equal(rig.shard->attachments.count, 0);
	assert_int_equal(rig.shard->requests.used, 0);
	assert_int_equal(rig.shard->work->stages.used, 0);
	assert_int_equal(rig.shard->replies.held.used, 0);
	assert_int_equal(rig.shard->work->hashers.used, 0);
	assert_int_equal(rig.shard->store.staged_bytes, 0);
	assert_int_equal(rig.shard->store.gone_bytes, 0);
	assert_int_equal(rig.shard->store.pinned_bytes, 0);
	assert_int_equal(rig.shard->work->leases.count, 0);
	assert_int_equal(rig.shard->leased_bytes, 0);
	assert_int_equal(rig.shard->locals.count, 0);
	assert_int_equal(rig.shard->locals.active, 0);
	assert_int_equal(rig.shard->locals.landing_bytes, 0);
	for (struct index_item *i; (i = index_near(&rig.shard->store.index, 0)) != NULL;)
		store_drop(&rig.shard->store, KV_CONTAINER(i, struct block, item));
	assert_int_equal(rig.shard->store.arena.used, 0);
	return 0;
}

/* ---- requests ---- */

uint8_t *rig_memory(uint64_t offset)
{
	return (uint8_t *)rig.area.base + offset;
}

struct wire_request rig_request(enum wire_type type, const char *key)
{
	struct wire_request q = {.type = type, .time_left_us = 5000000, .id = rig.next_id++};
	if (key)
		q.key = (struct wire_bytes){(const uint8_t *)key, (uint32_t)strlen(key)};
	return q;
}

struct wire_request rig_get(const char *key, uint64_t offset, uint64_t length)
{
	struct wire_request q = rig_request(WIRE_GET, key);
	q.get.offset = offset;
	q.get.length = length;
	q.get.imm = wire_imm(3, 5);
	q.dest = (struct wire_dest){.region = 1, .count = 1, .slice = length};
	return q;
}

struct wire_request rig_put(const char *key, uint64_t total, uint64_t offset, uint64_t length, uint64_t checksum,
			    uint8_t flags)
{
	struct wire_request q = rig_request(WIRE_PUT, key);
	q.flags = flags;
	q.put.total = total;
	q.put.offset = offset;
	q.put.length = length;
	q.put.checksum = checksum;
	if (length)
		q.dest = (struct wire_dest){.region = 1, .count = 1, .offset = offset, .slice = length};
	return q;
}

struct wire_frame rig_frame(void)
{
	return (struct wire_frame){.session = rig.number, .mark = RIG_MARK};
}

void rig_send_raw(const void *data, uint32_t len)
{
	struct te_msg *msg = te_msg_acquire(rig.te);
	for (unsigned i = 0; !msg && i < 1000000; i++) {
		rig_turn();
		msg = te_msg_acquire(rig.te);
	}
	assert_non_null(msg);
	memcpy(msg->data, data, len);
	msg->len = len;
	msg->sent = NULL;
	te_msg_send(rig.te, rig.server, 0, msg, kv_clock_now(&kv_clock_monotonic) + 5000000000ull);
}

void rig_seal(void *frame, uint32_t len)
{
	assert_int_equal(wire_seal(&rig.seal, frame, len), 0);
}

void rig_send_records(const struct wire_frame *frame, const struct wire_request *q, unsigned n)
{
	uint8_t buf[KV_MSG_MAX];
	struct wire_writer w;
	uint32_t len;
	wire_frame_begin(&w, buf, sizeof(buf), frame);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(wire_request_add(&w, &q[i]), 0);
	len = wire_frame_end(&w);
	rig_seal(buf, len);
	rig_send_raw(buf, len);
}

void rig_prove(uint64_t nonce)
{
	struct wire_request q = {.type = WIRE_PROVE, .time_left_us = UINT32_MAX, .prove.nonce = nonce};
	rig_send(&q);
}

void rig_send(const struct wire_request *q)
{
	struct wire_frame frame = rig_frame();
	rig_send_records(&frame, q, 1);
}

const struct wire_reply *rig_find(uint64_t id)
{
	for (unsigned i = 0; i < rig.replies && i < RIG_REPLIES; i++)
		if (rig.reply[i].reply.id == id)
			return &rig.reply[i].reply;
	return NULL;
}

const struct wire_reply *rig_ask(const struct wire_request *q)
{
	rig_send(q);
	rig_until(rig_find(q->id));
	assert_int_equal(rig_find(q->id)->type, q->type);
	return rig_find(q->id);
}

void rig_fill(uint8_t *at, uint64_t n, uint64_t seed)
{
	struct kv_prng p;
	kv_prng_seed(&p, seed);
	kv_prng_fill(&p, at, n);
}

uint64_t rig_store(const char *key, uint64_t n, uint64_t seed)
{
	struct wire_request q;
	uint64_t sum;
	rig_fill(rig_memory(0), n, seed);
	sum = kv_hash_block(rig_memory(0), n);
	q = rig_put(key, n, 0, n, sum, WIRE_PUT_FIRST | WIRE_PUT_LAST);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	memset(rig_memory(0), 0, n);
	return sum;
}

uint64_t rig_stat(enum wire_stat id)
{
	return shard_stat_get(rig.shard, id);
}

/* ---- a store full of tiny values ---- */

void rig_tiny_key(char key[16], unsigned i)
{
	snprintf(key, 16, "t%u", i);
}

struct block *rig_tiny(unsigned i)
{
	char key[16];
	rig_tiny_key(key, i);
	return store_find(&rig.shard->store, key, strlen(key), 0);
}

unsigned rig_tiny_fill(void)
{
	struct store *s = &rig.shard->store;
	for (unsigned i = 0; i < RIG_TINIES; i++) {
		struct block *b, *holder;
		struct room *room;
		char key[16];
		rig_tiny_key(key, i);
		if (store_stage(s, key, strlen(key), RIG_TINY, ARENA_LOW, &b, &room) != 0)
			return i;
		assert_int_equal(store_commit(s, b, i, KV_NEVER, 0, &holder), 0);
		block_unref(s, b);
	}
	return RIG_TINIES;
}
