/* SPDX-License-Identifier: Apache-2.0 */
/* run.c -- a run from start to end: prepare, own server, pool, phases, report.
 *
 * The order matters. Output files and the trace are checked first; the server child is spawned before the pool makes
 * the first libfabric call (no fork after it); whatever happens after that, the child is ended and reaped. */
#include "kvbench/run.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "host/host.h"
#include "kvbench/fabric/roofline.h"
#include "kvbench/load/async.h"
#include "kvbench/load/batch.h"
#include "kvbench/load/bench.h"
#include "kvbench/report/outputs.h"
#include "kvbench/load/mixed.h"
#include "kvbench/load/phase.h"
#include "kvbench/load/prefix.h"
#include "kvbench/measure/attached.h"
#include "kvbench/measure/lives.h"
#include "kvbench/measure/pages.h"
#include "kvbench/measure/progress.h"
#include "kvbench/load/reads.h"
#include "kvbench/load/recorded.h"
#include "kvbench/load/replay.h"
#include "kvbench/report/report.h"
#include "kvbench/setup/signals.h"
#include "kvbench/load/values.h"
#include "kvbench/setup/stuck.h"

#define SHARDS_MAX         4u
#define STATS_MAX          512u /* counters of a server */
#define READY_TIMEOUT_NS   120000000000ull
#define CONNECT_TIMEOUT_NS 15000000000ull
#define WARMUP_BYTES       (1ull << 30)   /* of GETs at most, whatever --warmup says: more warms nothing up */
#define PAGES_WAIT_NS      30000000000ull /* for servers that still make pages */
#define MEMBERS_NS         20000000000ull
#define WARMUP_NS          5000000000ull /* a warm-up ends after this time */

static void say(const struct kv_error *err)
{
	fprintf(stderr, "kv-bench: %s\n", err->text);
}

/* ---- before anything runs ---- */

static int scan_trace(struct bench *b, struct kv_error *err)
{
	struct stat st;
	if (!b->opt->replay.trace)
		return 0;
	if (stat(b->opt->replay.trace, &st) == 0 && !S_ISREG(st.st_mode))
		return kv_fail(err, -KV_EINVAL,
			       "trace %s is read twice and must be a regular file: write it to one first",
			       b->opt->replay.trace);
	if (trace_scan(b->opt->replay.trace, &b->results.trace, err) < 0)
		return err->code;
	if (b->opt->replay.speed > 0 && b->results.trace.untimed == b->results.trace.requests)
		return kv_fail(err, -KV_EINVAL, "trace %s has no time stamps: drop --trace-speed, which needs them",
			       b->opt->replay.trace);
	return 0;
}

/* Without --rate and --slo recorded arrivals come as fast as they did. */
static int load_arrivals(struct bench *b, struct bench_options *own, struct kv_error *err)
{
	int rc = own->pace.arrivals_file ? bench_recorded_load(own->pace.arrivals_file, &b->recorded, err) : 0;
	if (rc < 0 || !b->recorded.count || own->pace.rate > 0 || own->pace.aim.quantile > 0)
		return rc;
	own->pace.rate = bench_recorded_rate(&b->recorded);
	if (own->pace.rate > 1e9)
		return kv_fail(err, -KV_EINVAL, "the requests of %s are too close together for a rate: add --rate R",
			       own->pace.arrivals_file);
	return 0;
}

/* Worker threads of the server that we start. It gets half of the cores, our loops the other half. */
static unsigned server_threads(const struct bench_options *o)
{
	return o->server.server_threads ? o->server.server_threads
					: KV_MIN(KV_MAX(kv_cpus_available() / 2, 1u), SHARDS_MAX);
}

static uint64_t more_keys(const struct bench_options *o)
{
	uint64_t reads = o->pace.duration_ns ? UINT64_MAX : o->load.num_keys * o->pace.repeat_reads;
	uint64_t most = KV_MAX(o->roofline.run ? roofline_put_keys(o, reads) : 0, o->load.mixed ? o->load.num_keys : 0);
	/* A PUT of --mix is deleted before its worker makes the next. */
	return KV_MAX(most, o->load.mix.put ? (uint64_t)o->load.num_workers * KV_MAX(o->load.batch, 1u) : 0);
}

/* Of our own. */
static unsigned servers_at_start(const struct bench_options *o)
{
	return o->server.num_servers - (unsigned)__builtin_popcount(bench_events_late(&o->server.events));
}

