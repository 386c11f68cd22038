/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-bench.
 *
 * A row gives the parse, --help, --config and the name in the JSON report's `config` object. No option is accepted and
 * then ignored: one that has no effect together with another is a usage error (check_...). */
#include "kvbench/setup/options.h"

#include "kvbench/measure/runs.h"
#include "kvclient/kvclient.h"
#include "store/store.h"

#define AT(member) .offset = offsetof(struct bench_options, member)

static const char *const order_names[] = {"strict", "relaxed", NULL};

const char *const bench_copies_names[] = {"1", "2", "hot", NULL};

const struct kv_opt bench_options_table[] = {
	KV_OPT_SERVER_ROW(.group = "Where to", .type = KV_OPT_STRINGS, AT(target.servers),
			  .help = "A kv-server to use, [NAME=]HOST:PORT; repeatable. Keys are spread over all servers "
				  "by their names. Without --server, kv-bench starts a server of its own on loopback."),
	KV_OPT_TARGET_ROWS(struct bench_options),

	KV_OPT_WORKERS_ROW(AT(load.num_workers), .group = "Load"),
	KV_OPT_CLIENTS_ROW(AT(load.num_clients)),
	KV_OPT_THREADS_ROW(AT(load.num_threads)),
	KV_ROW_U64("num-keys", AT(load.num_keys), "N", "1000", 1, (uint64_t)1 << 40,
		   "Keys that are written, then read.", .letter = 'k'),
	KV_ROW_SIZE("value-size", AT(load.value_size), "64KB", 1, KV_VALUE_MAX,
		    "Size of a value, and of a block of a trace. For several sizes use --value-sizes.", .letter = 'v'),
	KV_ROW_TEXT("value-sizes", AT(load.value_sizes), "LIST", NULL, "SIZE:WEIGHT,... or lognormal:MEDIAN:SIGMA."),
	KV_ROW_TEXT("keys-pattern", AT(load.keys_pattern), "PATTERN", NULL,
		    "Which keys are read: shuffled (the default: each once per round, in a new order), sequential, "
		    "uniform, zipf:THETA, or hot:FRACTION:SHARE (FRACTION of the keys get SHARE of the reads)."),
	KV_ROW_U32("repeat-reads", AT(pace.repeat_reads), "N", "10", 1, 1000000000, "How many times each key is read.",
		   .letter = 'r'),
	KV_ROW_DURATION(
		"duration", AT(pace.duration_ns), "0", 0, 0,
		"Read for this long instead of --repeat-reads; with --trace, start no request later. 0: no limit.",
		.letter = 'd'),
	KV_ROW_DOUBLE("rate", AT(pace.rate), "R", "0", 0, 0,
		      "Open loop: R reads per second of all workers together; "
		      "latency counts from the scheduled start. 0: closed loop."),
	KV_ROW_TEXT("arrivals", AT(pace.arrivals_text), "KIND", "uniform",
		    "Schedule of reads with --rate and --slo: uniform (evenly spaced), poisson (exponential gaps from "
		    "the seed), or trace:FILE (the gaps between the requests of FILE, over and over; without --rate as "
		    "fast as they came). FILE is CSV of Azure or BurstGPT, or a trace as for --trace."),
	KV_ROW_DURATION("ramp", AT(pace.ramp_ns), "0", 0, 3600000000000ull,
			"With --rate: increase the rate evenly from 0 to R in this time. The time series (--interval, "
			"--csv) shows at which rate latency grows."),
	KV_ROW_TEXT("mix", AT(load.mix_text), "G:P:E", NULL,
		    "The read phase consists of GETs, PUTs of new keys (deleted again) and EXISTS in these parts, such "
		    "as 90:10:0. With --batch each is a batch."),
	KV_ROW_U32("repeat-runs", AT(pace.repeat_runs), "N", "1", 1, BENCH_RUNS_MAX,
		   "Number of read phases; report median and range."),
	KV_ROW_TEXT("slo", AT(pace.slo), "PQ=TIME", NULL,
		    "Find the highest rate at which reads keep a percentile, "
		    "such as p99=2ms, in trials of --duration (2 s)."),
	KV_ROW_U64("warmup", AT(pace.warmup), "N", "100", 0, (uint64_t)1 << 40,
		   "GETs before the measured ones, at most 1 GiB and 5 s; no figure includes them."),
	KV_ROW_DOUBLE(
		"warmup-steady", AT(pace.warmup_steady), "PERCENT", "0", 0, 0,
		"Warm up instead until the rates of 4 successive windows of 250 ms are this close, at most 30 s."),
	KV_ROW_U32("batch", AT(load.batch), "N", "0", 0, BENCH_BATCH_MAX,
		   "Write N keys with one batch PUT, read N with one batch GET into registered memory of the worker; "
		   "latency is that of a batch. 0: single calls; GETs borrow from the client's buffer."),
	KV_ROW_U32("slices", AT(load.slices), "N", "0", 0, BENCH_SLICES_MAX,
		   "Store values in N slices with gaps of their length, as a block in N layers: GET scatters, PUT "
		   "gathers. Implies --batch 1 without --batch or --async. 0: one piece."),
	KV_ROW_FLAG("async", AT(load.async),
		    "Write and read through a queue of the library: --num-workers ids in flight, into registered "
		    "memory, without coroutines."),
	KV_ROW_U32("submitters", AT(load.submitters), "N", "2", 0, BENCH_SUBMITTERS_MAX,
		   "Threads that submit with --async, besides the one that reaps. 0: that one also submits."),
	KV_ROW_FLAG("no-threads", AT(load.no_threads),
		    "With --async --submitters 0: the library has no thread; the submitting thread turns its loop."),
	KV_ROW_U32("ttl", AT(load.ttl), "TIME", "300", 0, 0, "Time to live of written values; 0: the server's default.",
		   .unit = KV_OPT_SECONDS),
	{.name = "seed",
	 .type = KV_OPT_U64,
	 AT(load.seed),
	 .metavar = "N",
	 .def = "1",
	 .max = INT64_MAX, /* JSON has no more */
	 .help = "Seed of keys, values and read order."},
	KV_ROW_FLAG("verify", AT(load.verify), "Compare every byte read with the expected value."),
	KV_ROW_FLAG("keep-going", AT(load.keep_going),
		    "Continue while servers are broken (needs --server): read on after errors, store missing values "
		    "again, and report errors by code, overdue calls, and outages. SIGINT or SIGTERM ends the reads, "
		    "and the run counts as a success."),
	KV_ROW_FLAG("no-write", AT(load.no_write),
		    "Write nothing: the keys are on the servers from an "
		    "earlier run with the same --seed and --value-size."),
	KV_ROW_FLAG("no-checksum", AT(load.no_checksum), "Do not verify the checksums of GETs in the client."),
	KV_ROW_FLAG("breakdown", AT(out.breakdown),
		    "Report where the time of the measured GETs was spent, by phase (docs/reference/counters.md). "
		    "Costs a few clock readings per GET."),
	KV_ROW_FLAG("mixed", AT(load.mixed), "After the reads, PUT and GET at the same time, one to one."),
	KV_ROW_FLAG("background-puts", AT(load.background_puts),
		    "PUTs of --mixed and --mix give way to the GETs of their client (KVC_BACKGROUND)."),
	KV_ROW_FLAG("roofline", AT(roofline.run),
		    "After the reads, compare GET and PUT with bare fabric "
		    "writes on this machine. With --server use --roofline-file."),
	KV_ROW_U32("roofline-depth", AT(roofline.depth), "N", "1", 1, BENCH_DEPTH_MAX,
		   "With --roofline: bare writes in flight per worker of the run; a GET keeps 1."),
	KV_ROW_TEXT("roofline-file", AT(roofline.file), "FILE", NULL,
		    "Compare the writes and reads with the writes of this "
		    "size in FILE, a report of kv-bench fabric --json."),

	KV_ROW_TEXT("trace", AT(replay.trace), "FILE", NULL,
		    "Replay a trace instead of the write and read phases: JSON lines of Mooncake or of Alibaba's "
		    "Bailian, plain or gzip, with hash_ids and, for --trace-speed, timestamp or delay.",
		    .group = "Trace replay"),
	KV_ROW_DOUBLE("trace-speed", AT(replay.speed), "X", "0", 0, 0,
		      "Start requests at X times real time. 0: as fast as possible."),
	KV_ROW_CHOICE("trace-order", AT(replay.order), "ORDER", "strict", order_names,
		      "Order of lookups (strict: each waits for earlier requests "
		      "with a common block; relaxed: none waits, and hits vary)"),

	KV_ROW_TEXT("model", AT(model.name), "NAME", NULL,
		    "A value is a block of this model's KV cache on one rank, and the report counts tokens: a name "
		    "from kv-bench models, or the path of a config.json. Sets --value-size.",
		    .group = "A model's KV cache"),
	MODEL_TP_ROW(AT(model.layout.tp)),
	MODEL_DTYPE_ROW(AT(model.layout.dtype)),
	MODEL_BLOCK_ROW(AT(model.layout.block_tokens)),
	KV_ROW_U64("prefix-tokens", AT(model.prefix_tokens), "N", "8192", 1, (uint64_t)1 << 40,
		   "Length of the prefix whose loading time is reported with --model."),
	KV_ROW_DOUBLE("prefill-rate", AT(model.prefill_rate), "R", "0", 0, 0,
		      "Tokens per second computed by the engine: with --model, the report says how much time loading "
		      "saves, and from which length on. 0: unknown."),

	KV_OPT_BUFFER_ROW(AT(client.buffer_mb), .def = "64", .group = "Resources"),
	KV_ROW_U64("memory-mb", AT(server.memory_mb), "SIZE", "0", 0, (uint64_t)1 << 30,
		   "Memory of the server that kv-bench starts, in MiB. 0: enough for the load.", .unit = KV_OPT_MIB),
	KV_ROW_U32("servers", AT(server.num_servers), "N", "1", 1, BENCH_SERVERS_MAX,
		   "Servers that kv-bench starts. With several, each has "
		   "memory for twice its share, so that others can take over."),
	KV_ROW_TEXTS("event", AT(server.event_text), "EVENT", NULL,
		     "'kill 2 at 30m': an action on a server that kv-bench started (kill, stop, cont, start), and its "
		     "time: in the trace, or since the first read. A server whose first event is start joins then; a "
		     "killed one starts again empty. Repeatable. Misses are no failure then."),
	EVICT_OPTION_ROW(AT(server.eviction),
			 .help = "Which values the server that kv-bench starts evicts first when memory is short"),
	KV_ROW_TEXTS("tier", AT(server.tier), "PATH[:SIZE],...", NULL,
		     "An NVMe tier of the server that kv-bench starts, as kv-server --tier has it; repeatable. Needs "
		     "--memory-mb, since values reach the tier when the memory is full."),
	KV_OPT_SERVER_THREADS_ROW(
		AT(server.server_threads), .def = "0",
		.help = "Worker threads of the server that kv-bench starts. 0: half of the cores, 1 to 4."),
	KV_ROW_DURATION("timeout", AT(client.timeout_ns), "0", 0, 3600000000000ull,
			"Deadline of one operation. 0: 5 s, and 1 s more per 100 MB. "
			"Connecting may take as long, and at least 15 s."),
	KV_OPT_PEER_TIMEOUT_ROW(AT(client.peer_timeout_ns)),
	KV_ROW_DURATION(
		"settle", AT(client.settle_ns), "10min", 0, 86400000000000ull,
		"For this long after a membership change, a miss is retried at the key's previous server. 0: never."),
	KV_ROW_U64("repair-mb", AT(client.repair_mb), "SIZE", "256", 0, 1 << 20,
		   "MiB per second, all clients together, of values found there that are copied to their present "
		   "server, and of hot values copied to a second server (--copies hot). 0: none.",
		   .unit = KV_OPT_MIB),

	KV_ROW_CHOICE("copies", AT(client.copies), "N", "1", bench_copies_names,
		      "Servers that keep each value (2: as far as they keep up; hot: two for values that servers "
		      "report as hot, one for others)"),

	KV_OPT_SECURITY_ROWS(struct bench_options),
	KV_OPT_SEAL_ROWS(struct bench_options),

	KV_OPT_JSON_ROW(AT(out.json), .group = "Output"),
	KV_ROW_TEXT("report", AT(out.report), "FILE", NULL,
		    "Write a page with charts, all in one HTML file that loads nothing."),
	KV_ROW_TEXT("hdr", AT(out.hdr), "FILE", NULL,
		    "Write the latencies of reads as HdrHistogram's percentiles (.hgrm, in ms)."),
	KV_ROW_TEXT("csv", AT(out.csv), "FILE", NULL, "Write the time series of all phases, a line per window."),
	KV_ROW_TEXT("raw", AT(out.raw), "FILE", NULL,
		    "Write every operation: kind, key, scheduled time, start, end, bytes and code, in records of 64 "
		    "bytes (docs/guide/benchmarking.md)."),
	KV_ROW_DURATION("interval", AT(out.interval_ns), "1", 10000000, 3600000000000ull,
			"Length of the windows of the time series."),
	KV_ROW_FLAG("progress", AT(out.progress),
		    "Show rate and percentiles each second even if the output is no terminal."),
	KV_ROW_FLAG("quiet", AT(out.quiet), "Print only one line at the end.", .letter = 'q'),
	KV_OPT_SLOW_ROW(AT(client.slow_ms),
			.help = "Log where the time of operations of this many milliseconds or more was "
				"spent, at most ten lines per second and client; 0: never."),
	KV_OPT_LOG_LEVEL_ROW(AT(out.log_level), .def = "warn",
			     .help = "Log level of the library, on standard error; debug also shows the log of the "
				     "server that kv-bench starts"),
	KV_OPT_CONFIG_ROW(AT(out.config)),
	{.name = NULL},
};

