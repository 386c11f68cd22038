/* SPDX-License-Identifier: Apache-2.0 */
/* numa.c -- NUMA nodes from /sys, placement by system calls.
 *
 * Memory is preferred on a node, never bound: a bound page without room is SIGBUS with hugetlb, else the OOM killer.
 * Not libnuma: it reads only the real /sys, which tests cannot replace, and prints to stderr. */
#include "host/numa.h"

#include <errno.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"

enum { LONG_BITS = 8 * sizeof(unsigned long), LIST_CAP = 8192, SAMPLES = 256 };

/* ---- sets of CPUs ---- */

unsigned kv_cpus_count(const struct kv_cpus *cpus)
{
	unsigned n = 0;
	for (unsigned i = 0; i < KV_COUNT(cpus->bits); i++)
		n += (unsigned)__builtin_popcountll(cpus->bits[i]);
	return n;
}

bool kv_cpus_has(const struct kv_cpus *cpus, unsigned cpu)
{
	return cpu < KV_CPUS_MAX && cpus->bits[cpu / 64] >> (cpu % 64) & 1;
}

static bool number(const char **at, unsigned *out)
{
	unsigned v = 0;
	const char *p = *at;
	for (; *p >= '0' && *p <= '9' && v < KV_CPUS_MAX; p++)
		v = v * 10 + (unsigned)(*p - '0');
	if (p == *at || v >= KV_CPUS_MAX)
		return false;
	*at = p;
	*out = v;
	return true;
}

int kv_cpus_parse(const char *list, struct kv_cpus *out)
{
	struct kv_cpus set = {{0}};
	const char *p = list;
	while (*p && *p != '\n') {
		unsigned first, last;
		if (!number(&p, &first))
			return -KV_EINVAL;
		last = first;
		if (*p == '-' && (p++, !number(&p, &last) || last < first))
			return -KV_EINVAL;
		for (unsigned cpu = first; cpu <= last; cpu++)
			set.bits[cpu / 64] |= (uint64_t)1 << (cpu % 64);
		if (*p == ',' && p[1] && p[1] != '\n')
			p++;
		else if (*p && *p != '\n')
			return -KV_EINVAL;
	}
	*out = set;
	return 0;
}

/* A kernel list from a file. */
static int list_read(const char *path, struct kv_cpus *out)
{
	char line[LIST_CAP];
	FILE *f = fopen(path, "re");
	if (!f)
		return -KV_ENOTFOUND;
	/* A node with only memory has an empty list. */
	bool ok = fgets(line, sizeof(line), f) != NULL;
	fclose(f);
	return kv_cpus_parse(ok ? line : "", out);
}

unsigned kv_numa_nodes(const char *root)
{
	char path[PATH_MAX];
	struct kv_cpus nodes; /* in the form of a list of CPUs */
	snprintf(path, sizeof(path), "%s/sys/devices/system/node/has_memory", root);
	if (list_read(path, &nodes) < 0)
		return 1;
	unsigned n = kv_cpus_count(&nodes);
	return KV_MAX(n, 1u);
}

int kv_numa_cpus(const char *root, int node, struct kv_cpus *out)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/sys/devices/system/node/node%d/cpulist", root, node);
	return node < 0 ? -KV_ENOTFOUND : list_read(path, out);
}

/* ---- threads ---- */

int kv_thread_cpus(struct kv_cpus *out)
{
	memset(out, 0, sizeof(*out));
	return sched_getaffinity(0, sizeof(out->bits), (cpu_set_t *)(void *)out->bits) == 0 ? 0 : -errno;
}

int kv_thread_set_cpus(const struct kv_cpus *cpus)
{
	return sched_setaffinity(0, sizeof(cpus->bits), (const cpu_set_t *)(const void *)cpus->bits) == 0 ? 0 : -errno;
}

int kv_numa_bind_thread(const char *root, int node, struct kv_cpus *out_before)
{
	struct kv_cpus near, now;
	int rc = kv_thread_cpus(&now);
	if (rc < 0)
		return rc;
	if (out_before)
		*out_before = now;
	if (kv_numa_cpus(root, node, &near) < 0)
		return 0;
	for (unsigned i = 0; i < KV_COUNT(near.bits); i++)
		near.bits[i] &= now.bits[i];
	unsigned count = kv_cpus_count(&near);
	if (count == 0)
		return 0;
	rc = kv_thread_set_cpus(&near);
	return rc < 0 ? rc : (int)count;
}

/* ---- memory ---- */

static bool node_mask(int node, unsigned long *mask)
{
	memset(mask, 0, KV_NODES_MAX / 8);
	if (node < 0 || node >= KV_NODES_MAX)
		return false;
	mask[(unsigned)node / LONG_BITS] |= 1ul << ((unsigned)node % LONG_BITS);
	return true;
}

