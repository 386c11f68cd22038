/* SPDX-License-Identifier: Apache-2.0 */
/* ep.c -- endpoints: what may be posted, and how what was posted ends.
 *
 * A post is checked for everything that hardware takes on trust: a descriptor that covers the buffer, a context of its
 * own, an address that was inserted, sizes that the provider said. What is wrong is a violation: told, and refused with
 * the code the provider has for it. An operation holds its slot of the send queue until its completion was read, as
 * providers count. The source of a send or write is summed up when it is posted and when it ends: a program that
 * changed it in between would have sent something else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tests/shim/inside.h"

enum {
	OPT_SHARED_MEMORY = 11,
	OPT_MAX_MSG_SIZE = 12,
	OPT_MAX_RMA_SIZE = 14,
	OPT_EFA = -(0xefa << 16),
	OPT_EMULATED_READ = OPT_EFA + 1,
	OPT_EMULATED_WRITE = OPT_EFA + 2,
	OPT_RNR_RETRY = OPT_EFA,
	OPT_UNSOLICITED = OPT_EFA + 8,
	BURST_MAX = 8
};

struct kv_list shim_eps = {&shim_eps, &shim_eps};

static struct shim_ep *ep_of(struct fid_ep *fid)
{
	return CONTAINER(fid, struct shim_ep, fid);
}

/* ---- contexts ---- */

static bool context_used(const struct shim_ep *ep, const void *ctx)
{
	for (size_t i = 0; i < ep->tx; i++)
		if (ep->op[i].state != OP_FREE && ep->op[i].ctx == ctx)
			return true;
	for (size_t i = 0; i < ep->recvs; i++)
		if (ep->recv[(ep->recv_at + i) % ep->rx].ctx == ctx)
			return true;
	return false;
}

static void scribble(void *ctx, uint64_t id)
{
	uint64_t word[CONTEXT_BYTES / sizeof(uint64_t)];
	for (size_t i = 0; i < KV_COUNT(word); i++)
		word[i] = (id + i + 1) * 0x9e3779b97f4a7c15ull;
	memcpy(ctx, word, sizeof(word));
}

static void scribble_check(const void *ctx, uint64_t id)
{
	uint64_t word[CONTEXT_BYTES / sizeof(uint64_t)];
	scribble(word, id);
	if (memcmp(ctx, word, sizeof(word)))
		shim_violation("the context %p of an operation in flight was written to", ctx);
}

static uint64_t context_seed(const void *ctx)
{
	return (uint64_t)(uintptr_t)ctx;
}

/* What all posts have to bring. 0, or the provider's refusal. */
static ssize_t post_check(struct shim_ep *ep, const void *buf, size_t len, void *desc, uint64_t access, const void *ctx,
			  struct shim_mr **mr)
{
	*mr = NULL;
	if (!ep->enabled) {
		shim_violation("a post to an endpoint that is not enabled");
		return -FI_EOPBADSTATE;
	}
	if (!ctx || (uintptr_t)ctx % 8 || context_used(ep, ctx)) {
		shim_violation("the context %p is %s", ctx,
			       !ctx                 ? "missing"
			       : (uintptr_t)ctx % 8 ? "not aligned"
						    : "that of another operation in flight");
		return -FI_EINVAL;
	}
	KV_LIST_EACH (n, &ep->domain->mrs)
		if (KV_LIST_ENTRY(n, struct shim_mr, node) == desc)
			*mr = desc;
	if (!*mr) {
		shim_violation("the descriptor %p is none of this domain", desc);
		return -FI_EINVAL;
	}
	if ((const uint8_t *)buf < (*mr)->base || len > (*mr)->len ||
	    (uint64_t)((const uint8_t *)buf - (*mr)->base) > (*mr)->len - len) {
		shim_violation("%zu bytes at %p are outside of their descriptor's region", len, buf);
		return -FI_EINVAL;
	}
	if (!((*mr)->access & access)) {
		shim_violation("a region is not registered for what it is used for (%llx of %llx)",
			       (unsigned long long)access, (unsigned long long)(*mr)->access);
		return -FI_EINVAL;
	}
	return 0;
}

/* ---- receives ---- */

