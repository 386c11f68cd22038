/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.c -- one rail: open, close, rebuild, register, address, post.
 *
 * Endpoint, CQ, AV and EQ ("the endpoint", struct fab_ends) open and close together; fabric, domain and regions stay
 * over a rebuild. Closing the endpoint is the fence on every provider; closing a region is none (tcp checks the key at
 * the header and continues to receive). Where closing is slow (caps.close_max_ns) the endpoint is abandoned
 * (fabric/retire.c). An object that returns -FI_EBUSY on closing is leaked with a warning.
 *
 * Split writes (tcp;ofi_rxm). A write with immediate is sent as a plain write and an empty write with immediate
 * (fabric/quirks.c), posted in one call and so on one connection, which is ordered. If the second cannot be posted, the
 * operation fails when the first is done: posted later, it could announce lost bytes. */
#include "engine/fabric/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Endpoint options of newer headers; enums cannot be tested with #ifdef. Providers without an option return
 * -FI_ENOPROTOOPT. */
enum {
	OPT_SHARED_MEMORY_PERMITTED = 11, /* 1.21 */
	OPT_MAX_MSG_SIZE = 12,            /* 1.22 */
	OPT_MAX_RMA_SIZE = 14,            /* 1.22 */
	OPT_EFA_BASE = -(0xefa << 16),
	OPT_EFA_RNR_RETRY = OPT_EFA_BASE,                 /* 1.17 */
	OPT_EFA_EMULATED_READ = OPT_EFA_BASE + 1,         /* 1.18 */
	OPT_EFA_EMULATED_WRITE = OPT_EFA_BASE + 2,        /* 1.18 */
	OPT_EFA_UNSOLICITED_WRITE_RECV = OPT_EFA_BASE + 8 /* 2.5 */
};

enum { KEY_TRIES = 8, PORT_TRIES = 8, EFA_RNR_RETRIES = 6 /* 7 means without end */ };

static void endpoint_close(struct fab *fab)
{
	fab_resolve_close(fab);
	if (fab->door)
		door_shut(fab->door);
	if (fab->ends.ep && fab->quirk->shut_first)
		fab_tcp_shut(fab);
	if (fab->ends.ep && fab->quirk->drain_first)
		fab_drain(fab);
	fab_ends_close(fab, &fab->ends);
	memset(&fab->ends, 0, sizeof(fab->ends));
	fab->wait_fd = -1;
	fab->dead_due = false;
	if (fab->counted)
		fab_census_add(fab->caps.domain, -1);
	fab->counted = false;
}

/* The doorkeeper recognises the signals of completion queues by the opening thread. */
static void signals_watch(const struct fab *fab, bool on)
{
	if (fab->door && on)
		door_signals_begin(fab->door);
	else
		door_signals_end();
}

static int cq_open_with(struct fab *fab, enum fi_wait_obj wait)
{
	struct fi_cq_attr attr = {.size = fab->cq_wanted, .format = FI_CQ_FORMAT_DATA, .wait_obj = wait};
	int rc;
	signals_watch(fab, wait == FI_WAIT_FD);
	rc = fi_cq_open(fab->domain, &attr, &fab->ends.cq, NULL);
	signals_watch(fab, false);
	if (rc)
		return rc;
	/* Providers write the real size back, or leave ours. */
	fab->caps.cq_depth = (uint32_t)KV_MIN(KV_MAX(attr.size, (size_t)fab->cq_wanted), (size_t)UINT32_MAX);
	if (wait != FI_WAIT_FD)
		return 0;
	rc = fi_control(&fab->ends.cq->fid, FI_GETWAIT, &fab->wait_fd);
	if (rc == 0 && fab->wait_fd >= 0)
		return 0;
	fi_close(&fab->ends.cq->fid);
	fab->ends.cq = NULL;
	fab->wait_fd = -1;
	return rc ? rc : -FI_ENOSYS;
}

/* A wait object is optional: if the provider refuses one, the CQ is polled. */
static int cq_open(struct fab *fab)
{
	fab->wait_fd = -1;
	fab->caps.wait_fd = false;
	if (fab->options.want_wait_fd && fab->quirk->wait_fd_since != FAB_NO_WAIT &&
	    fi_version() >= fab->quirk->wait_fd_since && cq_open_with(fab, FI_WAIT_FD) == 0) {
		fab->caps.wait_fd = true;
		return 0;
	}
	return cq_open_with(fab, FI_WAIT_NONE);
}

