/* SPDX-License-Identifier: Apache-2.0 */
/* need.c -- the needs of an endpoint on each provider, and a device's limits. Fixed needs are in the quirk table;
 * computed ones are here, because rxm's buffers follow the environment. Figures of tcp;ofi_rxm and shm were measured
 * (docs/internals/providers.md); those of EFA and verbs follow the sources. */
#include "engine/fabric/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/budget.h"

enum {
	RXM_BUFFER_DEFAULT = 16384,
	RXM_RX_DEFAULT = 4096,
	RXM_STEP = 1024,          /* step in which its pools of receive and send buffers grow */
	RXM_BUFFER_EXTRA = 1200,  /* besides the bytes: headers, the entry, its share of the others */
	EFA_CQ_MIN = 8192,        /* FI_EFA_CQ_SIZE */
	FILES_PER_CONNECTION = 2, /* a socket, and rxm's second one where both sides connect at once */
	PROVIDER_REGIONS = 8      /* the provider's own buffers */
};

#define RXM_2_EXTRA ((uint64_t)32 << 20) /* libfabric 2.x keeps this much more per endpoint */
#define EFA_PAGES   (24ull << 20)        /* page table entries of an EFA device, as reported by its users */

/* Over verbs each connection has its own receive buffers, elsewhere all share one pool. Send buffers have the same size
 * and one pool. The first message makes one step of them, whatever the depth; an engine's operations need no second
 * step. */
static uint64_t rxm_memory(const struct fab_quirk *quirk, unsigned peers)
{
	uint64_t buffers = fab_is_verbs(quirk) ? (uint64_t)fab_verbs_entries_per_peer() * KV_MAX(peers, 1u)
					       : fab_env_number("FI_OFI_RXM_MSG_RX_SIZE", RXM_RX_DEFAULT),
		 bytes = fab_env_number("FI_OFI_RXM_BUFFER_SIZE", RXM_BUFFER_DEFAULT) + RXM_BUFFER_EXTRA;
	return (KV_MAX(buffers, (uint64_t)RXM_STEP) + RXM_STEP) * bytes +
	       (fi_version() >= FI_VERSION(2, 0) ? RXM_2_EXTRA : 0);
}

static uint64_t cq_entries(const struct fab_quirk *quirk, const struct fab_options *options)
{
	uint64_t wanted = options->cq_depth ? options->cq_depth : FAB_CQ_DEPTH;
	if (quirk->efa)
		return KV_MAX(wanted, (uint64_t)EFA_CQ_MIN);
	/* rxm_ep_msg_cq_open; after 2.6 the provider asks for no more than the device has. */
	if (fab_is_verbs(quirk) && fi_version() < FI_VERSION(2, 7))
		return (uint64_t)fab_verbs_entries_per_peer() * fab_verbs_peers_max();
	return wanted;
}

/* From 1.18 tcp's domain and its event queue have an epoll and a socket pair each (xnet_init_progress); before, the
 * fabric had one. */
static uint64_t files_own(const struct fab_quirk *quirk)
{
	return quirk->fds + (quirk->tcp && quirk->rxm && fi_version() >= FI_VERSION(1, 18) ? 6 : 0);
}

void fab_need(const struct fab_device *device, const struct fab_options *options, unsigned peers, struct kv_need *out)
{
	const struct fab_quirk *quirk = fab_quirk_find(device->short_name);
	uint64_t own = quirk->rxm ? rxm_memory(quirk, peers) : quirk->memory_bytes;
	bool shm = quirk->dev_shm;
	uint64_t shm_look = shm ? fab_shm_look() : 0;
	*out = (struct kv_need){
		.endpoints = 1,
		.files = files_own(quirk) + (uint64_t)(quirk->rxm && peers > 1 ? peers - 1 : 0) * FILES_PER_CONNECTION,
		.memory_bytes = shm ? 0 : own,
		.address_bytes = own,
		.shm_bytes = shm ? own : 0,
		.shm_free_bytes = shm_look - KV_MIN(shm_look, own),
	};
	if (!quirk->pins_memory)
		return;
	/* verbs;ofi_rxm has a queue pair for each connection; EFA has one for all peers. */
	out->qps = quirk->efa ? 1 : KV_MAX(peers, 1u);
	out->cqs = 1;
	out->mrs = PROVIDER_REGIONS;
	out->cq_entries = cq_entries(quirk, options);
	out->cq_entries_per_peer = fab_is_verbs(quirk) ? fab_verbs_entries_per_peer() : 0;
	out->pinned_bytes = own;
	out->registered_bytes = own;
}

/* ---- limits ---- */

static int link_of(const struct te_rdma *d)
{
	for (unsigned i = 0; i < d->num_ports; i++)
		if (d->port[i].active)
			return 1;
	return d->num_ports ? 0 : -1;
}

/* Of this device alone: a machine may have 32, and an engine asks for each rail. */
static void limits_of_nic(const char *domain, struct kv_device_limits *out)
{
	struct te_rdma *d = calloc(1, sizeof(*d));
	if (d && te_rdma_list("", domain, d, 1) > 0) {
		out->link = link_of(d);
		out->qps = d->qp_max;
		out->cqs = d->cq_max;
		out->mrs = d->mr_max;
		out->cq_entries = d->cqe_max;
		out->mr_bytes = d->mr_bytes_max;
		out->qps_used = d->qp_used;
		out->cqs_used = d->cq_used;
		out->mrs_used = d->mr_used;
	}
	free(d);
}

static uint64_t or_unknown(uint64_t value)
{
	return value ? value : KV_UNKNOWN;
}

void fab_limits(const struct fab_device *device, struct kv_device_limits *out)
{
	const struct fab_quirk *quirk = fab_quirk_find(device->short_name);
	kv_device_limits_unknown(out);
	snprintf(out->device, sizeof(out->device), "%s", device->domain);
	snprintf(out->provider, sizeof(out->provider), "%s", device->short_name);
	out->pins_memory = quirk->pins_memory;
	out->shared_memory = quirk->death_fatal;
	out->endpoints = or_unknown(device->ep_max);
	out->endpoints_used = fab_census(device->domain);
	if (!quirk->pins_memory)
		return;
	limits_of_nic(device->domain, out);
	if (out->cqs == KV_UNKNOWN)
		out->cqs = or_unknown(device->cq_max);
	if (out->mrs == KV_UNKNOWN)
		out->mrs = or_unknown(device->mr_max);
	if (quirk->efa)
		out->pages = EFA_PAGES;
}
