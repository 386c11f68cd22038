/* SPDX-License-Identifier: Apache-2.0 */
/* server.c -- a key, reports and a server, which steps share with their parent. */
#include "kvbench/steps/server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/host.h"
#include "kvbench/load/bench.h"
#include "kvbench/setup/signals.h"
#include "probe/probe.h"

#define READY_TIMEOUT_NS 120000000000ull

enum { SERVER_MB = 64, LOOK_MS = 50 };

bool step_key_take(char *buf, size_t cap)
{
	size_t have = 0;
	ssize_t n = 1;
	while (have < cap - 1 && n != 0) {
		n = read(STDIN_FILENO, buf + have, cap - 1 - have);
		if (n < 0 && errno != EINTR)
			break;
		have += n > 0 ? (size_t)n : 0;
	}
	buf[have] = 0;
	buf[strcspn(buf, "\r\n")] = 0;
	return buf[0] != 0;
}

void step_line(json_t *object)
{
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	size_t len = text ? strlen(text) : 0;
	if (text) {
		text[len] = '\n'; /* in place of the end: one write, which a pipe takes whole */
		probe_report(STDOUT_FILENO, text, len + 1);
	}
	free(text);
	json_decref(object);
}

/* ---- the machine ---- */

static json_t *limit(uint64_t n)
{
	return n >= KV_UNKNOWN ? json_null() : json_integer((json_int_t)n);
}

json_t *step_host_json(void)
{
	struct kv_host h;
	kv_host_read("", &h);
	return json_pack("{s:I, s:o, s:o, s:o, s:s}", "cores", (json_int_t)h.cpus, "memory_bytes",
			 limit(h.memory_total), "open_files", limit(h.files_soft), "locked_memory_bytes",
			 limit(h.memlock_soft), "kernel", h.kernel);
}

char *step_host_text(bool limits, char *buf, size_t cap)
{
	struct kv_host h;
	char files[32] = "unlimited", locked[40] = "unlimited", total[32], available[32];
	int n;
	kv_host_read("", &h);
	if (h.files_soft < KV_UNKNOWN)
		snprintf(files, sizeof(files), "%llu", (unsigned long long)h.files_soft);
	if (h.memlock_soft < KV_UNKNOWN)
		snprintf(locked, sizeof(locked), "%llu KiB", (unsigned long long)h.memlock_soft >> 10);
	n = snprintf(buf, cap, "%u core%s, %s memory, %s available", h.cpus, kv_plural(h.cpus),
		     kv_size_format(h.memory_total, total, sizeof(total)),
		     kv_size_format(kv_memory_available(), available, sizeof(available)));
	if (limits)
		n += snprintf(buf + n, cap - (size_t)n, "; open files %s, locked memory %s", files, locked);
	snprintf(buf + n, cap - (size_t)n, "%s Linux %s", limits ? ";" : ",", h.kernel);
	return buf;
}

/* ---- the server ---- */

json_t *step_server_args(const char *provider, const char *nic, uint32_t rails, uint32_t threads, int log_level)
{
	char number[4][16];
	snprintf(number[0], 16, "%u", rails);
	snprintf(number[1], 16, "%u", SERVER_MB * threads);
	snprintf(number[2], 16, "%u", threads);
	snprintf(number[3], 16, "%d", log_level);
	return json_pack("[s, s, s, s, s, s]", strcmp(provider, "auto") ? provider : "", nic ? nic : "", number[0],
			 number[1], number[2], number[3]);
}

void step_small_buffers(void)
{
	(void)setenv("FI_OFI_RXM_BUFFER_SIZE", "4096", 0);
}

static uint32_t number_at(char **argv, int i)
{
	return (uint32_t)strtoul(argv[i], NULL, 10);
}

int step_server_main(int argc, char **argv)
{
	struct server_child *server = NULL;
	struct kv_error err = {0};
	struct pollfd parent = {.fd = STDIN_FILENO, .events = POLLIN};
	if (argc != 9)
		return BENCH_USAGE;
	bench_signals_install();
	if (server_child_start(&(struct server_child_options){.provider = argv[1][0] ? argv[1] : NULL,
							      .nic = argv[2][0] ? argv[2] : NULL,
							      .rails = number_at(argv, 3),
							      .memory_mb = number_at(argv, 4),
							      .threads = number_at(argv, 5),
							      .log_level = (int)number_at(argv, 6),
							      .max_clients = number_at(argv, 7),
							      .max_sessions = number_at(argv, 8),
							      .ready_timeout_ns = READY_TIMEOUT_NS},
			       &server, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return BENCH_NO_START;
	}
	step_line(json_pack("{s:s, s:s, s:I}", "address", server_child_address(server), "psk", server_child_psk(server),
			    "pid", (json_int_t)server_child_pid(server)));
	while (!server_child_dead(server) && !bench_interrupted() && poll(&parent, 1, LOOK_MS) <= 0)
		;
	return server_child_stop(&server, NULL) < 0 ? BENCH_FAILED : BENCH_OK;
}
