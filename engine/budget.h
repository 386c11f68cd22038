/* SPDX-License-Identifier: Apache-2.0 */
/* budget.h -- before anything is opened: which devices and libraries are here, what engines would take of them, and
 * whether there is enough. Part of engine.h. */
#ifndef KVRAIL_ENGINE_BUDGET_H
#define KVRAIL_ENGINE_BUDGET_H

#include "host/host.h"
#include "host/host.h"

struct te_options;

/* ---- what is here ---- */

/* One libfabric device that an engine could open: a candidate rail. */
struct te_device {
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX], domain[KV_NAME_MAX], short_name[KV_NAME_MAX];
	char local[KV_NAME_MAX];  /* source address, or "" */
	uint64_t link_bits_per_s; /* 0: unknown */
	int numa_node;            /* -1: unknown */
};

/* Every provider that KVRail knows, and whether libfabric has a device for it. */
struct te_provider {
	char name[KV_NAME_MAX], libfabric[KV_NAME_MAX]; /* "tcp", "tcp;ofi_rxm" */
	bool automatic;                                 /* a candidate of "auto" */
	unsigned devices;
	char why[160]; /* why there is none; else "" */
};
/* te_providers -- at most max of them, best first. Returns the count. Thread: any; loads libfabric's providers, some
 * ms. */
unsigned te_providers(struct te_provider *out, unsigned max);

enum { TE_LIBRARY_COPIES = 4, TE_PATH_MAX = 256 };

/* The libfabric of this process. */
struct te_library {
	char version[KV_NAME_MAX];         /* as it calls itself: "1.17.0" */
	uint32_t major, minor;             /* of the library */
	uint32_t built_major, built_minor; /* of the headers that we were built with */
	char path[TE_PATH_MAX];            /* the file it was loaded from, links followed; "": linked statically */
	char copies[TE_LIBRARY_COPIES][TE_PATH_MAX]; /* other libfabric files that this process has loaded */
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
	char gid[48], gid_type[24]; /* the first one; "" when there is none */
	char netdev[24];            /* its network interface, or "" */
	bool active;
};

struct te_rdma {
	char name[KV_NAME_MAX], driver[32], firmware[KV_NAME_MAX], pci[24],
		node[48]; /* node: "/dev/infiniband/uverbs0" */
	uint32_t vendor, part;
	bool efa;
	int numa_node;  /* -1: unknown */
	int node_error; /* errno of opening `node` for reading and writing; 0: it may be opened; -1: not tried */
	unsigned num_ports;
	struct te_rdma_port port[TE_RDMA_PORTS];
	/* of libibverbs; KV_UNKNOWN where it was not asked or does not know the device */
	char query_error[120]; /* why libibverbs could not be asked; "": it was */
	uint64_t qp_max, wr_max, cq_max, cqe_max, mr_max, mr_bytes_max;
	uint64_t qp_used, cq_used, mr_used; /* on this machine, of the kernel's resource tracking */
	/* of efadv; all 0 when it is no EFA device or libefa is not here */
	bool efadv;
	uint32_t efa_sq_max, efa_rq_max, efa_inline, efa_caps;
	uint64_t efa_rdma_bytes_max;
};

/* Bits of efa_caps; the rest is in efadv.h of newer rdma-core. */
enum { TE_EFA_READ = 1, TE_EFA_RNR_RETRY = 2, TE_EFA_CQ_SGID = 4, TE_EFA_WRITE = 8, TE_EFA_UNSOLICITED = 16 };

/* te_rdma_list -- the devices in /sys/class/infiniband below root, all or (domain not NULL) that of a libfabric domain;
 * with root "" libibverbs, libefa and the kernel's resource tracking are asked, too. Returns how many there are; at
 * most max are written. Thread: any. Opens each of them: some ms. */
unsigned te_rdma_list(const char *root, const char *domain, struct te_rdma *out, unsigned max);

/* ---- a budget ---- */

/* Engines that are alike: the clients of a pool, the shards of a server. */
struct te_load {
	unsigned engines;
	uint64_t region_bytes; /* that each registers on every rail, besides its messages */
	unsigned peers;        /* engine rails that one rail of each will be connected to */
	unsigned threads;      /* threads that work, of all of them together */
	uint64_t files;        /* besides those of the endpoints: rings, control connections */
};

struct te_budget_device {
	struct te_device device;
	struct kv_device_limits limits;
	struct kv_need need; /* of all engines on this device */
};

struct te_budget {
	char why[512]; /* why this provider */
	bool pins_memory, shared_memory;
	unsigned rails;       /* of each engine */
	unsigned num_devices; /* that were found; those without endpoints have a need of zeros */
	struct te_budget_device device[KV_RAILS_MAX];
	struct kv_need process; /* of all devices together, for the process's limits */
};

/* te_budget -- choose provider and devices as te_open would, for all engines of a load, and add up what they would
 * take. Opens nothing (libibverbs is asked about limits). Errors: those of te_open that concern the choice:
 * -KV_ENOTSUP, -KV_ELIMIT (more rails than devices), -KV_ENOMEM, -KV_EINVAL. Thread: any. */
int te_budget(const struct te_options *options, const struct te_load *load, struct te_budget *out,
	      struct kv_error *err);

/* te_budget_beside -- of process.memory_bytes, what is not the memory of the load's regions: endpoints, messages, and
 * the process itself. Thread: any. */
uint64_t te_budget_beside(const struct te_budget *budget, const struct te_load *load);

/* te_budget_check -- run the checks of a budget: device by device, then those of the process. Verdicts are written to
 * out, and the device of each to out_device (-1: of the process), at most max. Returns their number. host: whose
 * limits. Thread: any. */
unsigned te_budget_check(const struct te_budget *budget, const struct kv_host *host, struct kv_verdict *out,
			 int *out_device, unsigned max);

/* te_preflight -- budget a load and check it against this machine: what kvc_pool_open and kv-server do before the first
 * endpoint. Warnings go to options->log. 0, or -KV_ELIMIT with the first limit that is short, what is needed and how to
 * lift it, or an error of te_budget. Thread: any. */
int te_preflight(const struct te_options *options, const struct te_load *load, struct kv_error *err);

#endif
