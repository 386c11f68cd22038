/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-bench versus, and the names of targets. */
#include "kvbench/versus/versus.h"

#include <errno.h>
#include <unistd.h>

#include "kvbench/setup/list.h"

#define AT(member) .offset = offsetof(struct versus_options, member)

static const char *const arrivals_names[] = {"uniform", "poisson", NULL};

const struct kv_opt versus_options_table[] = {
	KV_ROW_TEXT("targets", AT(target_list), "LIST", NULL,
		    "Comma-separated: kvrail (kv-bench starts a kv-server), kvrail://HOST:PORT, redis://HOST:PORT, "
		    "redis+unix://PATH, memcached://HOST:PORT, memcached+unix://PATH, program:PATH (your own client, "
		    "docs/guide/benchmarking.md). Ratios are those of the first target to each other one.",
		    .letter = 't', .group = "Targets"),
	KV_ROW_U32("rounds", AT(rounds), "N", "7", 1, VERSUS_ROUNDS_MAX,
		   "Rounds that count. A round does not count if the distance of the CPUs changed, or if a target took "
		   "1.3 times the CPU time per operation, or less than 0.75 of the cores, of its best round. It is "
		   "repeated; at most twice as many rounds run."),

	KV_ROW_U32("num-workers", AT(num_workers), "N", "32", 1, VERSUS_CONNS_MAX,
		   "Operations in flight: workers of KVRail, connections of the others.", .letter = 'w',
		   .group = "Load"),
	KV_OPT_CLIENTS_ROW(AT(num_clients)),
	KV_ROW_U64("num-keys", AT(num_keys), "N", "4096", 1, 1 << 28,
		   "Keys to write, then to read. Each round has its own keys.", .letter = 'k'),
	KV_ROW_SIZE("value-size", AT(value_size), "64KB", 16, 512 << 20, "Size of a value.", .letter = 'v'),
	KV_ROW_TEXT("keys-pattern", AT(keys_pattern), "PATTERN", NULL,
		    "Which keys are read, as in kv-bench: shuffled (the default), "
		    "sequential, uniform, zipf:THETA, hot:FRACTION:SHARE."),
	KV_ROW_DURATION("duration", AT(duration_ns), "1", 1000000, 3600000000000ull,
			"Length of the reads in each round.", .letter = 'd'),
	KV_ROW_DOUBLE("rate", AT(rate), "R", "0", 0, 0,
		      "Open loop: R reads per second; latency counts from the scheduled start. 0: closed loop."),
	KV_ROW_CHOICE("arrivals", AT(arrivals), "KIND", "uniform", arrivals_names, "Schedule of reads with --rate"),
	KV_ROW_U64("warmup", AT(warmup), "N", "1000", 0, (uint64_t)1 << 40, "GETs before the measured ones."),
	KV_ROW_U32("batch", AT(batch), "N", "0", 0, VERSUS_BATCH_MAX,
		   "Write and read N keys at once: batches of KVRail, pipelines of the others. 0: single operations."),
	KV_ROW_FLAG("mixed", AT(mixed), "After the reads, PUT and GET at the same time, one to one."),
	KV_ROW_U64("seed", AT(seed), "N", "1", 0, (uint64_t)1 << 48,
		   "Seed of keys and order in the first round; later rounds count up."),
	KV_ROW_FLAG("verify", AT(verify), "Compare every byte read, and its checksum."),
	KV_ROW_FLAG("no-checksum", AT(no_checksum), "Do not checksum reads, on either side."),

	KV_OPT_JSON_ROW(AT(json), .group = "Output"),
	KV_ROW_TEXT("report", AT(report), "FILE", NULL, "Write one HTML page."),
	KV_OPT_CONFIG_ROW(AT(config)),
	{.name = NULL},
};

static const struct kv_opt_program versus_options_program = {
	.name = "kv-bench versus",
	.usage_args = "[-- OPTIONS OF KV-BENCH FOR KVRAIL ALONE]",
	.about = "Compares KVRail with redis and memcached: the same keys, values, checks and arrivals, in rounds that "
		 "take turns.",
	.epilogue =
		"Each round of each target is a process: kv-bench for KVRail, and a client of kv-bench's own for the "
		"others, with one thread, which copies no value (client libraries copy each once). A wrong or missing "
		"value, or a lost server, puts its target out, and the run fails. Servers that ask for a "
		"password cannot be targets. -- --help lists the options for KVRail alone.\n\n"
		"  kv-bench versus --targets kvrail,redis://127.0.0.1:6379,memcached://127.0.0.1:11211\n"
		"  kv-bench versus --targets kvrail://10.0.0.5:7700,redis://10.0.0.5:6379 -- --psk-file key",
	.args_max = KV_OPT_STRINGS_MAX,
};