const struct kv_opt_program bench_options_program = {
	.name = "kv-bench",
	.about = "Measures KVRail: workers share a few clients, write keys, read them back, and report throughput and "
		 "latency. `kv-bench plot` draws a result, `kv-bench compare` compares several, `kv-bench sweep` "
		 "varies workers, sizes and clients, `kv-bench versus` compares with redis and memcached, `kv-bench "
		 "fabric` measures bare libfabric, `kv-bench hits` computes a trace's hit ratios, `kv-bench models` "
		 "lists KV caches, `kv-bench capacity` and `kv-bench scale` count clients.",
	.epilogue = "Exit status: 0 all well; 1 an error, a miss or a wrong byte in a run that should have none; 2 "
		    "usage; 3 the run could not start; 128 + signal when a signal interrupted it (the report is of "
		    "what was done until then).",
};

bool bench_name_among(const char *names, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = strstr(names, name); at; at = strstr(at + 1, name))
		if (at > names && at[-1] == ' ' && at[len] == ' ')
			return true;
	return false;
}

unsigned bench_options_pick(const char *names, bool among, struct kv_opt *out, unsigned cap)
{
	const char *group = NULL;
	unsigned n = 0;
	for (const struct kv_opt *row = bench_options_table; row->name && n < cap - 1; row++) {
		group = row->group ? row->group : group;
		if (bench_name_among(names, row->name) != among)
			continue;
		out[n] = *row;
		out[n++].group = group;
		group = NULL;
	}
	out[n] = (struct kv_opt){.name = NULL};
	return n;
}

