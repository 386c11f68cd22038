/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_quirks.c -- the table of what each provider needs: begin here for a new provider or a new quirk.
 *
 * docs/internals/providers.md gives the source of each cell, and says which file has what does not fit into a cell. It
 * is a table and not discovery, because fi_getinfo answers what a provider accepts, not what works. Where a cell costs
 * something when it is wrong for a version (a wait fd that spins, an address removal that crashes), it is set to the
 * safe side. */
#include "engine/fabric_quirks.h"

#include <string.h>
#include <strings.h>

#include <rdma/fabric.h>

#define MR_OFFER   (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define MODE_OFFER (FI_CONTEXT | FI_CONTEXT2)

/* The tcp provider of 1.17 keeps the read that is being answered both in its queue and as the current receive. When the
 * connection breaks then, it frees the read twice and hands rxm an error without a context, which rxm follows
 * (tcpx_ep_flush_all_queues; the reader dies in fi_close or fi_cq_read). The sources of 1.22 and 2.1 take the read off
 * the queue first; the versions in between were not read. */
#define READ_SAFE FI_VERSION(1, 22)

/* The locks of shm lie in memory that all processes share, and spin. If a process is killed while it holds one, the
 * others wait for it without end, inside the provider, where no deadline of ours reaches. If a process is stopped
 * there, they wait until it goes on. */
#define DEATH_HANGS                                                                                                    \
	"a process that is killed at a bad moment leaves a lock taken, and then every process that shares memory "     \
	"with "                                                                                                        \
	"it stands still for ever; one that is stopped holds up their calls, past the deadlines, until it goes on: "   \
	"for tests and benchmarks; where servers are killed, stopped or restarted use tcp"

