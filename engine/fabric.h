/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.h -- one rail's view of libfabric: the only door to <rdma/...>, and the seam at which a simulated fabric is
 * linked instead.
 *
 * A `struct fab` is fabric + domain + RDM endpoint + CQ + AV + EQ, used by one thread. It has no queues of ours and
 * keeps no state of operations: it translates, and it knows the quirks of each provider (fabric_quirks.c). Policy
 * (queues, credits, deadlines, chunks) lives above, in rail.c and peer.c. Private to engine/.
 *
 * Contexts: every operation names a `struct fab_ctx` (at least as large as struct fi_context2) that is unique, stable
 * and untouched until its event came, or fab_rebuild/fab_close returned. */
#ifndef KVRAIL_ENGINE_FABRIC_H
#define KVRAIL_ENGINE_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/base.h"
#include "host/host.h"

struct fab;
struct fab_mr;

struct fab_ctx {
	_Alignas(16) uint8_t provider[64];
};

struct te_provider;

/* fab_provider_at -- the name of provider i of those we know, best first; devices are not looked for. False: there are
 * no more. Thread: any. */
bool fab_provider_at(unsigned i, struct te_provider *out);

/* What to look for. */
struct fab_query {
	const char *provider; /* "efa", "efa-direct", "verbs", "tcp", "shm", an exact libfabric name, or "auto" */
	const char *nic; /* only these, in this order: names with commas between them, each a domain, a device or an IP
			    address of this machine; NULL: any */
	struct sockaddr_storage local; /* source address for providers with IP addresses; ss_family 0: any. With nic:
					  the one to be preferred of a NIC's */
	const struct kv_log *log;
};

/* One usable device: a candidate rail. */
struct fab_device {
	char provider[KV_NAME_MAX]; /* exact: "tcp;ofi_rxm" */
	char fabric[KV_NAME_MAX];
	char domain[KV_NAME_MAX];
	char short_name[KV_NAME_MAX];    /* "efa", "verbs", "tcp", "shm" */
	char local[KV_NAME_MAX];         /* source address as text, or "" */
	uint64_t ep_max, cq_max, mr_max; /* 0: unknown */
	uint64_t tx_depth, rx_depth, msg_max, rma_max;
	uint64_t link_bits_per_s; /* 0: unknown */
	int numa_node;            /* -1: unknown */
	bool shared;              /* several rails of an engine may use it: it is no NIC of its own (tcp, shm) */
	bool one_network;         /* all devices of this provider reach each other (EFA) */
	bool link_down;
	void *info; /* the provider's description: freed by fab_devices_free */
};

/* fab_devices -- candidates, best first, at most max. *out_why (512 bytes, may be NULL) says what was chosen and why,
 * for the log. A demanded provider or NIC that is not there is -KV_ENOTSUP with a sentence that lists what is there; a
 * list that makes no sense -KV_EINVAL. */
int fab_devices(const struct fab_query *query, struct fab_device *out, unsigned max, unsigned *out_count, char *out_why,
		struct kv_error *err);
void fab_devices_free(struct fab_device *devices, unsigned count);

/* The doorkeeper, which lets only peers connect (fabric_door.h): where it can be; or not without it; or none. */
enum fab_door { FAB_DOOR_AUTO, FAB_DOOR_REQUIRE, FAB_DOOR_OFF };

struct fab_options {
	uint32_t tx_depth, rx_depth, cq_depth; /* wanted; 0: a modest default */
	bool want_wait_fd;
	bool reads_at_own_risk; /* reads are posted even where caps.read_unsafe */
	enum fab_door door;
	const struct kv_log *log;
};

/* fab_need -- what one endpoint on this device takes, connected to so many peers, of what the provider does by itself:
 * its queues, buffers and files. Messages and regions are the caller's to add. */
void fab_need(const struct fab_device *device, const struct fab_options *options, unsigned peers, struct kv_need *out);

/* fab_limits -- what a device allows, and how much of it is in use. Asks libibverbs and the kernel where there is a
 * NIC. */
void fab_limits(const struct fab_device *device, struct kv_device_limits *out);

/* fab_fork -- hold what guards the whole process (true), or let go of it, around a fork(). */
void fab_fork(bool hold);