uint64_t bench_piece_bytes(uint64_t value_size)
{
	uint64_t piece = 4096;
	while (piece < value_size)
		piece *= 2;
	return piece;
}

struct rule {
	bool broken;
	const char *why;
};

static int rules_check(const struct rule *rule, unsigned count, struct kv_error *err)
{
	for (unsigned i = 0; i < count; i++)
		if (rule[i].broken)
			return kv_fail(err, -KV_EINVAL, "%s", rule[i].why);
	return 0;
}

/* The servers, and the mode. */
static int check_servers(const struct bench_options *o, struct kv_error *err)
{
	bool ours = o->target.servers.count == 0, run = o->roofline.run;
	const struct rule rules[] = {
		{!ours && o->server.memory_mb > 0,
		 "--memory-mb sizes the server that kv-bench starts itself: drop it, or drop --server"},
		{!ours && o->server.server_threads > 0,
		 "--server-threads concerns the server that kv-bench starts itself: drop it, or drop --server"},
		{!ours && o->server.eviction != 0,
		 "--eviction concerns the server that kv-bench starts itself: drop it, or drop --server"},
		{!ours && o->server.tier.count,
		 "--tier concerns the server that kv-bench starts itself: drop it, or drop --server"},
		{o->server.tier.count && o->server.num_servers > 1,
		 "--tier is for one server, since servers share no tier: drop it, or drop --servers"},
		{o->server.tier.count && o->server.memory_mb == 0,
		 "--tier needs --memory-mb N: by default the server has memory for all values, and none reaches the "
		 "tier"},
		{!ours && (o->server.num_servers > 1 || o->server.event_text.count > 0),
		 "--servers and --event concern servers that kv-bench starts itself: drop them, or drop --server"},
		{o->client.copies == BENCH_COPIES_HOT && o->client.repair_mb == 0,
		 "--copies hot copies at the rate of --repair-mb, and 0 is none: drop one of them"},
		{o->server.event_text.count > 0 && run, "--roofline needs servers that stay: drop it, or drop --event"},
		{run && o->server.num_servers > 1, "--roofline measures one server: drop it, or drop --servers"},
		{run && o->roofline.file, "--roofline measures the fabric of this machine, --roofline-file has a "
					  "figure: drop one of them"},
		{run && !ours, "--roofline measures the fabric of this machine: for --server use --roofline-file, with "
			       "the report of kv-bench fabric --connect"},
		{run && o->target.mode == KVC_MODE_PULL,
		 "--roofline measures bare writes, which --mode pull does without: drop one of them"},
		{o->roofline.depth > 1 && !run, "--roofline-depth needs --roofline"},
		{ours && kv_opt_security_given(&o->security),
		 "--psk-file, --cert, --key, --ca, --crl and --server-name need --server: the server that kv-bench "
		 "starts has a key of its own"},
		{ours && o->target.cluster, "--cluster needs --server: the server that kv-bench starts is of none"},
		{ours && o->load.keep_going, "--keep-going needs --server: without it the run is over when the server "
					     "that kv-bench started dies"},
		{o->target.local_socket && o->target.local == KVC_LOCAL_OFF,
		 "--local-socket leads to memory that --local off does not map: drop one of them"},
		{o->load.no_write && (o->replay.trace || ours),
		 "--no-write needs --server, and no --trace: a server that kv-bench starts is empty"},
	};
	if (o->client.copies != BENCH_COPIES_ONE && ours && o->server.num_servers == 1)
		return kv_fail(err, -KV_EINVAL,
			       "--copies %s needs a second server to keep the copies at: add --servers 2, or more",
			       bench_copies_names[o->client.copies]);
	return rules_check(rules, KV_COUNT(rules), err);
}

