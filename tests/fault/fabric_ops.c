/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_ops.c -- libfabric's inline functions as fault points.
 *
 * fi_endpoint, fi_send and the like have no symbol: they call through tables of the provider. So what fi_fabric gives
 * out gets a copy of its table with our stubs in it, and so does everything that is opened from it. The tables of one
 * provider are the same for all objects, so one copy of each will do; the stubs let calls of the provider's own pass
 * (fault.c). */
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#define TABLE(type, name)                                                                                              \
	static struct type name##_ours;                                                                                \
	static const struct type *name##_real

TABLE(fi_ops_fabric, fabric);
TABLE(fi_ops_domain, domain);
TABLE(fi_ops_mr, mr);
TABLE(fi_ops_av, av);
TABLE(fi_ops_cq, cq);
TABLE(fi_ops, cq_fid);
TABLE(fi_ops_eq, eq);
TABLE(fi_ops, ep);
TABLE(fi_ops_ep, ep_own);
TABLE(fi_ops_cm, cm);
TABLE(fi_ops_msg, msg);
TABLE(fi_ops_rma, rma);

/* Remember the provider's table and make our copy of it. */
#define COPY(name, table)                                                                                              \
	do {                                                                                                           \
		if (!name##_real) {                                                                                    \
			name##_real = (table);                                                                         \
			name##_ours = *(table);                                                                        \
		}                                                                                                      \
	} while (0)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The stubs, with the signatures of the tables. */
int __wrap_fi_domain(struct fid_fabric *f, struct fi_info *info, struct fid_domain **out, void *context);
int __wrap_fi_eq_open(struct fid_fabric *f, struct fi_eq_attr *attr, struct fid_eq **out, void *context);
int __wrap_fi_trywait(struct fid_fabric *f, struct fid **fids, int count);
int __wrap_fi_av_open(struct fid_domain *d, struct fi_av_attr *attr, struct fid_av **out, void *context);
int __wrap_fi_cq_open(struct fid_domain *d, struct fi_cq_attr *attr, struct fid_cq **out, void *context);
int __wrap_fi_endpoint(struct fid_domain *d, struct fi_info *info, struct fid_ep **out, void *context);
int __wrap_fi_mr_reg(struct fid *d, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key,
		     uint64_t flags, struct fid_mr **out, void *context);
int __wrap_fi_av_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *out, uint64_t flags,
			void *context);
int __wrap_fi_enable(struct fid *ep, int command, void *arg);
int __wrap_fi_setname(fid_t ep, void *addr, size_t len);
int __wrap_fi_getname(fid_t ep, void *addr, size_t *len);
ssize_t __wrap_fi_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, void *context);
ssize_t __wrap_fi_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, void *context);
ssize_t __wrap_fi_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t addr,
		       uint64_t key, void *context);
ssize_t __wrap_fi_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t addr,
			uint64_t key, void *context);
ssize_t __wrap_fi_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
			    uint64_t addr, uint64_t key, void *context);
int __wrap_fi_control(struct fid *cq, int command, void *arg);
ssize_t __wrap_fi_cq_read(struct fid_cq *cq, void *buf, size_t count);
ssize_t __wrap_fi_eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags);
int __wrap_fi_av_remove(struct fid_av *av, fi_addr_t *addr, size_t count, uint64_t flags);
int __wrap_fi_getopt(struct fid *ep, int level, int name, void *value, size_t *len);
int __wrap_fi_setopt(struct fid *ep, int level, int name, const void *value, size_t len);
ssize_t __wrap_fi_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags);

/* What the stubs go on to: the provider, and then its objects get our tables. */
int __real_fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context);
int fault_real_fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context);
int fault_real_fi_domain(struct fid_fabric *f, struct fi_info *info, struct fid_domain **out, void *context);
int fault_real_fi_eq_open(struct fid_fabric *f, struct fi_eq_attr *attr, struct fid_eq **out, void *context);
int fault_real_fi_trywait(struct fid_fabric *f, struct fid **fids, int count);
int fault_real_fi_av_open(struct fid_domain *d, struct fi_av_attr *attr, struct fid_av **out, void *context);
int fault_real_fi_cq_open(struct fid_domain *d, struct fi_cq_attr *attr, struct fid_cq **out, void *context);
int fault_real_fi_endpoint(struct fid_domain *d, struct fi_info *info, struct fid_ep **out, void *context);
int fault_real_fi_mr_reg(struct fid *d, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key,
			 uint64_t flags, struct fid_mr **out, void *context);
