/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h -- the shim's own structures. One lock for everything: the imitated devices' thread (device.c) and the
 * program's calls take turns. */
#ifndef KVRAIL_TESTS_SHIM_INSIDE_H
#define KVRAIL_TESTS_SHIM_INSIDE_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "base/list.h"
#include "tests/shim/shim.h"

#define CONTAINER(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

enum {
	BLOB_MAX = 32,
	CONTEXT_BYTES = sizeof(struct fi_context2),
	HEADER_BYTES = 64,
	MESSAGE_MAX = 64 << 10,
	SOFT_READ_MIN =
		64 << 10, /* emulated writes of so much are read by the target; smaller ones travel in messages */
	HELD_MAX = 16     /* RMA that is taken before the handshake, and held until it is made */
};

/* What the providers of the imitated machines are; the table is in machine.c. */
struct shim_kind {
	const char *short_name, *prov_name, *fabric;
	bool efa;       /* addresses, errors and options of EFA; else those of verbs;ofi_rxm */
	bool unordered; /* packets, messages and completions overtake each other */
	bool context2;  /* scribbles over contexts */
	bool local;     /* FI_MR_LOCAL */
	bool pool; /* has receives of its own for messages and immediates; else they wait for the program's (RNR) */
	bool handshake; /* RMA to a peer is held or refused until it has answered, which it does when it reads its CQ */
	bool connects;  /* every post to a peer is refused until it is connected: both sides have to read their CQs */
	bool soft_writes; /* writes are done by the target's CPU when it reads its CQ */
	bool needs_av;    /* RMA is refused by targets that do not have the initiator in their AV */
	bool wait_fd;
	uint64_t msg_max, rma_max;
	size_t tx, rx, cq, eps, mrs;
};

struct shim_config {
	const struct shim_kind *kinds[2]; /* in the order in which fi_getinfo tells them */
	const char *machine;
	uint64_t seed;
	unsigned nics, mtu;
	uint64_t tx, rx, cq_max, rma_kb, stall, stall_ms, ep_max, sq_budget, eagain, delay, delay_us, fail, fail_at,
		fail_us, eq, death_ms, lost_ms, close_ms, mr_mb, mr_part_mb, einval, inuse, strict, unsolicited, setopt,
		check, rdma, wait_fd;
};

extern struct shim_config shim_config;
extern struct shim_counts shim_count;
extern pthread_mutex_t shim_lock;
extern bool shim_frozen;
extern atomic_uint shim_domains; /* of EFA, open */

/* ---- machine.c ---- */
bool shim_active(void);
const struct shim_kind *shim_kind_of(const struct fi_fabric_attr *attr);
void shim_fork_watch(void);
void shim_device_name(unsigned nic, char *out, size_t cap);
uint64_t shim_rma_max(const struct shim_kind *k);
uint64_t shim_random(void);   /* under the lock */
bool shim_one_in(uint64_t n); /* under the lock; n = 0: never */
uint64_t shim_now(void);
void shim_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Between these one thread is inside an endpoint, or what is bound to it: a second one at the same time is a violation.
 * They take and give the lock. */
struct shim_domain;
void shim_enter(struct shim_domain *d);
void shim_leave(struct shim_domain *d);

/* ---- objects ---- */
struct shim_fabric {
	struct fid_fabric fid;
	const struct shim_kind *kind;
	unsigned refs;
};

struct shim_domain {
	struct fid_domain fid;
	struct shim_fabric *fabric;
	const struct shim_kind *kind;
	unsigned refs, nic;
	atomic_uint inside; /* threads */
	unsigned held;      /* endpoints being closed that wait for what they have out: nobody gets in */
	uint64_t posted;
	struct kv_list mrs;
};

struct shim_mr {
	struct fid_mr fid;
	struct kv_list node;
	struct shim_domain *domain;
	uint8_t *base;
	uint64_t len, access;
	unsigned users; /* operations that were posted with it */
};

struct shim_av {
	struct fid_av fid;
	struct shim_domain *domain;
	unsigned refs;
	struct {
		uint8_t blob[BLOB_MAX];
		bool used;
	} *row;
	size_t rows, room;
};

struct shim_eq {
	struct fid_eq fid;
	struct shim_fabric *fabric;
	unsigned refs, errors;
	int prov_errno;
};

struct shim_cqe {
	void *ctx;
	struct shim_ep *ep;
	struct shim_op *op; /* whose slot is free when this is read; NULL: a receive or an immediate */
	uint64_t flags, len, data, due, order;
	int err, prov_errno;
};

