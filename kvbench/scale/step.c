/* SPDX-License-Identifier: Apache-2.0 */
/* step.c -- the process of one step. */
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "kvbench/load/bench.h"
#include "kvbench/scale/scale.h"
#include "kvbench/setup/signals.h"
#include "kvbench/setup/step.h"

int scale_step_main(int argc, char **argv)
{
	static struct scale_options options;
	static struct scale_reporter t;
	struct kv_error err = {0};
	char limit[32], psk[256];
	if (argc < 4 || scale_options_parse(argc - 3, argv + 3, &options, &err) != 0) {
		fprintf(stderr, "kv-bench: %s\n", err.text[0] ? err.text : "a step has three arguments");
		return BENCH_USAGE;
	}
	bench_signals_install();
	options.step_clients = (uint32_t)strtoul(argv[2], NULL, 10);
	options.step_server = argv[3];
	t.opt = &options;
	t.begun_ns = kv_clock_now(&kv_clock_monotonic);
	t.deadline_ns = kv_deadline(t.begun_ns, options.timeout_ns);
	t.step = (struct scale_step){.clients = options.step_clients, .rss_start = kv_memory_rss()};
	if (options.step_clients == 0 || !step_key_take(psk, sizeof(psk))) {
		scale_end(&t, "a step needs a number of clients, and a key on standard input");
	} else {
		kvc_program_setup_many();
		if (strcmp(argv[1], "tls") == 0)
			scale_tls_run(&t);
		else
			scale_sessions_run(&t, psk);
	}
	explicit_bzero(psk, sizeof(psk));
	if (bench_interrupted())
		scale_end(&t, "interrupted"); /* by which signal the parent says: it passed on one of its own */
	else if (kv_clock_now(&kv_clock_monotonic) >= t.deadline_ns)
		scale_end(&t, "it was not over within %s (--timeout)",
			  kv_duration_format(options.timeout_ns, limit, sizeof(limit)));
	t.step.final = true;
	scale_report(&t);
	return BENCH_OK;
}
