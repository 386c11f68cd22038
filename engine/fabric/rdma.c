/* SPDX-License-Identifier: Apache-2.0 */
/* rdma.c -- RDMA devices. Each of three sources may be missing: /sys has the devices and ports, below any root;
 * libibverbs the limits; the kernel's resource tracking (host/rdma.h) the use by all programs. libefa is loaded only
 * for EFA devices. */
#include "engine/fabric/private.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/budget.h"

#if __has_include(<infiniband/efadv.h>)
#include <infiniband/efadv.h>
#define HAVE_EFADV 1
#else
#define HAVE_EFADV 0
#endif

enum { VENDOR_AMAZON = 0x1d0f, GIDS_LOOKED_AT = 16, PATH_CAP = 1024 };

void *fab_verbs_function(void)
{
	return (void *)(uintptr_t)ibv_get_device_list;
}

/* ---- /sys ---- */

/* "4: ACTIVE": the kernel puts a number before some. */
static void named_of(const char *dir, const char *file, char *out, size_t cap)
{
	char line[64];
	kv_file_line(line, sizeof(line), "%s/%s", dir, file);
	const char *colon = strstr(line, ": ");
	snprintf(out, cap, "%.*s", (int)(cap - 1), colon ? colon + 2 : line);
}

static void first_entry(const char *dir, const char *sub, char *out, size_t cap)
{
	char path[PATH_CAP];
	struct dirent *e;
	out[0] = '\0';
	DIR *d = snprintf(path, sizeof(path), "%s/%s", dir, sub) < (int)sizeof(path) ? opendir(path) : NULL;
	while (d && !out[0] && (e = readdir(d)))
		if (e->d_name[0] != '.')
			snprintf(out, cap, "%.*s", (int)(cap - 1), e->d_name);
	if (d)
		closedir(d);
}

static bool gid_is_set(const char *gid)
{
	return gid[0] && strspn(gid, "0:") != strlen(gid);
}

/* The GID of an IPv4 address (RoCE v2) if there is one, else the first. */
static void gid_of(const char *dir, struct te_rdma_port *p)
{
	char file[48], gid[sizeof(p->gid)];
	for (unsigned i = 0; i < GIDS_LOOKED_AT; i++) {
		snprintf(file, sizeof(file), "gids/%u", i);
		kv_file_line(gid, sizeof(gid), "%s/%s", dir, file);
		bool ipv4 = strncmp(gid, "0000:0000:0000:0000:0000:ffff:", 30) == 0;
		if (!gid_is_set(gid) || (p->gid[0] && !ipv4))
			continue;
		memcpy(p->gid, gid, sizeof(p->gid));
		snprintf(file, sizeof(file), "gid_attrs/types/%u", i);
		kv_file_line(p->gid_type, sizeof(p->gid_type), "%s/%s", dir, file);
		snprintf(file, sizeof(file), "gid_attrs/ndevs/%u", i);
		kv_file_line(p->netdev, sizeof(p->netdev), "%s/%s", dir, file);
		if (ipv4)
			return;
	}
}

static void port_read(const char *device, unsigned number, struct te_rdma_port *p)
{
	char dir[PATH_CAP];
	*p = (struct te_rdma_port){.number = number};
	if (snprintf(dir, sizeof(dir), "%s/ports/%u", device, number) >= (int)sizeof(dir))
		return;
	named_of(dir, "state", p->state, sizeof(p->state));
	named_of(dir, "phys_state", p->physical, sizeof(p->physical));
	kv_file_line(p->rate, sizeof(p->rate), "%s/rate", dir);
	kv_file_line(p->link_layer, sizeof(p->link_layer), "%s/link_layer", dir);
	gid_of(dir, p);
	p->active = strcmp(p->state, "ACTIVE") == 0;
}

