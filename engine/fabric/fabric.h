/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.h -- one rail's view of libfabric: the only includer of <rdma/...>, and the seam for a simulated fabric.
 * Private to engine/.
 *
 * A `struct fab` is fabric + domain + RDM endpoint + CQ + AV + EQ, used by one thread. It translates, and knows the
 * quirks of each provider (quirks.c). Every operation has a `struct fab_ctx` of its own, untouched until its event, or
 * until fab_rebuild or fab_close returned. */
#ifndef KVRAIL_ENGINE_FABRIC_FABRIC_H
#define KVRAIL_ENGINE_FABRIC_FABRIC_H

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

/* fab_provider_at -- the name of known provider i, best first. False: there are no more. Thread: any. */
bool fab_provider_at(unsigned i, struct te_provider *out);

struct fab_query {
	const char *provider; /* "efa", "efa-direct", "verbs", "tcp", "shm", an exact libfabric name, or "auto" */
	const char *nic;      /* only these, separated by commas: domains, devices or IP addresses; NULL: any */
	struct sockaddr_storage local; /* preferred source address for IP providers; family 0: any */
	const struct kv_log *log;
};

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
	void *info; /* the provider's description; fab_devices_free frees it */
};

/* fab_devices -- list candidates, best first, at most max. *out_why (512 bytes, may be NULL) explains the choice.
 * -KV_ENOTSUP: a demanded provider or NIC is missing. -KV_EINVAL: a malformed list. */
int fab_devices(const struct fab_query *query, struct fab_device *out, unsigned max, unsigned *out_count, char *out_why,
		struct kv_error *err);
void fab_devices_free(struct fab_device *devices, unsigned count);

/* The doorkeeper, which admits only peers (door/door.h): where possible; required; or off. */
enum fab_door { FAB_DOOR_AUTO, FAB_DOOR_REQUIRE, FAB_DOOR_OFF };

struct fab_options {
	uint32_t tx_depth, rx_depth, cq_depth; /* 0: a modest default */
	bool want_wait_fd;
	bool reads_at_own_risk; /* post reads even where caps.read_unsafe */
	enum fab_door door;
	const struct kv_log *log;
};

/* fab_need -- the needs of one endpoint on this device with this many peers, without messages and regions. */
void fab_need(const struct fab_device *device, const struct fab_options *options, unsigned peers, struct kv_need *out);

/* fab_limits -- a device's limits, and how much is in use. Asks libibverbs and the kernel for NICs. */
void fab_limits(const struct fab_device *device, struct kv_device_limits *out);

/* fab_fork -- hold (true) or release the process's locks around a fork(). */
void fab_fork(bool hold);

struct fab_caps {
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX], domain[KV_NAME_MAX];
	bool ip;                 /* addresses are IP addresses */
	char local[KV_NAME_MAX]; /* the endpoint's own IP address as text; fab_rebuild may change it */
	bool virt_addr;          /* remote addresses are virtual, else offsets from the region's start */
	bool prov_key;           /* the provider chooses keys */
	bool wait_fd;            /* fab_wait_fd is valid */
	bool write_emulated, read_emulated;
	bool pins_memory;      /* a registration locks memory */
	bool av_remove_unsafe; /* shm: never remove an address */
	bool read_unsafe;      /* a peer that dies while it answers our read would crash us: post none */
	bool push_imm_only;    /* shm: writes must carry an immediate */
	/* Closing an endpoint with posted operations may take this long: it is abandoned instead (fab_retire). 0: it
	 * closes at once. */
	uint64_t close_max_ns;
	bool imm_takes_receive;        /* a peer's immediate uses up one of our receives */
	uint32_t link_ops, link_bytes; /* amounts that a link should keep in flight; 0: unknown */
	bool ordered; /* a message follows earlier writes to the same address, without a poll in between */
	bool local_process_death_fatal; /* shm: a peer's death may be fatal here */
	bool death_stalls;              /* shm: operations to a dead process block the completions of all others */
	uint32_t peers_max;             /* verbs: maximum addresses of an endpoint; 0: unlimited */
	bool breaks_stay; /* verbs: the provider never replaces a broken connection: only fab_rebuild does */
	uint32_t tx_depth, rx_depth, cq_depth;
	uint32_t eager_bytes; /* compared in the hello; 0 without such a limit */
	bool peer_fence;      /* fab_cut can fence one peer; fab_rebuild may change this */
	uint64_t msg_max, rma_max;
	char libfabric[KV_NAME_MAX]; /* run-time version */
	char no_door[160];           /* why there is no doorkeeper; "": there is one */
	char congestion[32]; /* congestion control of connections accepted on loopback; "": the system's, unchanged */
};

/* fab_open -- open everything and enable the endpoint; if resources are short, with less. Errors: -KV_ELIMIT (with the
 * limit and the remedy), -KV_ENOTSUP, -KV_ENOMEM, -KV_EPROVIDER. */
int fab_open(const struct fab_device *device, const struct fab_options *options, struct fab **out,
	     struct kv_error *err);

/* fab_close -- close all. Posted operations get no event. *fab becomes NULL. */
void fab_close(struct fab **fab);

