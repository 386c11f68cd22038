/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_verbs.c -- what must be known of verbs;ofi_rxm besides its row in the quirk table. Seen with Soft-RoCE on
 * libfabric 1.17 and 2.1 (tests/verbs), read in the sources up to 2.6.
 *
 * All queue pairs of an endpoint share one completion queue, made for FI_UNIVERSE_SIZE of them. With more connections
 * libfabric 1.17 runs out of its own count of free entries and never sends again, and later ones let the queue overrun,
 * which kills every connection. So an endpoint takes no more peers than that (fab_caps.peers_max).
 *
 * Receives that nobody has read are handled by rxm after it freed the queue pair that they came from (fixed after 2.6);
 * messages that give rxm's credits back are always among them. So an endpoint is drained before it is closed.
 *
 * FI_AV_REMOVE_CLEANUP makes rxm close an address's connection, one that it could not even open, too (NULL is
 * followed).
 *
 * With a shared receive context (FI_OFI_RXM_USE_SRX; off by default over verbs) vrb_poll_cq calls every receive a
 * message, immediates too: they are lost. */
#include "engine/fabric_inside.h"

#include <stdlib.h>

bool fab_is_verbs(const struct fab_quirk *quirk)
{
	return quirk->rxm && quirk->pins_memory;
}

uint32_t fab_verbs_peers_max(void)
{
	return (uint32_t)fab_env_number("FI_UNIVERSE_SIZE", fi_version() < FI_VERSION(1, 18) ? 256 : 1024);
}

uint32_t fab_verbs_entries_per_peer(void)
{
	enum { RXM_DEFAULT = 128 };
	return (uint32_t)(fab_env_number("FI_OFI_RXM_MSG_RX_SIZE", RXM_DEFAULT) +
			  fab_env_number("FI_OFI_RXM_MSG_TX_SIZE", RXM_DEFAULT));
}

int fab_verbs_check(const struct fab *fab, struct kv_error *err)
{
	if (fab->quirk->rxm && fab_env_is_on("FI_AV_REMOVE_CLEANUP"))
		return kv_fail(err, -KV_ENOTSUP,
			       "%s: with FI_AV_REMOVE_CLEANUP=%s libfabric crashes after a peer could not be connected "
			       "to; unset it",
			       fab->caps.provider, getenv("FI_AV_REMOVE_CLEANUP"));
	if (!fab_is_verbs(fab->quirk) || !fab_env_is_on("FI_OFI_RXM_USE_SRX"))
		return 0;
	return kv_fail(err, -KV_ENOTSUP,
		       "%s: with FI_OFI_RXM_USE_SRX=%s libfabric takes immediate data for messages and drops it, and "
		       "no GET would end; unset it",
		       fab->caps.provider, getenv("FI_OFI_RXM_USE_SRX"));
}
