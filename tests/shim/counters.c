/* SPDX-License-Identifier: Apache-2.0 */
/* counters.c -- the NICs' hardware counters, as files below KVRAIL_SHIM_COUNTERS, in the shape of
 * /sys/class/infiniband: what tells RDMA from its emulation.
 *
 * Each process has a port of its own in every device it uses (ports/PID), since a reader sums over the ports.
 * Written now and then by the device's thread, and at the end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "tests/shim/inside.h"

enum { NICS_MAX = 32, EVERY_NS = 20000000 };

static const char *const names[SHIM_COUNTERS] = {"send_bytes",       "recv_bytes",
						 "rdma_write_bytes", "rdma_write_recv_bytes",
						 "rdma_read_bytes",  "rdma_read_resp_bytes"};
static uint64_t count[NICS_MAX][SHIM_COUNTERS];
static bool dirty[NICS_MAX], any_dirty;
static uint64_t written_ns;

void shim_nic_count(const struct shim_ep *ep, enum shim_counter which, uint64_t bytes)
{
	unsigned nic = ep->domain->nic % NICS_MAX;
	count[nic][which] += bytes;
	dirty[nic] = any_dirty = true;
}

/* Makes the folders of a path. */
static void folders(char *path)
{
	for (char *at = path + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		if (mkdir(path, 0755) && errno != EEXIST)
			fprintf(stderr, "kvrail-shim: %s: %s\n", path, strerror(errno));
		*at = '/';
	}
}

static void nic_write(const char *root, unsigned nic)
{
	char path[512], device[32];
	shim_device_name(nic, device, sizeof(device));
	for (unsigned i = 0; i < SHIM_COUNTERS; i++) {
		int len = snprintf(path, sizeof(path), "%s/%s/ports/%d/hw_counters/%s", root, device, (int)getpid(),
				   names[i]);
		if (len < 0 || (size_t)len >= sizeof(path))
			return;
		FILE *f = fopen(path, "we");
		if (!f) {
			folders(path);
			f = fopen(path, "we");
		}
		if (!f)
			return;
		fprintf(f, "%llu\n", (unsigned long long)count[nic][i]);
		fclose(f);
	}
}

/* Returns how many milliseconds may pass until the next call, -1: any. */
int shim_counters_write(bool now)
{
	const char *root = getenv("KVRAIL_SHIM_COUNTERS");
	if (!any_dirty || !root)
		return -1;
	if (!now && shim_now() - written_ns < EVERY_NS)
		return EVERY_NS / 1000000;
	for (unsigned nic = 0; nic < NICS_MAX; nic++)
		if (dirty[nic])
			nic_write(root, nic);
	memset(dirty, 0, sizeof(dirty));
	any_dirty = false;
	written_ns = shim_now();
	return -1;
}
