/* SPDX-License-Identifier: Apache-2.0 */
/* main.c -- kv-doctor: this machine's resources for KVRail, and obstacles to a run. See docs/guide/troubleshooting.md.
 */
#include <stdlib.h>
#include <string.h>

#include "base/early.h"
#include "host/host.h"
#include "kvdoctor/doctor.h"

enum { EXIT_WORKS = 0, EXIT_FAILS = 1, EXIT_USAGE = 2, EXIT_BROKEN = 3 };

static int examine(struct doctor *d)
{
	d->root = d->opt->sysroot ? d->opt->sysroot : "";
	d->cma_error = *d->root ? -1 : doctor_memory_try();
	te_env_for_programs();
	kv_host_read(d->root, &d->host);
	if (!*d->root)
		kv_host_threads_count(&d->host);
	doctor_look(d);
	doctor_network(d);
	doctor_plan(d);
	doctor_environment(d);
	doctor_try(d);
	doctor_reach(d);
	doctor_advise(d);
	return doctor_worst(d) == KV_FAIL ? EXIT_FAILS : EXIT_WORKS;
}

static int report(const struct doctor *d, int status)
{
	struct kv_error err = {0};
	bool mixed = d->opt->json && strcmp(d->opt->json, "-") == 0;
	text_print(d, mixed ? stderr : stdout);
	if (!mixed && !kv_written(stdout)) {
		fprintf(stderr, "kv-doctor: the report could not be written to standard output\n");
		status = EXIT_BROKEN;
	}
	if (d->opt->json && json_print(d, d->opt->json, &err)) {
		fprintf(stderr, "kv-doctor: %s\n", err.text);
		return EXIT_BROKEN;
	}
	return status;
}

int main(int argc, char **argv)
{
	struct doctor_options options;
	struct kv_error err = {0};
	kv_early_end(false);
	signal(SIGPIPE, SIG_IGN); /* kv_written reports it */
	if (argc > 1 && strcmp(argv[1], TRY_CHILD) == 0)
		return try_child(argc - 2, argv + 2);
	if (argc > 1 && strcmp(argv[1], REACH_CHILD) == 0)
		return reach_child(argc - 2, argv + 2);
	int rc = doctor_options_parse(argc, argv, &options, &err);
	if (rc < 0) {
		fprintf(stderr, "kv-doctor: %s (try --help)\n", err.text);
		return EXIT_USAGE;
	}
	if (rc > 0)
		return EXIT_WORKS;
	struct doctor *d = calloc(1, sizeof(*d));
	struct te_rdma *rdma = calloc(TE_RDMA_MAX, sizeof(*rdma));
	int status = EXIT_BROKEN;
	if (d && rdma) {
		d->opt = &options;
		d->argc = argc;
		d->argv = argv;
		d->rdma = rdma;
		status = report(d, examine(d));
	} else {
		fprintf(stderr, "kv-doctor: no memory\n");
	}
	free(rdma);
	free(d);
	return status;
}
