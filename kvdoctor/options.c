/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-doctor. Names, defaults and bounds of what kv-bench has, too, are kv-bench's: whoever
 * puts `doctor` in the place of `bench` is told about that very run. */
#include "kvdoctor/options.h"

#include <string.h>

#define AT(member) .offset = offsetof(struct doctor_options, member)

const struct kv_opt doctor_options_table[] = {
	{.group = "The run to look at (as for kv-bench)",
	 .name = "server",
	 .alias = "server-addr",
	 .letter = 's',
	 .type = KV_OPT_STRINGS,
	 AT(servers),
	 .metavar = "HOST:PORT",
	 .help = "A kv-server that would be used; repeatable. It is not connected to. Without it a server of the run's own "
		 "on this machine is counted."},
	{.name = "provider",
	 .letter = 'p',
	 .type = KV_OPT_STRING,
	 AT(provider),
	 .metavar = "NAME",
	 .def = "auto",
	 .help = "The libfabric provider (efa, efa-direct, verbs, tcp, shm), or auto."},
	{.name = "nic",
	 .type = KV_OPT_STRING,
	 AT(nic),
	 .metavar = "NAME[,NAME]",
	 .help = "The NICs to use, in this order: device names or IP addresses of this machine."},
	{.name = "rails",
	 .type = KV_OPT_U32,
	 AT(rails),
	 .metavar = "N",
	 .def = "0",
	 .max = KV_RAILS_MAX,
	 .help = "NICs per client; 0: all of --nic, else up to 8 on EFA, else 1."},
	{.name = "num-workers",
	 .letter = 'w',
	 .type = KV_OPT_U32,
	 AT(num_workers),
	 .metavar = "N",
	 .def = "16",
	 .min = 1,
	 .max = DOCTOR_WORKERS_MAX,
	 .help = "Workers: coroutines with one operation in flight each."},
	{.name = "num-clients",
	 .letter = 'c',
	 .type = KV_OPT_U32,
	 AT(num_clients),
	 .metavar = "N",
	 .def = "4",
	 .min = 1,
	 .max = DOCTOR_CLIENTS_MAX,
	 .help = "Clients that the workers share: endpoint and registered buffer each."},
	{.name = "num-threads",
	 .letter = 't',
	 .type = KV_OPT_U32,
	 AT(num_threads),
	 .metavar = "N",
	 .def = "0",
	 .max = DOCTOR_THREADS_MAX,
	 .help = "Event loop threads of the clients. 0: half of the cores, 1 to 4."},
	{.name = "buffer-mb",
	 .type = KV_OPT_U64,
	 AT(buffer_mb),
	 .metavar = "MB",
	 .def = "64",
	 .min = 1,
	 .max = 1 << 16,
	 .help = "Registered receive buffer of each client, in MiB."},
	{.name = "memory-mb",
	 .type = KV_OPT_U64,
	 AT(memory_mb),
	 .metavar = "MB",
	 .def = "72",
	 .min = 1,
	 .max = (uint64_t)1 << 30,
	 .help = "Memory of the own server, in MiB (72 is what kv-bench gives it by default)."},
	{.name = "server-threads",
	 .alias = "server-shards",
	 .type = KV_OPT_U32,
	 AT(server_threads),
	 .metavar = "N",
	 .def = "0",
	 .max = KV_SHARDS_MAX,
	 .help = "Data threads of the own server. 0: half of the cores, 1 to 4."},

	{.group = "Looking",
	 .name = "no-try",
	 .type = KV_OPT_FLAG,
	 AT(no_try),
	 .help = "Open no endpoint: judge by the figures alone."},
	{.name = "sysroot",
	 .type = KV_OPT_STRING,
	 AT(sysroot),
	 .metavar = "DIR",
	 .help = "Read /proc, /sys and /etc below DIR, a copy of another machine's; implies --no-try. libfabric and its "
		 "devices are still this machine's."},

	{.group = "Output",
	 .name = "json",
	 .letter = 'j',
	 .type = KV_OPT_STRING,
	 AT(json),
	 .metavar = "FILE",
	 .help = "Write the report as JSON; - is standard output (the text then goes to standard error)."},
	{.name = "quiet",
	 .letter = 'q',
	 .type = KV_OPT_FLAG,
	 AT(quiet),
	 .help = "Print problems and the verdict only."},
	{.name = NULL},
};

static const struct kv_opt_program program = {
	.name = "kv-doctor",
	.about = "Tells what this machine has for KVRail, what a run would take of it, and what stands in the way, with the "
		 "command that removes it. It opens endpoints and moves bytes between two of its own to see whether that works.",
	.epilogue = "Exit status: 0 a run would work, 1 it would not, 2 usage. See docs/DOCTOR.md.",
};

int doctor_options_parse(int argc, char **argv, struct doctor_options *out, struct kv_error *err)
{
	struct kv_hostport hp;
	memset(out, 0, sizeof(*out));
	int rc = kv_opt_parse(&program, doctor_options_table, argc, argv, out, NULL, err);
	for (unsigned i = 0; i < out->servers.count && rc == 0; i++)
		rc = kv_hostport_parse(out->servers.item[i], &hp, err);
	if (rc == 0 && out->sysroot && out->sysroot[0] == '\0')
		rc = kv_fail(err, -KV_EINVAL, "--sysroot needs a directory");
	return rc;
}
