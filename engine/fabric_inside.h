/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_inside.h -- the body of struct fab, shared by the files engine/fabric*.c and by nothing else. */
#ifndef KVRAIL_ENGINE_FABRIC_INSIDE_H
#define KVRAIL_ENGINE_FABRIC_INSIDE_H

#include <netinet/in.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "engine/fabric.h"
#include "engine/fabric_door.h"
#include "engine/fabric_quirks.h"

/* Depths asked for when the caller names none. Modest: depth is memory per endpoint, and four transfers in flight per
 * link fill a pipe. */
enum { FAB_TX_DEPTH = 1024, FAB_RX_DEPTH = 512, FAB_CQ_DEPTH = 8192, FAB_DEPTH_MIN = 16 };

#define FAB_OUT_MAX_NS 10000000000ull      /* when an endpoint that was given up is closed as it is (fabric_retire.c) */
#define FAB_ENOMR      270                 /* FI_ENOMR of libfabric 1.18 and later */
#define FAB_RMA_MAX    ((uint64_t)1 << 30) /* an immediate must not be segmented: EFA's largest RDMA is 1 GiB */

/* The objects that are opened and closed together, "the endpoint"; all NULL: it is closed. */
struct fab_ends {
	struct fid_ep *ep; /* NULL: closed for operations (a rebuild failed) */
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_eq *eq;
};

/* Endpoints that are given up and not closed yet: fabric_retire.c. */
struct given_up {
	struct kv_list list;
	unsigned count;
	uint32_t out; /* operations of the endpoint that is given up next (fab_posted) */
};

struct fab {
	struct fi_info *info; /* our copy; its sizes are those that were opened */
	const struct fab_quirk *quirk;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fab_ends ends;
	/* Posting and polling look at this line, and at the members above. */
	struct fab_resolve *resolve; /* NULL: libfabric resolves addresses without blocking, or it is not verbs
					(fabric_resolve.c) */
	struct door *door;           /* NULL: none; caps.no_door says why */
	bool split_imm;              /* see fabric.c */
	bool dead_due;               /* a FAB_EV_DEAD is to be reported */
	bool opened;                 /* fab_open has returned: a loop owns the rail, and must not be held up */
	bool counted;                /* in the census of endpoints (fabric_census.c) */
	struct given_up given_up;
	uint32_t polls;
	int wait_fd;
	uint32_t cq_wanted;
	struct kv_list mrs;
	size_t name_len; /* of our own address; a peer's has the same length unless it is a string */
	struct fab_options options;
	struct fab_caps caps;
	struct sockaddr_storage local;  /* fab_local_set; family 0: nothing */
	struct kv_device_limits limits; /* of the device when it was opened, without what changes */
	char last_error[256];
};

/* Where the provider does not use the contexts (its returned mode is 0), a split write keeps its state there. Its two
 * operations have the context's address, and that address plus FAB_CTX_IMM; every other operation has one left. */
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

/* fab_api_version -- the version to ask fi_getinfo for: never newer than the headers (structs grow with it), never
 * newer than the library. */
uint32_t fab_api_version(void);

/* fab_version -- of the library, as it calls itself ("1.17.0"): KV_NAME_MAX bytes. Thread: any. */
void fab_version(char *out);

/* fab_hints -- the universal hints of one provider; NULL: no memory. For fi_freeinfo. */
struct fi_info *fab_hints(const struct fab_quirk *quirk, const char *prov_name);

/* fab_address_text -- an IPv4 or IPv6 socket address without its port, LOCAL_TEXT_MAX bytes at most; "" of anything
 * else. */
enum { LOCAL_TEXT_MAX = INET6_ADDRSTRLEN };
void fab_address_text(const void *addr, size_t len, char *out);

/* fab_address_take -- the device of the endpoint, which is closed, has lost the address in fab->info: put another one
 * of the same family there, if it has one. */
void fab_address_take(struct fab *fab);

/* fab_select_fork -- hold the lock around fi_getinfo over a fork(). */
void fab_select_fork(bool hold);

/* fab_drain -- read all completions that are there, and forget them: the endpoint is closed next. */
void fab_drain(struct fab *fab);

/* ---- fabric_retire.c ---- */

/* fab_leak_log -- closing the object `what` returned rc: warn that it is leaked if that is a failure. Thread: any. */
void fab_leak_log(const struct fab *fab, const char *what, int rc);

/* fab_ends_close -- close endpoint, completion queue, address vector and event queue, in this order; those that are
 * NULL are passed over. One that cannot be closed is leaked, with a warning. Thread: any. */
void fab_ends_close(const struct fab *fab, const struct fab_ends *ends);

/* fab_retire_now -- give up the endpoint, if there is one: fab is without one afterwards, and it waits for fab_retire.
 * Without memory for that it is closed here. fab_retire_end -- all that are given up are closed when it returns. Both
 * on the rail's thread. */
void fab_retire_now(struct fab *fab);
void fab_retire_end(struct fab *fab);

/* ---- fabric_shm.c ---- */

