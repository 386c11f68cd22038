/* SPDX-License-Identifier: Apache-2.0 */
/* server.h -- the processes that kvlab/steps.py starts: steps of capacity and scale, which may fail, and their server.
 */
#ifndef KVRAIL_KVBENCH_STEPS_SERVER_H
#define KVRAIL_KVBENCH_STEPS_SERVER_H

#include <jansson.h>
#include <stdbool.h>

#include "base/base.h"

/* step_key_take -- the line on standard input, without its end: the server's key. Returns whether there is one. */
bool step_key_take(char *buf, size_t cap);

/* step_line -- report where this process is, as one line of JSON on standard output. Takes the reference. NULL: no
 * memory, and nothing is reported. */
void step_line(json_t *object);

/* step_host_json -- the machine as reports have it, with `memory_bytes` and limits, null where there is none;
 * step_host_text -- as text. The caller's reference; returns buf. */
json_t *step_host_json(void);
char *step_host_text(bool limits, char *buf, size_t cap);

/* step_server_main -- the process kv-bench-server PROVIDER NIC RAILS MEMORY_MB THREADS LOG_LEVEL CLIENTS SESSIONS:
 * starts a kv-server, reports its address, key and process, and stops it when standard input ends. Returns the exit
 * status. */
int step_server_main(int argc, char **argv);

/* step_small_buffers -- give rxm the smallest buffers that hold a message of KVRail: they are most of the memory of an
 * endpoint. Both sides must have the same (engine/env.c): a server of our own inherits it. */
void step_small_buffers(void);

/* step_server_args -- the arguments of it, but for the last two. */
json_t *step_server_args(const char *provider, const char *nic, uint32_t rails, uint32_t threads, int log_level);

#endif