static const struct fab_quirk quirks[] = {
	{
		.short_name = "efa",
		.prov_name = "efa",
		.fabric_name = "efa",
		.mode = MODE_OFFER,
		.mr_mode = MR_OFFER,
		.wait_fd_since = FI_VERSION(2, 5),
		.automatic = true,
		.efa = true,
		/* efa_rdm_ep_wait_send polls until every packet has its completion. If the host of the peer died that
		 * is the device's time-out, some seconds. Since 1.18 it holds a lock of the domain meanwhile (1.22 and
		 * 2.1 as read). 2.6 waits for little, and only for peers that answer; the versions in between were not
		 * read. */
		.close_waits_before = FI_VERSION(2, 6),
		.pins_memory = true,
		.fds = 4,
		.memory_bytes = 110ull << 20,
	},
	{
		/* An immediate may consume a posted receive here: FI_RX_CQ_DATA is offered, and fab_poll hands such
		   receives back. */
		.short_name = "efa-direct",
		.prov_name = "efa",
		.fabric_name = "efa-direct",
		.mode = MODE_OFFER | FI_RX_CQ_DATA,
		.mr_mode = MR_OFFER,
		.wait_fd_since = FI_VERSION(2, 3),
		.efa = true,
		.unsolicited = true,
		.retries_endless = true,
		.pins_memory = true,
		.fds = 4,
		.memory_bytes = 4ull << 20,
	},
	{
		.short_name = "verbs",
		.prov_name = "verbs;ofi_rxm",
		.mode = MODE_OFFER,
		.mr_mode = MR_OFFER,
		.automatic = true,
		.ip = true,
		.rxm = true,
		.verbs = true,
		.pins_memory = true,
		/* A queue pair in error reports itself to no program: there is no event before the peer disconnects,
		 * and rxm (1.17 to 2.6) goes on posting to it. The sockets of tcp report themselves. */
		.breaks_stay = true,
		/* rxm_close_conn (1.17 to 2.6) frees the queue pair, and then handles the receives that came by it. */
		.drain_first = true,
		.fds = 12,
		.memory_bytes = 80ull << 20,
	},
	{
		.short_name = "tcp",
		.prov_name = "tcp;ofi_rxm",
		.mode = MODE_OFFER,
		.mr_mode = MR_OFFER,
		.automatic = true,
		.ip = true,
		.tcp = true,
		.zerocopy_env = "FI_TCP_ZEROCOPY_SIZE",
		.prefetch_env = "FI_TCP_PREFETCH_RBUF_SIZE",
		.rxm = true,
		/* The tcp provider reports a half received write with immediate to rxm without a context, and
		 * rxm_handle_comp_error follows it: SIGSEGV in the target, 1.17 to 2.6. A plain write is internal there
		 * and dropped in silence, and an immediate without bytes is never half received. */
		.split_imm = true,
		/* fi_write and fi_send take the address's connection and queue on it; it is replaced only by
		 * polling, or where a posting returns -FI_EAGAIN (rxm_get_conn). */
		.ordered = true,
		.read_safe_since = READ_SAFE,
		.delivery_flag = true,
		.fds = 10,
		.memory_bytes = 87ull << 20,
	},
	{
		/* VIRT_ADDR is offered so that a read is done by the reader's own CPU. Through the command queue the
		 * other process would write into our memory, at any later time. */
		.short_name = "shm",
		.prov_name = "shm",
		.mode = MODE_OFFER,
		.mr_mode = MR_OFFER,
		.wait_fd_since = FAB_NO_WAIT,
		.delivery_flag = true,
		.av_remove_unsafe = true,
		.push_imm_only = true,
		.death_fatal = true,
		/* smr_progress_resp takes what has ended in the order of posting, and stops at the first that has not
		 * (1.17, 1.22 and 2.1). A process that died ends nothing. 2.6 takes each as it comes; the versions in
		 * between were not read. */
		.death_stalls_before = FI_VERSION(2, 6),
		.dev_shm = true,
		.link_ops = 16,
		.link_bytes = 4 << 20,
		.warning = DEATH_HANGS,
		.fds = 2,
		.memory_bytes = 7ull << 20,
	},
	{
		/* The tcp provider's own RDM endpoints, libfabric 1.18 and later; not wire compatible with tcp;ofi_rxm.
		 */
		.short_name = "tcp-native",
		.prov_name = "tcp",
		.mode = MODE_OFFER,
		.mr_mode = MR_OFFER,
		.wait_fd_since = FI_VERSION(1, 19),
		.read_safe_since = READ_SAFE,
		.shut_first = true,
		.ip = true,
		.tcp = true,
		.zerocopy_env = "FI_TCP_ZEROCOPY_SIZE",
		.prefetch_env = "FI_TCP_PREFETCH_RBUF_SIZE",
		.delivery_flag = true,
		.fds = 10,
		.memory_bytes = 1ull << 20,
	},
	{
		.short_name = "net",
		.prov_name = "net",
		.mode = MODE_OFFER,
		.mr_mode = MR_OFFER,
		.wait_fd_since = FAB_NO_WAIT, /* the fd is permanently readable in 1.17 */
		.read_safe_since = READ_SAFE,
		.shut_first = true,
		.ip = true,
		.tcp = true,
		.zerocopy_env = "FI_NET_ZEROCOPY_SIZE",
		.prefetch_env = "FI_NET_PREFETCH_RBUF_SIZE",
		.delivery_flag = true,
		.fds = 7,
		.memory_bytes = 1ull << 20,
	},
};

static const struct fab_quirk generic = {
	.mode = MODE_OFFER,
	.mr_mode = MR_OFFER,
	.wait_fd_since = FAB_NO_WAIT,
	.av_remove_unsafe = true,
	.delivery_flag = true,
	.fds = 16,
};

const struct fab_quirk *fab_quirk_find(const char *name)
{
	for (size_t i = 0; i < sizeof(quirks) / sizeof(quirks[0]); i++)
		if (strcasecmp(name, quirks[i].short_name) == 0)
			return &quirks[i];
	for (size_t i = 0; i < sizeof(quirks) / sizeof(quirks[0]); i++)
		if (strcasecmp(name, quirks[i].prov_name) == 0)
			return &quirks[i];
	return &generic;
}

const struct fab_quirk *fab_quirk_at(unsigned i)
{
	return i < sizeof(quirks) / sizeof(quirks[0]) ? &quirks[i] : NULL;
}