int kv_numa_prefer_memory(void *base, uint64_t len, int node)
{
	unsigned long mask[KV_NODES_MAX / LONG_BITS];
	if (!node_mask(node, mask))
		return -EINVAL;
	/* The kernel counts one bit less. */
	return syscall(SYS_mbind, base, len, MPOL_PREFERRED, mask, (unsigned long)KV_NODES_MAX + 1, 0) == 0 ? 0
													    : -errno;
}

int kv_numa_prefer(int node, struct kv_numa_saved *out)
{
	unsigned long mask[KV_NODES_MAX / LONG_BITS];
	*out = (struct kv_numa_saved){.mode = MPOL_DEFAULT};
	if (node == KV_NODE_ANY)
		return 0;
	if (!node_mask(node, mask))
		return -EINVAL;
	if (syscall(SYS_get_mempolicy, &out->mode, out->nodes, (unsigned long)KV_NODES_MAX + 1, NULL, 0) != 0 ||
	    syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask, (unsigned long)KV_NODES_MAX + 1) != 0)
		return -errno;
	out->changed = true;
	return 0;
}

void kv_numa_restore(const struct kv_numa_saved *saved)
{
	/* The old policy was allowed before; after a change of the cpuset the kernel has adapted it. */
	if (saved->changed &&
	    syscall(SYS_set_mempolicy, saved->mode, saved->nodes, (unsigned long)KV_NODES_MAX + 1) != 0)
		(void)syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
}

/* ---- in words ---- */

static void say(char *buf, size_t cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(char *buf, size_t cap, const char *fmt, ...)
{
	size_t at = strlen(buf);
	va_list args;
	va_start(args, fmt);
	if (at < cap)
		vsnprintf(buf + at, cap - at, fmt, args);
	va_end(args);
}

static void say_nodes(const struct kv_numa_place *place, unsigned n, const char *what, char *buf, size_t cap)
{
	say(buf, cap, "%s%s ", what, kv_plural(n));
	for (unsigned i = 0, to; i < n; i = to) {
		for (to = i + 1; to < n && place[to].node == place[i].node; to++)
			;
		say(buf, cap, "%s%u", i ? ", " : "", i);
		if (to > i + 1)
			say(buf, cap, "-%u", to - 1);
		if (place[i].node == KV_NODE_ANY)
			say(buf, cap, " anywhere");
		else
			say(buf, cap, " on node %d", place[i].node);
	}
}

char *kv_numa_describe(const struct kv_numa_place *place, unsigned n, const char *what, bool off, char *buf, size_t cap)
{
	unsigned known = 0, bound = 0, ours = 0;
	int thread_error = 0, memory_error = 0;
	buf[0] = '\0';
	for (unsigned i = 0; i < n; i++) {
		known += place[i].node != KV_NODE_ANY;
		ours += place[i].node != KV_NODE_ANY && place[i].thread != KV_THREAD_FREE;
		bound += place[i].node != KV_NODE_ANY && place[i].thread > 0;
		thread_error =
			place[i].thread < 0 && place[i].thread != KV_THREAD_FREE ? place[i].thread : thread_error;
		memory_error = place[i].memory_error ? place[i].memory_error : memory_error;
	}
	if (off || kv_numa_nodes("") < 2) {
		say(buf, cap, off ? "off" : "one node");
		return buf;
	}
	if (known == 0) {
		say(buf, cap, "the nodes of the NICs are not known, nothing is placed");
		return buf;
	}
	say_nodes(place, n, what, buf, cap);
	if (bound)
		say(buf, cap, "; %u of %u threads bound to CPUs there", bound, ours);
	else if (thread_error)
		say(buf, cap, "; threads cannot be bound: %s", kv_strerror(thread_error));
	else if (ours)
		say(buf, cap, "; this process may use no CPU there, its threads stay");
	if (memory_error)
		say(buf, cap,
		    "; the kernel does not place memory there on request (%s), so a page is where it is first touched",
		    kv_strerror(memory_error));
	return buf;
}

int kv_numa_share(const void *base, uint64_t len, int node)
{
	void *page[SAMPLES];
	int status[SAMPLES], here = 0, there = 0;
	uint64_t step = len / SAMPLES & ~(uint64_t)4095;
	unsigned n = 0;
	for (uint64_t at = 0; n < SAMPLES && at < len; at += KV_MAX(step, (uint64_t)4096))
		page[n++] = (uint8_t *)(uintptr_t)base + at;
	if (syscall(SYS_move_pages, 0, (unsigned long)n, page, NULL, status, 0) != 0)
		return -1;
	for (unsigned i = 0; i < n; i++) {
		there += status[i] >= 0;
		here += status[i] == node;
	}
	return there ? here * 100 / there : -1;
}