/* What an opened rail turned out to be. */
struct fab_caps {
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX], domain[KV_NAME_MAX];
	bool ip;                 /* addresses are IP addresses */
	char local[KV_NAME_MAX]; /* its own, as text, where they are; fab_rebuild may change it */
	bool virt_addr;          /* remote addresses are virtual, else offsets from the region's start */
	bool prov_key;           /* the provider chooses keys */
	bool wait_fd;            /* fab_wait_fd is valid */
	bool write_emulated, read_emulated;
	bool pins_memory;      /* a registration locks memory */
	bool av_remove_unsafe; /* shm: never remove an address */
	bool read_unsafe;      /* a peer that dies while it answers a read of ours would crash us: post none */
	bool push_imm_only;    /* shm: pushes must carry an immediate */
	/* Closing an endpoint with operations out may take seconds: it is given up instead (fab_retire), and closed by
	 * then at the latest, as far as the provider allows. 0: an endpoint is closed at once. */
	uint64_t close_max_ns;
	bool imm_takes_receive;        /* an immediate of a peer uses up a receive that we posted */
	uint32_t link_ops, link_bytes; /* what a link should keep in flight; 0: nothing is known */
	bool ordered; /* a message is behind the bytes of writes to the same address that were posted before it, if
			 nothing was polled and no posting was refused in between */
	bool local_process_death_fatal; /* shm: a peer's death cannot be survived */
	bool death_stalls;              /* shm: operations to a dead process hold up the completions of all others */
	uint32_t peers_max;             /* verbs: addresses that an endpoint may talk to; 0: no such limit */
	bool breaks_stay; /* verbs: the provider never replaces a connection that broke: only fab_rebuild does */
	uint32_t tx_depth, rx_depth, cq_depth;
	uint32_t eager_bytes; /* compared in the hello; 0 where the provider has no such notion */
	bool peer_fence;      /* fab_cut can fence one peer; it may change with fab_rebuild */
	uint64_t msg_max, rma_max;
	char libfabric[KV_NAME_MAX]; /* run-time version */
	char no_door[160];           /* why there is no doorkeeper; "": there is */
	char congestion[32]; /* congestion control of connections accepted on loopback; "": the system's, not looked at
			      */
};

/* fab_open -- open everything and enable the endpoint. On resource exhaustion it retries smaller, then fails with
 * -KV_ELIMIT and a sentence that names the limit (endpoints, CQ entries, memlock, files, memory) and the way out.
 * Errors otherwise: -KV_ENOTSUP, -KV_ENOMEM, -KV_EPROVIDER. */
int fab_open(const struct fab_device *device, const struct fab_options *options, struct fab **out,
	     struct kv_error *err);

/* fab_close -- endpoint, CQ, AV, EQ, regions that are left, their domain, fabric, in that order. Operations still
 * posted get no event. *fab becomes NULL. */
void fab_close(struct fab **fab);

/* fab_rebuild -- THE FENCE: close endpoint, CQ, AV and EQ and open fresh ones; the domain and its regions stay. When it
 * returns 0 nothing that was posted to or by the old endpoint can touch memory any more, no event of it will be
 * delivered, and fab_name has changed; all AV handles are void. On failure the rail is closed for operations
 * (everything returns -KV_EPROVIDER) until a later fab_rebuild succeeds. */
int fab_rebuild(struct fab *fab, struct kv_error *err);

/* fab_address_gone -- whether the machine has lost the IP address of the endpoint. Nobody can connect to it then, and
 * it cannot connect. fab_rebuild takes another address of the same device and family then, else the one that
 * fab_local_set named last; without any it fails, and a later one may succeed. Costs some system calls. fab_local_set
 * -- an address of this machine, of any of its devices, that an endpoint of this kind may have. */
bool fab_address_gone(const struct fab *fab);
void fab_local_set(struct fab *fab, const struct sockaddr_storage *local);

/* fab_shut -- the closing half of fab_rebuild alone: as safe, and as closed as after one that failed. */
void fab_shut(struct fab *fab);

/* Where caps.close_max_ns, fab_rebuild and fab_shut do not wait: the old endpoint is given up, and everything else
 * above holds from when fab_retiring is false. Until then operations of that endpoint and of its peers may touch
 * memory, its receives and contexts as well; no event of it is delivered. fab_posted -- before fab_rebuild and
 * fab_shut: how many sends, writes and reads the endpoint has out, for which it is not closed at once; 0 for one that
 * failed. fab_retire
 * -- after them: no loop looks at the old descriptors any more. fab_retiring -- with each poll: whether an endpoint is
 * not closed yet; sees to it that it will be. While one is not, fab_rebuild gives up one more, but opens none
 * (-KV_EBUSY): at most two endpoints of a rail exist at a time. On the rail's thread. */
void fab_posted(struct fab *fab, uint32_t operations);
void fab_retire(struct fab *fab);
bool fab_retiring(struct fab *fab);

const struct fab_caps *fab_caps(const struct fab *fab);

/* Connections that the doorkeeper let in, and those that he did not, by reason. */
struct fab_door_counts {
	uint64_t let_in, strangers, claims, twice, silent, full, aliens;
};
void fab_door_counts(const struct fab *fab, struct fab_door_counts *out);
int fab_name(struct fab *fab, void *out, size_t *inout_len); /* 0, or -KV_ETOOBIG */

