/* SPDX-License-Identifier: Apache-2.0 */
/* environment.c -- settings in the environment that libfabric's providers heed and KVRail suffers from: docs/PROVIDERS.md
 * has the reasons. Looked at when the provider is known, because each concerns one. */
#include <stdlib.h>
#include <string.h>

#include "kvdoctor/doctor.h"

static const struct {
	const char *name, *value; /* value: this one alone is meant; NULL: any */
	const char *provider;     /* how the names of those begin that it concerns; "": all */
	enum te_status status;
	const char *text;
} settings[] = {
	{"FI_PROVIDER", NULL, "", TE_WARN, "libfabric shows no other provider than this"},
	{"FI_TCP_ZEROCOPY_SIZE", NULL, "tcp", TE_FAIL, "libfabric may announce bytes that it did not deliver"},
	{"FI_OFI_RXM_DATA_AUTO_PROGRESS", "1", "tcp", TE_FAIL, "libfabric may announce bytes that it did not deliver"},
	{"FI_OFI_RXM_USE_RNDV_WRITE", NULL, "", TE_WARN, "wrong data before libfabric 1.18.3"},
	{"FI_OFI_RXM_USE_SRX", "1", "verbs", TE_FAIL, "libfabric takes immediate data for messages and drops it"},
	{"FI_EFA_MTU_SIZE", NULL, "efa", TE_WARN, "newer EFA providers end the process when it is set"},
	{"FI_EFA_TX_IOV_LIMIT", NULL, "efa", TE_WARN, "newer EFA providers end the process when it is set"},
	{"FI_EFA_RX_IOV_LIMIT", NULL, "efa", TE_WARN, "newer EFA providers end the process when it is set"},
	{"FI_EFA_USE_DEVICE_RDMA", "0", "efa", TE_WARN, "the EFA provider then emulates RDMA"},
	{"FI_EFA_USE_DEVICE_RDMA", "1", "efa", TE_WARN, "the EFA provider ends the process on a device without RDMA"},
};

void doctor_environment(struct doctor *d)
{
	const char *provider = d->client.rc == 0 ? d->client.budget.device[0].device.short_name : "";
	for (unsigned i = 0; i < KV_COUNT(settings); i++) {
		const char *set = getenv(settings[i].name);
		bool concerns = strncmp(provider, settings[i].provider, strlen(settings[i].provider)) == 0;
		if (!set || !concerns || (settings[i].value && strcmp(set, settings[i].value) != 0))
			continue;
		struct finding *f = doctor_found(d, SECTION_RUN, settings[i].status, "environment", settings[i].name, "environment",
						 "is set to %.64s: %s", set, settings[i].text);
		doctor_remedy(f, "`unset %s`", settings[i].name);
	}
}
