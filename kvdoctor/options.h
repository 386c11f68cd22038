/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the options of kv-doctor: its own, and those of kv-bench that affect the needs of a run. */
#ifndef KVRAIL_KVDOCTOR_OPTIONS_H
#define KVRAIL_KVDOCTOR_OPTIONS_H

#include <stdbool.h>

#include "base/base.h"

struct doctor_options {
	struct kv_opt_strings servers;
	struct kv_opt_strings tier;
	const char *provider, *nic, *json, *sysroot;
	uint32_t rails, num_workers, num_clients, num_threads, server_threads;
	uint64_t buffer_mb, memory_mb;
	bool no_try, quiet;
	struct kv_opt_security security;
};

extern const struct kv_opt doctor_options_table[];

/* doctor_options_parse -- parse the command line. 0; 1 when --help or --version was printed; -KV_EINVAL with *err. */
int doctor_options_parse(int argc, char **argv, struct doctor_options *out, struct kv_error *err);

#endif
