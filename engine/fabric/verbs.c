/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.c -- needs of verbs;ofi_rxm beyond a row of the quirk table (seen with Soft-RoCE, tests/verbs).
 *
 * All queue pairs of an endpoint share one completion queue, sized for FI_UNIVERSE_SIZE of them; more never send again
 * (1.17) or overrun it (later). So an endpoint accepts no more peers (fab_caps.peers_max). rxm handles unread receives
 * after it frees their queue pair (fixed after 2.6), so an endpoint is drained before it closes. */
#include "engine/fabric/private.h"

#include <stdlib.h>

bool fab_is_verbs(const struct fab_quirk *quirk)
{
	return quirk->verbs;
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
			       "%s: with FI_AV_REMOVE_CLEANUP=%s libfabric crashes "
			       "after a failed connection to a peer; unset it",
			       fab->caps.provider, getenv("FI_AV_REMOVE_CLEANUP"));
	if (!fab_is_verbs(fab->quirk) || !fab_env_is_on("FI_OFI_RXM_USE_SRX"))
		return 0;
	return kv_fail(err, -KV_ENOTSUP,
		       "%s: with FI_OFI_RXM_USE_SRX=%s libfabric treats immediate data as messages and drops it, and "
		       "no GET would end; unset it",
		       fab->caps.provider, getenv("FI_OFI_RXM_USE_SRX"));
}
