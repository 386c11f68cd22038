/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- the body of struct fab, for the files of engine/fabric/ only. */
#ifndef KVRAIL_ENGINE_FABRIC_PRIVATE_H
#define KVRAIL_ENGINE_FABRIC_PRIVATE_H

#include <netinet/in.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "engine/fabric/fabric.h"
#include "engine/door/door.h"
#include "engine/fabric/quirks.h"

/* Default depths. Modest: depth is memory per endpoint, and four transfers in flight per link fill a pipe. */
enum { FAB_TX_DEPTH = 1024, FAB_RX_DEPTH = 512, FAB_CQ_DEPTH = 8192, FAB_DEPTH_MIN = 16 };

#define FAB_OUT_MAX_NS 10000000000ull /* an abandoned endpoint closes after this time in any case (fabric/retire.c) */
#define FAB_ENOMR      270            /* FI_ENOMR of libfabric 1.18 and later */
#define FAB_RMA_MAX    ((uint64_t)1 << 30) /* an immediate must not be segmented: EFA's largest RDMA is 1 GiB */

/* The objects opened and closed together, "the endpoint"; all NULL: closed. */
struct fab_ends {
	struct fid_ep *ep; /* NULL: closed for operations (a rebuild failed) */
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_eq *eq;
};

/* Abandoned endpoints, not closed yet: fabric/retire.c. */
struct abandoned {
	struct kv_list list;
	unsigned count;
	uint32_t out; /* operations of the endpoint abandoned next (fab_posted) */
};

struct fab {
	struct fi_info *info; /* our copy; its sizes are the opened ones */
	const struct fab_quirk *quirk;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fab_ends ends;
	/* Posting and polling read this line, and the members above. */
	struct fab_resolve
		*resolve;  /* NULL: libfabric resolves addresses without blocking, or not verbs (fabric/resolve.c) */
	struct door *door; /* NULL: none, see caps.no_door */
	bool split_imm;    /* see fabric.c */
	bool dead_due;
	bool opened;  /* fab_open has returned: a loop owns the rail and must not be blocked */
	bool counted; /* in the census of endpoints (fabric/census.c) */
	struct abandoned abandoned;
	uint32_t polls;
	int wait_fd;
	uint32_t cq_wanted;
	struct kv_list mrs;
	size_t name_len;
	struct fab_options options;
	struct fab_caps caps;
	struct sockaddr_storage local;  /* fab_local_set; family 0: none */
	struct kv_device_limits limits; /* of the device when it was opened, without the changing ones */
	char last_error[256];
};

/* A split write keeps its state in the context, where the provider does not use it. Its two operations have the
 * context's address, and that address plus FAB_CTX_IMM; every other operation has one left. */
struct fab_split {
	uint32_t left;
	int status;
};
enum { FAB_CTX_IMM = 1 };

static inline struct fab_split *fab_split_of(struct fab_ctx *ctx)
{
	return (struct fab_split *)(void *)ctx->provider;
}

struct fab_mr {
	struct kv_list node;
	struct fid_mr *mr;
	uint64_t base, key;
};

/* fab_api_version -- the version for fi_getinfo: no newer than the headers (structs grow with it) or the library. */
uint32_t fab_api_version(void);

/* fab_version -- the library's version ("1.17.0"), KV_NAME_MAX bytes. Thread: any. */
void fab_version(char *out);

/* fab_hints -- the hints for one provider; NULL: no memory. For fi_freeinfo. */
struct fi_info *fab_hints(const struct fab_quirk *quirk, const char *prov_name);

/* fab_address_text -- an IP socket address without its port, LOCAL_TEXT_MAX bytes at most; else "". */
enum { LOCAL_TEXT_MAX = INET6_ADDRSTRLEN };
void fab_address_text(const void *addr, size_t len, char *out);

/* fab_address_take -- replace the lost address of a closed endpoint by another of its device and family, if any. */
void fab_address_take(struct fab *fab);

/* fab_select_fork -- hold the lock of fi_getinfo over a fork(). */
void fab_select_fork(bool hold);

/* fab_drain -- read and discard all completions: the endpoint closes next. */
void fab_drain(struct fab *fab);

/* ---- fabric/retire.c ---- */

/* fab_leak_log -- closing the object `what` returned rc: on failure warn that it is leaked. Thread: any. */
void fab_leak_log(const struct fab *fab, const char *what, int rc);

/* fab_ends_close -- close them, in this order, except NULLs; objects that refuse are leaked. Thread: any. */
void fab_ends_close(const struct fab *fab, const struct fab_ends *ends);

/* fab_retire_now -- abandon the endpoint, if any, until fab_retire. fab_retire_end -- close all abandoned ones. */
void fab_retire_now(struct fab *fab);
void fab_retire_end(struct fab *fab);

