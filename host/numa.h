/* SPDX-License-Identifier: Apache-2.0 */
/* numa.h -- which CPUs and which memory are near each other, and how to ask the kernel for them.
 *
 * Everything here is a wish: a machine with one node, a container that forbids it or a node without room gives memory
 * that is slower, never none. */
#ifndef KVRAIL_HOST_NUMA_H
#define KVRAIL_HOST_NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KV_NODE_ANY = -1,
	KV_NODES_MAX = 1024, /* what the kernel can be built for; node numbers are smaller */
	KV_CPUS_MAX = 8192   /* likewise */
};

struct kv_cpus {
	uint64_t bits[KV_CPUS_MAX / 64];
};

unsigned kv_cpus_count(const struct kv_cpus *cpus);
bool kv_cpus_has(const struct kv_cpus *cpus, unsigned cpu);
/* kv_cpus_parse -- the kernel's lists: "0-3,8,10-11\n"; "" is none. 0 or -KV_EINVAL. */
int kv_cpus_parse(const char *list, struct kv_cpus *out);

/* kv_numa_nodes -- nodes that have memory; 1 where the kernel knows of none. Reads /sys below root ("" is the machine's
 * own), as kv_numa_cpus does: the CPUs of a node, 0 or -KV_ENOTFOUND. */
unsigned kv_numa_nodes(const char *root);
int kv_numa_cpus(const char *root, int node, struct kv_cpus *out);

/* kv_thread_cpus, kv_thread_set_cpus -- those that the calling thread may run on. 0 or -errno. */
int kv_thread_cpus(struct kv_cpus *out);
int kv_thread_set_cpus(const struct kv_cpus *cpus);

/* kv_numa_bind_thread -- let the calling thread run on the CPUs of a node alone, as far as it may run there now
 * (affinity, cpuset). *out_before (may be NULL) is what it had, for kv_thread_set_cpus. Returns how many CPUs it has
 * now; 0: the node has none that it may use, and nothing was changed; or -errno. */
int kv_numa_bind_thread(const char *root, int node, struct kv_cpus *out_before);

/* kv_numa_prefer_memory -- pages of [base, base + len) that are not touched yet come from this node while it has room,
 * whoever touches them. base is page aligned. 0 or -errno (-EPERM in containers that forbid it, -ENOSYS). */
int kv_numa_prefer_memory(void *base, uint64_t len, int node);

/* What a thread's memory policy was. */
struct kv_numa_saved {
	unsigned long nodes[KV_NODES_MAX / (8 * sizeof(unsigned long))];
	int mode;
	bool changed;
};
/* kv_numa_prefer -- until kv_numa_restore, what the calling thread touches first comes from this node while it has
 * room. For what others allocate on our behalf. Node KV_NODE_ANY changes nothing. 0 or -errno; restore either way. */
int kv_numa_prefer(int node, struct kv_numa_saved *out);
void kv_numa_restore(const struct kv_numa_saved *saved);

/* What became of one loop, its engine and its memory. */
struct kv_numa_place {
	int node;   /* of its NICs; KV_NODE_ANY: unknown, or nothing was asked */
	int thread; /* CPUs of the node that its thread is bound to; 0: it may use none there; -errno; KV_THREAD_FREE:
		       not ours to bind */
	int memory_error; /* -errno: memory could not be asked for; 0 */
};
enum { KV_THREAD_FREE = -10000 };

/* kv_numa_describe -- the same of n `what`s in words: "shards 0-1 on node 0, 2-3 on node 1; threads bound to its CPUs".
 * 160 bytes are enough for what matters. Returns buf. */
char *kv_numa_describe(const struct kv_numa_place *place, unsigned n, const char *what, bool off, char *buf,
		       size_t cap);

/* kv_numa_share -- percent of the pages of [base, base + len) that are there and on this node, by a sample of them; -1
 * when none is there or the kernel does not say. */
int kv_numa_share(const void *base, uint64_t len, int node);

#endif
