/* SPDX-License-Identifier: Apache-2.0 */
/* main.c -- kv-doctor: what this machine has for KVRail, and what stands in the way of a run.
 * See docs/guide/troubleshooting.md. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/early.h"
#include "host/host.h"
#include "kvdoctor/doctor.h"
#include "kvdoctor/try.h"

enum { EXIT_WORKS = 0, EXIT_FAILS = 1, EXIT_USAGE = 2, EXIT_BROKEN = 3 };

/* Tries whether a process may read another's memory, which is how shm moves bytes. A child reads its parent's memory
 * and not the other way round, because a parent has more rights over its child. Runs before any provider's library is
 * used, while fork is harmless. Returns 0, an errno, or -1 when it could not be tried. */
static int memory_try(void)
{
	static const char mine[16] = "is it allowed?";
	int status = 0;
	fflush(NULL);
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0) {
		char copy[sizeof(mine)];
		struct iovec local = {copy, sizeof(copy)}, remote = {(void *)(uintptr_t)mine, sizeof(mine)};
		_exit(process_vm_readv(parent, &local, 1, &remote, 1, 0) == (ssize_t)sizeof(mine) ? 0 : errno);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int examine(struct doctor *d)
{
	d->root = d->opt->sysroot ? d->opt->sysroot : "";
	d->cma_error = *d->root ? -1 : memory_try();
	te_env_for_programs();
	kv_host_read(d->root, &d->host);
	if (!*d->root)
		kv_host_threads_count(&d->host);
	doctor_look(d);
	doctor_network(d);
	doctor_plan(d);
	doctor_environment(d);
	doctor_try(d);
	doctor_advise(d);
	return doctor_worst(d) == TE_FAIL ? EXIT_FAILS : EXIT_WORKS;
}

static int report(const struct doctor *d, int status)
{
	struct kv_error err = {0};
	bool mixed = d->opt->json && strcmp(d->opt->json, "-") == 0;
	text_print(d, mixed ? stderr : stdout);
	if (!mixed && (fflush(stdout) || ferror(stdout))) {
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
	if (argc > 1 && strcmp(argv[1], TRY_CHILD) == 0)
		return try_child(argc - 2, argv + 2);
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
		d->rdma = rdma;
		status = report(d, examine(d));
	} else {
		fprintf(stderr, "kv-doctor: no memory\n");
	}
	free(rdma);
	free(d);
	return status;
}
