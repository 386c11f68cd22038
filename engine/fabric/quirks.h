/* SPDX-License-Identifier: Apache-2.0 */
/* quirks.h -- each provider's needs that fi_getinfo does not report: one row each. Private to engine/fabric/ and
 * engine/door/. */
#ifndef KVRAIL_ENGINE_FABRIC_QUIRKS_H
#define KVRAIL_ENGINE_FABRIC_QUIRKS_H

#include <stdbool.h>
#include <stdint.h>

#define FAB_NO_WAIT UINT32_MAX

struct fab_quirk {
	const char *short_name;
	const char *prov_name; /* libfabric's exact name */
	const char *
		fabric_name; /* NULL: any. Distinguishes efa from efa-direct, which share prov_name and domain names. */
	uint64_t mode;       /* modes that we offer; the provider returns those it needs */
	uint64_t mr_mode;
	uint32_t wait_fd_since; /* libfabric version from which FI_WAIT_FD works; FAB_NO_WAIT: never */
	bool automatic;         /* a candidate of "auto"; the table's order is the preference */
	bool ip;                /* IP addresses: bind to one through FI_SOURCE */
	bool tcp;               /* sends through TCP sockets of this process (fabric/tcp.c) */
	bool rxm;               /* the eager limit is FI_OFI_RXM_BUFFER_SIZE and must be equal on both sides */
	bool verbs;             /* verbs through rxm (fabric/verbs.c) */
	bool efa;               /* has the EFA options, and its emulation query */
	bool unsolicited;       /* of efa: ask for unsolicited receives of immediates */
	bool retries_endless;   /* of efa: bound the device's retries to a peer without a posted receive */
	const char *zerocopy_env, *prefetch_env; /* of tcp: environment variables of these settings (fabric/tcp.c) */
	bool pins_memory;                        /* registered memory is pinned: RLIMIT_MEMLOCK matters */
	bool delivery_flag;    /* FI_DELIVERY_COMPLETE per operation is needed for, and gives, "the bytes are there" */
	bool av_remove_unsafe; /* removing an address and inserting another crashes */
	bool ordered;          /* one connection per address, and a stream in it: see fab_caps */
	bool split_imm; /* the target crashes if a connection breaks inside a write with immediate: send the immediate
			   separately */
	uint32_t read_safe_since; /* before this libfabric version a connection that breaks inside the answer to a read
				     crashes the reader; 0: safe */
	bool push_imm_only; /* a write without immediate is done by the initiator's CPU in our memory: no fence stops it
			     */
	bool death_fatal;   /* a local process that dies leaves shared state locked */
	uint32_t death_stalls_before; /* before this libfabric version an operation to a dead process blocks the
					 completions of all later ones; 0: never */
	bool drain_first;             /* closing an endpoint with unread receives crashes */
	bool shut_first;              /* closing an endpoint while a peer connects crashes (fabric/tcp.c) */
	uint32_t close_waits_before; /* before this libfabric version closing an endpoint waits for its operations, even
					to a dead host, and blocks its whole domain; 0: never */
	bool breaks_stay;    /* a broken connection is kept, and fails everything, until its address is removed */
	bool dev_shm;        /* an endpoint is a file in /dev/shm (fabric/shm.c) */
	const char *warning; /* a warning when such an endpoint is opened, or NULL */
	uint32_t link_ops, link_bytes; /* default operations and bytes that a link keeps in flight; 0: the engine's
					  default (docs/internals/providers.md) */
	uint32_t fds;                  /* approximate files of one endpoint with one connection */
	uint64_t memory_bytes; /* approximate memory that one endpoint pins or touches with the provider's defaults */
};

/* fab_quirk_find -- the row of a short name or exact provider name, else the generic row. Never NULL. */
const struct fab_quirk *fab_quirk_find(const char *name);

/* fab_quirk_at -- row i, best first; NULL behind the last. Excludes the generic row. */
const struct fab_quirk *fab_quirk_at(unsigned i);

#endif