static void efa_option(struct fab *fab, int option, bool value, const char *name, const char *env)
{
	int rc = fi_setopt(&fab->ends.ep->fid, FI_OPT_ENDPOINT, option, &value, sizeof(value));
	const char *set = getenv(env);
	if (rc && !set)
		kv_info(fab->options.log, "%s: this libfabric cannot set %s by call (%s); set %s=%d in the environment",
			fab->caps.domain, name, fi_strerror(-rc), env, value);
}

/* By default efa-direct retries without end when a peer has no receive posted, so an operation to a hanging host would
 * never end. This is the largest finite number: peers post more receives than we send, so a peer without one hangs. */
static void efa_retries(struct fab *fab)
{
	size_t times = EFA_RNR_RETRIES;
	int rc;
	if (!fab->quirk->retries_endless)
		return;
	rc = fi_setopt(&fab->ends.ep->fid, FI_OPT_ENDPOINT, OPT_EFA_RNR_RETRY, &times, sizeof(times));
	if (rc)
		kv_info(fab->options.log,
			"%s: this libfabric cannot limit retries to a peer without a posted receive (%s)",
			fab->caps.domain, fi_strerror(-rc));
}

/* Options to set before fi_enable. None is fatal: each has a safe, slower default. */
static void endpoint_options(struct fab *fab)
{
	if (!fab->quirk->efa)
		return;
	/* Peers on this host use the NIC as well: the provider's shm path has other error semantics and no wait fd. */
	efa_option(fab, OPT_SHARED_MEMORY_PERMITTED, false, "shared memory off", "FI_EFA_ENABLE_SHM_TRANSFER");
	/* Unsolicited receives have no flow control; the classic path has receives to spare and does without. */
	efa_option(fab, OPT_EFA_UNSOLICITED_WRITE_RECV, fab->quirk->unsolicited, "unsolicited write receives",
		   "FI_EFA_USE_UNSOLICITED_WRITE_RECV");
	efa_retries(fab);
}

static bool emulated(struct fab *fab, int option)
{
	bool value = true;
	size_t len = sizeof(value);
	if (!fab->quirk->efa)
		return false;
	/* Before 1.18 the option is missing, and writes are always emulated. */
	return fi_getopt(&fab->ends.ep->fid, FI_OPT_ENDPOINT, option, &value, &len) ? true : value;
}

static uint64_t size_option(struct fab *fab, int option, uint64_t otherwise)
{
	size_t value = 0, len = sizeof(value);
	if (fi_getopt(&fab->ends.ep->fid, FI_OPT_ENDPOINT, option, &value, &len) || len != sizeof(value) || value == 0)
		return otherwise;
	return KV_MIN((uint64_t)value, otherwise);
}

void fab_fork(bool hold)
{
	fab_census_fork(hold);
	door_fork(hold);
	fab_select_fork(hold);
}

static void caps_of_endpoint(struct fab *fab)
{
	struct fab_caps *c = &fab->caps;
	const struct fi_info *info = fab->info;
	c->ip = fab->quirk->ip;
	c->virt_addr = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	c->prov_key = info->domain_attr->mr_mode & FI_MR_PROV_KEY;
	c->write_emulated = emulated(fab, OPT_EFA_EMULATED_WRITE);
	c->read_emulated = emulated(fab, OPT_EFA_EMULATED_READ);
	c->pins_memory = fab->quirk->pins_memory;
	c->av_remove_unsafe = fab->quirk->av_remove_unsafe;
	c->push_imm_only = fab->quirk->push_imm_only;
	c->close_max_ns = fi_version() < fab->quirk->close_waits_before ? FAB_OUT_MAX_NS : 0;
	/* Without unsolicited receives: the provider of efa-direct turns them off when this mode is offered. */
	c->imm_takes_receive = (info->mode & FI_RX_CQ_DATA) != 0;
	c->link_ops = fab->quirk->link_ops;
	c->link_bytes = fab->quirk->link_bytes;
	c->ordered = fab->quirk->ordered && fab->split_imm;
	c->read_unsafe = fi_version() < fab->quirk->read_safe_since;
	c->local_process_death_fatal = fab->quirk->death_fatal;
	c->death_stalls = fi_version() < fab->quirk->death_stalls_before;
	c->breaks_stay = fab->quirk->breaks_stay;
	c->peers_max = fab_is_verbs(fab->quirk) ? fab_verbs_peers_max() : 0;
	c->tx_depth = (uint32_t)info->tx_attr->size / (fab->split_imm ? 2 : 1);
	c->cq_depth /= fab->split_imm ? 2 : 1;
	c->rx_depth = (uint32_t)info->rx_attr->size;
	c->eager_bytes = fab_eager_bytes(fab->quirk);
	c->msg_max = size_option(fab, OPT_MAX_MSG_SIZE, info->ep_attr->max_msg_size);
	c->rma_max = size_option(fab, OPT_MAX_RMA_SIZE, KV_MIN((uint64_t)info->ep_attr->max_msg_size, FAB_RMA_MAX));
}

