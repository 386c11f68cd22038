/* SPDX-License-Identifier: Apache-2.0 */
/* env.c -- the environment defaults of our own programs. Libraries never call this: an environment belongs to its
 * process.
 *
 * rxm's buffer sizes: with the defaults an endpoint takes 71 MB and 100 ms on libfabric 1.17, with these 5.3 MB and 2.3
 * ms, and a message of KV_MSG_MAX bytes is still eager (measured, docs/PROVIDERS.md). The eager limit must be equal on
 * both sides, which the hello checks. A variable that the user set is left alone. */
#include <stdlib.h>

#include "engine/inside.h"

struct variable {
	const char *name, *value;
};

static const struct variable defaults[] = {
	{"FI_OFI_RXM_BUFFER_SIZE", "4096"}, /* = KV_MSG_MAX: what rxm's bounce buffers hold, its eager limit */
	{"FI_OFI_RXM_MSG_RX_SIZE",
	 "1024"}, /* bounce buffers posted per endpoint: fewer save nothing, the pool grows in such steps */
	{"FI_OFI_RXM_MSG_TX_SIZE", "256"},          /* operations per connection before -EAGAIN */
	{"FI_UNIVERSE_SIZE", "1024"},               /* peers that rxm sizes its inner queues for over verbs */
	{"FI_EFA_FORK_SAFE", "1"},                  /* the EFA provider aborts in fork() otherwise */
	{"FI_EFA_ENABLE_SHM_TRANSFER", "0"},        /* one path to every peer */
	{"FI_EFA_USE_UNSOLICITED_WRITE_RECV", "0"}, /* immediates without flow control overrun the CQ */
	{"IPATH_NO_BACKTRACE", "1"}, /* psm: for the processes we start; in this one the handlers are evicted */
	{"HFI_BACKTRACE", "no"},
};

/* BUFFER_SIZE stays: the peers' eager limit must be the same, and a message of ours must be eager. */
static const struct variable many[] = {
	{"FI_OFI_RXM_MSG_RX_SIZE", "64"},
	{"FI_OFI_RXM_MSG_TX_SIZE", "64"},
	{"FI_UNIVERSE_SIZE", "16"}, /* each endpoint has one server with a few shards */
};

_Static_assert(KV_MSG_MAX == 4096, "FI_OFI_RXM_BUFFER_SIZE above is the largest message");

static void set_missing(const struct variable *row, size_t n)
{
	for (size_t i = 0; i < n; i++)
		setenv(row[i].name, row[i].value, 0);
}

void te_env_for_programs(void)
{
	set_missing(defaults, KV_COUNT(defaults));
	te_signals_evict();
}

void te_env_for_many_endpoints(void)
{
	set_missing(many, KV_COUNT(many));
}