static int target_refuse(const char *item, struct kv_error *err)
{
	static const char *const foreign[][2] = {{"mooncake", "Mooncake Store"}, {"lmcache", "an LMCache server"}};
	for (unsigned i = 0; i < KV_COUNT(foreign); i++)
		if (strncmp(item, foreign[i][0], strlen(foreign[i][0])) == 0 && strstr(item, "://"))
			return kv_fail(err, -KV_EINVAL,
				       "--targets: %s can be driven by its own client only: name a program with it, as "
				       "in program:/usr/bin/x, instead of %s (docs/guide/benchmarking.md)",
				       foreign[i][1], item);
	return kv_fail(err, -KV_EINVAL,
		       "--targets: '%s' is none of kvrail, kvrail://HOST:PORT, redis://HOST:PORT, redis+unix://PATH, "
		       "memcached://HOST:PORT, memcached+unix://PATH and program:PATH",
		       item);
}

static int target_parse(const char *item, struct versus_target *t, struct kv_error *err)
{
	static const struct {
		const char *scheme;
		enum versus_kind kind;
		unsigned port;
	} known[] = {{"kvrail://", VERSUS_KVRAIL, 7411},         {"redis://", VERSUS_REDIS, 6379},
		     {"redis+unix://", VERSUS_REDIS, 0},         {"memcached://", VERSUS_MEMCACHED, 11211},
		     {"memcached+unix://", VERSUS_MEMCACHED, 0}, {"program:", VERSUS_PROGRAM, 0}};
	struct kv_hostport hp;
	memcpy(t->name, item, strlen(item) + 1); /* versus_targets_parse has measured it */
	if (strcmp(item, "kvrail") == 0)
		return 0;
	for (unsigned i = 0; i < KV_COUNT(known); i++) {
		size_t len = strlen(known[i].scheme);
		if (strncmp(item, known[i].scheme, len))
			continue;
		t->kind = known[i].kind;
		snprintf(t->address, sizeof(t->address), "%s", item + len);
		if (!known[i].port && t->address[0] != '/')
			return kv_fail(err, -KV_EINVAL, "--targets: '%s' needs the whole path of a %s, as in %s/run/x",
				       item, known[i].kind == VERSUS_PROGRAM ? "program" : "socket", known[i].scheme);
		if (known[i].kind == VERSUS_PROGRAM && access(t->address, X_OK) < 0)
			return kv_fail(err, -KV_EINVAL, "--targets: %s cannot be run: %s", t->address,
				       kv_strerror(-errno));
		if (known[i].port && strchr(t->address, '@'))
			return kv_fail(err, -KV_EINVAL,
				       "--targets: %s can have no user and no password, because "
				       "kv-bench sends none: use a server that requires none",
				       known[i].scheme);
		if (known[i].port && (!t->address[0] || t->address[0] == ':'))
			return kv_fail(err, -KV_EINVAL, "--targets: '%s' names no host: give it, as in %s127.0.0.1:%u",
				       item, known[i].scheme, known[i].port);
		if (known[i].port && kv_hostport_parse(t->address, &hp, err) < 0)
			return kv_fail_more(err, "--targets: '%s'", item);
		return 0;
	}
	return target_refuse(item, err);
}

/* The text before "://" or "+", or the file name of a program without its ending; a repeated label gets a number. */
static void target_label(struct versus_options *o, struct versus_target *t)
{
	const char *slash = strrchr(t->address, '/');
	bool file = t->kind == VERSUS_PROGRAM && slash;
	const char *from = file ? slash + 1 : t->name;
	unsigned same = 1;
	int len = (int)strcspn(from, file ? "." : ":+");
	snprintf(t->label, sizeof(t->label), "%.*s", KV_MIN(len, 14), from);
	for (unsigned i = 0; i < o->num_targets; i++)
		same += strncmp(o->target[i].label, t->label, strlen(t->label)) == 0;
	if (same > 1)
		snprintf(t->label, sizeof(t->label), "%.*s %u", KV_MIN(len, 14), from, same);
}