/* A trace replaces the phases. */
static int check_trace(const struct bench_options *o, struct kv_error *err)
{
	bool trace = o->replay.trace != NULL;
	const struct rule rules[] = {
		{!trace && o->replay.speed != 0, "--trace-speed needs --trace FILE"},
		{!trace && o->replay.order != BENCH_ORDER_STRICT, "--trace-order needs --trace FILE"},
		{trace && o->pace.rate != 0,
		 "--rate cannot be combined with --trace, which has its own times: use --trace-speed"},
		{trace && o->pace.arrivals == BENCH_RECORDED,
		 "--arrivals trace:FILE times reads, and --trace has its own times: drop one of them"},
		{trace && (o->load.num_keys != 1000 || o->pace.repeat_reads != 10 || o->pace.warmup != BENCH_WARMUP),
		 "--trace has its own requests: drop --num-keys, --repeat-reads and --warmup"},
		{trace && (o->roofline.run || o->roofline.file),
		 "--roofline compares with the read phase, which --trace replaces: run them one after the other"},
		{trace && (o->load.keys_pattern || o->load.value_sizes),
		 "--trace has its own keys, and blocks of one size: drop --keys-pattern and --value-sizes"},
		{o->pace.warmup_steady > 0 && trace,
		 "--warmup-steady warms reads up, which --trace has none of: drop it"},
	};
	if (!(o->replay.speed >= 0 && o->replay.speed <= 1e9))
		return kv_fail(err, -KV_EINVAL, "--trace-speed %g is not a factor between 0 and 1e9", o->replay.speed);
	return rules_check(rules, KV_COUNT(rules), err);
}