/* ---- fabric/shm.c ---- */

/* fab_shm_name -- give a shm endpoint, not enabled yet, a unique name. 0 or a libfabric code. fab_shm_clean -- remove
 * the files of endpoints whose process has ended. fab_shm_look -- bytes of /dev/shm that an endpoint needs. */
int fab_shm_name(struct fab *fab);
uint64_t fab_shm_look(void);
void fab_shm_clean(const struct fab *fab);

/* ---- fabric/tcp.c ---- */

/* fab_tcp_settle -- for a TCP endpoint on a loopback address: a congestion control without pacing (caps.congestion). */
void fab_tcp_settle(struct fab *fab);

/* fab_tcp_shut -- before closing an endpoint: no process can connect to it any more, and half-made connections end. */
void fab_tcp_shut(struct fab *fab);

/* fab_tcp_door -- before opening: create a doorkeeper if the options ask for it. 0, or a code with *err where they
 * require one. fab_tcp_listen -- put it in place, as soon as the endpoint is enabled. */
int fab_tcp_door(struct fab *fab, struct kv_error *err);
int fab_tcp_listen(struct fab *fab, struct kv_error *err);

/* fab_tcp_check -- 0, or -KV_ENOTSUP: the environment lets the provider announce bytes that have not arrived. */
int fab_tcp_check(const struct fab *fab, struct kv_error *err);

/* fab_verbs_function -- some function of libibverbs, which identifies its file. */
void *fab_verbs_function(void);

/* ---- fabric/env.c ---- */

/* fab_env_is_on, fab_env_number -- a variable as libfabric reads it (once, before the first fi_getinfo returns). */
bool fab_env_is_on(const char *name);
uint64_t fab_env_number(const char *name, uint64_t otherwise);

/* fab_eager_bytes -- the provider's eager limit according to its environment; 0: none. */
uint32_t fab_eager_bytes(const struct fab_quirk *quirk);

/* ---- fabric/verbs.c ---- */

/* fab_is_verbs -- a queue pair for each peer, and one completion queue for all of them. */
bool fab_is_verbs(const struct fab_quirk *quirk);

/* fab_verbs_peers_max -- the connections for which rxm sizes an endpoint's completion queue, and the entries of each.
 */
uint32_t fab_verbs_peers_max(void);
uint32_t fab_verbs_entries_per_peer(void);

/* fab_verbs_check -- 0, or -KV_ENOTSUP with *err: an environment setting loses immediates. */
int fab_verbs_check(const struct fab *fab, struct kv_error *err);

/* ---- fabric/resolve.c ---- */

/* fab_resolve_open, _close -- with the endpoint. On failure fab->resolve stays NULL, and postings may block.
 * fab_resolve_insert, _remove -- a handle of the address vector, and its address. 0 or -KV_ENOMEM. fab_resolve_known --
 * whether libfabric may connect to it; if not, retry later. fab_resolve_posted -- the result of a posting there, or of
 * an operation that failed with its connection. The last two only with fab->resolve. */
void fab_resolve_open(struct fab *fab);
void fab_resolve_close(struct fab *fab);
int fab_resolve_insert(struct fab *fab, uint64_t handle, const void *addr, size_t len);
void fab_resolve_remove(struct fab *fab, uint64_t handle);
bool fab_resolve_known(struct fab *fab, uint64_t handle);
void fab_resolve_posted(struct fab *fab, uint64_t handle, int rc);

/* ---- fabric/limits.c ---- */

/* fab_limits_check -- the checks of host/shortage.c before opening an endpoint. 0, or -KV_ELIMIT with the sentence. */
int fab_limits_check(struct fab *fab, const struct fab_device *device, const struct fab_options *options,
		     struct kv_error *err);
/* fab_limits_shm -- -KV_ELIMIT with the sentence if a provider has no device because /dev/shm is too full, else 0. */
int fab_limits_shm(const struct fab_quirk *quirk, struct kv_error *err);

/* fab_limits_short -- after a call of the provider failed for lack of resources: the limit below `need` and the remedy,
 * or the figures, as the end of a sentence. */
void fab_limits_short(struct fab *fab, const struct kv_need *need, char *buf, size_t cap);

/* fab_limits_fail -- turn libfabric's code on opening `what` into a code and a sentence with the probable limit. */
int fab_limits_fail(struct fab *fab, const char *what, int rc, struct kv_error *err);

/* ---- fabric/census.c ---- */

/* The census: open endpoints of this process per domain, to compare with ep_cnt. Any thread. */
void fab_census_add(const char *domain, int delta);
void fab_census_fork(bool hold); /* hold its lock around a fork() */
unsigned fab_census(const char *domain);

#endif