int versus_targets_parse(struct versus_options *o, struct kv_error *err)
{
	const char *at = o->target_list;
	char item[sizeof(o->target[0].name) + 1];
	o->num_targets = 0;
	if (!at || !*at)
		return kv_fail(err, -KV_EINVAL,
			       "--targets names the servers to compare, as in kvrail,redis://127.0.0.1:6379");
	while (bench_word(&at, ',', item, sizeof(item))) {
		struct versus_target *t = &o->target[o->num_targets];
		if (o->num_targets == VERSUS_TARGETS_MAX)
			return kv_fail(err, -KV_EINVAL, "--targets: at most %u of them", (unsigned)VERSUS_TARGETS_MAX);
		if (strlen(item) >= sizeof(t->name))
			return kv_fail(err, -KV_EINVAL, "--targets: a name has at most %zu letters",
				       sizeof(t->name) - 1);
		*t = (struct versus_target){0};
		if (target_parse(item, t, err) < 0)
			return -KV_EINVAL;
		for (unsigned i = 0; i < o->num_targets; i++)
			if (strcmp(o->target[i].name, t->name) == 0)
				return kv_fail(err, -KV_EINVAL, "--targets: %s is named twice", t->name);
		target_label(o, t);
		o->num_targets++;
	}
	return 0;
}

/* Options of kv-bench that say where KVRail is and what it may use. The load is the same for all targets, so options
 * that change it, or its measurement, have no place behind "--". */
static const char own_names[] =
	" server provider nic rails numa door mode local local-socket num-threads async submitters no-threads ttl "
	"timeout peer-timeout settle repair-mb copies buffer-mb servers server-threads memory-mb tier eviction "
	"psk-file cert key ca crl server-name log-level slow-ms background-puts ";

enum { OWN_MAX = 64 };

/* Before the first round: options that KVRail's kv-bench would refuse later, and options that would change the
 * comparison. */
static int own_check(const struct versus_options *o, struct kv_error *err)
{
	static const struct kv_opt_program program = {
		.name = "kv-bench versus ... --",
		.about = "Options for KVRail alone: its address and resources. The load is "
			 "that of all targets; its options come before the --."};
	static struct bench_options parsed;
	static struct kv_opt rows[OWN_MAX];
	char *argv[KV_OPT_STRINGS_MAX + 2] = {(char *)"kv-bench"};
	int rc;
	for (unsigned i = 0; i < o->own.count; i++)
		argv[i + 1] = (char *)o->own.item[i];
	bench_options_pick(own_names, true, rows, OWN_MAX);
	rc = kv_opt_parse(&program, rows, (int)o->own.count + 1, argv, &parsed, NULL, err);
	return rc < 0 ? kv_fail_more(err, "behind -- are options for KVRail alone, and none of the load") : rc;
}

static bool any_kvrail(const struct versus_options *o)
{
	for (unsigned i = 0; i < o->num_targets; i++)
		if (o->target[i].kind == VERSUS_KVRAIL)
			return true;
	return false;
}

static int check(const struct versus_options *o, struct kv_error *err)
{
	if (!(o->rate >= 0 && o->rate <= 1e9))
		return kv_fail(err, -KV_EINVAL, "--rate %g is not a number of operations per second between 0 and 1e9",
			       o->rate);
	if (o->arrivals != BENCH_UNIFORM && o->rate == 0)
		return kv_fail(err, -KV_EINVAL, "--arrivals poisson is of the open loop: add --rate R");
	if (o->batch > 0 && o->rate != 0)
		return kv_fail(err, -KV_EINVAL, "--rate counts single reads: drop it, or drop --batch");
	if (o->own.count > 0 && !any_kvrail(o))
		return kv_fail(err, -KV_EINVAL,
			       "the options behind -- are for KVRail, and KVRail is no target here: drop them");
	if (o->report && (!*o->report || strcmp(o->report, "-") == 0))
		return kv_fail(err, -KV_EINVAL,
			       "--report needs the name of a file: only --json goes to standard output");
	if (o->report && o->json && strcmp(o->report, o->json) == 0)
		return kv_fail(err, -KV_EINVAL, "--json and --report name one file, %.200s: give each its own",
			       o->json);
	return 0;
}

int versus_options_parse(int argc, char **argv, struct versus_options *out, struct kv_error *err)
{
	int rc;
	memset(out, 0, sizeof(*out));
	rc = kv_opt_parse(&versus_options_program, versus_options_table, argc, argv, out, &out->own, err);
	if (rc == 0 && !out->config)
		rc = versus_targets_parse(out, err);
	if (rc == 0)
		rc = bench_pattern_parse(out->keys_pattern, &out->pattern, err);
	if (rc == 0 && !out->config)
		rc = check(out, err);
	if (rc == 0)
		rc = kv_opt_json_check(out->json, err);
	return rc == 0 && out->own.count > 0 ? own_check(out, err) : rc;
}
