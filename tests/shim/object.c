/* SPDX-License-Identifier: Apache-2.0 */
/* object.c -- fabric, domain, regions, address vectors and event queues. What is closed too early says -FI_EBUSY, as
 * the providers do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tests/shim/inside.h"

int shim_no_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
	(void)fid, (void)to, (void)flags;
	return -FI_ENOSYS;
}

int shim_no_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return -FI_ENOSYS;
}

int shim_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)name, (void)flags, (void)ops, (void)context;
	return -FI_ENOSYS;
}

#define FID_OPS(close_fn)                                                                                              \
	{.size = sizeof(struct fi_ops),                                                                                \
	 .close = (close_fn),                                                                                          \
	 .bind = shim_no_bind,                                                                                         \
	 .control = shim_no_control,                                                                                   \
	 .ops_open = shim_no_ops}

/* The provider says -FI_EBUSY, and the object is lost. Only rxm over tcp has reasons of its own for it, so here it is
 * the program that has the order wrong. */
bool shim_busy(unsigned refs, const char *what)
{
	pthread_mutex_lock(&shim_lock);
	if (refs)
		shim_violation("%s is closed while %u others use it", what, refs);
	pthread_mutex_unlock(&shim_lock);
	return refs > 0;
}

/* ---- regions ---- */

static uint64_t registered(const struct shim_domain *d)
{
	uint64_t sum = 0;
	KV_LIST_EACH (n, &d->mrs)
		sum += KV_LIST_ENTRY(n, struct shim_mr, node)->len;
	return sum;
}

static int mr_close(struct fid *fid)
{
	struct shim_mr *mr = CONTAINER(fid, struct shim_mr, fid.fid);
	pthread_mutex_lock(&shim_lock);
	if (mr->users)
		shim_violation("a region is closed while %u operations that were posted with it are in flight",
			       mr->users);
	kv_list_del(&mr->node);
	mr->domain->refs--;
	pthread_mutex_unlock(&shim_lock);
	free(mr);
	return 0;
}

static struct fi_ops mr_ops = FID_OPS(mr_close);

struct shim_mr *shim_mr_find(struct shim_domain *d, uint64_t key)
{
	KV_LIST_EACH (n, &d->mrs) {
		struct shim_mr *mr = KV_LIST_ENTRY(n, struct shim_mr, node);
		if (mr->fid.key == key)
			return mr;
	}
	return NULL;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t requested_key, uint64_t flags, struct fid_mr **out, void *context)
{
	struct shim_domain *d = CONTAINER(fid, struct shim_domain, fid.fid);
	struct shim_mr *mr;
	(void)offset, (void)requested_key, (void)flags;
	if (shim_config.mr_part_mb && len > shim_config.mr_part_mb << 20)
		return -FI_ENOMEM;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -FI_ENOMEM;
	pthread_mutex_lock(&shim_lock);
	if (shim_config.mr_mb && registered(d) + len > shim_config.mr_mb << 20) {
		pthread_mutex_unlock(&shim_lock);
		free(mr);
		return -FI_ENOMEM;
	}
	mr->fid.fid = (struct fid){.fclass = FI_CLASS_MR, .context = context, .ops = &mr_ops};
	mr->fid.mem_desc = mr;
	/* The provider's key: 32 bits, chosen by the device. */
	do
		mr->fid.key = shim_random() & UINT32_MAX;
	while (shim_mr_find(d, mr->fid.key));
	mr->base = (uint8_t *)(uintptr_t)buf;
	mr->len = len;
	mr->access = access;
	mr->domain = d;
	d->refs++;
	kv_list_add_tail(&d->mrs, &mr->node);
	pthread_mutex_unlock(&shim_lock);
	*out = &mr->fid;
	return 0;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **out)
{
	if (attr->iov_count != 1 || attr->iface != FI_HMEM_SYSTEM)
		return -FI_EINVAL;
	return mr_reg(fid, attr->mr_iov[0].iov_base, attr->mr_iov[0].iov_len, attr->access, attr->offset,
		      attr->requested_key, flags, out, attr->context);
}

static struct fi_ops_mr mr_table = {.size = sizeof(struct fi_ops_mr), .reg = mr_reg, .regattr = mr_regattr};

/* ---- address vectors ---- */

static size_t blob_len(const struct shim_domain *d)
{
	return d->kind->efa ? BLOB_MAX : sizeof(struct sockaddr_in);
}

