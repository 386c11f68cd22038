/* SPDX-License-Identifier: Apache-2.0 */
/* budget.h -- before anything opens: the devices and libraries of this machine, the resources that engines need, and
 * whether they suffice. Part of engine.h. */
#ifndef KVRAIL_ENGINE_BUDGET_H
#define KVRAIL_ENGINE_BUDGET_H

#include "host/host.h"

struct te_options;

/* ---- devices and libraries ---- */

/* One libfabric device that an engine could open: a candidate rail. */
struct te_device {
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX], domain[KV_NAME_MAX], short_name[KV_NAME_MAX];
	char local[KV_NAME_MAX];  /* source address, or "" */
	uint64_t link_bits_per_s; /* 0: unknown */
	int numa_node;            /* -1: unknown */
};

/* A provider that KVRail knows, and whether libfabric has a device for it. */
struct te_provider {
	char name[KV_NAME_MAX], libfabric[KV_NAME_MAX]; /* "tcp", "tcp;ofi_rxm" */
	bool automatic;                                 /* a candidate of "auto" */
	unsigned devices;
	char why[160]; /* why it has no device; else "" */
};
/* te_providers -- list at most max providers, best first. Returns the count. Thread: any; loads libfabric's providers,
 * some ms. */
unsigned te_providers(struct te_provider *out, unsigned max);

enum { TE_LIBRARY_COPIES = 4, TE_PATH_MAX = 256 };

struct te_library {
	char version[KV_NAME_MAX];                   /* as the library reports it: "1.17.0" */
	uint32_t major, minor;                       /* of the library */
	uint32_t built_major, built_minor;           /* of the headers KVRail was built with */
	char path[TE_PATH_MAX];                      /* the loaded file, links followed; "": linked statically */
	char copies[TE_LIBRARY_COPIES][TE_PATH_MAX]; /* other libfabric files loaded into this process */
	unsigned num_copies;
	char verbs_path[TE_PATH_MAX]; /* libibverbs, likewise; its file name carries rdma-core's version */
};
/* te_library -- fills *out. Thread: any. */
void te_library(struct te_library *out);

/* ---- RDMA devices, as the kernel and libibverbs see them ---- */

enum { TE_RDMA_PORTS = 4, TE_RDMA_MAX = 64 };

struct te_rdma_port {
	unsigned number;
	char state[24], physical[24], rate[40],
		link_layer[16];     /* "ACTIVE", "LinkUp", "100 Gb/sec (4X EDR)", "Ethernet" */
	char gid[48], gid_type[24]; /* the first GID; "" without one */
	char netdev[24];            /* its network interface, or "" */
	bool active;
};

struct te_rdma {
	char name[KV_NAME_MAX], driver[32], firmware[KV_NAME_MAX], pci[24],
		node[48]; /* node: "/dev/infiniband/uverbs0" */
	uint32_t vendor, part;
	bool efa;
	int numa_node;  /* -1: unknown */
	int node_error; /* errno of opening `node` read-write; 0: it opens; -1: not tried */
	unsigned num_ports;
	struct te_rdma_port port[TE_RDMA_PORTS];
	/* of libibverbs; KV_UNKNOWN where it was not asked or does not know the device */
	char query_error[120]; /* why libibverbs could not be asked; "": it was */
	uint64_t qp_max, wr_max, cq_max, cqe_max, mr_max, mr_bytes_max;
	uint64_t qp_used, cq_used, mr_used; /* in use on this machine, from the kernel's resource tracking */
	/* of efadv; all 0 for other devices, or without libefa */
	bool efadv;
	uint32_t efa_sq_max, efa_rq_max, efa_inline, efa_caps;
	uint64_t efa_rdma_bytes_max;
};

/* Bits of efa_caps; newer rdma-core declares the rest in efadv.h. */
enum { TE_EFA_READ = 1, TE_EFA_RNR_RETRY = 2, TE_EFA_CQ_SGID = 4, TE_EFA_WRITE = 8, TE_EFA_UNSOLICITED = 16 };

/* te_rdma_list -- list the devices in /sys/class/infiniband below root: all, or those of a libfabric domain. With root
 * "" it also asks libibverbs, libefa and the kernel. Returns their number; writes at most max. Thread: any; some ms. */
unsigned te_rdma_list(const char *root, const char *domain, struct te_rdma *out, unsigned max);

/* ---- a budget ---- */

/* A group of equal engines: the clients of a pool, or the shards of a server. */
struct te_load {
	unsigned engines;
	uint64_t region_bytes; /* registered by each engine on every rail, besides its messages */
	unsigned peers;        /* engine rails connected to one rail of each engine */
	unsigned threads;      /* worker threads of all engines together */
	uint64_t files;
};

struct te_budget_device {
	struct te_device device;
	struct kv_device_limits limits;
	struct kv_need need;
};

struct te_budget {
	char why[512]; /* why this provider */
	bool pins_memory, shared_memory;
	unsigned rails;       /* of each engine */
	unsigned num_devices; /* devices found; those without endpoints need zero */
	struct te_budget_device device[KV_RAILS_MAX];
	struct kv_need process; /* all devices together, for the process's limits */
};

/* te_budget -- choose provider and devices as te_open would, for all engines of a load, and add up their needs. Errors:
 * te_open's for the choice. Thread: any. */
int te_budget(const struct te_options *options, const struct te_load *load, struct te_budget *out,
	      struct kv_error *err);

/* te_budget_beside -- the part of process.memory_bytes outside the load's regions: endpoints, messages, and the process
 * itself. Thread: any. */
uint64_t te_budget_beside(const struct te_budget *budget, const struct te_load *load);

/* te_preflight -- budget a load and check it against this machine, before the first endpoint opens. *out_files (or
 * NULL) is the number of descriptors that this process will have open then. Returns 0; -KV_ELIMIT with the first
 * exceeded limit and the remedy; or an error of te_budget. Thread: any. */
int te_preflight(const struct te_options *options, const struct te_load *load, uint64_t *out_files,
		 struct kv_error *err);

#endif