static const char opening_cq[] = "opening a completion queue";

/* On failure *what names the step, and everything is closed. */
static int endpoint_try(struct fab *fab, const char **what)
{
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	int rc;
	*what = "opening an event queue";
	rc = fi_eq_open(fab->fabric, &eq, &fab->ends.eq, NULL);
	if (rc)
		goto fail;
	*what = "opening an address vector";
	rc = fi_av_open(fab->domain, &av, &fab->ends.av, NULL);
	if (rc)
		goto fail;
	*what = opening_cq;
	rc = cq_open(fab);
	if (rc)
		goto fail;
	*what = "opening an endpoint";
	rc = fi_endpoint(fab->domain, fab->info, &fab->ends.ep, NULL);
	if (rc)
		goto fail;
	*what = "binding an endpoint";
	rc = fi_ep_bind(fab->ends.ep, &fab->ends.eq->fid, 0);
	rc = rc ? rc : fi_ep_bind(fab->ends.ep, &fab->ends.av->fid, 0);
	rc = rc ? rc : fi_ep_bind(fab->ends.ep, &fab->ends.cq->fid, FI_TRANSMIT | FI_RECV);
	if (rc)
		goto fail;
	endpoint_options(fab);
	*what = "naming an endpoint";
	rc = fab_shm_name(fab);
	if (rc)
		goto fail;
	*what = "fi_enable";
	signals_watch(fab, fab->caps.wait_fd); /* rxm opens a queue of its own */
	rc = fi_enable(fab->ends.ep);
	signals_watch(fab, false);
	if (rc)
		goto fail;
	fab_census_add(fab->caps.domain, 1);
	fab->counted = true;
	return 0;
fail:
	endpoint_close(fab);
	return rc;
}

/* Halve the refused queue: a completion queue alone, or all queues. False: useless, or already at the minimum. */
static bool smaller(struct fab *fab, const char *what, int rc)
{
	struct fi_info *info = fab->info;
	bool cq = what == opening_cq;
	if (rc != -FI_ENOMEM && rc != -FI_EINVAL && rc != -FI_ENOSPC && rc != -FI_ENOBUFS)
		return false;
	if (cq ? fab->cq_wanted <= FAB_DEPTH_MIN * 2
	       : KV_MIN(info->tx_attr->size, info->rx_attr->size) <= FAB_DEPTH_MIN * 2)
		return false;
	kv_info(fab->options.log, "%s: %s with depths %zu/%zu/%u: %s; trying half", fab->caps.domain, what,
		info->tx_attr->size, info->rx_attr->size, fab->cq_wanted, fi_strerror(-rc));
	fab->cq_wanted = KV_MAX(fab->cq_wanted / 2, (uint32_t)FAB_DEPTH_MIN);
	if (cq) /* its entries bound the operations and receives: the other queues may stay larger */
		return true;
	info->tx_attr->size /= 2;
	info->rx_attr->size /= 2;
	return true;
}

static int endpoint_open(struct fab *fab, struct kv_error *err)
{
	const char *what;
	size_t name_len = 0;
	int rc = endpoint_try(fab, &what);
	/* If most of ip_local_port_range is taken, the kernel may bind tcp's listener to a port in use by connections:
	 * then only listen() fails. The next endpoint gets another port. */
	for (unsigned i = 1; rc == -FI_EADDRINUSE && i < PORT_TRIES; i++)
		rc = endpoint_try(fab, &what);
	/* Next to an endpoint still closing, room may be short for a moment. */
	while (rc && !fab->abandoned.count && smaller(fab, what, rc))
		rc = endpoint_try(fab, &what);
	if (rc)
		return fab_limits_fail(fab, what, rc, err);
	caps_of_endpoint(fab);
	rc = fi_getname(&fab->ends.ep->fid, NULL, &name_len);
	if (name_len == 0) {
		/* Needed to validate peers' addresses. */
		endpoint_close(fab);
		return fab_limits_fail(fab, "asking for the endpoint's address", rc ? rc : -FI_EOTHER, err);
	}
	fab->name_len = name_len;
	rc = fab_tcp_listen(fab, err);
	if (rc) {
		endpoint_close(fab);
		return rc;
	}
	fab_tcp_settle(fab);
	fab_resolve_open(fab);
	return 0;
}