static int memory_refused(const struct bench_options *o, uint64_t values, uint64_t available, struct kv_error *err)
{
	char need[32], half[32], size[32], servers[64];
	uint64_t bytes = bench_keys_memory(o, values, server_threads(o));
	if (!o->replay.trace && o->server.num_servers == 1)
		return -KV_ENOMEM;
	snprintf(servers, sizeof(servers), "each of %u servers", o->server.num_servers);
	return kv_fail(err, -KV_ENOMEM,
		       "for %llu %s of %s %s needs %s, and has %s, its share of half of this machine's free memory: "
		       "use %s, %s--memory-mb N for each server (further values are evicted)",
		       (unsigned long long)values, o->replay.trace ? "blocks" : "values",
		       kv_size_format(o->load.value_size, size, sizeof(size)),
		       o->server.num_servers > 1 ? servers : "the server",
		       bytes == UINT64_MAX ? "more than any memory" : kv_size_format(bytes, need, sizeof(need)),
		       kv_size_format(available / 2, half, sizeof(half)),
		       o->model.name ? "fewer --block-tokens" : "a smaller --value-size",
		       o->server.num_servers > 1 ? "fewer --servers, or " : "or ");
}

/* The time of the reads of all runs with --duration, or of a trace at its speed; else 0. --slo makes one trial at
 * least. */
static uint64_t reads_ns(const struct bench_options *o, const struct trace_totals *t)
{
	uint64_t runs = o->pace.repeat_runs;
	if (o->replay.trace) {
		double ns = o->replay.speed > 0 ? (t->last_ms - t->first_ms) * 1e6 / o->replay.speed : 0;
		return (uint64_t)KV_MIN(ns, o->pace.duration_ns ? (double)o->pace.duration_ns : 1e18);
	}
	return o->pace.duration_ns > UINT64_MAX / runs ? UINT64_MAX : runs * o->pace.duration_ns;
}

/* Memory of our own server, and whether a run may miss values that it wrote. */
static int plan_memory(struct bench *b, struct kv_error *err)
{
	const struct bench_options *o = b->opt;
	unsigned shards = server_threads(o);
	uint64_t values = o->replay.trace ? b->results.trace.distinct : o->load.num_keys + more_keys(o);
	values *= o->client.copies == BENCH_COPIES_ONE ? 1 : 2; /* any value may become hot */
	/* Of several, each has room for twice its share, also before others come. */
	if (o->server.num_servers > 1)
		values = (2 * values + servers_at_start(o) - 1) / servers_at_start(o);
	b->results.memory.expiring = o->load.ttl && reads_ns(o, &b->results.trace) / 1000000000 >= o->load.ttl;
	b->results.memory.misses_expected = b->results.memory.expiring || o->server.events.count > 0;
	if (o->target.servers.count > 0)
		return 0;
	if (o->server.memory_mb == 0) {
		uint64_t available = kv_memory_available() / o->server.num_servers;
		int rc = bench_keys_plan(o, values, shards, available, &b->results.memory.mb, err);
		return rc < 0 ? memory_refused(o, values, available, err) : 0;
	}
	b->results.memory.mb = o->server.memory_mb;
	if (bench_keys_memory(o, values, shards) > o->server.memory_mb << 20)
		b->results.memory.is_short = b->results.memory.misses_expected = true;
	return 0;
}

/* ---- server and pool ---- */

/* The server maps and touches its memory before it is ready, which takes a second for a few GiB. */
static uint64_t touched_mib(void *arg)
{
	struct kv_process server = {0};
	int pid = atomic_load((atomic_int *)arg);
	if (pid > 0)
		kv_process_read(pid, &server);
	return server.memory >> 20;
}

