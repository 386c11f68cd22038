/* SPDX-License-Identifier: Apache-2.0 */
/* step.c -- the process of one step, and of the other end: which it is, and where its key comes from. */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "host/host.h"
#include "kvbench/load/bench.h"
#include "kvbench/scale/peer.h"
#include "kvbench/setup/signals.h"
#include "probe/probe.h"

static bool input_take(uint32_t fd, char *buf, size_t cap)
{
	size_t n = fd ? probe_take((int)fd, buf, cap - 1) : 0;
	buf[n] = 0;
	buf[strcspn(buf, "\r\n")] = 0;
	return buf[0] != 0;
}

int scale_step_main(const struct scale_options *options)
{
	static struct scale_teller t;
	char limit[32], psk[256];
	if (options->step_kind == SCALE_PEER)
		return peer_main(options);
	/* The parent may die without a chance to end its children. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() == 1)
		return BENCH_NO_START;
	t.opt = options;
	t.begun_ns = kv_clock_now(&kv_clock_monotonic);
	t.deadline_ns = kv_deadline(t.begun_ns, options->timeout_ns);
	t.step = (struct scale_step){
		.kind = (int)options->step_kind, .clients = options->step_clients, .rss_start = kv_memory_rss()};
	if (!options->step_server || !input_take(options->step_input_fd, psk, sizeof(psk))) {
		scale_end(&t, "--step-clients needs --step-server and a key, which kv-bench gives itself");
	} else {
		kvc_program_setup_many();
		(options->step_kind == SCALE_TLS ? scale_tls_run : scale_sessions_run)(&t, psk);
	}
	explicit_bzero(psk, sizeof(psk));
	if (bench_interrupted())
		scale_end(&t, "interrupted"); /* by which signal the parent says: it passed on one of its own */
	else if (kv_clock_now(&kv_clock_monotonic) >= t.deadline_ns)
		scale_end(&t, "it was not over within %s (--timeout)",
			  kv_duration_format(options->timeout_ns, limit, sizeof(limit)));
	t.step.final = true;
	scale_tell(&t);
	return BENCH_OK;
}
