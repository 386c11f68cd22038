/* SPDX-License-Identifier: Apache-2.0 */
/* numa.h -- place threads and memory near each other. All are wishes: with one node, in a container that forbids it, or
 * without room, memory is slower, never missing. */
#ifndef KVRAIL_HOST_NUMA_H
#define KVRAIL_HOST_NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KV_NODE_ANY = -1,
	KV_NODES_MAX = 1024,
	KV_CPUS_MAX = 8192 /* likewise */
};

struct kv_cpus {
	uint64_t bits[KV_CPUS_MAX / 64];
};

unsigned kv_cpus_count(const struct kv_cpus *cpus);
bool kv_cpus_has(const struct kv_cpus *cpus, unsigned cpu);
/* kv_cpus_parse -- a kernel list such as "0-3,8,10-11\n"; "": empty. 0 or -KV_EINVAL. */
int kv_cpus_parse(const char *list, struct kv_cpus *out);

/* kv_numa_nodes -- nodes with memory; 1 if unknown. kv_numa_cpus -- the CPUs of a node; 0 or -KV_ENOTFOUND. Below root;
 * "": this machine. */
unsigned kv_numa_nodes(const char *root);
int kv_numa_cpus(const char *root, int node, struct kv_cpus *out);

/* kv_thread_cpus, kv_thread_set_cpus -- the calling thread's CPUs. 0 or -errno. */
int kv_thread_cpus(struct kv_cpus *out);
int kv_thread_set_cpus(const struct kv_cpus *cpus);

/* kv_numa_bind_thread -- restrict the calling thread to its CPUs on a node. *out_before (may be NULL): the former ones.
 * Returns the number now; 0: none, nothing changed; or -errno. */
int kv_numa_bind_thread(const char *root, int node, struct kv_cpus *out_before);

/* kv_numa_prefer_memory -- untouched pages of [base, base + len) come from this node while it has room, for any thread.
 * base is page aligned. 0 or -errno (-EPERM in some containers, -ENOSYS). */
int kv_numa_prefer_memory(void *base, uint64_t len, int node);

/* A thread's former memory policy. */
struct kv_numa_saved {
	unsigned long nodes[KV_NODES_MAX / (8 * sizeof(unsigned long))];
	int mode;
	bool changed;
};
/* kv_numa_prefer -- until kv_numa_restore, pages first touched by the calling thread come from this node while it has
 * room. KV_NODE_ANY: no change. 0 or -errno; restore in both cases. */
int kv_numa_prefer(int node, struct kv_numa_saved *out);
void kv_numa_restore(const struct kv_numa_saved *saved);

/* One loop's placement, with engine and memory. */
struct kv_numa_place {
	int node;   /* of its NICs; KV_NODE_ANY: unknown, or off */
	int thread; /* CPUs of the node that its thread is bound to; 0: none; -errno; KV_THREAD_FREE: not our thread */
	int memory_error; /* -errno: memory could not be placed; else 0 */
};
enum { KV_THREAD_FREE = -10000 };

/* kv_numa_describe -- n places in words; `what`: the noun. 160 bytes suffice for most. Returns buf. */
char *kv_numa_describe(const struct kv_numa_place *place, unsigned n, const char *what, bool off, char *buf,
		       size_t cap);

/* kv_numa_share -- percentage of sampled present pages of [base, base + len) on this node; -1: none present, or
 * unknown. */
int kv_numa_share(const void *base, uint64_t len, int node);

#endif