static int start_server(struct bench *b, struct kv_error *err)
{
	const struct bench_options *o = b->opt;
	unsigned starts[BENCH_EVENTS_MAX];
	atomic_int pid = 0;
	struct progress bar = {.out = b->out,
			       .name = "memory",
			       .total = b->results.memory.mb,
			       .unit = "MiB",
			       .done = touched_mib,
			       .arg = &pid};
	int rc;
	struct server_child_options so = {.provider = strcmp(o->target.provider, "auto") ? o->target.provider : NULL,
					  .nic = o->target.nic,
					  .rails = o->target.rails,
					  .numa_off = o->target.numa == KVC_NUMA_OFF,
					  .door = o->target.door,
					  .eviction = o->server.eviction,
					  .allow_pull = o->target.mode == KVC_MODE_PULL && !o->roofline.run,
					  .pull_where_safe = o->target.mode == KVC_MODE_AUTO && !o->roofline.run,
					  .memory_mb = b->results.memory.mb,
					  .tier = &o->server.tier,
					  .count = o->server.num_servers,
					  .late = bench_events_late(&o->server.events),
					  .start = starts,
					  .num_starts = bench_events_starts(&o->server.events, starts),
					  .threads = server_threads(o),
					  .log_level = o->out.log_level,
					  .ready_timeout_ns = READY_TIMEOUT_NS,
					  .out_pid = &pid};
	if (o->target.servers.count > 0)
		return 0;
	b->results.memory.server_threads = so.threads;
	progress_start(&bar);
	rc = server_child_start(&so, &b->server, err);
	progress_stop(&bar);
	return rc;
}

/* How PUTs go: to the first server, or inside requests if it is so anywhere. */
static enum kvc_put_way put_way(struct kvc_pool *pool, unsigned servers)
{
	enum kvc_put_way way = KVC_PUT_READ;
	for (unsigned i = 0; i < servers && way != KVC_PUT_INLINE; i++) {
		struct kvc_server_info s = {.size = sizeof(s)};
		if (kvc_server_info(pool, 0, i, &s) == 0 && (i == 0 || s.put_way == KVC_PUT_INLINE))
			way = (enum kvc_put_way)s.put_way;
	}
	return way;
}

/* The first servers learn of each other within seconds; the first writes must not meet the change. */
static int members_wait(struct bench *b, struct kv_error *err)
{
	for (unsigned i = 1; i <= b->opt->server.num_servers; i++) {
		char name[32];
		snprintf(name, sizeof(name), "server-%u", i);
		if (server_child_name(b->server, i) &&
		    !bench_attached_wait(b->pool, b->num_clients, name, true, MEMBERS_NS))
			return kv_fail(err, -KV_ETIMEOUT, "the clients did not learn that %s is a member", name);
	}
	return 0;
}

static const unsigned copies_flag[] = {
	[BENCH_COPIES_ONE] = 0, [BENCH_COPIES_TWO] = KVC_TWO_COPIES, [BENCH_COPIES_HOT] = KVC_HOT_COPIES};

static int open_pool(struct bench *b, struct kv_error *err)
{
	const struct bench_options *o = b->opt;
	const char *own[BENCH_SERVERS_MAX] = {b->server ? server_child_address(b->server) : NULL};
	struct kvc_options ko = {
		.size = sizeof(ko),
		.num_clients = o->load.num_clients,
		.num_threads = o->load.num_threads,
		.buffer_bytes = o->client.buffer_mb << 20,
		.servers = b->server ? own : o->target.servers.item,
		.num_servers = b->server ? servers_at_start(o) : o->target.servers.count,
		KV_OPT_TARGET_OF(o->target),
		.timeout_ns = o->client.timeout_ns,
		.peer_timeout_ns = o->client.peer_timeout_ns,
		.settle_ns = KV_MAX(o->client.settle_ns, (uint64_t)1), /* 1 is never, and 0 the default */
		.repair_bytes_s = KV_MAX(o->client.repair_mb << 20, (uint64_t)1),
		.slow_ns = o->client.slow_ms * 1000000ull,
		.connect_timeout_ns = KV_MAX(CONNECT_TIMEOUT_NS, o->client.timeout_ns),
		.flags = KVC_OPEN_WAIT | (o->load.no_checksum ? KVC_NO_VERIFY : 0) | copies_flag[o->client.copies] |
			 (o->load.no_threads ? KVC_NO_THREADS : 0) | (o->seal.names ? KVC_SEAL_NAMES : 0),
		KV_OPT_SECURITY_OF(o->security),
		.psk = b->server ? server_child_psk(b->server) : NULL,
		.seal_key_file = o->seal.key_file,
		.log_level = o->out.log_level};
	int rc;
	for (unsigned i = 0, n = 0; b->server && o->server.num_servers > 1 && i < o->server.num_servers; i++) {
		const char *name = server_child_name(b->server, i + 1);
		if (name)
			own[n++] = name;
	}
	rc = bench_pool_open(&ko, &b->pool, err);
	if (rc < 0)
		return rc;
	b->num_clients = kvc_num_clients(b->pool);
	b->results.library.info.size = sizeof(b->results.library.info);
	rc = kvc_info(b->pool, &b->results.library.info);
	b->results.library.put_way = put_way(b->pool, ko.num_servers);
	if (rc == 0 && b->server && bench_events_late(&o->server.events))
		rc = members_wait(b, err);
	if (rc == 0 && !b->server && !o->load.no_write)
		b->results.library.pages_left = bench_pages_wait(b->pool, ko.num_servers, PAGES_WAIT_NS);
	return rc;
}