int fault_real_fi_av_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *out, uint64_t flags,
			    void *context);
int fault_real_fi_enable(struct fid *ep, int command, void *arg);
int fault_real_fi_setname(fid_t ep, void *addr, size_t len);
int fault_real_fi_getname(fid_t ep, void *addr, size_t *len);
ssize_t fault_real_fi_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, void *context);
ssize_t fault_real_fi_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, void *context);
ssize_t fault_real_fi_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t addr,
			   uint64_t key, void *context);
ssize_t fault_real_fi_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t addr,
			    uint64_t key, void *context);
ssize_t fault_real_fi_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
				uint64_t addr, uint64_t key, void *context);
int fault_real_fi_control(struct fid *cq, int command, void *arg);
ssize_t fault_real_fi_cq_read(struct fid_cq *cq, void *buf, size_t count);
ssize_t fault_real_fi_eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags);
int fault_real_fi_av_remove(struct fid_av *av, fi_addr_t *addr, size_t count, uint64_t flags);
int fault_real_fi_getopt(struct fid *ep, int level, int name, void *value, size_t *len);
int fault_real_fi_setopt(struct fid *ep, int level, int name, const void *value, size_t len);
ssize_t fault_real_fi_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags);

int fault_real_fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	int rc = __real_fi_fabric(attr, out, context);
	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	COPY(fabric, (*out)->ops);
	fabric_ours.domain = __wrap_fi_domain;
	fabric_ours.eq_open = __wrap_fi_eq_open;
	fabric_ours.trywait = __wrap_fi_trywait;
	(*out)->ops = &fabric_ours;
	pthread_mutex_unlock(&lock);
	return 0;
}

int fault_real_fi_domain(struct fid_fabric *f, struct fi_info *info, struct fid_domain **out, void *context)
{
	int rc = fabric_real->domain(f, info, out, context);
	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	COPY(domain, (*out)->ops);
	domain_ours.av_open = __wrap_fi_av_open;
	domain_ours.cq_open = __wrap_fi_cq_open;
	domain_ours.endpoint = __wrap_fi_endpoint;
	(*out)->ops = &domain_ours;
	COPY(mr, (*out)->mr);
	mr_ours.reg = __wrap_fi_mr_reg;
	(*out)->mr = &mr_ours;
	pthread_mutex_unlock(&lock);
	return 0;
}

int fault_real_fi_eq_open(struct fid_fabric *f, struct fi_eq_attr *attr, struct fid_eq **out, void *context)
{
	int rc = fabric_real->eq_open(f, attr, out, context);
	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	COPY(eq, (*out)->ops);
	eq_ours.read = __wrap_fi_eq_read;
	(*out)->ops = &eq_ours;
	pthread_mutex_unlock(&lock);
	return 0;
}

int fault_real_fi_trywait(struct fid_fabric *f, struct fid **fids, int count)
{
	return fabric_real->trywait(f, fids, count);
}

int fault_real_fi_av_open(struct fid_domain *d, struct fi_av_attr *attr, struct fid_av **out, void *context)
{
	int rc = domain_real->av_open(d, attr, out, context);
	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	COPY(av, (*out)->ops);
	av_ours.insert = __wrap_fi_av_insert;
	av_ours.remove = __wrap_fi_av_remove;
	(*out)->ops = &av_ours;
	pthread_mutex_unlock(&lock);
	return 0;
}

int fault_real_fi_cq_open(struct fid_domain *d, struct fi_cq_attr *attr, struct fid_cq **out, void *context)
{
	int rc = domain_real->cq_open(d, attr, out, context);
	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	COPY(cq_fid, (*out)->fid.ops);
	cq_fid_ours.control = __wrap_fi_control;
	(*out)->fid.ops = &cq_fid_ours;
	COPY(cq, (*out)->ops);
	cq_ours.read = __wrap_fi_cq_read;
	(*out)->ops = &cq_ours;
	pthread_mutex_unlock(&lock);
	return 0;
}

