/* SPDX-License-Identifier: Apache-2.0 */
/* look.c -- libraries, kernel modules, RDMA devices.
 *
 * A finding about a device here is a warning at most, since the run may not use the device. Only plan.c,
 * environment.c and try.c may find that a run fails. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/host.h"
#include "kvdoctor/doctor.h"

enum { VENDOR_AMAZON = 0x1d0f, VENDOR_MELLANOX = 0x15b3, PATH_CAP = 1024 };

/* ---- libraries ---- */

static void library_note(struct doctor *d, const char *path)
{
	char real[PATH_MAX];
	if (!realpath(path, real) || d->num_libraries == FILES_MAX || strlen(real) >= TE_PATH_MAX)
		return;
	for (unsigned i = 0; i < d->num_libraries; i++)
		if (strcmp(d->libraries[i], real) == 0)
			return;
	strcpy(d->libraries[d->num_libraries++], real); /* its length was checked above */
}

static void library_dir(struct doctor *d, const char *dir)
{
	char path[PATH_CAP];
	if (snprintf(path, sizeof(path), "%s/libfabric.so.1", dir) < (int)sizeof(path))
		library_note(d, path);
}

/* Search the places where loaders and installers put a libfabric. */
static void libraries_find(struct doctor *d)
{
	static const char *const dirs[] = {
		"/opt/amazon/efa/lib64",     "/opt/amazon/efa/lib",        "/usr/lib64",     "/usr/lib",
		"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/local/lib", "/usr/local/lib64",
		"/opt/libfabric/lib"};
	const char *set = getenv("LD_LIBRARY_PATH");
	char list[4096];
	for (unsigned i = 0; i < KV_COUNT(dirs); i++) {
		unsigned before = d->num_libraries;
		library_dir(d, dirs[i]);
		if (i < 2 && d->num_libraries > before)
			snprintf(d->installer, sizeof(d->installer), "%s", d->libraries[before]);
	}
	snprintf(list, sizeof(list), "%s", set ? set : "");
	for (char *save = NULL, *dir = strtok_r(list, ":", &save); dir; dir = strtok_r(NULL, ":", &save))
		library_dir(d, dir);
}

static bool has_efa(const struct doctor *d)
{
	for (unsigned i = 0; i < d->num_rdma; i++)
		if (d->rdma[i].efa)
			return true;
	return false;
}

static void libraries_judge(struct doctor *d)
{
	const struct te_library *l = &d->library;
	for (unsigned i = 0; i < l->num_copies; i++) {
		doctor_found(d, SECTION_LIBRARIES, KV_WARN, "libfabric_copies", "libfabric", "second copy",
			     "this process has also loaded %s", l->copies[i]);
		doctor_remedy(d, "a process must have one libfabric: put the right one first in LD_LIBRARY_PATH, and "
				 "see with `ldd` which library brings the other");
	}
	if (d->installer[0] && strcmp(d->installer, l->path) != 0) {
		doctor_found(d, SECTION_LIBRARIES, has_efa(d) ? KV_WARN : KV_INFO, "libfabric_installer", "libfabric",
			     "EFA installer", "its libfabric (%s) is here, but another one is loaded", d->installer);
		doctor_remedy(
			d, "start with ./run-with-rdma.sh, or build again (make clean all): both take the installer's");
	} else if (has_efa(d) && !d->installer[0]) {
		doctor_found(d, SECTION_LIBRARIES, KV_WARN, "libfabric_installer", "libfabric", "EFA installer",
			     "not here: the distribution's libfabric may be too old for this device");
		doctor_remedy(d, "install the AWS EFA installer: "
				 "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html");
	}
	if (has_efa(d) && (l->built_major == 1 && l->built_minor < 18)) {
		doctor_found(d, SECTION_LIBRARIES, KV_WARN, "libfabric_headers", "libfabric", "headers",
			     "built against %u.%u: the EFA provider then emulates RDMA", l->built_major,
			     l->built_minor);
		doctor_remedy(d, "build against libfabric 1.18 or later (the EFA installer's: make clean all)");
	}
}

