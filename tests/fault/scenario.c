/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.c -- what runs while one call fails.
 *
 * A fault happens once. So whatever it breaks, the same thing tried again has to work: that is asked of every step,
 * within a bounded time. A step that fails has to give one code of the contract; one that succeeds has to have done it,
 * which is looked at. What is only released in the end (credits, pieces, stages, descriptors, threads, mappings) is
 * counted. */
#include "tests/fault/scenario.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvclient/kvclient.h"
#include "kvserver/kvserver.h"
#include "tests/fault/fault.h"

enum {
	SMALL = 100,
	LARGE = 200000, /* several chunks */
	BATCH = 48,     /* more than there are credits */
	ITEM = 5000,
	CREDITS = 16,
	SHARDS = 2, /* so that some may be there and others not */
	MEMORY = 16 << 20,
	BUFFER = 2 << 20,
	CHUNK = 65536,
	PART = 1 << 20, /* of registered memory, where it is to be registered in parts */
	TRIES_MIN = 3
};

#define MS         1000000ull
#define RECOVER_NS (15000 * MS)
#define SETTLE_NS  (5000 * MS)
#define SHM_BYTES  (512ull << 20)

static struct {
	struct kvs_server *server, *second;
	struct kvc_pool *pool, *both; /* both: over two servers */
	struct kvc_mem *mem;
	struct kvc_session *own, *keyed; /* further sessions: of the connection's own right; with a key of its own */
	const char *provider;
	char address[64]; /* of the server */
	bool pull;
	/* Where the server is a process of its own. */
	pid_t remote; /* 0: this is it */
	int line;     /* to the other one; -1: there is none */
	bool bad;
	bool timed_out; /* some call did */
	int last_error;
	/* of the worker */
	int64_t (*work)(struct kvc_client *client);
	int64_t work_rc;
} s = {.line = -1};

static uint8_t source[LARGE], plain[LARGE], batch[BATCH * ITEM];
static _Alignas(4096) uint8_t registered[2 * LARGE + 8192 - (2 * LARGE) % 4096], wide[3 * PART];