static ssize_t ep_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from, void *ctx)
{
	struct shim_ep *ep = ep_of(fid);
	struct shim_mr *mr;
	(void)from;
	shim_enter(ep->domain);
	ssize_t rc = post_check(ep, buf, len, desc, FI_RECV, ctx, &mr);
	if (rc == 0 && ep->recvs == ep->rx)
		rc = -FI_EAGAIN;
	if (rc == 0) {
		ep->recv[(ep->recv_at + ep->recvs++) % ep->rx] =
			(struct shim_rx){.ctx = ctx, .buf = buf, .len = len, .mr = mr};
		mr->users++;
		if (ep->kind->context2)
			scribble(ctx, context_seed(ctx));
		if (ep->waiting_count)
			device_receives(ep);
	}
	shim_leave(ep->domain);
	return rc;
}

bool shim_recv_take(struct shim_ep *ep, struct shim_rx *out)
{
	if (!ep->recvs)
		return false;
	*out = ep->recv[ep->recv_at];
	ep->recv_at = (ep->recv_at + 1) % ep->rx;
	ep->recvs--;
	out->mr->users--;
	if (ep->kind->context2)
		scribble_check(out->ctx, context_seed(out->ctx));
	return true;
}

/* ---- sends, writes, reads ---- */

static uint64_t sum(const struct shim_op *op)
{
	return shim_config.check && op->type != OP_READ && op->len ? kv_hash_block(op->buf, op->len) : 0;
}

/* Whether the provider takes nothing now. */
static bool refused(struct shim_ep *ep, struct shim_conn *c, enum op_type type)
{
	bool no = ep->burst > 0;
	if (!no && shim_one_in(shim_config.eagain)) {
		ep->burst = 1 + (unsigned)(shim_random() % BURST_MAX);
		no = true;
	}
	if (ep->kind->connects && !device_shaken(c))
		no = true;
	if (ep->kind->handshake && type != OP_SEND && !device_shaken(c) && !device_holds(c))
		no = true;
	no = no || !ep->free;
	shim_count.eagain += no;
	return no;
}

static ssize_t address_check(struct shim_ep *ep, fi_addr_t to)
{
	if (to < ep->av->rows && ep->av->row[to].used)
		return 0;
	shim_violation("a post to address %llu, which is not in the AV", (unsigned long long)to);
	return -FI_EINVAL;
}

static void permute(struct shim_op *op)
{
	uint64_t mtu = shim_config.mtu;
	op->packets = op->len && op->type != OP_SEND ? (uint32_t)((op->len + mtu - 1) / mtu) : 1;
	op->next = op->start = 0;
	op->step = 1;
	if (!op->ep->kind->unordered || op->packets < 2)
		return;
	/* start + i * step modulo packets takes every value once when step and packets have no common divisor. */
	op->start = (uint32_t)(shim_random() % op->packets);
	for (op->step = 1 + (uint32_t)(shim_random() % op->packets);; op->step++) {
		uint32_t a = op->packets, b = op->step % op->packets;
		while (b) {
			uint32_t t = a % b;
			a = b;
			b = t;
		}
		if (a == 1)
			return;
	}
}

static void post_count(const struct shim_op *op)
{
	struct shim_counts *c = &shim_count;
	uint64_t *const number[] = {&c->sends, &c->writes, &c->reads}, *const bytes[] = {&c->send_bytes,
											 &c->write_bytes,
											 &c->read_bytes};
	c->posts++;
	*number[op->type] += 1;
	*bytes[op->type] += op->len;
}

