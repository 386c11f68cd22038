/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h -- the results of kv-doctor: facts for the tables, and findings, which are lines with a verdict and a
 * remedy. Private to kvdoctor/.
 *
 * The files fill struct doctor in this order: look.c (libraries, RDMA devices), network.c, plan.c and environment.c
 * (the planned run, checked), try.c (the trial), reach.c (servers), advise.c (faster alternatives). text.c and json.c
 * print it and decide nothing. */
#ifndef KVRAIL_KVDOCTOR_DOCTOR_H
#define KVRAIL_KVDOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stdio.h>

#include "base/base.h"
#include "engine/engine.h"
#include "host/host.h"
#include "kvdoctor/options.h"

enum { FINDINGS_MAX = 512, PROVIDERS_MAX = 16, NETDEVS_MAX = 64, FILES_MAX = 8, MODULES_MAX = 8, WORD_MAX = 64 };

enum { DOCTOR_SERVER_FILES = 65536 }; /* kv-server raises its soft limit to this, if the hard limit allows */

enum section {
	SECTION_LIBRARIES,
	SECTION_DEVICES,
	SECTION_NETWORK,
	SECTION_RUN,
	SECTION_TRY,
	SECTION_ADVICE,
	SECTIONS
};
extern const char *const section_names[SECTIONS]; /* "libraries", ... */

struct finding {
	enum section section;
	enum kv_status status;
	char id[32], subject[WORD_MAX], name[32]; /* "memlock", "kv-bench", "locked memory" */
	const char *unit;                         /* "", "bytes" */
	uint64_t need, have;                      /* KV_UNKNOWN: the finding has no numbers */
	char text[768], remedy[400];
};

struct netdev {
	char name[24], address[48], driver[32]; /* address: the first one, or "" */
	bool up;
	long speed_mbps; /* -1: unknown */
	long mtu;
	int numa_node;
};

struct module {
	char name[24], version[48];
};

/* One process of the run, and its needs. */
struct role {
	const char *name; /* "kv-bench", "kv-server" */
	bool present;
	unsigned engines, threads, peers;
	uint64_t region_bytes, files;
	struct te_options options;
	struct te_load load;
	struct te_budget budget;
	int rc; /* of te_budget */
	struct kv_error error;
};

struct trial {
	bool done;       /* the child finished */
	unsigned opened; /* endpoints */
	uint64_t open_ns, register_ns, registered_bytes, ping_ns, bytes;
	bool moved;
	bool looked; /* an engine was asked for the following; before, it is unknown */
	bool wait_fd, write_emulated, read_emulated;
	char no_door[160]; /* why its fabric ports have no doorkeeper; "": there is one */
	char error[400];   /* why the trial ended early; "" */
	char log[400];     /* the end of the child's stderr; PROBE_LOG_MAX */
};

struct doctor {
	const struct doctor_options *opt;
	const char *root; /* "" or --sysroot */
	int argc;
	char **argv;
	struct kv_host host;
	struct te_library library;
	char libraries[FILES_MAX][TE_PATH_MAX]; /* libfabric files on this machine, links followed */
	unsigned num_libraries;
	char installer[TE_PATH_MAX]; /* the AWS EFA installer's libfabric, or "" */
	struct module module[MODULES_MAX];
	unsigned num_modules;
	struct te_rdma *rdma; /* TE_RDMA_MAX */
	unsigned num_rdma;
	struct te_provider provider[PROVIDERS_MAX];
	unsigned num_providers;
	struct netdev netdev[NETDEVS_MAX];
	unsigned num_netdevs;
	char congestion[32], congestions[160], qdisc[32];
	uint64_t wmem_max, rmem_max; /* the third number of tcp_wmem, tcp_rmem; KV_UNKNOWN */
	char uring_error[400];       /* why the run's loops could not be made on io_uring; "" */
	int uring_code;
	bool loops_fail; /* nor on epoll */
	int cma_error;   /* see kv_checkup */
	struct role client, server;
	struct trial tried_client, tried_server;
	struct finding finding[FINDINGS_MAX];
	unsigned num_findings;
};

/* doctor_found -- add a finding with a printf-formatted text. When the list is full, the last place holds the latest
 * finding, with the worst status of all that stood there. Returns the finding, valid until the next call.
 * doctor_remedy -- the remedy of the latest finding. */
struct finding *doctor_found(struct doctor *d, enum section section, enum kv_status status, const char *id,
			     const char *subject, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 7, 8)));
void doctor_remedy(struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* doctor_verdict -- add a verdict of kv_check. */
void doctor_verdict(struct doctor *d, enum section section, const char *subject, const struct kv_verdict *v);

/* doctor_worst -- KV_FAIL if a finding fails, else KV_WARN if one warns, else KV_OK. doctor_count -- the number of
 * findings with this status. */
enum kv_status doctor_worst(const struct doctor *d);
unsigned doctor_count(const struct doctor *d, enum kv_status status);
const char *doctor_status_name(enum kv_status status); /* "ok", "info", "warning", "fails" */

/* doctor_speed -- the speed of a link as text: "25 Gb/s", "2500 Mb/s". Returns buf. */
const char *doctor_speed(long mbps, char *buf, size_t cap);

void doctor_look(struct doctor *d);    /* look.c */
void doctor_network(struct doctor *d); /* network.c */
void doctor_plan(struct doctor *d);    /* plan.c */
/* doctor_tier -- tier.c, for plan.c: look at the places of --tier. Their bytes together. */
uint64_t doctor_tier(struct doctor *d, unsigned *out_places);
/* doctor_files_soft -- the soft RLIMIT_NOFILE of a process of the run. */
uint64_t doctor_files_soft(const struct doctor *d, const struct role *r);
void doctor_environment(struct doctor *d); /* environment.c */
void doctor_try(struct doctor *d);         /* try.c */
void doctor_reach(struct doctor *d);       /* reach.c */
void doctor_advise(struct doctor *d);      /* advise.c */

/* doctor_memory_try -- whether a process may read another's memory, as shm does. Returns 0, an errno, or -1 when it
 * could not be tried. */
int doctor_memory_try(void);

/* try_child -- the main of a trial's child, with the arguments behind TRY_CHILD: the address of TRY_MEMORY in the
 * parent (doctor_memory_try), or the descriptors of a probe (doctor_try). Returns the exit status. */
#define TRY_CHILD  "--try-child"
#define TRY_MEMORY "is it allowed?"
int try_child(int argc, char **argv);

/* reach_child -- the main of a child that connects to a server, with the arguments behind REACH_CHILD: the descriptor
 * for its report, the server's number in --server, and the command line of its parent. Returns the exit status. */
#define REACH_CHILD "--reach-child"
int reach_child(int argc, char **argv);

void text_print(const struct doctor *d, FILE *out);
/* json_print -- write the report to a file, or to stdout ("-"). 0; -KV_ENOMEM or -errno with *err. */
int json_print(const struct doctor *d, const char *path, struct kv_error *err);

#endif