int fault_real_fi_endpoint(struct fid_domain *d, struct fi_info *info, struct fid_ep **out, void *context)
{
	int rc = domain_real->endpoint(d, info, out, context);
	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	COPY(ep, (*out)->fid.ops);
	ep_ours.control = __wrap_fi_enable;
	(*out)->fid.ops = &ep_ours;
	COPY(ep_own, (*out)->ops);
	ep_own_ours.getopt = __wrap_fi_getopt;
	ep_own_ours.setopt = __wrap_fi_setopt;
	(*out)->ops = &ep_own_ours;
	COPY(cm, (*out)->cm);
	cm_ours.setname = __wrap_fi_setname;
	cm_ours.getname = __wrap_fi_getname;
	(*out)->cm = &cm_ours;
	COPY(msg, (*out)->msg);
	msg_ours.recv = __wrap_fi_recv;
	msg_ours.send = __wrap_fi_send;
	(*out)->msg = &msg_ours;
	COPY(rma, (*out)->rma);
	rma_ours.read = __wrap_fi_read;
	rma_ours.write = __wrap_fi_write;
	rma_ours.writedata = __wrap_fi_writedata;
	rma_ours.writemsg = __wrap_fi_writemsg;
	(*out)->rma = &rma_ours;
	pthread_mutex_unlock(&lock);
	return 0;
}

int fault_real_fi_mr_reg(struct fid *d, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key,
			 uint64_t flags, struct fid_mr **out, void *context)
{
	return mr_real->reg(d, buf, len, access, offset, key, flags, out, context);
}

int fault_real_fi_av_insert(struct fid_av *a, const void *addr, size_t count, fi_addr_t *out, uint64_t flags,
			    void *context)
{
	return av_real->insert(a, addr, count, out, flags, context);
}

int fault_real_fi_enable(struct fid *e, int command, void *arg)
{
	return ep_real->control(e, command, arg);
}

int fault_real_fi_setname(fid_t e, void *addr, size_t len)
{
	return cm_real->setname(e, addr, len);
}

int fault_real_fi_getname(fid_t e, void *addr, size_t *len)
{
	return cm_real->getname(e, addr, len);
}

ssize_t fault_real_fi_recv(struct fid_ep *e, void *buf, size_t len, void *desc, fi_addr_t from, void *context)
{
	return msg_real->recv(e, buf, len, desc, from, context);
}

ssize_t fault_real_fi_send(struct fid_ep *e, const void *buf, size_t len, void *desc, fi_addr_t to, void *context)
{
	return msg_real->send(e, buf, len, desc, to, context);
}

ssize_t fault_real_fi_read(struct fid_ep *e, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t addr,
			   uint64_t key, void *context)
{
	return rma_real->read(e, buf, len, desc, from, addr, key, context);
}

ssize_t fault_real_fi_write(struct fid_ep *e, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t addr,
			    uint64_t key, void *context)
{
	return rma_real->write(e, buf, len, desc, to, addr, key, context);
}

ssize_t fault_real_fi_writedata(struct fid_ep *e, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
				uint64_t addr, uint64_t key, void *context)
{
	return rma_real->writedata(e, buf, len, desc, data, to, addr, key, context);
}

int fault_real_fi_control(struct fid *c, int command, void *arg)
{
	return cq_fid_real->control(c, command, arg);
}

ssize_t fault_real_fi_cq_read(struct fid_cq *c, void *buf, size_t count)
{
	return cq_real->read(c, buf, count);
}

ssize_t fault_real_fi_eq_read(struct fid_eq *e, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	return eq_real->read(e, event, buf, len, flags);
}

int fault_real_fi_av_remove(struct fid_av *a, fi_addr_t *addr, size_t count, uint64_t flags)
{
	return av_real->remove(a, addr, count, flags);
}

int fault_real_fi_getopt(struct fid *e, int level, int name, void *value, size_t *len)
{
	return ep_own_real->getopt(e, level, name, value, len);
}

int fault_real_fi_setopt(struct fid *e, int level, int name, const void *value, size_t len)
{
	return ep_own_real->setopt(e, level, name, value, len);
}

ssize_t fault_real_fi_writemsg(struct fid_ep *e, const struct fi_msg_rma *msg, uint64_t flags)
{
	return rma_real->writemsg(e, msg, flags);
}