/* ---- phases ---- */

static bool good_so_far(const struct bench *b, const struct phase_result *p)
{
	return !bench_interrupted() && !p->too_many_errors && !server_child_dead(b->server);
}

/* PUTs that all servers have answered without moving a byte, since they were started. A server without that count
 * has none. */
static uint64_t duplicates_count(const struct bench *b)
{
	struct kvc_stat_item *item = calloc(STATS_MAX, sizeof(*item));
	uint64_t sum = 0;
	for (unsigned i = 0; item && i < b->results.library.info.num_servers; i++) {
		const struct kvc_call call = {.size = sizeof(call), .server = i};
		int n = kvc_stat(b->pool, item, STATS_MAX, &call);

		for (int k = 0; k < n; k++)
			sum += strcmp(item[k].name, "put_duplicates") == 0 ? item[k].value : 0;
	}
	free(item);
	return sum;
}

static int run_write(struct bench *b, struct kv_error *err)
{
	struct phase p = {.bench = b,
			  .name = "write",
			  .series = true,
			  .run = b->opt->load.batch ? phase_op_write_batch : phase_op_write,
			  .total = reads_ops(b->opt, b->opt->load.num_keys),
			  .keys_per_op = b->opt->load.batch,
			  .raw = BENCH_RAW_WRITE,
			  .raw_run = 1,
			  .num_keys = b->opt->load.num_keys};
	uint64_t before = b->server ? 0 : duplicates_count(b), after;
	int rc;
	async_phase(&p, true);
	rc = phase_run(&p, &b->results.write, err);
	/* Our own server was empty at its start. A restarted one counts from 0 again. */
	after = b->server ? 0 : duplicates_count(b);
	b->results.write.duplicates = after > before ? after - before : 0;
	if (rc == 0)
		report_phase(b, "1/4", "write", &b->results.write);
	return rc;
}

static int run_steady(struct bench *b, struct kv_error *err)
{
	int rc = reads_steady(b, err);
	if (rc == 0)
		report_phase(b, "2/4", "warm-up", &b->results.warmup);
	return rc;
}

static int run_warmup(struct bench *b, struct kv_error *err)
{
	const struct bench_options *o = b->opt;
	struct phase_result *w = &b->results.warmup;
	uint64_t fits = KV_MAX(WARMUP_BYTES / bench_size_mean(o), (uint64_t)1), keys = KV_MIN(o->pace.warmup, fits);
	struct phase p = {.bench = b,
			  .name = "warm-up",
			  .run = o->load.batch ? phase_op_batch : phase_op_read,
			  .total = reads_ops(o, keys),
			  .keys_per_op = o->load.batch,
			  .raw = BENCH_RAW_WARMUP,
			  .raw_run = 1,
			  .duration_ns = WARMUP_NS};
	char size[32];
	int rc;
	async_phase(&p, false);
	rc = phase_run(&p, w, err);
	if (keys < o->pace.warmup)
		snprintf(w->cut, sizeof(w->cut), "of %llu: at most %s are read to warm up",
			 (unsigned long long)o->pace.warmup, kv_size_format(WARMUP_BYTES, size, sizeof(size)));
	if (w->elapsed_ns >= WARMUP_NS)
		snprintf(w->cut, sizeof(w->cut), "of %llu: a warm-up ends after %llu s",
			 (unsigned long long)o->pace.warmup, WARMUP_NS / 1000000000);
	if (rc == 0)
		report_phase(b, "2/4", "warm-up", &b->results.warmup);
	return rc;
}

static void outages_free(struct keep_going_result *k)
{
	for (unsigned i = 0; i < k->num_clients; i++)
		bench_outages_fini(&k->outage[i]);
	free(k->outage);
	k->outage = NULL;
	k->num_clients = 0;
}

