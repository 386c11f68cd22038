/* SPDX-License-Identifier: Apache-2.0 */
/* step.c -- the process of one step. */
#include <stdlib.h>

#include "kvbench/load/bench.h"
#include "kvbench/setup/signals.h"
#include "kvbench/steps/server.h"
#include "kvbench/steps/steps.h"

const char *step_model_name(enum step_model model)
{
	static const char *const names[STEP_MODELS] = {"endpoints", "verbs", "pooled", "tls"};
	return model < STEP_MODELS ? names[model] : "?";
}

static bool arguments_take(char **argv, struct step_options *o)
{
	while (o->model < STEP_MODELS && strcmp(step_model_name(o->model), argv[1]) != 0)
		o->model++;
	o->clients = (uint32_t)strtoul(argv[2], NULL, 10);
	o->server = argv[3][0] ? argv[3] : o->server;
	o->timeout_ns = strtoull(argv[4], NULL, 10);
	return o->model < STEP_MODELS && o->clients > 0;
}

int step_main(int rc, char **argv, struct step_options *options, const struct kv_error *err)
{
	static struct step s;
	char psk[256];
	if (rc != 0 || !arguments_take(argv, options)) {
		fprintf(stderr, "kv-bench: %s\n", err->text[0] ? err->text : "there is no such step");
		return BENCH_USAGE;
	}
	bench_signals_install();
	s = (struct step){.opt = options, .rss.start = kv_memory_rss(), .kernel = {-1, -1, -1}};
	s.begun_ns = kv_clock_now(&kv_clock_monotonic);
	s.deadline_ns = kv_deadline(s.begun_ns, options->timeout_ns);
	s.rss.looked = s.rss.start;
	(void)step_key_take(psk, sizeof(psk));
	if (options->model != STEP_VERBS)
		kvc_program_setup_many();
	if (options->model == STEP_VERBS)
		step_verbs_run(&s);
	else if (options->model == STEP_TLS)
		step_tls_run(&s);
	else
		step_clients_run(&s, psk[0] ? psk : NULL);
	explicit_bzero(psk, sizeof(psk));
	s.final = true;
	step_report(&s);
	return BENCH_OK;
}
