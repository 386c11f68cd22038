/* SPDX-License-Identifier: Apache-2.0 */
/* try.c -- the trial, from outside: for each process of the run, a child opens the same engines, and reports
 * (probe/probe.h).
 *
 * A provider may end its process (EFA aborts on some errors) or hang inside a call, so only a child is put at risk. It
 * is killed after a minute. */
#include <string.h>

#include "kvdoctor/try.h"

enum { LOG_SHOWN = 300 };

#define TRY_NS    60000000000ull
#define MEMORY_NS 10000000000ull

/* The child reads its parent's memory, not the reverse, because a parent has more rights over its child. */
int doctor_memory_try(void)
{
	static const char mine[] = TRY_MEMORY;
	struct probe p = {.name = "the trial", .timeout_ns = MEMORY_NS};
	char address[32];
	snprintf(address, sizeof(address), "%p", (const void *)mine);
	const char *argv[] = {"kv-doctor", TRY_CHILD, address, NULL};
	probe_run(&p, probe_open(&p), argv);
	return p.end == PROBE_EXITED ? p.code : -1;
}

static void role_try(const struct role *r, uint64_t files_soft, struct trial *t)
{
	struct try_args args = {.local = r->options.local,
				.rails = r->options.rails,
				.engines = r->engines,
				.messages = r->options.messages,
				.receives = r->options.receives,
				.region_bytes = r->region_bytes,
				.files_soft = files_soft};
	struct probe p = {.name = "the trial",
			  .input = &args,
			  .input_bytes = sizeof(args),
			  .result = t,
			  .result_bytes = sizeof(*t),
			  .timeout_ns = TRY_NS,
			  .keep_log = true};
	char report[16], input[16];
	snprintf(args.provider, sizeof(args.provider), "%s", r->options.provider);
	snprintf(args.nic, sizeof(args.nic), "%s", r->options.nic ? r->options.nic : "");
	int rc = probe_open(&p);
	snprintf(report, sizeof(report), "%d", p.report_fd);
	snprintf(input, sizeof(input), "%d", p.input_fd);
	const char *argv[] = {"kv-doctor", TRY_CHILD, report, input, NULL};
	probe_run(&p, rc, argv);
	memcpy(t->log, p.log, sizeof(t->log));
	if (!t->error[0] && (p.end != PROBE_EXITED || !t->done))
		snprintf(t->error, sizeof(t->error), "%s", p.text);
}

/* ---- findings ---- */

/* The last non-empty line. */
static void last_line(const char *text, const char **out_from, size_t *out_len)
{
	size_t end = strlen(text), from;
	while (end > 0 && text[end - 1] == '\n')
		end--;
	for (from = end; from > 0 && text[from - 1] != '\n'; from--)
		;
	*out_from = text + from;
	*out_len = KV_MIN(end - from, (size_t)LOG_SHOWN);
}

static void trial_judge(struct doctor *d, const struct role *r, const struct trial *t)
{
	char opened[32], registered[32], took[32], ping[32], moved[32];
	const char *from;
	size_t len;
	if (!t->error[0] && t->moved) {
		doctor_found(d, SECTION_TRY, KV_OK, "try", r->name, "tried",
			     "%u endpoint%s opened in %s, %s each registered in %s; "
			     "a message there and back in %s; %s written and verified",
			     t->opened, kv_plural(t->opened), kv_duration_format(t->open_ns, opened, sizeof(opened)),
			     kv_size_format(t->registered_bytes, registered, sizeof(registered)),
			     kv_duration_format(t->register_ns, took, sizeof(took)),
			     kv_duration_format(t->ping_ns, ping, sizeof(ping)),
			     kv_size_format(t->bytes, moved, sizeof(moved)));
		return;
	}
	last_line(t->log, &from, &len);
	doctor_found(d, SECTION_TRY, KV_FAIL, "try", r->name, "tried", "%u of %u engine%s opened; %.399s%s%.*s%s",
		     t->opened, r->engines, kv_plural(r->engines), t->error, len ? " (its last words: " : "", (int)len,
		     from, len ? ")" : "");
}

/* If the fabric ports have no doorkeeper, the network must keep strangers out. */
static void door_judge(struct doctor *d, const struct trial *t)
{
	if (!t->looked)
		return;
	if (!t->no_door[0]) {
		doctor_found(d, SECTION_TRY, KV_OK, "door", "fabric ports", "doorkeeper",
			     "strangers are refused before libfabric reads a byte of theirs; peers' bytes are checked");
		return;
	}
	doctor_found(d, SECTION_TRY, KV_WARN, "door", "fabric ports", "doorkeeper", "they have no doorkeeper: %s",
		     t->no_door);
	doctor_remedy(d, "let only the machines of this cache reach them, by a network, security group or firewall of "
			 "their own (docs/guide/security.md)");
}

void doctor_try(struct doctor *d)
{
	if (d->opt->no_try || *d->root) {
		doctor_found(d, SECTION_TRY, KV_INFO, "try", "run", "tried", "nothing was opened (%s)",
			     *d->root ? "--sysroot" : "--no-try");
		return;
	}
	if (d->client.rc || (d->server.present && d->server.rc))
		return; /* there is no provider to try */
	role_try(&d->client, doctor_files_soft(d, &d->client), &d->tried_client);
	trial_judge(d, &d->client, &d->tried_client);
	if (d->server.present) {
		role_try(&d->server, doctor_files_soft(d, &d->server), &d->tried_server);
		trial_judge(d, &d->server, &d->tried_server);
	}
	door_judge(d, &d->tried_client);
	if (d->tried_client.write_emulated) {
		doctor_found(d, SECTION_TRY, KV_WARN, "emulated", "run", "emulation",
			     "the provider emulates RDMA writes (reads: %s)",
			     d->tried_client.read_emulated ? "too" : "no");
		doctor_remedy(d, "see the lines on the EFA device and on libfabric above");
	}
}
