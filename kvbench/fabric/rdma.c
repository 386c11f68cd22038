/* SPDX-License-Identifier: Apache-2.0 */
/* rdma.c -- whether RDMA is in use: whether the engine's domain is a device of /sys/class/infiniband. The provider's
 * name is no proof: verbs also works on rxe and siw, where the kernel emulates a NIC. Their attribute `parent` names
 * the network interface. */
#include <string.h>
#include <unistd.h>

#include "kvbench/fabric/fabric.h"

static bool is_software(const char *device)
{
	char path[KV_NAME_MAX + 64];
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/parent", device);
	return access(path, F_OK) == 0;
}

void fabric_rdma_look(const struct te_info *info, struct fabric_rdma *out)
{
	static struct te_rdma device, any;
	*out = (struct fabric_rdma){.devices = te_rdma_list("", NULL, &any, 1)};
	out->in_use = te_rdma_list("", info->domain, &device, 1) > 0;
	snprintf(out->device, sizeof(out->device), "%s", out->in_use ? device.name : out->devices ? any.name : "");
	if (!out->in_use) {
		snprintf(out->how, sizeof(out->how),
			 "the domain %s of provider %s is no device in /sys/class/infiniband, which has %u",
			 info->domain, info->provider, out->devices);
		return;
	}
	out->software = is_software(device.name);
	snprintf(out->how, sizeof(out->how), "the domain %s of provider %s is the device %s in /sys/class/infiniband%s",
		 info->domain, info->provider, device.name,
		 out->software ? ", whose attribute `parent` says that the kernel emulates it" : "");
}