struct shim_cq {
	struct fid_cq fid;
	struct shim_domain *domain;
	struct kv_list eps;
	unsigned refs;
	struct shim_cqe *entry;
	size_t entries, size;
	uint64_t order, stalled; /* until when nothing is read */
	bool overrun, held;      /* held: an error entry is at the front until it is read */
	bool stirred;            /* something came that the program's CPU has to handle: it does when it reads */
	int event_fd;
};

enum op_type { OP_SEND, OP_WRITE, OP_READ };
enum op_state { OP_FREE, OP_ACTIVE, OP_SENT, OP_DYING, OP_DONE };

struct shim_op {
	enum op_type type;
	enum op_state state;
	struct shim_ep *ep;
	struct shim_conn *conn;
	struct shim_mr *mr;
	void *ctx;
	uint8_t *buf;
	uint64_t len, addr, key, id, hash, release, posted, got;
	uint32_t imm, packets, next, start, step;
	fi_addr_t to;
	int status;
	bool has_imm, doomed;
	struct shim_op *free;
};

struct shim_rx {
	void *ctx;
	uint8_t *buf;
	size_t len;
	struct shim_mr *mr;
};

struct shim_ep {
	struct fid_ep fid;
	struct kv_list all, of_cq;
	struct shim_domain *domain;
	const struct shim_kind *kind;
	struct shim_cq *cq;
	struct shim_av *av;
	struct shim_eq *eq;
	uint64_t mode;
	size_t tx, rx, used;
	bool enabled, dead, unsolicited, soft_writes, soft_reads;
	unsigned burst; /* reads of the CQ until posts are accepted again */
	struct shim_op *op, *free;
	struct shim_rx *recv; /* ring */
	size_t recv_at, recvs;
	struct kv_list conns;
	struct kv_list waiting; /* messages and immediates that arrived and wait for a receive, or for the CPU */
	size_t waiting_count, dying;
	int listener;
	uint16_t port;
	uint32_t qpn, qkey;
	uint8_t blob[BLOB_MAX];
	size_t blob_len;
};

/* ---- cq.c ---- */
int shim_cq_open(struct fid_domain *d, struct fi_cq_attr *attr, struct fid_cq **out, void *context);
void shim_cq_push(struct shim_cq *cq, struct shim_cqe e);
void shim_cq_stir(struct shim_cq *cq);
void shim_cq_forget(struct shim_cq *cq, const struct shim_ep *ep);
int shim_trywait(struct fid_fabric *f, struct fid **fids, int count);

/* ---- ep.c ---- */
int shim_ep_open(struct fid_domain *d, struct fi_info *info, struct fid_ep **out, void *context);
void shim_op_complete(struct shim_op *op, int status);
void shim_eq_push(struct shim_ep *ep, int prov_errno);
bool shim_recv_take(struct shim_ep *ep, struct shim_rx *out);
struct shim_mr *shim_mr_find(struct shim_domain *d, uint64_t key);
extern struct kv_list shim_eps;

/* ---- object.c ---- */
int shim_fabric_open(const struct shim_kind *kind, struct fi_fabric_attr *attr, struct fid_fabric **out, void *context);
bool shim_busy(unsigned refs, const char *what);
bool shim_av_has(const struct shim_av *av, const uint8_t *blob);
int shim_no_bind(struct fid *fid, struct fid *to, uint64_t flags);
int shim_no_control(struct fid *fid, int command, void *arg);
int shim_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

/* ---- counters.c: under the lock ---- */
enum shim_counter { COUNT_SEND, COUNT_RECV, COUNT_WRITE, COUNT_WRITE_RECV, COUNT_READ, COUNT_READ_RESP, SHIM_COUNTERS };
void shim_nic_count(const struct shim_ep *ep, enum shim_counter which, uint64_t bytes);
int shim_counters_write(bool now);

/* ---- device.c: all under the lock ---- */
int device_attach(struct shim_ep *ep);  /* listen; the endpoint's address is set */
void device_detach(struct shim_ep *ep); /* when it returns, nothing of this endpoint is touched any more */
/* A connection to an address, made if there is none. */
struct shim_conn *device_conn(struct shim_ep *ep, const uint8_t *blob);
bool device_shaken(struct shim_conn *c);      /* the peer has answered, and that was read; else it is asked */
bool device_holds(const struct shim_conn *c); /* takes one more operation before it is shaken */
void device_conn_add(struct shim_conn *c, struct shim_op *op);
void device_peer_removed(struct shim_ep *ep, const uint8_t *blob);
void device_soft(struct shim_ep *ep);     /* the program reads its CQ: what its CPU does, is done now */
void device_receives(struct shim_ep *ep); /* a receive was posted */
void device_wake(void);

#endif