static void ports_read(const char *dir, struct te_rdma *d)
{
	char path[PATH_CAP];
	for (unsigned i = 1; i <= TE_RDMA_PORTS; i++) {
		if (snprintf(path, sizeof(path), "%s/ports/%u", dir, i) >= (int)sizeof(path) || access(path, F_OK))
			break;
		port_read(dir, i, &d->port[d->num_ports++]);
	}
	if (d->num_ports == 1 && !d->port[0].netdev[0])
		first_entry(dir, "device/net", d->port[0].netdev, sizeof(d->port[0].netdev));
}

/* Software devices (Soft-RoCE) have no hardware folder of their own, so all are searched. */
static void node_find(const char *root, struct te_rdma *d)
{
	char path[PATH_CAP / 2], dir[PATH_CAP], name[KV_NAME_MAX];
	struct dirent *e;
	if (snprintf(path, sizeof(path), "%s/sys/class/infiniband_verbs", root) >= (int)sizeof(path))
		return;
	DIR *all = opendir(path);
	while (all && (e = readdir(all))) {
		if (strncmp(e->d_name, "uverbs", 6) != 0 || strlen(e->d_name) > 16)
			continue;
		snprintf(dir, sizeof(dir), "%s/%.16s", path, e->d_name);
		kv_file_line(name, sizeof(name), "%s/ibdev", dir);
		if (strcmp(name, d->name) == 0)
			snprintf(d->node, sizeof(d->node), "/dev/infiniband/%.16s", e->d_name);
	}
	if (all)
		closedir(all);
}

static void device_read(const char *root, const char *name, struct te_rdma *d)
{
	char dir[PATH_CAP / 2];
	*d = (struct te_rdma){.numa_node = -1,
			      .node_error = -1,
			      .qp_max = KV_UNKNOWN,
			      .wr_max = KV_UNKNOWN,
			      .cq_max = KV_UNKNOWN,
			      .cqe_max = KV_UNKNOWN,
			      .mr_max = KV_UNKNOWN,
			      .mr_bytes_max = KV_UNKNOWN,
			      .qp_used = KV_UNKNOWN,
			      .cq_used = KV_UNKNOWN,
			      .mr_used = KV_UNKNOWN};
	snprintf(d->name, sizeof(d->name), "%.63s", name);
	if (snprintf(dir, sizeof(dir), "%s/sys/class/infiniband/%s", root, name) >= (int)sizeof(dir))
		return;
	kv_link_last(d->driver, sizeof(d->driver), "%s/device/driver", dir);
	kv_link_last(d->pci, sizeof(d->pci), "%s/device", dir);
	kv_file_line(d->firmware, sizeof(d->firmware), "%s/fw_ver", dir);
	d->vendor = (uint32_t)kv_file_number(0, "%s/device/vendor", dir);
	d->part = (uint32_t)kv_file_number(0, "%s/device/device", dir);
	d->numa_node = (int)kv_file_number(-1, "%s/device/numa_node", dir);
	d->efa = d->vendor == VENDOR_AMAZON;
	node_find(root, d);
	ports_read(dir, d);
}

/* ---- libibverbs, libefa ---- */