static int check_kinds(const struct bench_options *o, struct kv_error *err)
{
	const struct bench_load *l = &o->load;
	bool trace = o->replay.trace != NULL, run = o->roofline.run,
	     rate = o->pace.rate != 0 || o->pace.arrivals == BENCH_RECORDED;
	const struct rule rules[] = {
		{(run || o->roofline.file) && l->value_sizes,
		 "--roofline measures values of one size: use --value-size"},
		{l->keep_going && (trace || run),
		 "--keep-going concerns the read phase alone: drop --trace and --roofline"},
		{l->keep_going && o->pace.duration_ns == 0, "--keep-going needs --duration, the time to read"},
		{l->slices && (trace || run || l->keep_going || rate || o->out.breakdown || o->pace.slo),
		 "--slices changes plain writes and reads: drop --trace, --roofline, --keep-going, --rate, --breakdown "
		 "and --slo"},
		{l->batch > 0 && (trace || run || l->keep_going),
		 "--batch changes plain writes and reads: drop --trace, --roofline and --keep-going"},
		{l->batch > 0 && rate, "--rate and --arrivals count single reads: drop them, or drop --batch"},
		{l->no_write && !l->keep_going && l->ttl != BENCH_TTL,
		 "--ttl is of written values, and --no-write writes none: drop it"},
		{l->no_checksum && o->seal.key_file,
		 "--no-checksum has no effect on sealed values, whose tags are always checked: drop it"},
		{l->mixed && (trace || l->no_write || l->keep_going),
		 "--mixed compares with the write and read phases: drop --trace, --no-write and --keep-going"},
		{l->background_puts && !l->mixed && !l->mix.put,
		 "--background-puts is about the PUTs of --mixed and --mix: add one"},
		{o->out.breakdown && (trace || l->batch > 0),
		 "--breakdown is of single GETs: drop --trace and --batch"},
		{!l->async && l->submitters != BENCH_SUBMITTERS,
		 "--submitters is about the threads of --async: add that"},
		{l->no_threads && (!l->async || l->submitters != 0),
		 "--no-threads is for one thread that does all: add --async --submitters 0"},
		{l->no_threads && l->num_threads > 1, "--no-threads has one loop and no thread: drop --num-threads"},
		{l->async && (trace || l->mixed || run || l->keep_going),
		 "--async changes plain writes and reads: drop --trace, --mixed, --roofline and --keep-going"},
		{l->async && rate,
		 "--rate and --arrivals pace workers, of which --async has none: drop them, or drop it"},
		{l->async && o->out.breakdown, "--breakdown is of the GETs of workers: drop it, or drop --async"},
		{l->mix.total && (trace || l->async || l->mixed || run || l->no_write),
		 "--mix is of workers, in the read phase: drop --trace, --async, --mixed, --roofline and --no-write"},
		{o->pace.repeat_runs > 1 && (trace || l->keep_going),
		 "--repeat-runs repeats the read phase: drop --trace and --keep-going"},
	};
	if (l->async && l->submitters > l->num_workers)
		return kv_fail(err, -KV_EINVAL,
			       "%u submitters have fewer ids in flight than one each: use --num-workers %u or more, or "
			       "a smaller --submitters",
			       l->submitters, l->submitters);
	return rules_check(rules, KV_COUNT(rules), err);
}

