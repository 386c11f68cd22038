/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.h -- kv-bench fabric: latency and bandwidth of bare libfabric operations between this process and responders,
 * through engine/ and nothing above. */
#ifndef KVRAIL_KVBENCH_FABRIC_FABRIC_H
#define KVRAIL_KVBENCH_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base.h"
#include "engine/engine.h"
#include "kvbench/measure/conditions.h"

enum {
	FABRIC_SIZES_MAX = 32,
	FABRIC_SIZE_MAX = 64 << 20,
	FABRIC_DEPTH_MAX = 1024,
	FABRIC_PAIRS_MAX = 64,
	FABRIC_SPAN_MAX = 1 << 30
};

struct fabric_options {
	const char *provider, *nic, *sizes, *json;
	uint64_t time_ns; /* of each measurement */
	bool quiet, config;
	int log_level;  /* enum kv_log_level */
	uint32_t depth; /* operations in flight per pair for bandwidth; fewer where imm_room is less */
	uint32_t pairs;
	uint64_t span;
	const char *listen, *connect, *psk_file;
	/* of sizes */
	uint64_t size[FABRIC_SIZES_MAX], size_max;
	unsigned num_sizes;
};

extern const struct kv_opt fabric_options_table[];

/* fabric_options_parse -- as bench_options_parse. */
int fabric_options_parse(int argc, char **argv, struct fabric_options *out, struct kv_error *err);

enum fabric_op { FABRIC_MESSAGE, FABRIC_WRITE, FABRIC_READ, FABRIC_OPS };
const char *fabric_op_name(enum fabric_op op);

struct fabric_row {
	enum fabric_op op;
	uint64_t size;
	struct kv_hist latency; /* message, write: half of a round trip; read: until the bytes are here */
	double bytes_per_s;     /* `depth` at a time over each pair; 0: not measured */
};

/* Whether RDMA is in use, and the evidence. */
struct fabric_rdma {
	bool in_use, software; /* software: the kernel does a NIC's work */
	unsigned devices;
	char device[KV_NAME_MAX];
	char how[400];
};

struct fabric_run {
	struct fabric_options opt;
	struct te_info info;
	struct fabric_rdma rdma;
	char no_read[200]; /* why reads are left out, or "" */
	struct fabric_row *row;
	unsigned num_rows;
	bool complete;
	struct bench_conditions conditions;
};

/* fabric_rdma_look -- opens each device: some ms. */
void fabric_rdma_look(const struct te_info *info, struct fabric_rdma *out);

/* fabric_jitter -- the median of p99/p50 over rows up to 4 KiB; 0: there are none. */
double fabric_jitter(const struct fabric_run *run);

/* report.c: text, and JSON, which the caller frees (NULL: no memory). */
void fabric_print_head(const struct fabric_run *run, FILE *out);
void fabric_print_row(const struct fabric_row *row, FILE *out);
void fabric_print_end(const struct fabric_run *run, FILE *out);
struct json_t *fabric_json(const struct fabric_run *run);

/* fabric_main -- the sub-command. The exit status. argv[0] is the program's name. */
int fabric_main(int argc, char **argv);

#endif
