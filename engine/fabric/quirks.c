/* SPDX-License-Identifier: Apache-2.0 */
/* quirks.c -- the table of the providers' needs: begin here for a new provider or quirk. docs/internals/providers.md
 * gives the source of each cell. Where a wrong cell costs much (a wait fd that spins, an address removal that crashes),
 * it is set to the safe side. */
#include "engine/fabric/quirks.h"

#include <string.h>
#include <strings.h>

#include <rdma/fabric.h>

#define MR_OFFER   (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define MODE_OFFER (FI_CONTEXT | FI_CONTEXT2)

/* The tcp provider of 1.17 keeps a read being answered both in its queue and as the current receive. If the connection
 * breaks then, it frees the read twice and passes rxm an error without a context (tcpx_ep_flush_all_queues; the reader
 * dies in fi_close or fi_cq_read). 1.22 and 2.1 are fixed; the versions in between were not read. */
#define READ_SAFE FI_VERSION(1, 22)

/* shm's spin locks lie in shared memory. If a process is killed while it holds one, all others wait inside the provider
 * without end, past our deadlines; if it is stopped, they wait until it continues. */
#define DEATH_HANGS                                                                                                    \
	"a process killed at a bad moment keeps a lock, and then every process that shares memory with it hangs for "  \
	"ever; a stopped process blocks their calls, past the deadlines, until it continues: for tests and "           \
	"benchmarks; where servers are killed, stopped or restarted use tcp"

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
		/* efa_rdm_ep_wait_send polls until every packet has its completion: for a dead host the device's
		 * time-out, some seconds, since 1.18 with the domain's lock held. 2.6 waits briefly, and only for live
		 * peers; versions between 2.1 and 2.6 were not read. */
		.close_waits_before = FI_VERSION(2, 6),
		.pins_memory = true,
		.fds = 4,
		.memory_bytes = 110ull << 20,
	},
	{
		/* An immediate may use up a posted receive here: FI_RX_CQ_DATA is offered, and fab_poll returns such
		 * receives. */
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
		/* No program learns of a queue pair in error before the peer disconnects, and rxm (1.17 to 2.6)
		 * continues to post to it. */
		.breaks_stay = true,
		/* rxm_close_conn (1.17 to 2.6) frees the queue pair before it handles its receives. */
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
		/* The tcp provider reports a half-received write with immediate to rxm without a context, and
		 * rxm_handle_comp_error follows it: SIGSEGV in the target, 1.17 to 2.6. A plain write is dropped
		 * silently, and an immediate without bytes is never half received. */
		.split_imm = true,
		/* fi_write and fi_send queue on the address's connection, which is replaced only by polling, or when a
		 * posting returns -FI_EAGAIN (rxm_get_conn). */
		.ordered = true,
		.read_safe_since = READ_SAFE,
		.delivery_flag = true,
		.fds = 10,
		.memory_bytes = 87ull << 20,
	},
	{
		/* VIRT_ADDR is offered so that the reader's own CPU does a read. Otherwise the other process would
		 * write into our memory, at any later time. */
		.short_name = "shm",
		.prov_name = "shm",
		.mode = MODE_OFFER,
		.mr_mode = MR_OFFER,
		.wait_fd_since = FAB_NO_WAIT,
		.delivery_flag = true,
		.av_remove_unsafe = true,
		.push_imm_only = true,
		.death_fatal = true,
		/* smr_progress_resp reports ended operations in posting order, and stops at the first unfinished one
		 * (1.17, 1.22 and 2.1); a dead process ends none. 2.6 reports each as it comes; versions in between
		 * were not read. */
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