static size_t depth(uint32_t wanted, size_t fallback, size_t provider_max)
{
	size_t d = wanted ? wanted : fallback;
	return provider_max ? KV_MIN(d, provider_max) : d;
}

static int domain_open(struct fab *fab, struct kv_error *err)
{
	int rc = fi_fabric(fab->info->fabric_attr, &fab->fabric, NULL);
	if (rc)
		return fab_limits_fail(fab, "opening the fabric", rc, err);
	rc = fi_domain(fab->fabric, fab->info, &fab->domain, NULL);
	if (rc)
		return fab_limits_fail(fab, "opening the domain", rc, err);
	return 0;
}

static void names(struct fab *fab, const struct fab_device *device)
{
	struct fab_caps *c = &fab->caps;
	snprintf(c->provider, sizeof(c->provider), "%s", device->provider);
	snprintf(c->fabric, sizeof(c->fabric), "%s", device->fabric);
	snprintf(c->domain, sizeof(c->domain), "%s", device->domain);
	snprintf(c->local, sizeof(c->local), "%s", device->local);
	fab_version(c->libfabric);
}

int fab_open(const struct fab_device *device, const struct fab_options *options, struct fab **out, struct kv_error *err)
{
	struct fab *fab = calloc(1, sizeof(*fab));
	int rc = -KV_ENOMEM;
	if (!fab)
		return kv_fail(err, rc, "no memory for a rail on %s", device->domain);
	kv_list_init(&fab->mrs);
	kv_list_init(&fab->abandoned.list);
	fab->wait_fd = -1;
	fab->options = *options;
	fab->quirk = fab_quirk_find(device->short_name);
	fab->info = fi_dupinfo(device->info);
	if (!fab->info) {
		kv_fail(err, rc, "no memory for a rail on %s", device->domain);
		goto fail;
	}
	names(fab, device);
	fab->split_imm = fab->quirk->split_imm && !(fab->info->mode & (FI_CONTEXT | FI_CONTEXT2));
	uint32_t times = fab->split_imm ? 2 : 1;
	fab->info->tx_attr->size = depth(options->tx_depth * times, FAB_TX_DEPTH * times, fab->info->tx_attr->size);
	fab->info->rx_attr->size = depth(options->rx_depth, FAB_RX_DEPTH, fab->info->rx_attr->size);
	fab->cq_wanted = (options->cq_depth ? options->cq_depth : FAB_CQ_DEPTH) * times;
	rc = fab_tcp_check(fab, err);
	rc = rc ? rc : fab_verbs_check(fab, err);
	rc = rc ? rc : fab_limits_check(fab, device, options, err);
	rc = rc ? rc : fab_tcp_door(fab, err);
	fab_shm_clean(fab);
	rc = rc ? rc : domain_open(fab, err);
	rc = rc ? rc : endpoint_open(fab, err);
	if (rc)
		goto fail;
	if (fab->caps.msg_max < KV_MSG_MAX) {
		rc = kv_fail(err, -KV_ENOTSUP, "%s (%s) limits messages to %zu bytes, and KVRail needs %d",
			     device->domain, device->provider, (size_t)fab->caps.msg_max, (int)KV_MSG_MAX);
		goto fail;
	}
	/* One warning per process. */
	if (fab->quirk->warning && fab_census(fab->caps.domain) == 1)
		kv_warn(options->log, "provider %s: %s", device->provider, fab->quirk->warning);
	if (fab->quirk->efa && fab->caps.write_emulated)
		kv_warn(options->log,
			"%s: RMA writes are emulated by the EFA provider (libfabric %s, built against %d.%d), which is "
			"slower and uses both sides' CPU",
			device->domain, fab->caps.libfabric, FI_MAJOR_VERSION, FI_MINOR_VERSION);
	fab->opened = true;
	*out = fab;
	return 0;
fail:
	fab_close(&fab);
	return rc;
}

