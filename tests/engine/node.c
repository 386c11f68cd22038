/* SPDX-License-Identifier: Apache-2.0 */
/* node.c -- see node.h. One thread polls every open node in turn, as a loop would. */
#include "tests/engine/node.h"

#include "tests/doze.h"

#include <arpa/inet.h>
#include <netinet/in.h>

enum { NODES_MAX = 16, PROVIDERS_TEXT = 256, PROVIDERS_MAX = 8, CASES_MAX = 512 };

static struct node *nodes[NODES_MAX];
static struct kv_log log_stderr = {.level = KV_LOG_WARN, .write = kv_log_stderr};

uint64_t node_wait_ns(void)
{
	enum { WAIT_S = 20, WAIT_S_MAX = 3600 };
	const char *text = getenv("KVRAIL_TEST_WAIT_S");
	uint64_t s = text ? strtoull(text, NULL, 10) : 0;
	return (s >= 1 && s <= WAIT_S_MAX ? s : WAIT_S) * 1000000000;
}

static void on_message(void *arg, unsigned rail, const uint8_t *data, size_t len)
{
	struct node *n = arg;
	(void)rail;
	n->messages++;
	n->message_sum += len;
	n->last_len = len;
	memcpy(n->last, data, len);
	if (n->on_message)
		n->on_message(n, data, len);
}

static void on_local(void *arg, struct te_peer *peer, const uint8_t *data, size_t len)
{
	struct node *n = arg;
	n->locals++;
	if (n->on_local)
		n->on_local(n, peer, data, len);
}

static void on_immediate(void *arg, unsigned rail, uint32_t imm)
{
	struct node *n = arg;
	n->imms++;
	n->rail_imms[rail]++;
	n->imm_count[imm % NODE_IMMS]++;
	n->last_imm = imm;
	if (n->on_immediate)
		n->on_immediate(n, imm);
}

static void on_follow(void *arg)
{
	struct node *n = arg;
	if (n->on_follow)
		n->on_follow(n);
}

static void on_room(void *arg)
{
	struct node *n = arg;
	n->rooms++;
}

static void on_reset(void *arg, int status)
{
	struct node *n = arg;
	n->resets++;
	n->reset_status = status;
}

static void on_fenced(void *arg)
{
	struct node *n = arg;
	n->fenced++;
}

void node_open(struct node *n, const char *provider, struct te_options *options)
{
	static const struct te_handlers handlers = {.message = on_message,
						    .local = on_local,
						    .immediate = on_immediate,
						    .room = on_room,
						    .follow = on_follow,
						    .reset = on_reset,
						    .fenced = on_fenced};
	struct te_options o = options ? *options : (struct te_options){0};
	struct sockaddr_in *in = (struct sockaddr_in *)&o.local;
	struct kv_error err = {0};
	memset(n, 0, sizeof(*n));
	o.provider = provider;
	o.rails = o.rails ? o.rails : 1; /* not as many as the machine has */
	o.reads_at_own_risk = true;      /* the tests that break connections ask node_break_dir */
	if (!o.log)
		o.log = getenv("KVRAIL_TEST_LOG") ? &log_stderr : NULL;
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int rc = te_open(&o, &handlers, n, &n->te, &err);
	if (rc)
		fail_msg("te_open %s: %s", provider, err.text);
	for (unsigned i = 0; i < NODES_MAX; i++)
		if (!nodes[i]) {
			nodes[i] = n;
			return;
		}
	fail_msg("too many nodes");
}

enum te_dir node_break_dir(const struct node *n)
{
	struct te_info info;
	te_info(n->te, &info);
	return info.read_unsafe ? TE_WRITE : TE_READ;
}

void node_close(struct node *n)
{
	for (unsigned i = 0; i < NODES_MAX; i++)
		if (nodes[i] == n)
			nodes[i] = NULL;
	te_close(&n->te);
	assert_null(n->te);
}

