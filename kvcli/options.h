/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the options of kv-client. */
#ifndef KVRAIL_KVCLI_OPTIONS_H
#define KVRAIL_KVCLI_OPTIONS_H

#include <stdbool.h>

#include "base/base.h"

/* Exit statuses. CLI_PART: a server has drained, and other servers lack some of its values. */
enum { CLI_OK = 0, CLI_NOT_FOUND = 1, CLI_USAGE = 2, CLI_FAILED = 3, CLI_PART = 4 };

#define TOP_INTERVAL_NS 1000000000ull /* the default */

struct cli_options {
	struct kv_opt_target target;
	uint64_t timeout_ns, peer_timeout_ns;
	uint32_t ttl;
	const char *file, *output;
	struct kv_opt_security security;
	struct kv_opt_seal seal;
	bool all, shards;            /* of stat */
	bool json;                   /* of stat, cluster, namespaces, tenants, leases, drain, events */
	uint64_t watch_ns;           /* of stat: time between two looks; 0: one look */
	uint64_t interval_ns;        /* of top: time between two looks */
	bool once;                   /* of top, events */
	bool fresh;                  /* of events: only new ones */
	struct kv_opt_strings since; /* of events */
	uint32_t drain_sec;
	uint64_t drain_mb;
	uint32_t slow_ms;
	int log_level; /* enum kv_log_level */
};

extern const struct kv_opt cli_options_table[];
extern const struct kv_opt_program cli_options_program;

/* cli_options_parse -- parse the command line and the environment. Command and arguments become *out_words. Strings
 * point into argv or live as long as the process. Returns 0; 1 when --help or --version was printed; -KV_EINVAL with
 * *err. */
int cli_options_parse(int argc, char **argv, struct cli_options *out, struct kv_opt_strings *out_words,
		      struct kv_error *err);

struct cli_line_options {
	struct cli_options own; /* the line's own options; the rest is default or zero */
	struct cli_options all; /* the same over those of kv-client's command line: the command runs with these */
};

/* cli_options_line -- parse a line of the prompt, by the same table and parser as the command line, but options of
 * commands only. argv[0] is ignored. It may be reordered; strings point into its words. Returns 0; 1 when --help or
 * --version was printed; -KV_EINVAL with *err. */
int cli_options_line(int argc, char **argv, const struct cli_options *base, struct cli_line_options *out,
		     struct kv_opt_strings *out_words, struct kv_error *err);

#endif