void fab_close(struct fab **fab_ref)
{
	struct fab *fab = *fab_ref;
	if (!fab)
		return;
	fab_retire_end(fab);
	endpoint_close(fab);
	while (!kv_list_empty(&fab->mrs)) {
		struct fab_mr *mr = KV_LIST_ENTRY(fab->mrs.next, struct fab_mr, node);
		fab_mr_close(&mr);
	}
	if (fab->domain)
		fab_leak_log(fab, "domain", fi_close(&fab->domain->fid));
	if (fab->fabric)
		fab_leak_log(fab, "fabric", fi_close(&fab->fabric->fid));
	door_release(&fab->door);
	fi_freeinfo(fab->info);
	free(fab);
	*fab_ref = NULL;
}

void fab_shut(struct fab *fab)
{
	if (fab->caps.close_max_ns)
		fab_retire_now(fab);
	else
		endpoint_close(fab);
}

int fab_rebuild(struct fab *fab, struct kv_error *err)
{
	fab_shut(fab);
	if (fab->abandoned.count > 1)
		return kv_fail(err, -KV_EBUSY, "%s: two abandoned endpoints are not closed yet", fab->caps.domain);
	if (fab_address_gone(fab))
		fab_address_take(fab);
	int rc = endpoint_open(fab, err);
	return rc && fab->abandoned.count
		       ? kv_fail(err, -KV_EBUSY, "%s: no room for a new endpoint while the old one is closing",
				 fab->caps.domain)
		       : rc;
}

const struct fab_caps *fab_caps(const struct fab *fab)
{
	return &fab->caps;
}

int fab_name(struct fab *fab, void *out, size_t *inout_len)
{
	size_t len = *inout_len;
	if (!fab->ends.ep)
		return -KV_EPROVIDER;
	int rc = fi_getname(&fab->ends.ep->fid, out, &len);
	if (rc == -FI_ETOOSMALL || len > *inout_len)
		return -KV_ETOOBIG;
	if (rc)
		return -KV_EPROVIDER;
	*inout_len = len;
	return 0;
}

void fab_door_counts(const struct fab *fab, struct fab_door_counts *out)
{
	struct door_counts c = {0};
	if (fab->door)
		door_counts(fab->door, &c);
	*out = (struct fab_door_counts){.let_in = c.let_in,
					.strangers = c.turned[DOOR_STRANGER],
					.claims = c.turned[DOOR_CLAIM],
					.twice = c.turned[DOOR_TWICE],
					.silent = c.turned[DOOR_SILENT],
					.full = c.turned[DOOR_FULL],
					.aliens = c.turned[DOOR_ALIEN]};
}

/* ---- regions ---- */

static uint64_t access_flags(unsigned access)
{
	uint64_t flags = 0;
	if (access & FAB_LOCAL)
		flags |= FI_READ | FI_WRITE;
	if (access & FAB_MESSAGES)
		flags |= FI_SEND | FI_RECV;
	if (access & FAB_REMOTE_READ)
		flags |= FI_REMOTE_READ;
	if (access & FAB_REMOTE_WRITE)
		flags |= FI_REMOTE_WRITE;
	return flags;
}

/* Keys chosen by us are random: 63 bits where keys have 8 bytes, without bit 31, which rxm uses for its own regions. */
static int random_key(const struct fab *fab, uint64_t *out)
{
	size_t size = fab->info->domain_attr->mr_key_size;
	uint64_t key;
	int rc = kv_entropy_fill(&kv_entropy_kernel, &key, sizeof(key));
	if (rc)
		return rc;
	key &= ~((uint64_t)1 << 63 | (uint64_t)1 << 31);
	*out = size >= sizeof(key) ? key : key & (((uint64_t)1 << (8 * size)) - 1);
	return 0;
}

static int mr_reg_keyed(struct fab *fab, void *base, uint64_t len, uint64_t flags, struct fid_mr **out)
{
	int rc = -FI_ENOKEY;
	for (int i = 0; i < KEY_TRIES && rc == -FI_ENOKEY; i++) {
		uint64_t key = 0;
		if (!fab->caps.prov_key && (rc = random_key(fab, &key)))
			return rc;
		rc = fi_mr_reg(fab->domain, base, len, flags, 0, key, 0, out, NULL);
	}
	return rc;
}

