/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-bench fabric, and its list of sizes. */
#include "kvbench/fabric/fabric.h"

#define AT(member) .offset = offsetof(struct fabric_options, member)

const struct kv_opt fabric_options_table[] = {
	KV_OPT_PROVIDER_ROW(AT(provider), .group = "What"),
	KV_OPT_NIC_ROW(AT(nic)),
	{.name = "sizes",
	 .type = KV_OPT_STRING,
	 AT(sizes),
	 .metavar = "LIST",
	 .def = "all",
	 .help = "Bytes of an operation, such as 1,4KB,64MB, which is the most; all: 1, 4, 16, ... 64MB. Messages end "
		 "at "
		 "4 KiB."},
	{.name = "depth",
	 .type = KV_OPT_U32,
	 AT(depth),
	 .metavar = "N",
	 .def = "16",
	 .min = 1,
	 .max = FABRIC_DEPTH_MAX,
	 .help = "Operations in flight per pair where bandwidth is measured."},
	{.name = "pairs",
	 .type = KV_OPT_U32,
	 AT(pairs),
	 .metavar = "N",
	 .def = "1",
	 .min = 1,
	 .max = FABRIC_PAIRS_MAX,
	 .help = "Pairs of endpoints that move bytes at the same time where bandwidth is measured. Each has a thread "
		 "here and a responder."},
	{.name = "span",
	 .type = KV_OPT_SIZE,
	 AT(span),
	 .metavar = "SIZE",
	 .def = "4MB",
	 .min = 1,
	 .max = FABRIC_SPAN_MAX,
	 .help = "Memory of each pair that the operations go through, one behind the other. More than the processor's "
		 "caches shows the speed of memory."},
	{.name = "time",
	 .type = KV_OPT_DURATION,
	 AT(time_ns),
	 .metavar = "TIME",
	 .def = "100ms",
	 .min = 1000000,
	 .max = 3600000000000ull,
	 .help = "How long each operation of each size is measured for latency, and as long for bandwidth."},

	{.group = "Two machines",
	 .name = "listen",
	 .type = KV_OPT_STRING,
	 AT(listen),
	 .metavar = "HOST:PORT",
	 .help = "Answer the runs of --connect until a signal comes. Port 0: the first line of output names the port."},
	{.name = "connect",
	 .type = KV_OPT_STRING,
	 AT(connect),
	 .metavar = "HOST:PORT",
	 .help = "Measure between this machine and the one that listens there."},
	{.name = "psk-file",
	 .type = KV_OPT_STRING,
	 AT(psk_file),
	 .metavar = "FILE",
	 .help = "The key that both machines have, as kv-server --make-psk makes it. Needed beyond loopback."},

	{.group = "Output",
	 .name = "histogram",
	 .type = KV_OPT_FLAG,
	 AT(histogram),
	 .help = "Print the histogram of each row, by powers of two."},
	KV_OPT_JSON_ROW(AT(json)),
	{.name = "quiet", .letter = 'q', .type = KV_OPT_FLAG, AT(quiet), .help = "Print only the verdict."},
	KV_OPT_LOG_LEVEL_ROW(AT(log_level), .def = "error", .help = "What the engines log to standard error"),
	KV_OPT_CONFIG_ROW(AT(config)),

	{.name = NULL},
};

static const struct kv_opt_program fabric_options_program = {
	.name = "kv-bench fabric",
	.about = "Measures bare libfabric operations: messages, writes with immediate data, reads. It starts the other "
		 "side itself, on this machine, and opens no port to others. Between two machines, one runs it with "
		 "--listen, the other with --connect.",
	.epilogue =
		"Latency is half of a round trip, of a read all of it. Both sides poll. Exit status: 0 measured, 1 it "
		"broke off, 2 usage, 3 it could not start, 128 + signal when it was interrupted.",
};

static int add_size(struct fabric_options *o, uint64_t size, struct kv_error *err)
{
	if (o->num_sizes == FABRIC_SIZES_MAX)
		return kv_fail(err, -KV_EINVAL, "--sizes: at most %u sizes; choose fewer", (unsigned)FABRIC_SIZES_MAX);
	o->size[o->num_sizes++] = size;
	o->size_max = KV_MAX(o->size_max, size);
	return 0;
}

static int add_item(struct fabric_options *o, const char *item, struct kv_error *err)
{
	uint64_t size = 1;
	int rc = 0;
	if (strcmp(item, "all") == 0) {
		for (; size <= FABRIC_SIZE_MAX && rc == 0; size *= 4)
			rc = add_size(o, size, err);
		return rc;
	}
	if (kv_size_parse(item, &size) < 0 || size == 0 || size > FABRIC_SIZE_MAX)
		return kv_fail(err, -KV_EINVAL, "--sizes: '%s' is not a size from 1 byte to 64 MiB, such as 64KB",
			       item);
	return add_size(o, size, err);
}

static int parse_sizes(struct fabric_options *o, struct kv_error *err)
{
	const char *at = o->sizes;
	int rc = 0;
	for (bool more = true; more && rc == 0;) {
		size_t len = strcspn(at, ",");
		char item[32];
		snprintf(item, sizeof(item), "%.*s", (int)KV_MIN(len, sizeof(item) - 1), at);
		rc = add_item(o, item, err);
		more = at[len] == ',';
		at += len + more;
	}
	return rc;
}

int fabric_options_parse(int argc, char **argv, struct fabric_options *out, struct kv_error *err)
{
	int rc = kv_opt_parse(&fabric_options_program, fabric_options_table, argc, argv, out, NULL, err);
	out->num_sizes = 0;
	out->size_max = 0;
	if (rc == 0)
		rc = parse_sizes(out, err);
	if (rc == 0)
		rc = kv_opt_json_check(out->json, err);
	if (rc == 0 && out->listen && (out->connect || out->json))
		rc = kv_fail(err, -KV_EINVAL, "--listen only answers: drop --connect and --json");
	return rc;
}