int node_forget_all(void **state)
{
	(void)state;
	memset(nodes, 0, sizeof(nodes));
	return 0;
}

int node_poll_all(void)
{
	int events = 0;
	for (unsigned i = 0; i < NODES_MAX; i++)
		if (nodes[i])
			events += te_poll(nodes[i]->te);
	doze(events);
	return events;
}

void node_poll_for(uint64_t ns)
{
	uint64_t end = kv_clock_now(&kv_clock_monotonic) + ns;
	while (kv_clock_now(&kv_clock_monotonic) < end)
		node_poll_all();
}

static unsigned addresses(struct node *to, struct te_address *out)
{
	struct te_info info;
	te_info(to->te, &info);
	for (unsigned i = 0; i < info.rails; i++)
		assert_int_equal(te_address(to->te, i, &out[i]), 0);
	return info.rails;
}

struct te_peer *node_peer(struct node *from, struct node *to)
{
	struct te_address addrs[KV_RAILS_MAX];
	struct te_peer *peer = NULL;
	struct kv_error err = {0};
	unsigned count = addresses(to, addrs);
	if (te_peer_open(from->te, addrs, count, &peer, &err))
		fail_msg("te_peer_open: %s", err.text);
	return peer;
}

#define CUT_HEARD_NS 20000000ull

bool node_fence(struct node *n, struct te_peer *peer)
{
	unsigned resets = n->resets;
	bool rebuilt;
	assert_in_range(te_peer_fence(peer, NULL), 0, 1);
	rebuilt = te_reset_due(n->te);
	while (te_fencing(n->te))
		node_poll_all();
	WAIT(n->resets == resets + rebuilt);
	if (!rebuilt)
		node_poll_for(CUT_HEARD_NS); /* the other side would still send on the connections that are shut */
	return rebuilt;
}

void node_readdress(struct te_peer *peer, struct node *to)
{
	struct te_address addrs[KV_RAILS_MAX];
	struct kv_error err = {0};
	unsigned count = addresses(to, addrs);
	if (te_peer_readdress(peer, addrs, count, &err))
		fail_msg("te_peer_readdress: %s", err.text);
}

void fill(uint8_t *p, uint64_t len, uint64_t seed)
{
	struct kv_prng prng;
	kv_prng_seed(&prng, seed);
	kv_prng_fill(&prng, p, len);
}

void area_open(struct area *a, struct node *n, uint64_t len, uint64_t part_bytes, uint64_t seed)
{
	struct kv_error err = {0};
	memset(a, 0, sizeof(*a));
	a->te = n->te;
	a->len = len;
	a->base = aligned_alloc(4096, kv_align_up(len, 4096));
	assert_non_null(a->base);
	memset(a->base, 0, len);
	if (seed)
		fill(a->base, len, seed);
	if (te_region_register(n->te, a->base, len, TE_LOCAL | TE_REMOTE_READ | TE_REMOTE_WRITE, part_bytes, &a->region,
			       &err))
		fail_msg("te_region_register: %s", err.text);
	te_region_announce(a->region, &a->remote, NULL);
	struct te_key *keys = calloc((size_t)a->remote.parts * a->remote.rails, sizeof(*keys));
	assert_non_null(keys);
	te_region_announce(a->region, &a->remote, keys);
}

void area_close(struct area *a)
{
	int rc;
	while ((rc = te_region_close(&a->region)) == -KV_EBUSY && te_fencing(a->te))
		te_poll(a->te); /* an endpoint that was given up is being closed */
	assert_int_equal(rc, 0);
	free(a->remote.keys);
	free(a->base);
}

static void on_posting_done(struct te_xfer *x)
{
	struct result *r = x->arg;
	assert_int_equal(r->done, 0);
	r->posting_done++;
	r->posted_when_told = x->posted;
}

static void on_progress(struct te_xfer *x)
{
	struct result *r = x->arg;
	r->progress++;
}

static void on_done(struct te_xfer *x, int status)
{
	struct result *r = x->arg;
	r->done++;
	r->status = status;
	assert_true(x->completed <= x->posted);
}