static int mr_fail(struct fab *fab, uint64_t len, int rc, struct kv_error *err)
{
	bool room = rc == -FI_ENOMEM || rc == -FAB_ENOMR || rc == -FI_ENOSPC || rc == -FI_EAGAIN;
	struct kv_need need = {
		.mrs = 1, .registered_bytes = len, .pinned_bytes = len, .part_bytes = len, .pages = len >> 12};
	char why[384] = "", size[32];
	if (room)
		fab_limits_short(fab, &need, why, sizeof(why));
	else if (rc == -FI_EFAULT)
		snprintf(why, sizeof(why),
			 "it is not mapped, not writable, or memory of a device (GPUs are not supported)");
	return kv_fail(err, room ? -KV_ENOMEM : -KV_EPROVIDER, "fi_mr_reg %s on %s (%s): %s%s%s",
		       kv_size_format(len, size, sizeof(size)), fab->caps.domain, fab->caps.provider, fi_strerror(-rc),
		       why[0] ? "; " : "", why);
}

int fab_mr_reg(struct fab *fab, void *base, uint64_t len, unsigned access, struct fab_mr **out, struct kv_error *err)
{
	struct fab_mr *mr = calloc(1, sizeof(*mr));
	if (!mr)
		return kv_fail(err, -KV_ENOMEM, "no memory for a region");
	int rc = mr_reg_keyed(fab, base, len, access_flags(access), &mr->mr);
	if (rc) {
		free(mr);
		return mr_fail(fab, len, rc, err);
	}
	if (access & FAB_REMOTE_READ && fab->door)
		door_readable(fab->door);
	mr->base = fab->caps.virt_addr ? (uint64_t)(uintptr_t)base : 0;
	mr->key = fi_mr_key(mr->mr);
	kv_list_add_tail(&fab->mrs, &mr->node);
	*out = mr;
	return 0;
}

void fab_mr_close(struct fab_mr **mr_ref)
{
	struct fab_mr *mr = *mr_ref;
	if (!mr)
		return;
	/* -FI_EBUSY here is rxm's lost rendezvous completion: the registration stays until the process ends. */
	(void)fi_close(&mr->mr->fid);
	kv_list_del(&mr->node);
	free(mr);
	*mr_ref = NULL;
}

void fab_mr_remote(const struct fab_mr *mr, uint64_t *out_base, uint64_t *out_key)
{
	*out_base = mr->base;
	*out_key = mr->key;
}

/* ---- addresses ---- */

/* Addresses come from the network. */
static bool blob_ok(const struct fab *fab, const void *blob, size_t len)
{
	if (len == 0 || len > KV_ADDR_MAX)
		return false;
	if (fab->info->addr_format == FI_ADDR_STR)
		return memchr(blob, 0, len) != NULL;
	if (len != fab->name_len)
		return false;
	if (fab->info->addr_format == FI_SOCKADDR_IN || fab->info->addr_format == FI_SOCKADDR_IN6) {
		struct sockaddr sa;
		memcpy(&sa, blob, sizeof(sa));
		return sa.sa_family == (fab->info->addr_format == FI_SOCKADDR_IN ? AF_INET : AF_INET6);
	}
	return true;
}

/* A fabric has either the IPv4 or the IPv6 addresses of its host, according to its own address. */
static void misfit_describe(struct fab *fab, const void *blob, size_t len)
{
	_Alignas(16) uint8_t own[KV_ADDR_MAX] = {0}, theirs[KV_ADDR_MAX + 1] = {0};
	char here[LOCAL_TEXT_MAX], there[LOCAL_TEXT_MAX];
	size_t own_len = sizeof(own);
	memcpy(theirs, blob, KV_MIN(len, (size_t)KV_ADDR_MAX));
	if (!fab->ends.ep || fi_getname(&fab->ends.ep->fid, own, &own_len))
		own_len = 0;
	fab_address_text(own, KV_MIN(own_len, sizeof(own)), here);
	fab_address_text(theirs, KV_MIN(len, (size_t)KV_ADDR_MAX), there);
	if (here[0] && there[0] && !strchr(here, ':') != !strchr(there, ':'))
		snprintf(fab->last_error, sizeof(fab->last_error),
			 "its fabric has the %s address %s, ours the %s address %s, and they cannot connect: give one "
			 "side an address of the other family with --nic ADDRESS (kvc_options.nic)",
			 strchr(there, ':') ? "IPv6" : "IPv4", there, strchr(here, ':') ? "IPv6" : "IPv4", here);
	else
		snprintf(fab->last_error, sizeof(fab->last_error), "its address (%zu bytes) is not one of provider %s",
			 len, fab->caps.provider);
}