#if HAVE_EFADV
static void efadv_ask(struct ibv_context *ctx, struct te_rdma *d)
{
	struct efadv_device_attr attr = {0};
	int (*query)(struct ibv_context *, struct efadv_device_attr *, uint32_t) = NULL;
	void *lib = dlopen("libefa.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return;
	*(void **)&query = dlsym(lib, "efadv_query_device");
	if (query && query(ctx, &attr, sizeof(attr)) == 0) {
		d->efadv = true;
		d->efa_sq_max = attr.max_sq_wr;
		d->efa_rq_max = attr.max_rq_wr;
		d->efa_inline = attr.inline_buf_size;
		d->efa_caps = attr.device_caps;
		d->efa_rdma_bytes_max = attr.max_rdma_size;
	}
	dlclose(lib);
}
#else
static void efadv_ask(struct ibv_context *ctx, struct te_rdma *d)
{
	(void)ctx, (void)d; /* built without its header: kv-doctor reports "unknown" */
}
#endif

static void verbs_ask(struct ibv_device *device, struct te_rdma *d)
{
	struct ibv_device_attr a;
	struct ibv_context *ctx = ibv_open_device(device);
	int rc = ctx ? ibv_query_device(ctx, &a) : errno;
	if (rc)
		snprintf(d->query_error, sizeof(d->query_error), "%s: %s", ctx ? "ibv_query_device" : "ibv_open_device",
			 kv_strerror(-(rc > 0 ? rc : EIO)));
	if (ctx && rc == 0) {
		d->qp_max = (uint64_t)a.max_qp;
		d->wr_max = (uint64_t)a.max_qp_wr;
		d->cq_max = (uint64_t)a.max_cq;
		d->cqe_max = (uint64_t)a.max_cqe;
		d->mr_max = (uint64_t)a.max_mr;
		d->mr_bytes_max = a.max_mr_size;
		if (a.fw_ver[0])
			snprintf(d->firmware, sizeof(d->firmware), "%.63s", a.fw_ver);
		if (d->efa)
			efadv_ask(ctx, d);
	}
	if (ctx)
		ibv_close_device(ctx);
}

static void verbs_ask_all(struct te_rdma *list, unsigned n)
{
	int count = 0;
	struct ibv_device **devices = ibv_get_device_list(&count);
	for (unsigned i = 0; i < n; i++) {
		int at = 0;
		while (devices && at < count && strcmp(ibv_get_device_name(devices[at]), list[i].name) != 0)
			at++;
		if (devices && at < count)
			verbs_ask(devices[at], &list[i]);
		else
			snprintf(list[i].query_error, sizeof(list[i].query_error),
				 "libibverbs does not know this device");
	}
	if (devices)
		ibv_free_device_list(devices);
}

static void node_try(struct te_rdma *d)
{
	int fd = d->node[0] ? open(d->node, O_RDWR | O_CLOEXEC) : -1;
	if (!d->node[0])
		d->node_error = ENOENT;
	else
		d->node_error = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
}

struct list {
	struct te_rdma *device;
	unsigned count;
};

static void used_store(const struct kv_rdma_used *used, void *arg)
{
	const struct list *l = arg;
	for (unsigned i = 0; i < l->count; i++)
		if (strcmp(l->device[i].name, used->device) == 0) {
			l->device[i].qp_used = used->qps;
			l->device[i].cq_used = used->cqs;
			l->device[i].mr_used = used->mrs;
		}
}

/* ---- all of it ---- */

static int by_name(const void *a, const void *b)
{
	const struct te_rdma *x = a, *y = b;
	return strverscmp(x->name, y->name);
}

/* libfabric's "rdmap79s0-rdm" is the kernel's "rdmap79s0". */
static bool is_domain(const char *name, const char *domain)
{
	size_t len = strlen(name);
	return strncmp(domain, name, len) == 0 && (domain[len] == '\0' || strcmp(domain + len, "-rdm") == 0);
}

unsigned te_rdma_list(const char *root, const char *domain, struct te_rdma *out, unsigned max)
{
	char path[PATH_CAP];
	struct dirent *e;
	unsigned count = 0, n = 0;
	DIR *d = snprintf(path, sizeof(path), "%s/sys/class/infiniband", root) < (int)sizeof(path) ? opendir(path)
												   : NULL;
	if (!d)
		return 0;
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.' || (domain && !is_domain(e->d_name, domain)))
			continue;
		if (n < max)
			device_read(root, e->d_name, &out[n++]);
		count++;
	}
	closedir(d);
	qsort(out, n, sizeof(*out), by_name);
	if (*root || n == 0)
		return count;
	for (unsigned i = 0; i < n; i++)
		node_try(&out[i]);
	verbs_ask_all(out, n);
	kv_rdma_used_each(used_store, &(struct list){out, n});
	return count;
}