static int check_pace(const struct bench_options *o, struct kv_error *err)
{
	const struct bench_pace *p = &o->pace;
	bool slo = p->aim.quantile > 0;
	const struct rule rules[] = {
		{p->arrivals == BENCH_POISSON && p->rate == 0 && !slo,
		 "--arrivals poisson is of the open loop: add --rate R, or --slo"},
		{p->ramp_ns && p->rate == 0 && p->arrivals != BENCH_RECORDED,
		 "--ramp is how --rate begins: add --rate R"},
		{slo && p->rate != 0, "--slo looks for the rate: drop --rate"},
		{slo && p->repeat_runs > 1, "--slo makes many trials: drop --repeat-runs, which repeats one load"},
		{slo && (o->replay.trace || o->load.batch || o->load.async || o->load.keep_going || o->load.mixed ||
			 o->roofline.run || o->out.breakdown),
		 "--slo searches with single operations of workers alone: drop --trace, --batch, --async, "
		 "--keep-going, --mixed, --roofline and --breakdown"},
		{p->warmup_steady > 0 && p->warmup != BENCH_WARMUP,
		 "--warmup and --warmup-steady both define the end of the warm-up: drop one of them"},
	};
	if (!(p->rate >= 0 && p->rate <= 1e9))
		return kv_fail(err, -KV_EINVAL, "--rate %g is not a number of operations per second between 0 and 1e9",
			       p->rate);
	if (!(p->warmup_steady >= 0 && p->warmup_steady <= 100))
		return kv_fail(err, -KV_EINVAL, "--warmup-steady %g is not a percentage between 0 and 100",
			       p->warmup_steady);
	return rules_check(rules, KV_COUNT(rules), err);
}

