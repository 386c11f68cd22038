/* SPDX-License-Identifier: Apache-2.0 */
/* environment.c -- environment variables heeded by libfabric's providers and harmful to KVRail. The reasons are in
 * docs/internals/providers.md. Needs the chosen provider, because most variables concern one or two. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kvdoctor/doctor.h"

/* KV_FAIL: the engine refuses to open an endpoint with it, in the same words (fab_tcp_check, fab_verbs_check). */
static const struct {
	const char *name;
	enum { ANY, ON, OFF } value; /* the harmful values */
	const char *providers;       /* concerned providers, separated by spaces; "": all */
	enum kv_status status;
	const char *text;
} settings[] = {
	{"FI_PROVIDER", ANY, "", KV_WARN, "libfabric shows only the providers that it allows"},
	{"FI_TCP_ZEROCOPY_SIZE", ANY, "tcp tcp-native", KV_FAIL,
	 "libfabric may announce bytes that it did not deliver"},
	{"FI_NET_ZEROCOPY_SIZE", ANY, "net", KV_FAIL, "libfabric may announce bytes that it did not deliver"},
	{"FI_OFI_RXM_DATA_AUTO_PROGRESS", ON, "tcp", KV_FAIL, "libfabric may announce bytes that it did not deliver"},
	{"FI_OFI_RXM_USE_RNDV_WRITE", ANY, "tcp verbs", KV_WARN, "libfabric before 1.18.3 delivers wrong data"},
	{"FI_OFI_RXM_USE_SRX", ON, "verbs", KV_FAIL, "libfabric treats immediate data as messages and drops it"},
	{"FI_AV_REMOVE_CLEANUP", ON, "tcp verbs", KV_FAIL, "libfabric crashes after a failed connection to a peer"},
	{"FI_EFA_MTU_SIZE", ANY, "efa efa-direct", KV_WARN, "newer EFA providers end the process when it is set"},
	{"FI_EFA_TX_IOV_LIMIT", ANY, "efa efa-direct", KV_WARN, "newer EFA providers end the process when it is set"},
	{"FI_EFA_RX_IOV_LIMIT", ANY, "efa efa-direct", KV_WARN, "newer EFA providers end the process when it is set"},
	{"FI_EFA_USE_DEVICE_RDMA", OFF, "efa efa-direct", KV_WARN, "the EFA provider then emulates RDMA"},
	{"FI_EFA_USE_DEVICE_RDMA", ON, "efa efa-direct", KV_WARN,
	 "the EFA provider ends the process on a device without RDMA"},
};

/* Compares as libfabric reads a switch. */
static bool is_one_of(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(text, words[i]) == 0)
			return true;
	return false;
}

static bool is_meant(const char *set, int value)
{
	static const char *const on[] = {"1", "on", "t", "true", "y", "yes"}, *const off[] = {"0",     "off", "f",
											      "false", "n",   "no"};
	return value == ANY || (value == ON && is_one_of(set, on, KV_COUNT(on))) ||
	       (value == OFF && is_one_of(set, off, KV_COUNT(off)));
}

static bool concerns(const char *providers, const char *name)
{
	size_t len = strlen(name);
	if (!*providers)
		return true;
	for (const char *at = providers; len && (at = strstr(at, name)); at += len)
		if ((at == providers || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
			return true;
	return false;
}

void doctor_environment(struct doctor *d)
{
	const char *provider = d->client.rc == 0 ? d->client.budget.device[0].device.short_name : "";
	for (unsigned i = 0; i < KV_COUNT(settings); i++) {
		const char *set = getenv(settings[i].name);
		if (!set || !concerns(settings[i].providers, provider) || !is_meant(set, settings[i].value))
			continue;
		doctor_found(d, SECTION_RUN, settings[i].status, "environment", settings[i].name, "environment",
			     "is set to %.64s: %s", set, settings[i].text);
		doctor_remedy(d, "`unset %s`", settings[i].name);
	}
}