static int outages_make(struct bench *b, struct kv_error *err)
{
	struct keep_going_result *k = &b->results.keep_going;
	struct timespec now;
	int rc = 0;
	k->outage = calloc(b->num_clients, sizeof(*k->outage));
	for (; k->outage && rc == 0 && k->num_clients < b->num_clients; k->num_clients++)
		rc = bench_outages_init(&k->outage[k->num_clients], b->opt->load.num_keys);
	if (!k->outage || rc < 0)
		return kv_fail(err, -KV_ENOMEM,
			       "no memory to watch %llu keys from %u client%s: use a smaller --num-keys",
			       (unsigned long long)b->opt->load.num_keys, b->num_clients, kv_plural(b->num_clients));
	clock_gettime(CLOCK_REALTIME, &now);
	k->realtime_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)phase_now();
	return 0;
}

static void outages_collect(struct bench *b)
{
	struct keep_going_result *k = &b->results.keep_going;
	for (unsigned i = 0; i < k->num_clients; i++) {
		k->calls += k->outage[i].calls;
		k->overdue += k->outage[i].overdue;
		k->outages += k->outage[i].count + k->outage[i].open;
		k->longest_ns = KV_MAX(k->longest_ns, k->outage[i].longest_ns);
	}
	k->stored_again = b->results.read.tally.stored_again;
	k->ran = true;
}

static int breakdown_make(struct bench *b, struct kv_error *err)
{
	b->results.breakdown = calloc(b->num_clients, sizeof(*b->results.breakdown));
	if (!b->results.breakdown)
		return kv_fail(err, -KV_ENOMEM, "no memory for the breakdown of %u client%s", b->num_clients,
			       kv_plural(b->num_clients));
	for (unsigned i = 0; i < b->num_clients; i++)
		bench_breakdown_init(&b->results.breakdown[i]);
	return 0;
}

static int run_read(struct bench *b, struct kv_error *err)
{
	const struct bench_options *o = b->opt;
	int rc = o->load.keep_going ? outages_make(b, err) : 0;
	if (rc == 0 && o->out.breakdown)
		rc = breakdown_make(b, err);
	if (rc == 0)
		rc = bench_events_start(&b->results.events, err);
	if (rc == 0)
		rc = reads_run(b, err);
	bench_events_stop(&b->results.events);
	for (unsigned i = 1; rc == 0 && o->out.breakdown && i < b->num_clients; i++)
		bench_breakdown_merge(b->results.breakdown, &b->results.breakdown[i]);
	if (rc == 0 && o->load.keep_going)
		outages_collect(b);
	if (rc == 0)
		report_phase(b, "3/4", "read", &b->results.read);
	return rc;
}

/* All memory of operations besides the clients' buffers, with its pages made before the clock starts. */
static int memory_open(struct bench *b, struct kv_error *err)
{
	const struct bench_options *o = b->opt;
	int rc = !o->load.no_write || o->load.keep_going ? values_open(b, err) : 0;
	if (rc == 0 && (o->load.batch || o->load.async))
		rc = batches_open(b, err);
	if (rc == 0 && !o->load.batch && !o->load.async && !o->replay.trace)
		rc = buffers_touch(b, err);
	return rc;
}

static int memory_close(struct bench *b, int rc, struct kv_error *err)
{
	if (batches_close(b, rc < 0 ? NULL : err) < 0 && rc == 0)
		rc = -KV_EINTERNAL;
	if (values_close(b, rc < 0 ? NULL : err) < 0 && rc == 0)
		rc = -KV_EINTERNAL;
	return rc;
}

static int run_phases(struct bench *b, struct kv_error *err)
{
	struct bench_results *r = &b->results;
	int rc = b->opt->load.no_write ? 0 : run_write(b, err);
	if (rc == 0 && (b->opt->pace.warmup || b->opt->pace.warmup_steady > 0) && good_so_far(b, &r->write))
		rc = b->opt->pace.warmup_steady > 0 ? run_steady(b, err) : run_warmup(b, err);
	if (rc == 0 && good_so_far(b, &r->write) && !r->warmup.too_many_errors)
		rc = run_read(b, err);
	if (rc == 0 && b->opt->model.name && r->read.ran && good_so_far(b, &r->read))
		rc = prefix_run(b, err);
	if (rc == 0 && b->opt->load.mixed && r->read.ran && good_so_far(b, &r->read))
		rc = mixed_run(b, err);
	if (rc == 0 && r->read.ran && good_so_far(b, &r->read))
		rc = roofline_run(b->roofline, r->read.tally.hits, err);
	return rc;
}