/* fab_rebuild -- THE FENCE: close endpoint, CQ, AV and EQ and open fresh ones; the domain and its regions stay. After
 * 0, no operation posted to or by the old endpoint can touch memory or cause an event, fab_name has changed, and all AV
 * handles are void. On failure every operation returns -KV_EPROVIDER until a later fab_rebuild succeeds. */
int fab_rebuild(struct fab *fab, struct kv_error *err);

/* fab_address_gone -- whether the machine has lost the endpoint's IP address. fab_rebuild then takes another one of the
 * same device and family, else that of fab_local_set; without any it fails. */
bool fab_address_gone(const struct fab *fab);
void fab_local_set(struct fab *fab, const struct sockaddr_storage *local);

/* fab_shut -- the closing half of fab_rebuild alone: as safe, and as closed as after a failed rebuild. */
void fab_shut(struct fab *fab);

/* With caps.close_max_ns, fab_rebuild and fab_shut do not wait: the old endpoint is abandoned, and may touch memory
 * until fab_retiring is false.
 *
 * fab_posted -- before fab_rebuild and fab_shut: the number of posted operations that keep the endpoint from closing;
 * 0 for a failed one. fab_retire -- after them: no loop uses the old descriptors any more. fab_retiring -- with each
 * poll: whether an endpoint is still open; until then fab_rebuild abandons one more and opens none (-KV_EBUSY). */
void fab_posted(struct fab *fab, uint32_t operations);
void fab_retire(struct fab *fab);
bool fab_retiring(struct fab *fab);

const struct fab_caps *fab_caps(const struct fab *fab);

struct fab_door_counts {
	uint64_t let_in, strangers, claims, twice, silent, full, aliens;
};
void fab_door_counts(const struct fab *fab, struct fab_door_counts *out);
int fab_name(struct fab *fab, void *out, size_t *inout_len); /* 0, or -KV_ETOOBIG */

/* FAB_LOCAL: source and destination of our own writes and reads. FAB_MESSAGES: for sends and receives; not part of
 * FAB_LOCAL, because rxm lets a peer with the key read such memory. */
enum fab_access { FAB_LOCAL = 1, FAB_REMOTE_READ = 2, FAB_REMOTE_WRITE = 4, FAB_MESSAGES = 8 };

/* fab_mr_reg -- register [base, base+len). fab_mr_remote returns key and remote base for peers. Errors: -KV_ENOMEM (the
 * caller halves), -KV_ELIMIT, -KV_EPROVIDER. */
int fab_mr_reg(struct fab *fab, void *base, uint64_t len, unsigned access, struct fab_mr **out, struct kv_error *err);
void fab_mr_close(struct fab_mr **mr);
void fab_mr_remote(const struct fab_mr *mr, uint64_t *out_base, uint64_t *out_key);

/* fab_av_insert -- insert a peer's address blob. Returns 0, -EAGAIN, -KV_EPROVIDER, -KV_EPROTO (not an address of this
 * provider). */
int fab_av_insert(struct fab *fab, const void *blob, size_t len, uint64_t *out_handle);
/* fab_av_remove -- the handle is void. used: a peer proved to be there; its connection stays some seconds. */
void fab_av_remove(struct fab *fab, uint64_t handle, bool used);
/* fab_broken -- an operation to the handle failed with its connection: the provider may make a new one. */
void fab_broken(struct fab *fab, uint64_t handle);

/* fab_cut -- the fence of one address. After 0, no operation posted to or by that endpoint can touch our memory, and
 * nothing arrives from it until fab_av_insert or fab_uncut. Our operations to it fail by their own events. Another
 * code: fab_rebuild is needed. */
int fab_cut(struct fab *fab, const void *blob, size_t len);
void fab_uncut(struct fab *fab, const void *blob, size_t len);

/* Posting. 0: the event will come. FAB_HALF (writes): the event will come and report failure, since the provider
 * refused the second of two operations. -EAGAIN: poll, then retry. Any other code: no event; see fab_error_class. A
 * write's completion means "the source may be reused", or with FAB_DELIVERED in `how` "the bytes are at the target".
 * FAB_MORE: another operation to the same address is posted next, without a poll in between. */
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
	FAB_EV_RECV, /* ctx: a receive; its buffer holds len bytes */
	FAB_EV_IMM,  /* imm: a peer's write with immediate landed. ctx: NULL, or a used-up receive (post it again) */
	FAB_EV_FAIL, /* ctx (NULL: no operation): status is negative */
	FAB_EV_DEAD  /* the endpoint failed (EQ error, CQ overrun): rebuild it */
};

struct fab_event {
	enum fab_event_type type;
	struct fab_ctx *ctx;
	int status;
	uint32_t imm;
	uint64_t len;
};

/* fab_poll -- read up to n events (fewer than n: drained) and drain the EQ. Never blocks. Returns the count. */
int fab_poll(struct fab *fab, struct fab_event *out, int n);
int fab_wait_fd(const struct fab *fab); /* -1 without one */
int fab_arm(struct fab *fab);           /* fi_trywait: 0 may sleep, -EAGAIN do not */

enum fab_error_class { FAB_ERR_OP, FAB_ERR_PEER, FAB_ERR_ENDPOINT };
enum fab_error_class fab_error_class(int status);

/* fab_last_error -- the provider's text for the last failed event, for the log. */
const char *fab_last_error(const struct fab *fab);

#endif