int fab_av_insert(struct fab *fab, const void *blob, size_t len, uint64_t *out_handle)
{
	_Alignas(16) uint8_t copy[KV_ADDR_MAX + 1] = {0};
	fi_addr_t handle = FI_ADDR_NOTAVAIL;
	if (!fab->ends.ep)
		return -KV_EPROVIDER;
	if (!blob_ok(fab, blob, len)) {
		misfit_describe(fab, blob, len);
		return -KV_EPROTO;
	}
	memcpy(copy, blob, len);
	int rc = fi_av_insert(fab->ends.av, copy, 1, &handle, 0, NULL);
	if (rc == -FI_EAGAIN)
		return -EAGAIN;
	if (rc != 1 || handle == FI_ADDR_NOTAVAIL) {
		snprintf(fab->last_error, sizeof(fab->last_error), "%s %s: fi_av_insert: %s", fab->caps.provider,
			 fab->caps.domain, rc < 0 ? fi_strerror(-rc) : "no address was inserted");
		return -KV_EPROVIDER;
	}
	if (fab_resolve_insert(fab, handle, copy, len) || (fab->door && door_allow(fab->door, copy, len))) {
		fab_resolve_remove(fab, handle);
		(void)fi_av_remove(fab->ends.av, &handle, 1, 0);
		return -KV_ENOMEM;
	}
	*out_handle = handle;
	return 0;
}

void fab_av_remove(struct fab *fab, uint64_t handle, bool used)
{
	_Alignas(16) uint8_t blob[KV_ADDR_MAX];
	size_t len = sizeof(blob);
	fi_addr_t addr = handle;
	fab_resolve_remove(fab, handle);
	if (fab->door && fab->ends.av && fi_av_lookup(fab->ends.av, addr, blob, &len) == 0)
		door_forbid(fab->door, blob, KV_MIN(len, sizeof(blob)), used);
	if (fab->ends.av && !fab->quirk->av_remove_unsafe)
		(void)fi_av_remove(fab->ends.av, &addr, 1, 0);
}

void fab_broken(struct fab *fab, uint64_t handle)
{
	if (fab->resolve)
		fab_resolve_posted(fab, handle, -FI_ENOTCONN);
}

/* ---- posting ---- */

/* 0 if an operation to this address may be posted; -FI_EAGAIN if it would block. */
static inline int way_check(struct fab *fab, uint64_t to)
{
	if (KV_UNLIKELY(!fab->ends.ep))
		return -KV_EPROVIDER;
	return KV_UNLIKELY(fab->resolve != NULL) && !fab_resolve_known(fab, to) ? -FI_EAGAIN : 0;
}

static inline int way_told(struct fab *fab, uint64_t to, int rc)
{
	if (KV_UNLIKELY(fab->resolve != NULL))
		fab_resolve_posted(fab, to, rc);
	return rc;
}

static void *desc_of(struct fab_mr *mr)
{
	return mr ? fi_mr_desc(mr->mr) : NULL;
}

/* Fill an operation's context before posting; see fab_split. */
static void ctx_arm(const struct fab *fab, struct fab_ctx *ctx, uint32_t operations)
{
	if (fab->split_imm)
		*fab_split_of(ctx) = (struct fab_split){.left = operations};
}

int fab_recv(struct fab *fab, void *buf, size_t len, struct fab_mr *mr, struct fab_ctx *ctx)
{
	if (KV_UNLIKELY(!fab->ends.ep))
		return -KV_EPROVIDER;
	ctx_arm(fab, ctx, 1);
	return (int)fi_recv(fab->ends.ep, buf, len, desc_of(mr), FI_ADDR_UNSPEC, ctx);
}

int fab_send(struct fab *fab, const void *buf, size_t len, struct fab_mr *mr, uint64_t to, struct fab_ctx *ctx)
{
	int rc = way_check(fab, to);
	if (KV_UNLIKELY(rc != 0))
		return rc;
	ctx_arm(fab, ctx, 1);
	return way_told(fab, to, (int)fi_send(fab->ends.ep, buf, len, desc_of(mr), to, ctx));
}

/* A write that completes at the target: one flag on providers whose plain completion means less. */
static int write_delivered(struct fab *fab, const void *buf, size_t len, void *desc, uint64_t to, uint64_t addr,
			   uint64_t key, const uint32_t *imm, struct fab_ctx *ctx)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
	struct fi_rma_iov rma = {.addr = addr, .len = len, .key = key};
	struct fi_msg_rma msg = {.msg_iov = &iov,
				 .desc = &desc,
				 .iov_count = 1,
				 .addr = to,
				 .rma_iov = &rma,
				 .rma_iov_count = 1,
				 .context = ctx,
				 .data = imm ? *imm : 0};
	return (int)fi_writemsg(fab->ends.ep, &msg,
				FI_COMPLETION | FI_DELIVERY_COMPLETE | (imm ? FI_REMOTE_CQ_DATA : 0));
}