/* ---- the whole ---- */

static int interrupted_status(void)
{
	fprintf(stderr, "kv-bench: interrupted by signal %d before the first operation; there is nothing to report\n",
		bench_interrupted());
	return 128 + bench_interrupted();
}

static void take_rail(struct bench_rail *to, const struct kvc_rail_info *r)
{
	if (!to->device[0])
		memcpy(to->device, r->device, sizeof(to->device));
	to->mixed |= strcmp(to->device, r->device) != 0;
	to->sends += r->sends;
	to->receives += r->receives;
	to->immediates += r->immediates;
	to->errors += r->failed + r->peer_failures;
	to->failures += r->failures;
	to->out += r->out;
}

/* The server's group "tier". Without an answer there are none. */
static void take_tier(struct bench *b)
{
	struct bench_results *to = &b->results;
	struct kvc_stat_item *item = b->opt->server.tier.count ? calloc(STATS_MAX, sizeof(*item)) : NULL;
	const struct kvc_call call = {.size = sizeof(call)};
	int n = item ? kvc_stat(b->pool, item, STATS_MAX, &call) : 0;
	for (int i = 0; i < n && to->library.num_tier < BENCH_TIER_STATS_MAX; i++)
		if (strcmp(item[i].group, "tier") == 0)
			to->library.tier[to->library.num_tier++] = item[i];
	free(item);
}

/* kvc_rail_info also brings the counters of the engines up to date. */
static void take_counters(struct bench *b)
{
	struct bench_results *to = &b->results;
	to->library.num_rails = KV_MIN(to->library.info.rails, (unsigned)BENCH_RAILS_MAX);
	memset(to->library.rail, 0, sizeof(to->library.rail));
	for (unsigned i = 0; i < b->num_clients; i++)
		for (unsigned k = 0; k < to->library.num_rails; k++) {
			struct kvc_rail_info r = {.size = sizeof(r)};
			if (kvc_rail_info(b->pool, i, k, &r) == 0)
				take_rail(&to->library.rail[k], &r);
		}
	b->results.library.counters.size = sizeof(b->results.library.counters);
	kvc_counters(b->pool, &b->results.library.counters);
	/* With push the server moves the bytes and chooses the NIC. If we have only one, all bytes went over it; of
	 * several we do not know. */
	for (unsigned k = 0; k < to->library.num_rails; k++)
		to->library.rail[k].bytes = to->library.num_rails == 1
						    ? to->library.counters.bytes_in + to->library.counters.bytes_out
						    : UINT64_MAX;
}

/* A ring for each loop that counts operations: those of clients, or the threads of --async that submit. */
static int raw_open(struct bench *b, const struct outputs *files, struct kv_error *err)
{
	unsigned loops = b->opt->load.async ? KV_MAX(b->opt->load.submitters, 1u) : b->num_clients;
	return bench_raw_open(outputs_raw(files), loops, b->opt->load.seed, b->opt->load.value_size, &b->raw, err);
}

static int measure(struct bench *b, struct outputs **files)
{
	struct kv_error err = {0};
	int rc;
	b->results.events.events = &b->opt->server.events;
	b->results.events.server = b->server;
	report_start(b);
	rc = memory_open(b, &err);
	if (rc == 0 && b->opt->out.raw)
		rc = raw_open(b, *files, &err);
	bench_lives_begin(b->pool, &b->results.lives);
	bench_conditions_begin(&b->results.conditions, server_child_cpu_seconds(b->server));
	if (rc == 0)
		rc = b->opt->replay.trace ? replay_run(b, &err) : run_phases(b, &err);
	bench_conditions_end(&b->results.conditions, server_child_cpu_seconds(b->server));
	bench_raw_close(&b->raw, &b->results.raw);
	rc = memory_close(b, rc, &err);
	if (rc < 0) {
		say(&err);
		return BENCH_FAILED;
	}
	if (bench_interrupted() && !b->results.keep_going.ran)
		b->results.interrupted = bench_interrupted();
	b->results.memory.rss_peak = kv_memory_rss_peak();
	b->results.memory.server_rss_peak = server_child_memory_peak(b->server);
	bench_lives_end(b->pool, &b->results.lives);
	take_counters(b);
	take_tier(b);
	report_latency(b);
	report_summary(b);
	rc = report_verdict(b, stderr) ? BENCH_FAILED : BENCH_OK;
	if (outputs_write(*files, b) < 0)
		rc = BENCH_FAILED;
	return b->results.interrupted ? 128 + b->results.interrupted : rc;
}

