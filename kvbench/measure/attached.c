/* SPDX-License-Identifier: Apache-2.0 */
/* attached.c -- each client finds a started server by itself, within seconds. A replay that does not keep to the
 * trace's times waits for it: otherwise the trace would be minutes further. */
#include "kvbench/measure/attached.h"

#include <string.h>
#include <time.h>

#include "base/base.h"
#include "kvbench/setup/signals.h"
#include "kvclient/kvclient.h"

enum { LOOK_MS = 20 };

static bool is_it(const struct kvc_server_info *s, const char *node_id, bool member)
{
	size_t len = strlen(node_id);
	if (member)
		return strcmp(s->member, node_id) == 0;
	return strncmp(s->name, node_id, len) == 0 && s->name[len] == '=';
}

static bool has(struct kvc_pool *pool, unsigned client, const char *node_id, bool member)
{
	struct kvc_server_info s = {.size = sizeof(s)};
	int rc = 0;
	for (unsigned i = 0; rc == 0 || rc == -KV_ENOTFOUND; i++) {
		rc = kvc_server_info(pool, client, i, &s);
		if (rc == 0 && s.state == KVC_SERVER_UP && is_it(&s, node_id, member))
			return true;
	}
	return false;
}

bool bench_attached_wait(struct kvc_pool *pool, unsigned clients, const char *node_id, bool member, uint64_t limit_ns)
{
	uint64_t end_ns = kv_deadline(kv_clock_now(&kv_clock_monotonic), limit_ns);
	for (unsigned i = 0; i < clients; i++)
		while (!has(pool, i, node_id, member)) {
			if (bench_interrupted() || kv_clock_now(&kv_clock_monotonic) >= end_ns)
				return false;
			nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
		}
	return true;
}