static ssize_t post(struct fid_ep *fid, struct shim_op want, void *desc, fi_addr_t to)
{
	struct shim_ep *ep = ep_of(fid);
	uint64_t max = want.type == OP_SEND ? KV_MIN(ep->kind->msg_max, (uint64_t)MESSAGE_MAX) : shim_rma_max(ep->kind);
	static const uint64_t access[] = {FI_SEND, FI_WRITE, FI_READ};
	struct shim_op *op;
	shim_enter(ep->domain);
	ssize_t rc = post_check(ep, want.buf, want.len, desc, access[want.type], want.ctx, &want.mr);
	rc = rc ? rc : address_check(ep, to);
	if (rc == 0 && want.len > max) {
		shim_violation("%llu bytes are more than a %s carries", (unsigned long long)want.len,
			       want.type == OP_SEND ? "message" : "transfer");
		rc = -FI_EMSGSIZE;
	}
	if (rc)
		goto out;
	rc = -FI_EAGAIN;
	struct shim_conn *c = ep->dead ? NULL : device_conn(ep, ep->av->row[to].blob);
	if (!ep->dead && (!c || refused(ep, c, want.type)))
		goto out;
	op = ep->free;
	if (!op)
		goto out;
	rc = 0;
	ep->free = op->free;
	ep->used++;
	uint64_t id = op->id + ep->tx; /* the slot is id % tx */
	*op = want;
	op->id = id;
	op->ep = ep;
	op->to = to;
	bool lost = ++ep->domain->posted == shim_config.fail_at;
	op->doomed = shim_one_in(shim_config.fail);
	op->state = OP_ACTIVE;
	op->posted = shim_now();
	op->hash = sum(op);
	op->mr->users++;
	op->release = shim_one_in(shim_config.delay) && ep->kind->unordered
			      ? shim_now() + shim_random() % (shim_config.delay_us * 1000 + 1)
			      : 0;
	permute(op);
	if (ep->kind->context2)
		scribble(op->ctx, context_seed(op->ctx));
	post_count(op);
	if (ep->dead)
		goto out;                             /* nothing becomes of it */
	if (lost || (op->doomed && shim_one_in(2))) { /* it fails without having landed; else it lands, and fails */
		op->state = OP_DYING;
		op->status = 13;
		op->release = shim_now() + shim_config.fail_us * 1000;
		ep->dying++;
	} else {
		device_conn_add(c, op);
	}
	if (ep->eq && shim_one_in(shim_config.eq))
		shim_eq_push(ep, 4096);
	device_wake();
out:
	shim_leave(ep->domain);
	return rc;
}

static ssize_t ep_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to, void *ctx)
{
	return post(fid, (struct shim_op){.type = OP_SEND, .buf = (uint8_t *)(uintptr_t)buf, .len = len, .ctx = ctx},
		    desc, to);
}

static ssize_t ep_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t addr,
		       uint64_t key, void *ctx)
{
	return post(fid,
		    (struct shim_op){.type = OP_READ, .buf = buf, .len = len, .ctx = ctx, .addr = addr, .key = key},
		    desc, from);
}

static ssize_t ep_write(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t addr,
			uint64_t key, void *ctx)
{
	return post(fid,
		    (struct shim_op){.type = OP_WRITE,
				     .buf = (uint8_t *)(uintptr_t)buf,
				     .len = len,
				     .ctx = ctx,
				     .addr = addr,
				     .key = key},
		    desc, to);
}

static void immediate_check(uint64_t data)
{
	if (data <= UINT32_MAX)
		return;
	pthread_mutex_lock(&shim_lock);
	shim_violation("an immediate of more than 32 bits");
	pthread_mutex_unlock(&shim_lock);
}

static ssize_t ep_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
			    uint64_t addr, uint64_t key, void *ctx)
{
	immediate_check(data);
	return post(fid,
		    (struct shim_op){.type = OP_WRITE,
				     .buf = (uint8_t *)(uintptr_t)buf,
				     .len = len,
				     .ctx = ctx,
				     .addr = addr,
				     .key = key,
				     .imm = (uint32_t)data,
				     .has_imm = true},
		    desc, to);
}

static ssize_t ep_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct shim_op op = {.type = OP_WRITE,
			     .buf = msg->msg_iov[0].iov_base,
			     .len = msg->msg_iov[0].iov_len,
			     .ctx = msg->context,
			     .addr = msg->rma_iov[0].addr,
			     .key = msg->rma_iov[0].key,
			     .imm = (uint32_t)msg->data,
			     .has_imm = flags & FI_REMOTE_CQ_DATA};
	if (msg->iov_count != 1 || msg->rma_iov_count != 1 || flags & FI_INJECT)
		return -FI_EINVAL;
	if (op.has_imm)
		immediate_check(msg->data);
	return post(fid, op, msg->desc ? msg->desc[0] : NULL, msg->addr);
}

/* EFA's codes: prov/efa/src/efa_errno.h of 2.6. */
static int efa_error(int status)
{
	switch (status) {
	case 1:
		return FI_ECANCELED;
	case 8:
	case 13:
		return FI_ECONNABORTED;
	case 9:
	case 14:
		return FI_ENOTCONN;
	case 10:
		return FI_ENORX;
	case 11:
		return FI_EMSGSIZE;
	case 15:
		return FI_EHOSTUNREACH;
	default:
		return FI_EINVAL;
	}
}

