/* SPDX-License-Identifier: Apache-2.0 */
/* env.c -- the environment defaults of our own programs. Libraries never set them: an environment belongs to its
 * process.
 *
 * rxm's queues take 18 MB per endpoint on tcp instead of 68. FI_OFI_RXM_BUFFER_SIZE stays: two endpoints with different
 * eager limits cannot connect. Over verbs an endpoint's completion queue has (MSG_RX_SIZE + MSG_TX_SIZE) *
 * UNIVERSE_SIZE entries; te_rxm_fit chooses the three to fit the device.
 *
 * Variables set by the user stay. KVRAIL_ENV lists those set by our programs, so that their children choose for
 * themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/budget.h"
#include "engine/env.h"
#include "engine/inside.h"
#include "engine/signals.h"

enum {
	TCP_RX = 1024, /* bounce buffers posted per endpoint: the pool grows in such steps, so fewer save nothing */
	TCP_TX = 256,  /* operations per connection before -EAGAIN */
	TCP_PEERS = 1024,
	VERBS_RX = 128, /* per connection; a link has 128 credits (kv-server --credits) */
	VERBS_TX = 128,
	VERBS_PEERS = 256,
	VERBS_LEAST = 16, /* of MSG_RX_SIZE and MSG_TX_SIZE */
	LIST_MAX = 512
};

static struct {
	bool many;      /* endpoints with a few operations each */
	unsigned peers; /* of an endpoint; 0: unknown */
} expected;

static const struct {
	const char *name, *value;
} defaults[] = {
	{"FI_EFA_FORK_SAFE", "1"}, /* otherwise the EFA provider aborts in fork() */
	{"RDMAV_HUGEPAGES_SAFE",
	 "1"}, /* required by fork safety before Linux 5.12: else parts of huge pages cannot be registered */
	{"FI_EFA_ENABLE_SHM_TRANSFER", "0"},        /* one path to every peer */
	{"FI_EFA_USE_UNSOLICITED_WRITE_RECV", "0"}, /* immediates without flow control overrun the CQ */
	{"IPATH_NO_BACKTRACE", "1"}, /* psm: for the processes we start; in this one the handlers are evicted */
	{"HFI_BACKTRACE", "no"},
};

void te_rxm_fit(struct te_rxm *r, uint64_t entries_max)
{
	/* A quarter fewer peers cost less than half the depth. */
	while (entries_max / (r->rx + r->tx) < r->peers - r->peers / 4) {
		bool rx = !r->rx_fixed && r->rx / 2 >= VERBS_LEAST, tx = !r->tx_fixed && r->tx / 2 >= VERBS_LEAST;
		if (!rx && !tx)
			break;
		r->rx /= rx ? 2 : 1;
		r->tx /= tx ? 2 : 1;
	}
	if (!r->peers_fixed)
		r->peers = KV_MAX((uint64_t)1, KV_MIN(r->peers, entries_max / (r->rx + r->tx)));
}

/* ---- the variables that our programs set ---- */

static char inherited[LIST_MAX], set_by_us[LIST_MAX];

static bool listed(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = list; (at = strstr(at, name)); at += len)
		if ((at == list || at[-1] == ',') && (at[len] == ',' || at[len] == '\0'))
			return true;
	return false;
}

static bool is_users(const char *name)
{
	return getenv(name) && !listed(inherited, name) && !listed(set_by_us, name);
}

static void set_default(const char *name, const char *value)
{
	size_t len = strlen(set_by_us);
	if (is_users(name) || setenv(name, value, 1))
		return;
	if (!listed(set_by_us, name) && len + strlen(name) + 2 <= sizeof(set_by_us))
		snprintf(set_by_us + len, sizeof(set_by_us) - len, "%s%s", len ? "," : "", name);
}

static void set_number(const char *name, uint64_t value)
{
	char text[24];
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	set_default(name, text);
}

static bool user_number(const char *name, uint64_t *inout_value)
{
	uint64_t value;
	if (!is_users(name) || kv_u64_parse(getenv(name), &value) || value == 0 || value > UINT32_MAX)
		return false;
	*inout_value = value;
	return true;
}

/* ---- rxm ---- */

/* The CQ entries that every RDMA device here supports; 0: no device for verbs;ofi_rxm. */
static uint64_t cq_entries_max(void)
{
	uint64_t least = 0;
	struct te_rdma *all = calloc(TE_RDMA_MAX, sizeof(*all));
	unsigned n = all ? te_rdma_list("", NULL, all, TE_RDMA_MAX) : 0;
	n = KV_MIN(n, (unsigned)TE_RDMA_MAX);
	for (unsigned i = 0; i < n; i++)
		if (!all[i].efa && all[i].cqe_max != KV_UNKNOWN && all[i].cqe_max > 0)
			least = least ? KV_MIN(least, all[i].cqe_max) : all[i].cqe_max;
	free(all);
	return least;
}

static void rxm_defaults(void)
{
	uint64_t entries_max = cq_entries_max();
	bool verbs = entries_max > 0;
	struct te_rxm r = {.rx = verbs ? VERBS_RX : TCP_RX,
			   .tx = verbs ? VERBS_TX : TCP_TX,
			   .peers = verbs ? KV_MAX(expected.peers, (unsigned)VERBS_PEERS) : TCP_PEERS};
	if (expected.many)
		r = (struct te_rxm){
			.rx = 64, .tx = 64, .peers = 16}; /* each endpoint has one server with a few shards */
	r.rx_fixed = user_number("FI_OFI_RXM_MSG_RX_SIZE", &r.rx);
	r.tx_fixed = user_number("FI_OFI_RXM_MSG_TX_SIZE", &r.tx);
	r.peers_fixed = user_number("FI_UNIVERSE_SIZE", &r.peers);
	if (verbs)
		te_rxm_fit(&r, entries_max);
	set_number("FI_OFI_RXM_MSG_RX_SIZE", r.rx);
	set_number("FI_OFI_RXM_MSG_TX_SIZE", r.tx);
	set_number("FI_UNIVERSE_SIZE", r.peers);
	/* As for fab_drain: rxm learns of a connection's end only after it has read all its completions. */
	if (verbs)
		set_default("FI_OFI_RXM_CQ_EQ_FAIRNESS", "1000000");
}

void te_env_for_programs(void)
{
	if (!set_by_us[0])
		snprintf(inherited, sizeof(inherited), "%s", getenv("KVRAIL_ENV") ? getenv("KVRAIL_ENV") : "");
	rxm_defaults();
	for (size_t i = 0; i < KV_COUNT(defaults); i++)
		set_default(defaults[i].name, defaults[i].value);
	(void)setenv("KVRAIL_ENV", set_by_us, 1);
	te_signals_evict();
}

void te_env_for_many_endpoints(void)
{
	expected.many = true;
}

void te_env_for_peers(unsigned peers)
{
	expected.peers = peers;
}