/* Let the kernel send these bytes together with the next posting: one segment less, and one wake-up less at the
 * receiver. */
static int write_more(struct fab *fab, const void *buf, size_t len, struct fab_mr *mr, uint64_t to, uint64_t addr,
		      uint64_t key, struct fab_ctx *ctx)
{
	int rc;
	door_more(fab->door, true);
	rc = (int)fi_write(fab->ends.ep, buf, len, desc_of(mr), to, addr, key, ctx);
	door_more(fab->door, false);
	return rc;
}

/* One operation of the provider. */
static int write_one(struct fab *fab, const void *buf, size_t len, struct fab_mr *mr, uint64_t to, uint64_t addr,
		     uint64_t key, const uint32_t *imm, unsigned how, struct fab_ctx *ctx)
{
	ctx_arm(fab, ctx, 1);
	if (how & FAB_DELIVERED && fab->quirk->delivery_flag)
		return write_delivered(fab, buf, len, desc_of(mr), to, addr, key, imm, ctx);
	if (imm)
		return (int)fi_writedata(fab->ends.ep, buf, len, desc_of(mr), *imm, to, addr, key, ctx);
	if (how & FAB_MORE && fab->door)
		return write_more(fab, buf, len, mr, to, addr, key, ctx);
	return (int)fi_write(fab->ends.ep, buf, len, desc_of(mr), to, addr, key, ctx);
}

static int write_split(struct fab *fab, const void *buf, size_t len, struct fab_mr *mr, uint64_t to, uint64_t addr,
		       uint64_t key, uint32_t imm, unsigned how, struct fab_ctx *ctx)
{
	int rc = write_one(fab, buf, len, mr, to, addr, key, NULL, how | FAB_MORE, ctx);
	if (rc)
		return rc;
	ctx_arm(fab, ctx, 2);
	rc = (int)fi_writedata(fab->ends.ep, buf, 0, desc_of(mr), imm, to, addr, key, ctx->provider + FAB_CTX_IMM);
	if (rc)
		*fab_split_of(ctx) = (struct fab_split){.left = 1, .status = -FI_ECANCELED};
	return rc ? FAB_HALF : 0;
}

int fab_write(struct fab *fab, const void *buf, size_t len, struct fab_mr *mr, uint64_t to, uint64_t addr, uint64_t key,
	      const uint32_t *imm, unsigned how, struct fab_ctx *ctx)
{
	int rc = way_check(fab, to);
	if (KV_UNLIKELY(rc != 0))
		return rc;
	if (imm && len && fab->split_imm)
		return write_split(fab, buf, len, mr, to, addr, key, *imm, how, ctx);
	return way_told(fab, to, write_one(fab, buf, len, mr, to, addr, key, imm, how, ctx));
}

static int read_guarded(struct fab *fab, void *buf, size_t len, struct fab_mr *mr, uint64_t from, uint64_t addr,
			uint64_t key, struct fab_ctx *ctx)
{
	_Alignas(16) uint8_t blob[KV_ADDR_MAX];
	size_t blob_len = sizeof(blob);
	int rc;
	if (fi_av_lookup(fab->ends.av, from, blob, &blob_len) || blob_len > sizeof(blob))
		return -KV_EPROVIDER;
	if (!door_may_read(fab->door, blob, blob_len))
		return -EAGAIN;
	rc = (int)fi_read(fab->ends.ep, buf, len, desc_of(mr), from, addr, key, ctx);
	if (rc == 0)
		door_reads(fab->door, blob, blob_len, len);
	return rc;
}

int fab_read(struct fab *fab, void *buf, size_t len, struct fab_mr *mr, uint64_t from, uint64_t addr, uint64_t key,
	     struct fab_ctx *ctx)
{
	int rc = way_check(fab, from);
	if (KV_UNLIKELY(rc != 0))
		return rc;
	ctx_arm(fab, ctx, 1);
	if (fab->door)
		return read_guarded(fab, buf, len, mr, from, addr, key, ctx);
	return way_told(fab, from, (int)fi_read(fab->ends.ep, buf, len, desc_of(mr), from, addr, key, ctx));
}