/* rxm over verbs: work completion status, FI_EIO, or FI_ECANCELED for what was flushed. */
static int verbs_error(int status, int *prov_errno)
{
	*prov_errno = status == 7 ? 10 : status == 1 ? 5 : 12;
	return status == 1 ? FI_ECANCELED : FI_EIO;
}

void shim_op_complete(struct shim_op *op, int status)
{
	struct shim_ep *ep = op->ep;
	static const uint64_t flags[] = {FI_SEND | FI_MSG, FI_WRITE | FI_RMA, FI_READ | FI_RMA};
	struct shim_cqe e = {.ctx = op->ctx, .ep = ep, .op = op, .flags = flags[op->type], .len = op->len};
	if (op->hash != sum(op))
		shim_violation("the source of a %s was changed while it was in flight",
			       op->type == OP_SEND ? "message" : "write");
	if (ep->kind->context2)
		scribble_check(op->ctx, context_seed(op->ctx));
	if (ep->kind->context2)
		memset(op->ctx, 0xdb, CONTEXT_BYTES);
	if (status == 0 && op->doomed)
		status = 13;
	if (status) {
		shim_count.op_errors++;
		e.prov_errno = status;
		e.err = ep->kind->efa ? efa_error(status) : verbs_error(status, &e.prov_errno);
		if (!ep->kind->efa)
			e.flags = 0; /* as rxm has it: the context alone says what it was */
	}
	op->mr->users--;
	op->conn = NULL;
	op->state = OP_DONE;
	shim_cq_push(ep->cq, e);
}

static struct fi_ops_msg msg_table = {.size = sizeof(struct fi_ops_msg), .recv = ep_recv, .send = ep_send};
static struct fi_ops_rma rma_table = {.size = sizeof(struct fi_ops_rma),
				      .read = ep_read,
				      .write = ep_write,
				      .writedata = ep_writedata,
				      .writemsg = ep_writemsg};

/* ---- errors of the endpoint ---- */

void shim_eq_push(struct shim_ep *ep, int prov_errno)
{
	ep->dead = true; /* a guess: what such an endpoint still does is nowhere written */
	shim_count.eq_errors++;
	if (!ep->eq) {
		fprintf(stderr,
			"kvrail-shim: an internal error (%d) and no EQ is bound: "
			"libfabric's EFA provider calls abort() here\n",
			prov_errno);
		abort();
	}
	ep->eq->errors++;
	ep->eq->prov_errno = prov_errno;
}

void shim_eq_error(void)
{
	pthread_mutex_lock(&shim_lock);
	KV_LIST_EACH (n, &shim_eps) {
		struct shim_ep *ep = KV_LIST_ENTRY(n, struct shim_ep, all);
		if (ep->enabled && ep->eq)
			shim_eq_push(ep, 4096);
	}
	pthread_mutex_unlock(&shim_lock);
}

/* ---- options ---- */

static int put(void *value, size_t *len, const void *from, size_t size)
{
	if (*len < size)
		return -FI_ETOOSMALL;
	memcpy(value, from, size);
	*len = size;
	return 0;
}

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
	struct shim_ep *ep = CONTAINER(fid, struct shim_ep, fid.fid);
	bool soft_writes = ep->soft_writes, soft_reads = ep->soft_reads;
	size_t msg = ep->kind->msg_max, rma = shim_rma_max(ep->kind);
	(void)level;
	if (name == OPT_MAX_MSG_SIZE)
		return put(value, len, &msg, sizeof(msg));
	if (name == OPT_MAX_RMA_SIZE)
		return put(value, len, &rma, sizeof(rma));
	if (ep->kind->efa && name == OPT_EMULATED_READ)
		return put(value, len, &soft_reads, sizeof(soft_reads));
	if (ep->kind->efa && name == OPT_EMULATED_WRITE)
		return put(value, len, &soft_writes, sizeof(soft_writes));
	return -FI_ENOPROTOOPT;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
	struct shim_ep *ep = CONTAINER(fid, struct shim_ep, fid.fid);
	(void)level;
	if (!ep->kind->efa)
		return -FI_ENOPROTOOPT;
	if (name == OPT_SHARED_MEMORY && len == sizeof(bool))
		return 0;
	if (name == OPT_RNR_RETRY) {
		if (len != sizeof(size_t) || ep->enabled || *(const size_t *)value > 7)
			return -FI_EINVAL;
		shim_count.rnr_retry = *(const size_t *)value;
		return 0;
	}
	if (name != OPT_UNSOLICITED || shim_config.setopt == 0)
		return -FI_ENOPROTOOPT;
	if (len != sizeof(bool) || ep->enabled)
		return -FI_EINVAL;
	if (ep->kind->context2 && !(ep->mode & FI_RX_CQ_DATA) && !*(const bool *)value)
		return -FI_EOPNOTSUPP;
	ep->unsolicited = *(const bool *)value && !(ep->mode & FI_RX_CQ_DATA);
	return 0;
}