bool shim_av_has(const struct shim_av *av, const uint8_t *blob)
{
	for (size_t i = 0; i < av->rows; i++)
		if (av->row[i].used && memcmp(av->row[i].blob, blob, blob_len(av->domain)) == 0)
			return true;
	return false;
}

/* One address. A blob that is there already keeps its row, without a count: one removal ends it for all. */
static fi_addr_t row_get(struct shim_av *av, const uint8_t *blob)
{
	size_t len = blob_len(av->domain);
	for (size_t i = 0; i < av->rows; i++)
		if (av->row[i].used && memcmp(av->row[i].blob, blob, len) == 0)
			return i;
	if (av->rows == av->room) {
		size_t room = av->room ? av->room * 2 : 16;
		void *more = realloc(av->row, room * sizeof(av->row[0]));
		if (!more)
			return FI_ADDR_NOTAVAIL;
		av->row = more;
		av->room = room;
	}
	memset(&av->row[av->rows], 0, sizeof(av->row[0]));
	memcpy(av->row[av->rows].blob, blob, len);
	av->row[av->rows].used = true;
	return av->rows++;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *out, uint64_t flags, void *context)
{
	struct shim_av *av = CONTAINER(fid, struct shim_av, fid);
	int good = 0;
	(void)flags, (void)context;
	shim_enter(av->domain);
	for (size_t i = 0; i < count; i++) {
		const uint8_t *blob = (const uint8_t *)addr + i * blob_len(av->domain);
		/* ibv_create_ah fails for a GID of nowhere. */
		bool gid = !av->domain->kind->efa || (blob[0] == 0xfe && blob[1] == 0x80);
		out[i] = gid ? row_get(av, blob) : FI_ADDR_NOTAVAIL;
		good += out[i] != FI_ADDR_NOTAVAIL;
	}
	shim_leave(av->domain);
	return good;
}

static int av_remove(struct fid_av *fid, fi_addr_t *addr, size_t count, uint64_t flags)
{
	struct shim_av *av = CONTAINER(fid, struct shim_av, fid);
	(void)flags;
	shim_enter(av->domain);
	for (size_t i = 0; i < count; i++) {
		if (addr[i] >= av->rows || !av->row[addr[i]].used) {
			shim_violation("fi_av_remove of address %llu, which is not there", (unsigned long long)addr[i]);
			continue;
		}
		av->row[addr[i]].used = false;
		KV_LIST_EACH (n, &shim_eps) {
			struct shim_ep *ep = KV_LIST_ENTRY(n, struct shim_ep, all);
			if (ep->av == av)
				device_peer_removed(ep, av->row[addr[i]].blob);
		}
	}
	shim_leave(av->domain);
	return 0;
}

static struct fi_ops_av av_table = {.size = sizeof(struct fi_ops_av), .insert = av_insert, .remove = av_remove};

static int av_close(struct fid *fid)
{
	struct shim_av *av = CONTAINER(fid, struct shim_av, fid.fid);
	if (shim_busy(av->refs, "an address vector"))
		return -FI_EBUSY;
	av->domain->refs--;
	free(av->row);
	free(av);
	return 0;
}

static struct fi_ops av_ops = FID_OPS(av_close);

static int av_open(struct fid_domain *d, struct fi_av_attr *attr, struct fid_av **out, void *context)
{
	struct shim_av *av = calloc(1, sizeof(*av));
	(void)attr;
	if (!av)
		return -FI_ENOMEM;
	av->domain = CONTAINER(d, struct shim_domain, fid);
	av->domain->refs++;
	av->fid.fid = (struct fid){.fclass = FI_CLASS_AV, .context = context, .ops = &av_ops};
	av->fid.ops = &av_table;
	*out = &av->fid;
	return 0;
}

/* ---- event queues ---- */

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct shim_eq *eq = CONTAINER(fid, struct shim_eq, fid);
	(void)event, (void)buf, (void)len, (void)flags;
	pthread_mutex_lock(&shim_lock);
	ssize_t rc = eq->errors ? -FI_EAVAIL : -FI_EAGAIN;
	pthread_mutex_unlock(&shim_lock);
	return rc;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *e, uint64_t flags)
{
	struct shim_eq *eq = CONTAINER(fid, struct shim_eq, fid);
	ssize_t rc = -FI_EAGAIN;
	(void)flags;
	pthread_mutex_lock(&shim_lock);
	if (eq->errors) {
		eq->errors--;
		e->err = FI_EOTHER;
		e->prov_errno = eq->prov_errno;
		rc = sizeof(*e);
	}
	pthread_mutex_unlock(&shim_lock);
	return rc;
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *data, char *buf, size_t len)
{
	(void)fid, (void)data;
	snprintf(buf, len, "%s",
		 prov_errno == 4111 ? "RMA address verification failed" : "imitated failure of the endpoint");
	return buf;
}