static uint64_t now_ns(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

static void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void wrong(const char *fmt, ...)
{
	va_list ap;
	if (!s.bad)
		fault_note_machine();
	s.bad = true;
	va_start(ap, fmt);
	fprintf(stderr, "WRONG: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
}

/* Codes that are ours alone must not come out, nor may a fault be taken for damage of the value. */
static void code_check(const char *what, int64_t rc)
{
	static const char *last_what;
	static int64_t last_rc;
	s.timed_out |= rc == -KV_ETIMEOUT;
	if (rc >= 0 || (what == last_what && rc == last_rc))
		return;
	last_what = what;
	last_rc = rc;
	if (rc < -KV_ELEFT || rc == -KV_EINTERNAL || rc == -KV_ESTALE || rc == -KV_ERESET || rc == -KV_ECORRUPT ||
	    rc == -KV_EEXIST || rc == -1)
		wrong("%s returned %" PRId64 " (%s)", what, rc, kv_errname((int)rc));
	else
		fprintf(stderr, "# %s: %s\n", what, kv_errname((int)rc));
}

static void error_check(const char *what, int rc, const struct kv_error *err)
{
	if (rc < 0 && rc != s.last_error)
		fprintf(stderr, "# %s: %s: %s\n", what, kv_errname(rc), err->text);
	s.last_error = rc;
	code_check(what, rc);
	if (rc > 0)
		wrong("%s returned %d", what, rc);
	if (rc < 0 && (err->code != rc || !err->text[0]))
		wrong("%s returned %s, but its error says %s: \"%s\"", what, kv_errname(rc), kv_errname(err->code),
		      err->text);
}

static void fill(uint8_t *at, size_t n, uint64_t seed)
{
	struct kv_prng p;
	kv_prng_seed(&p, seed);
	kv_prng_fill(&p, at, n);
}

/* ---- steps ---- */

/* Do it until it succeeds. What is asked is that it does not go on failing when the fault is over, which may be made
 * several times in a row; one try can take seconds on a machine that is busy otherwise. */
static int64_t step(const char *what, int64_t (*fn)(void))
{
	uint64_t until = now_ns() + RECOVER_NS;
	unsigned tries = 1;
	int64_t rc;
	fault_board->step = what;
	while ((rc = fn()) < 0) {
		code_check(what, rc);
		if (s.bad)
			return rc;
		if (fault_lasts()) {
			until = now_ns() + RECOVER_NS;
			tries = 0;
		}
		if (now_ns() > until && tries >= TRIES_MIN) {
			wrong("%s still fails after %llu s and %u tries: %s", what, RECOVER_NS / (1000 * MS), tries,
			      kv_errname((int)rc));
			return rc;
		}
		tries++;
		usleep(10000);
	}
	return rc;
}

#define STEP(fn) step(#fn, fn)

/* ---- server and pool ---- */

static const struct kv_log server_log = {.level = KV_LOG_WARN, .write = kv_log_stderr};

/* Files of secrets: the key, or certificates. NULL: not used in this run. */
static struct {
	char path[8][128];
	const char *psk, *ca, *server_cert, *server_key, *client_cert, *client_key, *client_psk, *session_keys, *crl;
} secret;

static const char *secret_path(unsigned i, const char *folder, const char *name)
{
	snprintf(secret.path[i], sizeof(secret.path[i]), "%s/%s", folder, name);
	return secret.path[i];
}

static void secrets_choose(const char *folder, bool certificates)
{
	memset(&secret, 0, sizeof(secret));
	if (!certificates) {
		secret.psk = secret_path(0, folder, "psk");
		secret.client_psk = SCENARIO_PSK;
		secret.session_keys = secret_path(6, folder, "session-keys");
		return;
	}
	secret.ca = secret_path(1, folder, "certs/ca.pem");
	secret.server_cert = secret_path(2, folder, "certs/server.pem");
	secret.server_key = secret_path(3, folder, "certs/server.key");
	secret.client_cert = secret_path(4, folder, "certs/client.pem");
	secret.client_key = secret_path(5, folder, "certs/client.key");
	secret.crl = secret_path(7, folder, "certs/crl.pem");
}

static int server_make(const char *node_id, struct kvs_server **out)
{
	struct kv_error err = {0};
	const struct kvs_options o = {.listen_addr = "127.0.0.1:0",
				      .node_id = node_id,
				      .provider = s.provider,
				      .shards = SHARDS,
				      .memory_bytes = MEMORY,
				      .max_clients = 8,
				      .credits = CREDITS,
				      .heartbeat_ms = 50,
				      .chunk_bytes = CHUNK,
				      .psk_file = secret.psk,
				      .cert_file = secret.server_cert,
				      .key_file = secret.server_key,
				      .ca_file = secret.ca,
				      .crl_file = secret.crl,
				      .session_keys = secret.session_keys,
				      .allow_pull = s.pull,
				      .lease_ns = 200 * MS,
				      .log = &server_log};
	int rc = kvs_server_create(&o, out, &err);
	error_check("kvs_server_create", rc, &err);
	if (rc < 0) {
		if (*out)
			wrong("kvs_server_create failed and gave a server");
		return rc;
	}
	rc = kvs_server_start(*out, &err);
	error_check("kvs_server_start", rc, &err);
	if (rc < 0)
		kvs_server_destroy(out);
	else if (kvs_server_port(*out) == 0)
		wrong("the server runs without a port");
	return rc;
}

/* ---- the server in a process of its own: it is told with a byte when to start and when to stop, and answers with its
 * address ---- */

/* (By functions that are no points: these would fail, too.) */

static void close_server(void);
static int64_t server_up(void);

static int remote_run(void)
{
	char order = 0;
	if (recv(s.line, &order, 1, 0) == 1 && order == 'u')
		STEP(server_up);
	if (!s.bad && send(s.line, s.address, sizeof(s.address), MSG_NOSIGNAL) == sizeof(s.address))
		(void)!recv(s.line, &order, 1, 0); /* or the other one has ended */
	close_server();
	close(s.line);
	return s.bad;
}

static bool remote_fork(unsigned limit_s)
{
	int line[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) < 0 || (s.remote = fork()) < 0) {
		wrong("the server's process could not be made");
		return false;
	}
	s.line = line[s.remote == 0];
	close(line[s.remote != 0]);
	if (s.remote == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(limit_s);
	}
	return s.remote == 0;
}

static int64_t remote_up(void)
{
	if (send(s.line, "u", 1, MSG_NOSIGNAL) != 1 ||
	    recv(s.line, s.address, sizeof(s.address), MSG_WAITALL) != sizeof(s.address))
		wrong("the server's process has not started its server");
	return 0;
}

static void remote_down(void)
{
	int status = 0;
	fault_board->step = "the server's process ends";
	close(s.line);
	if (waitpid(s.remote, &status, 0) != s.remote || status != 0)
		wrong("the server's process ended with status 0x%x", status);
	s.line = -1;
}

bool scenario_is_server(void)
{
	return s.line >= 0 && s.remote == 0;
}

static int64_t server_up(void)
{
	int64_t rc = s.line >= 0 && s.remote ? remote_up() : server_make("fault", &s.server);
	if (s.server)
		kvs_server_address(s.server, s.address, sizeof(s.address));
	return rc;
}

static int64_t second_up(void)
{
	return server_make("second", &s.second);
}

static int pool_make(unsigned servers, struct kvc_pool **out)
{
	char name[2][80];
	const char *names[] = {name[0], name[1]};
	struct kv_error err = {0};
	struct kvc_options o = {.size = sizeof(o),
				.flags = KVC_OPEN_WAIT,
				.num_clients = 1,
				.num_threads = 1,
				.buffer_bytes = BUFFER,
				.servers = names,
				.num_servers = servers,
				.provider = s.provider,
				.mode = s.pull ? KVC_MODE_PULL : KVC_MODE_AUTO,
				.local = s.pull ? KVC_LOCAL_OFF : KVC_LOCAL_AUTO,
				.timeout_ns = 1000 * MS,
				.connect_timeout_ns = 2000 * MS,
				.psk = secret.client_psk,
				.cert_file = secret.client_cert,
				.key_file = secret.client_key,
				.ca_file = secret.ca,
				.crl_file = secret.crl,
				.log_level = KV_LOG_WARN};
	int rc;
	snprintf(name[0], sizeof(name[0]), "fault=%s", s.address);
	snprintf(name[1], sizeof(name[1]), "second=");
	if (servers > 1)
		kvs_server_address(s.second, name[1] + strlen(name[1]), 64);
	rc = kvc_pool_open(&o, out, &err);
	error_check("kvc_pool_open", rc, &err);
	if (rc < 0 && *out)
		wrong("kvc_pool_open failed and gave a pool");
	return rc;
}

static int64_t pool_up(void)
{
	return pool_make(1, &s.pool);
}

static int64_t both_up(void)
{
	return pool_make(2, &s.both);
}

/* ---- calls ---- */

static struct kvc_key key_of(const char *text)
{
	return (struct kvc_key){text, strlen(text)};
}

static int64_t same(const char *what, int64_t rc, const uint8_t *got, uint64_t len, uint64_t seed)
{
	if (rc < 0)
		return rc;
	fill(source, len, seed);
	if ((uint64_t)rc != len || memcmp(got, source, len) != 0)
		wrong("%s: %" PRId64 " bytes instead of %" PRIu64 ", or others", what, rc, len);
	return rc;
}

static int64_t put(const char *key, const uint8_t *from, uint64_t len)
{
	return kvc_put(s.pool, key_of(key), from, len, NULL);
}

static int64_t put_small(void)
{
	fill(source, SMALL, 1);
	return put("small", source, SMALL);
}

static int64_t put_large(void)
{
	fill(source, LARGE, 2);
	return put("large", source, LARGE);
}

static int64_t put_registered(void)
{
	fill(registered, LARGE, 3);
	return put("registered", registered, LARGE);
}

static uint64_t stat_of(const struct kvc_stat_item *all, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (strcmp(all[i].name, name) == 0)
			return all[i].value;
	wrong("the server has no statistic %s", name);
	return 0;
}

/* Without memory for the description of a block the server evicts one, as it may: then the key is stored again. */
static int64_t missed(int64_t rc, int64_t (*again)(void))
{
	struct kvc_stat_item all[64];
	int n;
	if (rc != -KV_ENOTFOUND)
		return rc;
	n = kvc_stat(s.pool, all, KV_COUNT(all), NULL);
	if (n < 0)
		return n;
	if (stat_of(all, n, "evictions") == 0)
		wrong("a key is gone that nobody deleted or evicted");
	rc = again();
	return rc < 0 ? rc : -KV_ENOTFOUND;
}

static int64_t get_small(void)
{
	memset(plain, 0, SMALL);
	return missed(same("get_small", kvc_get(s.pool, key_of("small"), plain, SMALL, NULL), plain, SMALL, 1),
		      put_small);
}

static int64_t get_large(void)
{
	memset(plain, 0, LARGE);
	return missed(same("get_large", kvc_get(s.pool, key_of("large"), plain, LARGE, NULL), plain, LARGE, 2),
		      put_large);
}

static int64_t get_part(void)
{
	const struct kvc_call call = {.size = sizeof(call), .offset = 70000, .length = 100000};
	int64_t rc = kvc_get(s.pool, key_of("large"), plain, LARGE, &call);
	fill(source, LARGE, 2);
	if (rc >= 0 && (rc != 100000 || memcmp(plain, source + 70000, 100000) != 0))
		wrong("get_part: %" PRId64 " bytes, or others", rc);
	return missed(rc, put_large);
}

static int64_t get_registered(void)
{
	memset(registered + LARGE, 0, LARGE);
	return missed(same("get_registered", kvc_get(s.pool, key_of("registered"), registered + LARGE, LARGE, NULL),
			   registered + LARGE, LARGE, 3),
		      put_registered);
}

static int64_t mem_register(void)
{
	struct kv_error err = {0};
	int rc = kvc_register(s.pool, registered, sizeof(registered), &s.mem, &err);
	error_check("kvc_register", rc, &err);
	return rc;
}

static int64_t mem_unregister(void)
{
	int rc = kvc_unregister(s.pool, &s.mem);
	if (rc == 0 && s.mem)
		wrong("kvc_unregister kept the registration");
	return rc;
}

static struct kvc_item items[BATCH];
static char item_key[BATCH][16];

static void items_make(void)
{
	for (unsigned i = 0; i < BATCH; i++) {
		snprintf(item_key[i], sizeof(item_key[i]), "item/%u", i);
		items[i] = (struct kvc_item){
			.key = key_of(item_key[i]), .data = batch + i * ITEM, .len = i % 2 ? ITEM : SMALL};
	}
}

static int64_t items_check(const char *what, int rc)
{
	int first = 0;
	for (unsigned i = 0; i < BATCH; i++) {
		code_check(what, items[i].result);
		if (items[i].result < 0 && first == 0)
			first = (int)items[i].result;
	}
	if (first != rc)
		wrong("%s returned %s; its first failure is %s", what, kv_errname(rc), kv_errname(first));
	return rc;
}

static int64_t items_put(const char *what, struct kvc_pool *pool)
{
	items_make();
	for (unsigned i = 0; i < BATCH; i++)
		fill(items[i].data, items[i].len, 100 + i);
	return items_check(what, kvc_put_batch(pool, items, BATCH, NULL));
}

static int64_t items_get(const char *what, struct kvc_pool *pool)
{
	int64_t rc;
	items_make();
	memset(batch, 0, sizeof(batch));
	rc = items_check(what, kvc_get_batch(pool, items, BATCH, NULL));
	for (unsigned i = 0; i < BATCH; i++)
		if (items[i].result >= 0)
			same(what, items[i].result, items[i].data, i % 2 ? ITEM : SMALL, 100 + i);
	return rc;
}

static int64_t put_batch(void)
{
	return items_put("put_batch", s.pool);
}

static int64_t get_batch(void)
{
	return missed(items_get("get_batch", s.pool), put_batch);
}

/* One batch through a queue: an id that was accepted has one completion, whatever fails. */
static int64_t queue_batch(void)
{
	struct kvc_completion c = {0};
	struct kvc_queue *q = NULL;
	int n = 0, rc = kvc_queue_open(s.pool, NULL, &q, NULL);
	int64_t id;
	if (rc < 0)
		return rc;
	items_make();
	id = kvc_submit_get(q, items, BATCH, NULL, 1);
	for (unsigned i = 0; id > 0 && n == 0 && i < 600; i++) {
		struct pollfd p = {.fd = kvc_queue_fd(q), .events = POLLIN};
		(void)poll(&p, 1, 100);
		n = kvc_reap(q, &c, 1);
	}
	if (id > 0 && (n != 1 || c.id != (uint64_t)id))
		wrong("an id has no completion");
	if (kvc_queue_close(&q) != 0)
		wrong("a queue without ids dropped some");
	return id < 0 ? id : missed(items_check("queue_batch", c.result), put_batch);
}

static int64_t put_batch_both(void)
{
	return items_put("put_batch_both", s.both);
}

static int64_t get_batch_both(void)
{
	return missed(items_get("get_batch_both", s.both), put_batch_both);
}

static int64_t exists(void)
{
	struct kvc_key keys[] = {key_of("small"), key_of("large"), key_of("nothing")};
	uint8_t found[3] = {9, 9, 9};
	unsigned prefix = 9;
	int rc = kvc_exists(s.pool, keys, 3, found, &prefix, NULL);
	if (rc >= 0 && (found[2] != 0 || prefix != (found[0] ? 1u + found[1] : 0u)))
		wrong("exists: %u %u %u, prefix %u", found[0], found[1], found[2], prefix);
	if (rc >= 0 && !found[0])
		return missed(-KV_ENOTFOUND, put_small);
	return rc >= 0 && !found[1] ? missed(-KV_ENOTFOUND, put_large) : rc;
}

static int64_t touch(void)
{
	const struct kvc_call call = {.size = sizeof(call), .ttl_s = 1000};
	return missed(kvc_touch(s.pool, key_of("large"), &call), put_large);
}

static int64_t miss(void)
{
	static const char name[300] = "nothing";
	unsigned char room[KVC_KEY_MAX];
	struct kvc_key key;
	int64_t rc = kvc_key_fold(name, sizeof(name), room, &key);
	if (rc < 0)
		return rc;
	rc = kvc_get(s.pool, key, plain, LARGE, NULL);
	if (rc >= 0)
		wrong("a key that was never stored is there");
	return rc == -KV_ENOTFOUND ? 0 : rc;
}

static int64_t ping(void)
{
	return kvc_ping(s.pool, NULL);
}

static int64_t delete(const char *key)
{
	int rc = kvc_delete(s.pool, key_of(key), NULL);
	return rc == -KV_ENOTFOUND ? 0 : rc; /* the reply to an earlier try may be what was lost */
}

static int64_t delete_all(void)
{
	static const char *const keys[] = {"small", "large", "registered", "borrowed", "wide"};
	int64_t rc = 0;
	items_make();
	for (unsigned i = 0; i < KV_COUNT(keys) && rc == 0; i++)
		rc = delete (keys[i]);
	for (unsigned i = 0; i < BATCH && rc == 0; i++)
		rc = delete (item_key[i]);
	return rc;
}

/* ---- memory in parts: values lie across their borders ---- */

static int64_t wide_register(void)
{
	struct kv_error err = {0};
	int rc = s.mem ? 0 : kvc_register(s.pool, wide, sizeof(wide), &s.mem, &err);
	error_check("kvc_register in parts", rc, &err);
	return rc;
}

static int64_t put_wide(void)
{
	fill(wide + PART - LARGE / 3, LARGE, 5);
	return put("wide", wide + PART - LARGE / 3, LARGE);
}

static int64_t get_wide(void)
{
	uint8_t *to = wide + (size_t)2 * PART - LARGE / 2;
	memset(to, 0, LARGE);
	return missed(same("get_wide", kvc_get(s.pool, key_of("wide"), to, LARGE, NULL), to, LARGE, 5), put_wide);
}

/* ---- further sessions ---- */

static int64_t session_open(struct kvc_session **sub, const struct kvc_session_options *o)
{
	struct kv_error err = {0};
	int rc = *sub ? 0 : kvc_session_open(s.pool, 0, o, sub, &err);
	error_check("kvc_session_open", rc, &err);
	if (rc < 0 && *sub)
		wrong("kvc_session_open failed and gave a session");
	return rc;
}

static int64_t own_open(void)
{
	return session_open(&s.own, NULL);
}

static int64_t keyed_open(void)
{
	const struct kvc_session_options o = {.size = sizeof(o), .psk = SCENARIO_SESSION_KEY, .client_id = 7};
	return session_open(&s.keyed, &o);
}

static int64_t own_close(void)
{
	return kvc_session_close(s.pool, &s.own, 0);
}

static int64_t keyed_close(void)
{
	return kvc_session_close(s.pool, &s.keyed, 0);
}

static int64_t session_put(void)
{
	const struct kvc_call call = {.size = sizeof(call), .session = s.own};
	fill(source, LARGE, 2);
	return kvc_put(s.pool, key_of("large"), source, LARGE, &call);
}

static int64_t session_get(void)
{
	const struct kvc_call call = {.size = sizeof(call), .session = s.keyed};
	memset(plain, 0, LARGE);
	return missed(same("session_get", kvc_get(s.pool, key_of("large"), plain, LARGE, &call), plain, LARGE, 2),
		      put_large);
}

static int64_t session_batch(void)
{
	const struct kvc_call call = {.size = sizeof(call), .session = s.keyed};
	items_make();
	for (unsigned i = 0; i < BATCH; i++)
		fill(items[i].data, items[i].len, 100 + i);
	return items_check("session_batch", kvc_put_batch(s.pool, items, BATCH, &call));
}

static int64_t session_info(void)
{
	struct kvc_session_info i = {.size = sizeof(i)};
	int rc = kvc_session_info(s.pool, s.keyed, 0, &i);
	if (rc == 0 && i.credits_in_use > i.credits * SHARDS)
		wrong("a session uses %u credits of %u", i.credits_in_use, i.credits * SHARDS);
	return rc;
}

/* ---- calls of a worker ---- */

static void worker(struct kvc_client *client, unsigned w, void *arg)
{
	(void)w, (void)arg;
	s.work_rc = s.work(client);
}

static int64_t in_worker(int64_t (*work)(struct kvc_client *client))
{
	int rc;
	s.work = work;
	s.work_rc = -KV_EINTERNAL;
	rc = kvc_run(s.pool, 1, worker, NULL);
	return rc < 0 ? rc : s.work_rc;
}

static int64_t put_borrowed_work(struct kvc_client *client)
{
	struct kvc_borrowed borrowed = {0};
	int64_t rc = kvc_borrow_await(client, LARGE, 0, &borrowed);
	if (rc < 0)
		return rc;
	fill(borrowed.data, LARGE, 4);
	rc = kvc_put_await(client, key_of("borrowed"), borrowed.data, LARGE, NULL);
	kvc_borrowed_release(client, &borrowed);
	return rc;
}

static int64_t get_borrowed_work(struct kvc_client *client)
{
	struct kvc_borrowed borrowed = {0};
	int64_t rc = kvc_get_borrowed_await(client, key_of("borrowed"), LARGE, NULL, &borrowed);
	if (rc >= 0 && borrowed.len != LARGE)
		wrong("get_borrowed: a borrowed piece of %" PRIu64 " bytes", borrowed.len);
	else if (rc >= 0)
		same("get_borrowed", rc, borrowed.data, LARGE, 4);
	kvc_borrowed_release(client, &borrowed);
	return rc;
}

static int64_t pin_work(struct kvc_client *client)
{
	int rc = kvc_pin_await(client, key_of("small"), NULL);
	return rc < 0 ? rc : kvc_unpin_await(client, key_of("small"), NULL);
}

static int64_t session_pin_work(struct kvc_client *client)
{
	const struct kvc_call call = {.size = sizeof(call), .session = s.own};
	int rc = kvc_pin_await(client, key_of("large"), &call);
	return rc < 0 ? rc : kvc_unpin_await(client, key_of("large"), &call);
}

static int64_t put_borrowed(void)
{
	return in_worker(put_borrowed_work);
}

static int64_t get_borrowed(void)
{
	return missed(in_worker(get_borrowed_work), put_borrowed);
}

static int64_t pin(void)
{
	return missed(in_worker(pin_work), put_small);
}

static int64_t session_pin(void)
{
	return missed(in_worker(session_pin_work), put_large);
}

/* ---- what must come back by itself ---- */

/* Nothing is stored any more: 0 when client and server agree that nothing is held either. */
static int64_t held(bool say)
{
	static const char *const names[] = {"blocks", "bytes_used", "quarantined_bytes", "pinned_bytes"};
	struct kvc_stat_item all[64];
	struct kvc_counters c = {.size = sizeof(c)};
	uint64_t sum = 0;
	int n = kvc_stat(s.pool, all, KV_COUNT(all), NULL);
	if (n < 0)
		return n;
	for (unsigned i = 0; i < KV_COUNT(names); i++) {
		uint64_t value = stat_of(all, n, names[i]);
		/* Of a PUT that was given up because its range went astray, the stage stays for a minute. */
		if (s.timed_out && strcmp(names[i], "bytes_used") == 0 && value <= kv_align_up(LARGE, 64))
			continue;
		sum += value;
		if (say && value)
			wrong("the server still holds %s %" PRIu64, names[i], value);
	}
	sum += stat_of(all, n, "sessions") != 1;
	if (say && stat_of(all, n, "sessions") != 1)
		wrong("the server has %" PRIu64 " sessions", stat_of(all, n, "sessions"));
	/* A piece whose writes cannot be counted stays in quarantine until a fence, which comes when a quarter of the
	 * buffer is there. */
	kvc_counters(s.pool, &c);
	if (say && c.quarantined_bytes > BUFFER / 4)
		wrong("the client still has %" PRIu64 " bytes in quarantine", c.quarantined_bytes);
	return sum || c.quarantined_bytes > BUFFER / 4 ? -KV_EBUSY : 0;
}

static void settle(void)
{
	uint64_t until = now_ns() + SETTLE_NS;
	fault_board->step = "settle";
	STEP(delete_all);
	while (!s.bad && held(false) < 0 && now_ns() < until)
		usleep(20000);
	if (!s.bad)
		held(true);
}

/* ---- phases ---- */

static void start(void)
{
	STEP(server_up);
	if (!s.bad)
		STEP(pool_up);
}

static void some_calls(void)
{
	STEP(put_small);
	STEP(put_large);
	STEP(get_large);
	STEP(get_small);
}

static void calls(void)
{
	STEP(put_small);
	STEP(put_large);
	STEP(mem_register);
	STEP(put_registered);
	STEP(put_borrowed);
	STEP(put_batch);
	STEP(exists);
	STEP(get_small);
	STEP(get_large);
	STEP(get_part);
	STEP(get_registered);
	STEP(get_borrowed);
	STEP(get_batch);
	STEP(queue_batch);
	STEP(put_batch_both);
	STEP(get_batch_both);
	STEP(miss);
	STEP(touch);
	STEP(pin);
	STEP(ping);
	if (s.mem)
		STEP(mem_unregister);
}

static void connection_cut(void)
{
	uint64_t before, until = now_ns() + RECOVER_NS;
	struct kvc_counters c = {.size = sizeof(c)};
	kvc_counters(s.pool, &c);
	before = c.reconnects;
	shutdown(fault_last_connection(), SHUT_RDWR);
	fault_board->step = "reconnect";
	while (c.reconnects == before && now_ns() < until) {
		usleep(5000);
		kvc_counters(s.pool, &c);
	}
	if (c.reconnects == before)
		wrong("the client has not connected again");
}

static void reconnect(void)
{
	connection_cut();
	some_calls();
	STEP(get_registered);
}

static void reset(void)
{
	fault_kill_endpoint("kvc-0");
	some_calls();
	reconnect();
	fault_kill_endpoint("kv-shard-0");
	usleep(50000);
	some_calls();
	STEP(get_registered);
}

static void sessions(void)
{
	STEP(wide_register);
	STEP(put_wide);
	STEP(get_wide);
	STEP(own_open);
	STEP(keyed_open);
	STEP(session_put);
	STEP(session_get);
	STEP(session_batch);
	STEP(session_pin);
	STEP(session_info);
	if (!s.bad)
		connection_cut();
	STEP(session_get);
	STEP(session_pin);
	STEP(get_wide);
	STEP(own_close);
	STEP(keyed_close);
	STEP(mem_unregister);
}

/* Else what is tried is a push. */
static void pulls_check(void)
{
	struct kvc_counters c = {.size = sizeof(c)};
	kvc_counters(s.pool, &c);
	if (c.pulls == 0)
		wrong("nothing was read from the server's memory");
}

/* Each way for the bytes of a GET that the client fetches: in one message, in a piece, in registered memory, in a
 * batch; and those that the server writes all the same. */
static void pulls(void)
{
	start();
	if (s.bad)
		return;
	STEP(put_small);
	STEP(put_large);
	STEP(mem_register);
	STEP(put_registered);
	STEP(put_borrowed);
	STEP(put_batch);
	STEP(get_small);
	STEP(get_large);
	STEP(get_part);
	STEP(get_registered);
	STEP(get_borrowed);
	STEP(get_batch);
	if (!s.bad)
		connection_cut();
	STEP(get_large);
	STEP(get_registered);
	if (!s.bad)
		pulls_check();
	if (s.mem)
		STEP(mem_unregister);
}

static void close_pool(void)
{
	fault_board->step = "kvc_pool_close";
	kvc_pool_close(&s.pool);
}

static void close_server(void)
{
	if (s.line >= 0 && s.remote)
		remote_down();
	if (!s.server)
		return;
	fault_board->step = "kvs_server_stop";
	kvs_server_stop(s.server, 100 * MS);
	fault_board->step = "kvs_server_destroy";
	kvs_server_destroy(&s.server);
}

static void close_both(void)
{
	kvc_pool_close(&s.both);
	if (!s.second)
		return;
	kvs_server_stop(s.second, 100 * MS);
	kvs_server_destroy(&s.second);
}

static void server_first(void)
{
	int64_t rc;
	close_server();
	fault_board->step = "a call without a server";
	rc = put_small();
	if (rc >= 0)
		wrong("a PUT succeeded without a server");
	code_check("put_small without a server", rc);
	close_pool();
}

static void during(bool on, void (*fn)(void))
{
	if (on)
		fault_begin();
	fn();
	fault_end();
}

const char *scenario_missing(enum phase phase)
{
	struct statvfs shm;
	if (phase != PHASE_PULL)
		return NULL;
	if (access("/dev/shm", W_OK) != 0 || statvfs("/dev/shm", &shm) != 0)
		return "there is no /dev/shm";
	return (uint64_t)shm.f_bavail * shm.f_frsize < SHM_BYTES ? "/dev/shm has less than 512 MiB" : NULL;
}

int scenario_run(enum phase phase, const char *secrets, unsigned limit_s)
{
	bool closing = phase == PHASE_CLOSE || phase == PHASE_SERVER_FIRST;
	secrets_choose(secrets, phase == PHASE_START_CERT);
	s.pull = phase == PHASE_PULL;
	s.provider = s.pull ? "shm" : "tcp";
	if (phase == PHASE_SESSIONS)
		fault_parts(PART);
	if (s.pull && remote_fork(limit_s))
		return remote_run();
	during(phase == PHASE_START || phase == PHASE_START_CERT || s.pull, s.pull ? pulls : start);
	if (s.bad)
		goto out;
	if (phase == PHASE_CALLS) {
		STEP(second_up);
		STEP(both_up);
	}
	if (s.bad)
		goto out;
	during(phase == PHASE_CALLS, phase == PHASE_CALLS ? calls : some_calls);
	close_both(); /* it has a session on the server that `settle` looks at */
	if (phase == PHASE_RECONNECT || phase == PHASE_RESET) {
		STEP(mem_register);
		STEP(put_registered);
		during(true, phase == PHASE_RESET ? reset : reconnect);
	}
	if (phase == PHASE_SESSIONS && !s.bad)
		during(true, sessions);
	if (closing && !s.bad)
		STEP(own_open); /* it goes with the pool */
	if (!s.bad)
		STEP(put_batch);
	if (!s.bad && !closing)
		settle();
	if (phase == PHASE_SERVER_FIRST)
		during(true, server_first);
out:
	fault_end();
	if (phase == PHASE_CLOSE)
		fault_begin();
	close_pool();
	close_server();
	fault_end();
	close_both();
	return s.bad;
}