static struct fi_ops_ep ep_table = {.size = sizeof(struct fi_ops_ep), .getopt = ep_getopt, .setopt = ep_setopt};

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
	struct shim_ep *ep = CONTAINER(fid, struct shim_ep, fid.fid);
	size_t room = *len;
	*len = ep->kind->efa ? BLOB_MAX : sizeof(struct sockaddr_in);
	if (room < *len)
		return -FI_ETOOSMALL;
	if (!ep->enabled)
		return -FI_EOPBADSTATE;
	memcpy(addr, ep->blob, *len);
	return 0;
}

static struct fi_ops_cm cm_table = {.size = sizeof(struct fi_ops_cm), .getname = ep_getname};

/* ---- open, enable, close ---- */

static int ep_enable(struct shim_ep *ep)
{
	uint64_t open = 0, entries = ep->tx;
	if (!ep->cq || !ep->av) {
		shim_violation("fi_enable without %s", ep->cq ? "an AV" : "a CQ");
		return -FI_ENOCQ;
	}
	KV_LIST_EACH (n, &shim_eps) {
		const struct shim_ep *other = KV_LIST_ENTRY(n, struct shim_ep, all);
		if (other->enabled && other->domain->nic == ep->domain->nic) {
			open++;
			entries += other->tx;
		}
	}
	if (open >= shim_config.ep_max || (shim_config.sq_budget && entries > shim_config.sq_budget))
		return shim_config.einval ? -FI_EINVAL : -FI_ENOMEM;
	if (shim_config.inuse) {
		shim_config.inuse--;
		return -FI_EADDRINUSE;
	}
	int rc = device_attach(ep);
	ep->enabled = rc == 0;
	return rc;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct shim_ep *ep = CONTAINER(fid, struct shim_ep, fid.fid);
	(void)arg;
	if (command != FI_ENABLE)
		return -FI_ENOSYS;
	pthread_mutex_lock(&shim_lock);
	int rc = ep_enable(ep);
	pthread_mutex_unlock(&shim_lock);
	return rc;
}

static int ep_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
	struct shim_ep *ep = CONTAINER(fid, struct shim_ep, fid.fid);
	int rc = 0;
	pthread_mutex_lock(&shim_lock);
	if (to->fclass == FI_CLASS_CQ && flags == (FI_TRANSMIT | FI_RECV) && !ep->cq) {
		ep->cq = CONTAINER(to, struct shim_cq, fid.fid);
		ep->cq->refs++;
		kv_list_add_tail(&ep->cq->eps, &ep->of_cq);
	} else if (to->fclass == FI_CLASS_AV && !ep->av) {
		ep->av = CONTAINER(to, struct shim_av, fid.fid);
		ep->av->refs++;
	} else if (to->fclass == FI_CLASS_EQ && !ep->eq) {
		ep->eq = CONTAINER(to, struct shim_eq, fid.fid);
		ep->eq->refs++;
	} else {
		rc = -FI_EINVAL;
	}
	pthread_mutex_unlock(&shim_lock);
	return rc;
}

/* What was posted is forgotten: no completion of it comes any more. */
static void ep_forget(struct shim_ep *ep)
{
	struct shim_rx rx;
	for (size_t i = 0; i < ep->tx; i++) {
		struct shim_op *op = &ep->op[i];
		if (op->state == OP_FREE || op->state == OP_DONE)
			continue;
		op->mr->users--;
		op->state = OP_FREE;
	}
	while (ep->recvs) {
		rx = ep->recv[ep->recv_at];
		rx.mr->users--;
		ep->recv_at = (ep->recv_at + 1) % ep->rx;
		ep->recvs--;
	}
}