void xfer_init(struct te_xfer *x, struct result *r, enum te_dir dir, struct te_peer *peer, struct area *local,
	       uint64_t local_offset, struct area *remote, uint64_t remote_offset, uint64_t len)
{
	memset(x, 0, sizeof(*x));
	memset(r, 0, sizeof(*r));
	x->dir = dir;
	x->peer = peer;
	x->link = TE_LINK_ANY;
	x->local = local->region;
	x->local_offset = local_offset;
	x->remote = &remote->remote;
	x->at = (struct te_slices){.offset = remote_offset, .slice = len, .count = 1};
	x->with_imm = dir == TE_WRITE;
	x->deadline_ns = KV_NEVER;
	x->posting_done = on_posting_done;
	x->done = on_done;
	x->progress = on_progress;
	x->arg = r;
}

static void on_sent(struct te_msg *msg, int status)
{
	struct result *r = msg->arg;
	r->done++;
	r->status = status;
}

struct te_msg *msg_for(struct node *n, struct result *r, const void *data, uint32_t len)
{
	struct te_msg *msg = te_msg_acquire(n->te);
	if (!msg)
		return NULL;
	memset(r, 0, sizeof(*r));
	memcpy(msg->data, data, len);
	msg->len = len;
	msg->sent = on_sent;
	msg->arg = r;
	return msg;
}

bool provider_here(const char *name, struct kv_error *err)
{
	struct te *te;
	struct te_options o = {.provider = name};
	struct te_handlers none = {0};
	if (te_open(&o, &none, NULL, &te, err))
		return false;
	te_close(&te);
	return true;
}

unsigned providers(const char *out[], unsigned max)
{
	static char text[PROVIDERS_TEXT];
	const char *env = getenv("KVRAIL_TEST_PROVIDERS");
	unsigned n = 0;
	if (!env || !env[0])
		env = getenv("KVRAIL_TEST_PROVIDER");
	snprintf(text, sizeof(text), "%s", env && env[0] ? env : "tcp,shm");
	for (char *save = NULL, *name = strtok_r(text, ",", &save); name && n < max;
	     name = strtok_r(NULL, ",", &save)) {
		struct kv_error err = {0};
		if (provider_here(name, &err)) {
			out[n++] = name;
		} else if (env && env[0]) {
			/* A provider that is named is wanted: silence would hide that it is not here. */
			printf("Bail out! provider %s, of KVRAIL_TEST_PROVIDERS or KVRAIL_TEST_PROVIDER, cannot be "
			       "opened: %s\n",
			       name, err.text);
			exit(1);
		} else {
			printf("# provider %s is not here: its cases are skipped\n", name);
		}
	}
	return n;
}

bool node_is_shm(const char *provider)
{
	return strcmp(provider, "shm") == 0;
}

int node_cases_run(const char *group, const struct node_case *cases, unsigned count)
{
	static char names[CASES_MAX][128];
	static struct CMUnitTest tests[CASES_MAX];
	const char *list[PROVIDERS_MAX], *only = getenv("KVRAIL_TEST_CASES");
	unsigned n = providers(list, PROVIDERS_MAX), t = 0;
	for (unsigned i = 0; i < n * count; i++) {
		const struct node_case *c = &cases[i % count];
		const char *provider = list[i / count];
		if ((c->unfit && c->unfit(provider)) || (only && !strstr(c->name, only)))
			continue;
		assert_true(t < CASES_MAX);
		snprintf(names[t], sizeof(names[t]), "%s: %s", provider, c->name);
		tests[t] = (struct CMUnitTest){.name = names[t],
					       .test_func = c->run,
					       .setup_func = node_forget_all,
					       .initial_state = (void *)(uintptr_t)provider};
		t++;
	}
	return _cmocka_run_group_tests(group, tests, t, NULL, NULL);
}

void test_env(void)
{
	te_env_for_programs();
}