/* fab_shm_name -- give an endpoint of shm that is not enabled yet a name that no other ever had. 0 or a libfabric code.
 * fab_shm_clean -- remove the files of shm endpoints of ours whose process is gone.
 * fab_shm_look -- bytes of /dev/shm that must be free when an endpoint is opened. */
int fab_shm_name(struct fab *fab);
uint64_t fab_shm_look(void);
void fab_shm_clean(const struct fab *fab);

/* ---- fabric_tcp.c ---- */

/* fab_tcp_settle -- of an endpoint just enabled whose provider speaks TCP on a loopback address: ask for a congestion
 * control that does not pace. fab->caps.congestion is then what its listening socket has, else "". */
void fab_tcp_settle(struct fab *fab);

/* fab_tcp_shut -- of an endpoint that is closed next: no process can connect to it any more, and connections that are
 * being made are ended. */
void fab_tcp_shut(struct fab *fab);

/* fab_tcp_door -- before the endpoint is opened: a doorkeeper, where the provider is one of tcp and the options want
 * it. 0, or a code with *err where they insist on one. fab_tcp_listen -- it takes its place, as soon as the endpoint is
 * enabled. */
int fab_tcp_door(struct fab *fab, struct kv_error *err);
int fab_tcp_listen(struct fab *fab, struct kv_error *err);

/* fab_tcp_check -- 0, or -KV_ENOTSUP with *err: a setting of the provider's in the environment makes it announce bytes
 * that are not there. */
int fab_tcp_check(const struct fab *fab, struct kv_error *err);

/* fab_verbs_function -- some function of libibverbs: it tells which file that is. */
void *fab_verbs_function(void);

/* ---- fabric_env.c ---- */

/* fab_env_is_on, fab_env_number -- a variable as libfabric reads it (once, before the first fi_getinfo returns). */
bool fab_env_is_on(const char *name);
uint64_t fab_env_number(const char *name, uint64_t otherwise);

/* fab_eager_bytes -- how many bytes the provider sends at once, as its environment says; 0: it has no such notion. */
uint32_t fab_eager_bytes(const struct fab_quirk *quirk);

/* ---- fabric_verbs.c ---- */

/* fab_is_verbs -- a queue pair for each peer, and one completion queue for all of them. */
bool fab_is_verbs(const struct fab_quirk *quirk);

/* fab_verbs_peers_max -- the connections that rxm makes the completion queue of an endpoint for, and the entries of
 * each. */
uint32_t fab_verbs_peers_max(void);
uint32_t fab_verbs_entries_per_peer(void);

/* fab_verbs_check -- 0, or -KV_ENOTSUP with *err: a setting in the environment under which immediates are lost. */
int fab_verbs_check(const struct fab *fab, struct kv_error *err);

/* ---- fabric_resolve.c ---- */

/* fab_resolve_open, _close -- with the endpoint. Where it fails fab->resolve stays NULL, and postings may block where a
 * peer's address does not answer. fab_resolve_insert, _remove -- a handle of the address vector, and its address. 0 or
 * -KV_ENOMEM. fab_resolve_known -- whether libfabric may be asked to connect to it; if not, the question is on its way:
 * try again later, as after -FI_EAGAIN. fab_resolve_posted -- what libfabric said to a posting there, or an operation
 * that failed with its connection. The last two only with fab->resolve. */
void fab_resolve_open(struct fab *fab);
void fab_resolve_close(struct fab *fab);
int fab_resolve_insert(struct fab *fab, uint64_t handle, const void *addr, size_t len);
void fab_resolve_remove(struct fab *fab, uint64_t handle);
bool fab_resolve_known(struct fab *fab, uint64_t handle);
void fab_resolve_posted(struct fab *fab, uint64_t handle, int rc);

/* ---- fabric_limits.c ---- */

/* fab_limits_check -- before opening an endpoint: the checks of host/shortage.c for it. 0, or -KV_ELIMIT with the
 * sentence.
 */
int fab_limits_check(struct fab *fab, const struct fab_device *device, const struct fab_options *options,
		     struct kv_error *err);
/* fab_limits_shm -- whether a provider that lives in /dev/shm has no device because there is too little room:
 * -KV_ELIMIT with the sentence, or 0. */
int fab_limits_shm(const struct fab_quirk *quirk, struct kv_error *err);

/* fab_limits_short -- after a call of the provider's failed for want of something: which limit is short of `need`, and
 * how to lift it, as the end of a sentence; or the figures, when none is. Asks the device only while the rail is being
 * opened. */
void fab_limits_short(struct fab *fab, const struct kv_need *need, char *buf, size_t cap);

/* fab_limits_fail -- turn libfabric's answer (a negative code) on opening `what` into a code and a sentence that names
 * the probable limit. */
int fab_limits_fail(struct fab *fab, const char *what, int rc, struct kv_error *err);

/* ---- fabric_census.c ---- */

/* The census: endpoints open in this process per domain, to compare with ep_cnt. Any thread. */
void fab_census_add(const char *domain, int delta);
void fab_census_fork(bool hold); /* hold its lock around a fork() */
unsigned fab_census(const char *domain);

#endif