/* ---- modules ---- */

static void modules_find(struct doctor *d)
{
	static const char *const names[] = {"efa",      "mlx5_core", "mlx5_ib", "ib_uverbs",
					    "rdma_ucm", "rdma_rxe",  "irdma",   "bnxt_re"};
	for (unsigned i = 0; i < KV_COUNT(names) && d->num_modules < MODULES_MAX; i++) {
		struct module *m = &d->module[d->num_modules];
		if (!kv_file_here("%s/sys/module/%s", d->root, names[i]))
			continue;
		/* Modules of the kernel itself have no version of their own. */
		if (!kv_file_line(m->version, sizeof(m->version), "%s/sys/module/%s/version", d->root, names[i]))
			snprintf(m->version, sizeof(m->version), "of the kernel");
		snprintf(m->name, sizeof(m->name), "%s", names[i]);
		d->num_modules++;
	}
}

/* ---- RDMA devices ---- */

static const char *node_remedy(const struct doctor *d, int error)
{
	/* The device file exists and belongs to another user. */
	if (error == EACCES)
		return "give this user access: `chmod a+rw /dev/infiniband/uverbs* /dev/infiniband/rdma_cm` (the udev "
		       "rules of rdma-core do it)";
	if (d->host.container == KV_CONTAINER_KUBERNETES)
		return "let the pod ask for the device: resources.limits vpc.amazonaws.com/efa: N (EFA device "
		       "plug-in), or the RDMA device plug-in's rdma/hca";
	if (d->host.container)
		return "start the container with --device=/dev/infiniband (all uverbs* files and rdma_cm)";
	return "`modprobe ib_uverbs`, and install rdma-core";
}

static void device_judge(struct doctor *d, const struct te_rdma *r)
{
	if (r->node_error > 0) {
		doctor_found(d, SECTION_DEVICES, KV_WARN, "rdma_node", r->name, "device file",
			     "%s%s: libfabric does not see this device",
			     r->node[0] ? r->node : "/dev/infiniband/uverbs*",
			     r->node_error == ENOENT ? " is not here" : " may not be opened by this process");
		doctor_remedy(d, "%s", node_remedy(d, r->node_error));
	} else if (r->query_error[0] && r->node_error == 0) {
		doctor_found(d, SECTION_DEVICES, KV_WARN, "rdma_verbs", r->name, "libibverbs", "%s", r->query_error);
		doctor_remedy(d, "install its user-space driver (Debian, Ubuntu: ibverbs-providers; Amazon Linux: "
				 "libibverbs, or the EFA installer)");
	}
	for (unsigned i = 0; i < r->num_ports; i++) {
		const struct te_rdma_port *p = &r->port[i];
		if (p->active)
			continue;
		doctor_found(d, SECTION_DEVICES, KV_WARN, "rdma_port", r->name, "port", "port %u is %s (%s)", p->number,
			     p->state[0] ? p->state : "in an unknown state", p->physical);
		if (r->efa)
			doctor_remedy(d, "look at `dmesg | grep efa`; detach and attach the network interface, or "
					 "reboot the instance");
		else if (strcmp(p->link_layer, "InfiniBand") == 0)
			doctor_remedy(d,
				      "look at cable and switch, and that a subnet manager runs (`ibstat`, `sminfo`)");
		else
			doctor_remedy(d, "`ip link set %s up`, then look at cable and switch (`rdma link`)",
				      p->netdev[0] ? p->netdev : "DEV");
	}
}