/* FAB_LOCAL: source and destination of our own writes and reads. FAB_MESSAGES: of sends and receives; it is no part of
 * FAB_LOCAL because rxm lets a peer that knows the key read such memory. EFA grants peers whatever rights they ask for.
 */
enum fab_access { FAB_LOCAL = 1, FAB_REMOTE_READ = 2, FAB_REMOTE_WRITE = 4, FAB_MESSAGES = 8 };

/* fab_mr_reg -- register [base, base+len). Key and remote base for peers: fab_mr_remote. Errors: -KV_ENOMEM (the caller
 * halves), -KV_ELIMIT, -KV_EPROVIDER. */
int fab_mr_reg(struct fab *fab, void *base, uint64_t len, unsigned access, struct fab_mr **out, struct kv_error *err);
void fab_mr_close(struct fab_mr **mr);
void fab_mr_remote(const struct fab_mr *mr, uint64_t *out_base, uint64_t *out_key);

/* fab_av_insert -- an address blob of a peer. Returns 0, -EAGAIN, -KV_EPROVIDER, -KV_EPROTO (not an address of this
 * provider). */
int fab_av_insert(struct fab *fab, const void *blob, size_t len, uint64_t *out_handle);
/* fab_av_remove -- the handle is void. used: a peer proved to be at that address, and may keep its connection some
 * seconds, to come back. */
void fab_av_remove(struct fab *fab, uint64_t handle, bool used);
/* fab_broken -- an operation to the handle failed with its connection: the provider may make that anew. */
void fab_broken(struct fab *fab, uint64_t handle);

/* fab_cut -- the fence of one address. When it returns 0, no operation that was posted to or by that endpoint can touch
 * memory of ours any more, and nothing new of it reaches us until fab_av_insert (of an address that is not there any
 * more) or fab_uncut. Our operations to it end by their own events, with a failure; other peers' operations go on.
 * Another code: that cannot be promised (no caps.peer_fence; -EBUSY: the provider holds on to bytes that it received),
 * and fab_rebuild is the way. */
int fab_cut(struct fab *fab, const void *blob, size_t len);
void fab_uncut(struct fab *fab, const void *blob, size_t len);

/* Posting. 0: the event will come. FAB_HALF (writes): it will come as well and say that it failed, since of two
 * operations the provider refused the second. -EAGAIN: poll, then try again. Any other code: no event will come;
 * classify it with fab_error_class. Write completions mean "the source may be reused" unless `how` has FAB_DELIVERED
 * ("the bytes are at the target"). FAB_MORE: another operation to the same address is posted next, with nothing
 * polled in between, so the last bytes may wait for it. */
enum { FAB_HALF = 1 };
enum { FAB_DELIVERED = 1, FAB_MORE = 2 };
int fab_recv(struct fab *fab, void *buf, size_t len, struct fab_mr *mr, struct fab_ctx *ctx);
int fab_send(struct fab *fab, const void *buf, size_t len, struct fab_mr *mr, uint64_t to, struct fab_ctx *ctx);
int fab_write(struct fab *fab, const void *buf, size_t len, struct fab_mr *mr, uint64_t to, uint64_t addr, uint64_t key,
	      const uint32_t *imm, unsigned how, struct fab_ctx *ctx);
int fab_read(struct fab *fab, void *buf, size_t len, struct fab_mr *mr, uint64_t from, uint64_t addr, uint64_t key,
	     struct fab_ctx *ctx);

enum fab_event_type {
	FAB_EV_DONE, /* ctx: a send, write or read ended with status 0 */
	FAB_EV_RECV, /* ctx: a receive; len bytes are in its buffer */
	FAB_EV_IMM,  /* imm: a peer's write with immediate data landed. ctx: NULL, or a receive that it used up (post it
			again) */
	FAB_EV_FAIL, /* ctx (may be NULL: not tied to an operation): status is negative */
	FAB_EV_DEAD  /* the endpoint failed (EQ error, CQ overrun): rebuild it */
};

struct fab_event {
	enum fab_event_type type;
	struct fab_ctx *ctx;
	int status;
	uint32_t imm;
	uint64_t len;
};

/* fab_poll -- up to n events (fewer than n: drained). Never blocks. Drains the EQ as well. Returns the count. */
int fab_poll(struct fab *fab, struct fab_event *out, int n);
int fab_wait_fd(const struct fab *fab); /* -1 without one */
int fab_arm(struct fab *fab);           /* fi_trywait: 0 may sleep, -EAGAIN do not */

enum fab_error_class { FAB_ERR_OP, FAB_ERR_PEER, FAB_ERR_ENDPOINT };
enum fab_error_class fab_error_class(int status);

/* fab_last_error -- the provider's words on the last failed event, for the log: "tcp: prov_errno 107 (Transport
 * endpoint is not connected)". */
const char *fab_last_error(const struct fab *fab);

#endif