static bool ep_has_out(const struct shim_ep *ep)
{
	for (size_t i = 0; i < ep->tx; i++)
		if (ep->op[i].state != OP_FREE && ep->op[i].state != OP_DONE)
			return true;
	return false;
}

/* EFA's RDM endpoint waits for what it has out, and is written to meanwhile; every user of the domain waits with it. */
static void ep_close_wait(struct shim_ep *ep)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t end = shim_now() + shim_config.close_ms * 1000000;
	if (!ep->kind->efa || ep->kind->context2 || !ep_has_out(ep))
		return;
	shim_count.slow_closes++;
	ep->domain->held++;
	while (ep_has_out(ep) && shim_now() < end) {
		pthread_mutex_unlock(&shim_lock);
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&shim_lock);
	}
	ep->domain->held--;
}

static int ep_close(struct fid *fid)
{
	struct shim_ep *ep = CONTAINER(fid, struct shim_ep, fid.fid);
	pthread_mutex_lock(&shim_lock);
	ep_close_wait(ep);
	device_detach(ep);
	ep_forget(ep);
	if (ep->cq) {
		shim_cq_forget(ep->cq, ep);
		kv_list_del(&ep->of_cq);
		ep->cq->refs--;
	}
	if (ep->av)
		ep->av->refs--;
	if (ep->eq)
		ep->eq->refs--;
	ep->domain->refs--;
	kv_list_del(&ep->all);
	pthread_mutex_unlock(&shim_lock);
	free(ep->op);
	free(ep->recv);
	free(ep);
	return 0;
}

static struct fi_ops ep_ops = {.size = sizeof(struct fi_ops),
			       .close = ep_close,
			       .bind = ep_bind,
			       .control = ep_control,
			       .ops_open = shim_no_ops};

static bool unsolicited_by_default(const struct shim_ep *ep)
{
	const char *set = getenv("FI_EFA_USE_UNSOLICITED_WRITE_RECV");
	if (!ep->kind->efa || !shim_config.unsolicited || ep->mode & FI_RX_CQ_DATA)
		return false;
	return !set || strcmp(set, "0") != 0;
}

static int queues_make(struct shim_ep *ep, const struct fi_info *info)
{
	ep->tx = info->tx_attr->size;
	ep->rx = info->rx_attr->size;
	ep->op = calloc(ep->tx, sizeof(*ep->op));
	ep->recv = calloc(ep->rx, sizeof(*ep->recv));
	if (!ep->op || !ep->recv)
		return -FI_ENOMEM;
	for (size_t i = 0; i < ep->tx; i++) {
		ep->op[i].id = i;
		ep->op[i].free = ep->free;
		ep->free = &ep->op[i];
	}
	return 0;
}

int shim_ep_open(struct fid_domain *d, struct fi_info *info, struct fid_ep **out, void *context)
{
	struct shim_ep *ep = calloc(1, sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	ep->domain = CONTAINER(d, struct shim_domain, fid);
	ep->kind = ep->domain->kind;
	ep->mode = info->mode;
	ep->listener = -1;
	ep->unsolicited = unsolicited_by_default(ep);
	ep->soft_reads = ep->kind->efa && !shim_config.rdma;
	ep->soft_writes = ep->kind->soft_writes || ep->soft_reads;
	kv_list_init(&ep->conns);
	kv_list_init(&ep->waiting);
	kv_list_init(&ep->of_cq);
	if (queues_make(ep, info)) {
		free(ep->op);
		free(ep->recv);
		free(ep);
		return -FI_ENOMEM;
	}
	ep->fid.fid = (struct fid){.fclass = FI_CLASS_EP, .context = context, .ops = &ep_ops};
	ep->fid.ops = &ep_table;
	ep->fid.cm = &cm_table;
	ep->fid.msg = &msg_table;
	ep->fid.rma = &rma_table;
	pthread_mutex_lock(&shim_lock);
	ep->domain->refs++;
	kv_list_add_tail(&shim_eps, &ep->all);
	pthread_mutex_unlock(&shim_lock);
	*out = &ep->fid;
	return 0;
}
