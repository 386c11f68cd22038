/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-doctor. Options that kv-bench also has have its names, defaults and bounds: a
 * user who replaces kv-bench by kv-doctor on a command line learns about that very run. */
#include "kvdoctor/options.h"

#include <string.h>
#include <sys/stat.h>

#define AT(member) .offset = offsetof(struct doctor_options, member)

const struct kv_opt doctor_options_table[] = {
	KV_OPT_SERVER_ROW(.group = "The run to look at (as for kv-bench)", .type = KV_OPT_STRINGS, AT(servers),
			  .help = "A kv-server that the run would use, [NAME=]HOST:PORT; repeatable. kv-doctor tests "
				  "its control port and its fabric ports. Without --server, the run has a server of "
				  "its own on this machine, which is counted."),
	KV_OPT_PROVIDER_ROW(AT(provider)),
	KV_OPT_NIC_ROW(AT(nic)),
	KV_OPT_RAILS_ROW(AT(rails)),
	KV_OPT_WORKERS_ROW(AT(num_workers)),
	KV_OPT_CLIENTS_ROW(AT(num_clients)),
	KV_OPT_THREADS_ROW(AT(num_threads)),
	KV_OPT_BUFFER_ROW(AT(buffer_mb), .def = "64"),
	KV_ROW_U64("memory-mb", AT(memory_mb), "SIZE", "72", 1, (uint64_t)1 << 30,
		   "Memory of the run's own server, in MiB (kv-bench uses 72 by default).", .unit = KV_OPT_MIB),
	KV_ROW_TEXTS(
		"tier", AT(tier), "PATH[:SIZE],...", NULL,
		"An NVMe tier of the run's own server, as for kv-server; repeatable. kv-doctor looks at the places, "
		"and adds the memory of the tier's index."),
	KV_OPT_SERVER_THREADS_ROW(AT(server_threads), .def = "0", .alias = "server-shards",
				  .help = "Worker threads of the run's own server. 0: half of the cores, 1 to 4."),

	KV_ROW_FLAG("no-try", AT(no_try), "Open no endpoint and connect to no server; judge by numbers only.",
		    .group = "Looking"),
	KV_ROW_TEXT("sysroot", AT(sysroot), "DIR", NULL,
		    "Read /proc, /sys and /etc below DIR, a copy from another machine; implies --no-try. libfabric and "
		    "its devices are still those of this machine."),

	KV_OPT_SECURITY_ROWS(struct doctor_options),

	KV_OPT_JSON_ROW(AT(json), .group = "Output"),
	KV_ROW_FLAG("quiet", AT(quiet), "Print only problems and the verdict.", .letter = 'q'),
	{.name = NULL},
};

static const struct kv_opt_program program = {
	.name = "kv-doctor",
	.about = "Shows the resources of this machine for KVRail, the needs of a run, and the obstacles, each with the "
		 "command that removes it. kv-doctor opens endpoints and moves bytes between two of its own, "
		 "to see whether that works, and connects to the servers of --server.",
	.epilogue = "Exit status: 0 a run would work, 1 it would not, 2 usage, 3 kv-doctor could not look or report. "
		    "See docs/guide/troubleshooting.md.",
};

int doctor_options_parse(int argc, char **argv, struct doctor_options *out, struct kv_error *err)
{
	struct stat st;
	memset(out, 0, sizeof(*out));
	int rc = kv_opt_parse(&program, doctor_options_table, argc, argv, out, NULL, err);
	if (rc == 0)
		rc = kv_opt_servers_check(out->servers.item, out->servers.count, err);
	if (rc == 0)
		rc = kv_opt_security_check(&out->security, err);
	if (rc == 0)
		rc = kv_opt_json_check(out->json, err);
	if (rc == 0 && out->sysroot && (stat(out->sysroot, &st) != 0 || !S_ISDIR(st.st_mode)))
		rc = kv_fail(err, -KV_EINVAL, "--sysroot needs a directory; '%.200s' is none", out->sysroot);
	return rc;
}