static int check_sizes(const struct bench_options *o, struct kv_error *err)
{
	char value[32], buffer[32];
	kv_size_format(o->load.value_size, value, sizeof(value));
	if (o->roofline.run && o->load.value_size > KV_RANGE_MAX)
		return kv_fail(err, -KV_EINVAL, "--roofline measures values of up to %s, not %s",
			       kv_size_format(KV_RANGE_MAX, buffer, sizeof(buffer)), value);
	/* A borrowed value may take half of a client's buffer (kvclient.h), whose pieces are powers of two. */
	if (2 * bench_piece_bytes(o->load.value_size) > o->client.buffer_mb << 20)
		return kv_fail(
			err, -KV_EINVAL,
			"a value of %s does not fit half of a client's buffer of %s: use --buffer-mb %llu or more",
			value, kv_size_format(o->client.buffer_mb << 20, buffer, sizeof(buffer)),
			(unsigned long long)(2 * bench_piece_bytes(o->load.value_size) + (1 << 20) - 1) >> 20);
	/* The words of a value are compared, and no slice cuts one. */
	for (unsigned i = 0; o->load.slices && i < KV_MAX(o->load.sizes.count, 1u); i++) {
		uint64_t size = o->load.sizes.count ? o->load.sizes.row[i].size : o->load.value_size;
		if (size % (8ull * o->load.slices))
			return kv_fail(err, -KV_EINVAL,
				       "a value of %s has no %u slices of whole words: use sizes that are multiples of "
				       "%u bytes",
				       kv_size_format(size, buffer, sizeof(buffer)), o->load.slices,
				       8 * o->load.slices);
	}
	return 0;
}

enum { VALUE_SIZE = 65536, PREFIX_TOKENS = 8192, BLOCK_TOKENS = 16 }; /* the defaults */

static int check_model(const struct bench_options *o, struct kv_error *err)
{
	if (!(o->model.prefill_rate >= 0 && o->model.prefill_rate <= 1e12))
		return kv_fail(err, -KV_EINVAL, "--prefill-rate %g is not a number of tokens per second from 0 to 1e12",
			       o->model.prefill_rate);
	if (o->model.name && (o->load.value_size != VALUE_SIZE || o->load.value_sizes))
		return kv_fail(err, -KV_EINVAL,
			       "--model sets the value size: drop --value-size and --value-sizes, or drop --model");
	if (!o->model.name && (o->model.layout.tp != 1 || o->model.layout.dtype != MODEL_BF16 ||
			       o->model.layout.block_tokens != BLOCK_TOKENS ||
			       o->model.prefix_tokens != PREFIX_TOKENS || o->model.prefill_rate != 0))
		return kv_fail(err, -KV_EINVAL,
			       "--tp, --dtype, --block-tokens, --prefix-tokens "
			       "and --prefill-rate are about a model: add --model");
	return 0;
}