static int run_with_server(struct bench *b, struct outputs **files)
{
	struct kv_error err = {0};
	int status;
	if (open_pool(b, &err) < 0) {
		say(&err);
		status = bench_interrupted() ? interrupted_status() : BENCH_NO_START;
	} else {
		status = measure(b, files);
	}
	bench_pool_close(&b->pool);
	outages_free(&b->results.keep_going);
	free(b->results.breakdown);
	free(b->results.replay.part);
	bench_series_free(&b->results.write.series);
	bench_series_free(&b->results.read.series);
	bench_series_free(&b->results.mix_put.series);
	bench_series_free(&b->results.mix_exists.series);
	bench_series_free(&b->results.mixed.read.series);
	bench_series_free(&b->results.mixed.write.series);
	return status;
}

static int finish(struct bench *b, int status)
{
	struct kv_error err = {0};
	if (server_child_stop(&b->server, &err) < 0 && !bench_interrupted()) {
		say(&err);
		status = status == BENCH_OK ? BENCH_FAILED : status;
	}
	if (!kv_written(b->last)) {
		fprintf(stderr, "kv-bench: the report could not be written to standard output\n");
		status = status == BENCH_OK ? BENCH_FAILED : status;
	}
	return status;
}

/* The clients' buffers, and the values of our own server: both fill sooner or later. */
static int memory_fits(const struct bench *b, struct kv_error *err)
{
	const struct bench_options *o = b->opt;
	uint64_t buffers = (uint64_t)o->load.num_clients * (o->client.buffer_mb << 20);
	uint64_t servers = o->target.servers.count ? 0 : (uint64_t)servers_at_start(o) * (b->results.memory.mb << 20);
	char what[96], each[32], all[32];
	snprintf(what, sizeof(what), "the buffers of %u client%s (%s)%s%s", o->load.num_clients,
		 kv_plural(o->load.num_clients), kv_size_format(o->client.buffer_mb << 20, each, sizeof(each)),
		 servers ? " and values of " : "", servers ? kv_size_format(servers, all, sizeof(all)) : "");
	return kv_footprint_others("", buffers + servers, what,
				   servers ? "use a smaller --buffer-mb, fewer --num-clients, or a smaller --memory-mb"
					   : "use a smaller --buffer-mb or fewer --num-clients",
				   err);
}

static int prepare(struct bench *b, struct bench_options *own, struct outputs **files, struct kv_error *err)
{
	if (outputs_open(b->opt, files, err) < 0)
		return BENCH_NO_START;
	if (scan_trace(b, err) < 0 || load_arrivals(b, own, err) < 0 || plan_memory(b, err) < 0 ||
	    memory_fits(b, err) < 0 || start_server(b, err) < 0 || roofline_open(b, &b->roofline, err) < 0)
		return BENCH_NO_START;
	return BENCH_OK;
}

int bench_run(const struct bench_options *options)
{
	static struct bench b; /* results hold histograms: too large for a stack that others might shrink */
	struct bench_options own = *options;
	struct outputs *files = NULL;
	struct kv_error err = {0};
	int status;
	memset(&b, 0, sizeof(b));
	b.opt = &own;
	bench_draw_init(&b.draw, &options->load.pattern, options->load.num_keys, options->load.seed);
	bench_names_init(&b.names, options);
	b.last = options->out.json && strcmp(options->out.json, "-") == 0 ? stderr : stdout;
	b.out = options->out.quiet ? NULL : b.last;
	bench_tally_init(&b.results.write.tally);
	bench_tally_init(&b.results.warmup.tally);
	bench_tally_init(&b.results.read.tally);
	bench_tally_init(&b.results.mix_put.tally);
	bench_tally_init(&b.results.mix_exists.tally);
	b.results.started_s = (int64_t)time(NULL);
	bench_signals_install();
	status = prepare(&b, &own, &files, &err);
	if (status == BENCH_OK)
		status = run_with_server(&b, &files);
	else if (bench_interrupted())
		status = interrupted_status();
	else
		say(&err);
	outputs_discard(&files);
	bench_recorded_free(&b.recorded);
	roofline_close(&b.roofline);
	return finish(&b, status);
}
