/* SPDX-License-Identifier: Apache-2.0 */
/* numa.h -- which CPUs and which memory are near each other, and how to ask the kernel for them.
 *
 * Everything here is a wish. On a machine with one node, in a container that forbids it, or on a node without room, the
 * memory is slower but never missing. */
#ifndef KVRAIL_HOST_NUMA_H
#define KVRAIL_HOST_NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KV_NODE_ANY = -1,
	KV_NODES_MAX = 1024, /* the most that a kernel can be built for; node numbers are smaller */
	KV_CPUS_MAX = 8192   /* likewise */
};

struct kv_cpus {
	uint64_t bits[KV_CPUS_MAX / 64];
};

unsigned kv_cpus_count(const struct kv_cpus *cpus);
bool kv_cpus_has(const struct kv_cpus *cpus, unsigned cpu);
/* kv_cpus_parse -- read a kernel list such as "0-3,8,10-11\n"; "" is the empty set. Returns 0 or -KV_EINVAL. */
int kv_cpus_parse(const char *list, struct kv_cpus *out);

/* kv_numa_nodes -- the number of nodes that have memory; 1 where the kernel knows of none. kv_numa_cpus -- the CPUs of
 * a node; returns 0 or -KV_ENOTFOUND. Both read /sys below root; "" is this machine. */
unsigned kv_numa_nodes(const char *root);
int kv_numa_cpus(const char *root, int node, struct kv_cpus *out);

/* kv_thread_cpus, kv_thread_set_cpus -- get and set the CPUs that the calling thread may run on. Return 0 or -errno. */
int kv_thread_cpus(struct kv_cpus *out);
int kv_thread_set_cpus(const struct kv_cpus *cpus);

/* kv_numa_bind_thread -- restrict the calling thread to those CPUs of a node that it may run on now (affinity, cpuset).
 * *out_before (may be NULL) gets its former CPUs, for kv_thread_set_cpus. Returns the number of CPUs it has now; 0 when
 * it may use none of the node's, and nothing was changed; or -errno. */
int kv_numa_bind_thread(const char *root, int node, struct kv_cpus *out_before);

/* kv_numa_prefer_memory -- untouched pages of [base, base + len) come from this node while it has room, whichever
 * thread touches them. base is page aligned. Returns 0 or -errno (-EPERM in containers that forbid it, -ENOSYS). */
int kv_numa_prefer_memory(void *base, uint64_t len, int node);

/* A thread's former memory policy. */
struct kv_numa_saved {
	unsigned long nodes[KV_NODES_MAX / (8 * sizeof(unsigned long))];
	int mode;
	bool changed;
};
/* kv_numa_prefer -- until kv_numa_restore, pages that the calling thread touches first come from this node while it has
 * room. For memory that libraries allocate for us. KV_NODE_ANY changes nothing. Returns 0 or -errno; call
 * kv_numa_restore in both cases. */
int kv_numa_prefer(int node, struct kv_numa_saved *out);
void kv_numa_restore(const struct kv_numa_saved *saved);

/* The placement of one loop with its engine and memory. */
struct kv_numa_place {
	int node;         /* node of its NICs; KV_NODE_ANY: unknown, or placement is off */
	int thread;       /* number of CPUs of the node that its thread is bound to; 0: it may use none of them; -errno;
			     KV_THREAD_FREE: not our thread */
	int memory_error; /* -errno when memory could not be asked for; else 0 */
};
enum { KV_THREAD_FREE = -10000 };

/* kv_numa_describe -- write n places in words, `what` being the noun: "shards 0-1 on node 0, 2-3 on node 1; 4 of 4
 * threads bound to CPUs there". 160 bytes are enough for the main part. Returns buf. */
char *kv_numa_describe(const struct kv_numa_place *place, unsigned n, const char *what, bool off, char *buf,
		       size_t cap);

/* kv_numa_share -- take a sample of the pages of [base, base + len) and return the percentage of its present pages that
 * are on this node; -1 when none is present or the kernel does not tell. */
int kv_numa_share(const void *base, uint64_t len, int node);

#endif