static int apply_model(struct bench_options *o, struct kv_error *err)
{
	char size[32], max[32];
	int rc = o->model.name ? model_find(o->model.name, &o->model.dimensions, err) : 0;
	if (rc < 0 || !o->model.name)
		return rc < 0 ? -KV_EINVAL : 0;
	rc = model_measure(&o->model.dimensions, &o->model.layout, &o->model.bytes, err);
	if (rc == 0 && o->model.bytes.block > KV_VALUE_MAX)
		rc = kv_fail(err, -KV_EINVAL,
			     "a block of %u tokens is %s, more than a value's %s: use fewer --block-tokens",
			     o->model.layout.block_tokens, kv_size_format(o->model.bytes.block, size, sizeof(size)),
			     kv_size_format(KV_VALUE_MAX, max, sizeof(max)));
	if (rc == 0)
		o->load.value_size = o->model.bytes.block;
	return rc;
}

static int check_output(const struct bench_options *o, struct kv_error *err)
{
	const char *const files[] = {o->out.json, o->out.report, o->out.hdr, o->out.csv, o->out.raw};
	static const char *const names[] = {"--json", "--report", "--hdr", "--csv", "--raw"};
	if (o->out.progress && o->out.quiet)
		return kv_fail(err, -KV_EINVAL, "--progress prints lines, which --quiet forbids: drop one of them");
	for (unsigned i = 0; i < KV_COUNT(files); i++) {
		if (i > 0 && files[i] && (!*files[i] || strcmp(files[i], "-") == 0))
			return kv_fail(err, -KV_EINVAL,
				       "%s needs the name of a file: only --json goes to standard output", names[i]);
		for (unsigned k = 0; k < i; k++)
			if (files[i] && files[k] && strcmp(files[i], files[k]) == 0)
				return kv_fail(err, -KV_EINVAL, "%s and %s name one file, %.200s: give each its own",
					       names[k], names[i], files[i]);
	}
	return 0;
}

static int options_check(const struct bench_options *options, struct kv_error *err)
{
	static int (*const check[])(const struct bench_options *o, struct kv_error *err) = {
		check_servers, check_trace, check_kinds, check_pace, check_sizes, check_output};
	int rc = kv_opt_security_check(&options->security, err);
	if (rc == 0)
		rc = kv_opt_seal_check(&options->seal, err);
	for (unsigned i = 0; rc == 0 && i < KV_COUNT(check); i++)
		rc = check[i](options, err);
	return rc;
}

/* What the texts say. */
static int specs_parse(struct bench_options *o, struct kv_error *err)
{
	int rc = bench_pattern_parse(o->load.keys_pattern, &o->load.pattern, err);
	if (rc == 0)
		rc = bench_mix_parse(o->load.mix_text, &o->load.mix, err);
	if (rc == 0)
		rc = bench_slo_parse(o->pace.slo, &o->pace.aim, err);
	if (rc == 0)
		rc = bench_arrivals_parse(o->pace.arrivals_text, &o->pace.arrivals, &o->pace.arrivals_file, err);
	if (rc == 0)
		rc = bench_sizes_parse(o->load.value_sizes, &o->load.sizes, err);
	if (rc == 0 && o->load.sizes.count > 0 && o->load.value_size != BENCH_VALUE_SIZE)
		rc = kv_fail(err, -KV_EINVAL, "--value-size and --value-sizes both define the sizes: drop one of them");
	if (rc == 0 && o->load.sizes.count > 0)
		o->load.value_size = bench_sizes_max(&o->load.sizes);
	if (rc == 0)
		rc = bench_events_parse(&o->server.event_text, o->server.num_servers, &o->server.events, err);
	if ((o->load.slices || o->seal.key_file) && !o->load.async && !o->replay.trace)
		o->load.batch = KV_MAX(o->load.batch, 1u);
	return rc;
}

int bench_options_parse(int argc, char **argv, struct bench_options *out, struct kv_error *err)
{
	int rc = kv_opt_parse(&bench_options_program, bench_options_table, argc, argv, out, NULL, err);
	out->out.argc = argc;
	out->out.argv = argv;
	out->model.dimensions.name[0] = 0;
	if (rc == 0)
		rc = check_model(out, err);
	if (rc == 0)
		rc = apply_model(out, err);
	if (rc == 0)
		rc = specs_parse(out, err);
	if (rc == 0)
		rc = options_check(out, err);
	if (rc == 0)
		rc = kv_opt_json_check(out->out.json, err);
	if (rc == 0)
		rc = kv_opt_servers_check(out->target.servers.item, out->target.servers.count, err);
	return rc;
}