static void efa_judge(struct doctor *d, const struct te_rdma *r)
{
	if (!r->efa || !r->efadv)
		return;
	if (!(r->efa_caps & TE_EFA_WRITE)) {
		doctor_found(d, SECTION_DEVICES, KV_WARN, "efa_rdma_write", r->name, "RDMA write",
			     "this device has no RDMA write (a p4d has none): the provider emulates GETs, which "
			     "takes CPU on both sides%s",
			     r->efa_caps & TE_EFA_READ ? "; it can read" : "");
		doctor_remedy(
			d,
			r->efa_caps & TE_EFA_READ
				? "there is none on this instance type; reads are not emulated "
				  "(docs/internals/providers.md)"
				: "use an instance type with RDMA (p4d and later: read; p5 and later: read and write)");
	}
	if (d->library.built_major == 1 && d->library.built_minor < 18)
		return;
	doctor_found(d, SECTION_DEVICES, KV_INFO, "efa_caps", r->name, "EFA",
		     "RDMA read %s, write %s, unsolicited write receive %s", r->efa_caps & TE_EFA_READ ? "yes" : "no",
		     r->efa_caps & TE_EFA_WRITE ? "yes" : "no", r->efa_caps & TE_EFA_UNSOLICITED ? "yes" : "no");
}

/* PCI devices that would be RDMA devices with their driver loaded. */
static void pci_judge(const char *entry, void *arg)
{
	struct doctor *d = arg;
	char driver[32];
	long vendor = kv_file_number(0, "%s/sys/bus/pci/devices/%s/vendor", d->root, entry);
	long device = kv_file_number(0, "%s/sys/bus/pci/devices/%s/device", d->root, entry);
	kv_link_last(driver, sizeof(driver), "%s/sys/bus/pci/devices/%s/driver", d->root, entry);
	bool efa = vendor == VENDOR_AMAZON && device >= 0xefa0 && device <= 0xefaf;
	bool mellanox = vendor == VENDOR_MELLANOX && d->num_rdma == 0;
	if (efa && !driver[0]) {
		doctor_found(d, SECTION_DEVICES, KV_WARN, "efa_driver", entry, "driver",
			     "an EFA device without its driver");
		doctor_remedy(d, "`modprobe efa`; if there is no such module, install the "
				 "AWS EFA installer, and reboot after a kernel update (dkms)");
	} else if (mellanox && !driver[0]) {
		doctor_found(d, SECTION_DEVICES, KV_WARN, "mlx5_driver", entry, "driver",
			     "a Mellanox NIC without its driver");
		doctor_remedy(d, "`modprobe mlx5_ib`");
	} else if (mellanox && strcmp(driver, "mlx5_core") == 0) {
		doctor_found(d, SECTION_DEVICES, KV_WARN, "mlx5_driver", entry, "driver",
			     "a Mellanox NIC whose RDMA driver is not loaded");
		doctor_remedy(d, "`modprobe mlx5_ib` (Amazon Linux, Ubuntu: package linux-modules-extra)");
	}
}

static void devices_judge(struct doctor *d)
{
	bool verbs = false;
	for (unsigned i = 0; i < d->num_rdma; i++) {
		device_judge(d, &d->rdma[i]);
		efa_judge(d, &d->rdma[i]);
		verbs |= !d->rdma[i].efa;
	}
	kv_dir_each(pci_judge, d, "%s/sys/bus/pci/devices", d->root);
	if (verbs && !*d->root && access("/dev/infiniband/rdma_cm", R_OK | W_OK) != 0) {
		int error = errno;
		doctor_found(d, SECTION_DEVICES, KV_WARN, "rdma_cm", "verbs", "connections",
			     "/dev/infiniband/rdma_cm cannot be opened (%s): the verbs provider cannot connect",
			     kv_strerror(-error));
		doctor_remedy(d, "%s",
			      d->host.container || error == EACCES ? node_remedy(d, error) : "`modprobe rdma_ucm`");
	}
}

void doctor_look(struct doctor *d)
{
	te_library(&d->library);
	libraries_find(d);
	modules_find(d);
	unsigned rdma = te_rdma_list(d->root, NULL, d->rdma, TE_RDMA_MAX);
	d->num_rdma = KV_MIN(rdma, (unsigned)TE_RDMA_MAX);
	d->num_providers = te_providers(d->provider, PROVIDERS_MAX);
	libraries_judge(d);
	devices_judge(d);
}
