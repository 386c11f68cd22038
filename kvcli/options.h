/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- what kv-client can be told. */
#ifndef KVRAIL_KVCLI_OPTIONS_H
#define KVRAIL_KVCLI_OPTIONS_H

#include <stdbool.h>

#include "base/base.h"

enum { CLI_OK = 0, CLI_NOT_FOUND = 1, CLI_USAGE = 2, CLI_FAILED = 3 }; /* exit statuses */

struct cli_options {
	struct kv_opt_strings servers;
	const char *provider, *nic;
	uint32_t rails;
	int mode; /* enum kvc_mode */
	uint64_t timeout_ns, peer_timeout_ns;
	uint32_t ttl;
	const char *file, *output;
	const char *psk_file, *cert, *key, *ca;
	bool all, shards, json; /* of stat */
	uint32_t slow_ms;
	int log_level; /* enum kv_log_level */
};

extern const struct kv_opt cli_options_table[];
extern const struct kv_opt_program cli_options_program;

#endif