static struct fi_ops_eq eq_table = {
	.size = sizeof(struct fi_ops_eq), .read = eq_read, .readerr = eq_readerr, .strerror = eq_strerror};

static int eq_close(struct fid *fid)
{
	struct shim_eq *eq = CONTAINER(fid, struct shim_eq, fid.fid);
	if (shim_busy(eq->refs, "an event queue"))
		return -FI_EBUSY;
	eq->fabric->refs--;
	free(eq);
	return 0;
}

static struct fi_ops eq_ops = FID_OPS(eq_close);

static int eq_open(struct fid_fabric *f, struct fi_eq_attr *attr, struct fid_eq **out, void *context)
{
	struct shim_eq *eq;
	if (attr->wait_obj != FI_WAIT_NONE)
		return -FI_ENOSYS;
	eq = calloc(1, sizeof(*eq));
	if (!eq)
		return -FI_ENOMEM;
	eq->fabric = CONTAINER(f, struct shim_fabric, fid);
	eq->fabric->refs++;
	eq->fid.fid = (struct fid){.fclass = FI_CLASS_EQ, .context = context, .ops = &eq_ops};
	eq->fid.ops = &eq_table;
	*out = &eq->fid;
	return 0;
}

/* ---- domain and fabric ---- */

static int domain_close(struct fid *fid)
{
	struct shim_domain *d = CONTAINER(fid, struct shim_domain, fid.fid);
	if (shim_busy(d->refs, "a domain"))
		return -FI_EBUSY;
	d->fabric->refs--;
	if (d->kind->efa)
		atomic_fetch_sub(&shim_domains, 1);
	free(d);
	return 0;
}

static struct fi_ops domain_ops = FID_OPS(domain_close);
static struct fi_ops_domain domain_table = {
	.size = sizeof(struct fi_ops_domain), .av_open = av_open, .cq_open = shim_cq_open, .endpoint = shim_ep_open};

static int domain_open(struct fid_fabric *f, struct fi_info *info, struct fid_domain **out, void *context)
{
	struct shim_domain *d = calloc(1, sizeof(*d));
	unsigned nic = 0;
	if (!d)
		return -FI_ENOMEM;
	if (sscanf(info->domain_attr->name, "rdmap%us", &nic) == 1)
		nic -= 79;
	else
		(void)sscanf(info->domain_attr->name, "mlx5_%u", &nic);
	d->fabric = CONTAINER(f, struct shim_fabric, fid);
	d->fabric->refs++;
	d->kind = d->fabric->kind;
	d->nic = nic;
	if (d->kind->efa) {
		atomic_fetch_add(&shim_domains, 1);
		shim_fork_watch();
	}
	kv_list_init(&d->mrs);
	d->fid.fid = (struct fid){.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_ops};
	d->fid.ops = &domain_table;
	d->fid.mr = &mr_table;
	*out = &d->fid;
	return 0;
}

static int fabric_close(struct fid *fid)
{
	struct shim_fabric *f = CONTAINER(fid, struct shim_fabric, fid.fid);
	if (shim_busy(f->refs, "a fabric"))
		return -FI_EBUSY;
	free(f);
	return 0;
}

static struct fi_ops fabric_ops = FID_OPS(fabric_close);
static struct fi_ops_fabric fabric_table = {
	.size = sizeof(struct fi_ops_fabric), .domain = domain_open, .eq_open = eq_open, .trywait = shim_trywait};

int shim_fabric_open(const struct shim_kind *kind, struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	struct shim_fabric *f = calloc(1, sizeof(*f));
	(void)attr;
	if (!f)
		return -FI_ENOMEM;
	f->kind = kind;
	f->fid.fid = (struct fid){.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fabric_ops};
	f->fid.ops = &fabric_table;
	f->fid.api_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
	*out = &f->fid;
	return 0;
}
