/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-bench fabric, and its list of sizes. */
#include "kvbench/fabric/fabric.h"

#include "kvbench/setup/list.h"

#define AT(member) .offset = offsetof(struct fabric_options, member)

const struct kv_opt fabric_options_table[] = {
	KV_OPT_PROVIDER_ROW(AT(provider), .group = "What"),
	KV_OPT_NIC_ROW(AT(nic)),
	KV_ROW_TEXT("sizes", AT(sizes), "LIST", "all",
		    "Bytes per operation, such as 1,4KB,64MB (the largest); "
		    "all: 1, 4, 16, ... 64MB. Messages have at most 4 KiB."),
	KV_ROW_U32("depth", AT(depth), "N", "16", 1, FABRIC_DEPTH_MAX,
		   "Operations in flight per pair where bandwidth is measured."),
	KV_ROW_U32("pairs", AT(pairs), "N", "1", 1, FABRIC_PAIRS_MAX,
		   "Pairs of endpoints that move bytes at the same time where "
		   "bandwidth is measured. Each has a thread here and a responder."),
	KV_ROW_SIZE("span", AT(span), "4MB", 1, FABRIC_SPAN_MAX,
		    "Memory of each pair that the operations go through, one behind the other. More than the "
		    "processor's caches shows the speed of memory."),
	KV_ROW_DURATION("time", AT(time_ns), "100ms", 1000000, 3600000000000ull,
			"Time of each measurement: of latency and of bandwidth, for each operation and size."),

	KV_ROW_TEXT(
		"listen", AT(listen), "HOST:PORT", NULL,
		"Answer the runs of --connect until a signal comes. Port 0: the first line of output names the port.",
		.group = "Two machines"),
	KV_ROW_TEXT("connect", AT(connect), "HOST:PORT", NULL,
		    "Measure between this machine and the one that listens there."),
	KV_ROW_TEXT(
		"psk-file", AT(psk_file), "FILE", NULL,
		"File with the key of both machines; needed beyond loopback. `kv-server --make-psk FILE` makes one."),

	KV_OPT_JSON_ROW(AT(json), .group = "Output"),
	KV_ROW_FLAG("quiet", AT(quiet), "Print only the verdict.", .letter = 'q'),
	KV_OPT_LOG_LEVEL_ROW(AT(log_level), .def = "error", .help = "Log level of the engines, on standard error"),
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
	char item[32];
	int rc = 0;
	while (rc == 0 && bench_word(&at, ',', item, sizeof(item)))
		rc = add_item(o, item, err);
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
