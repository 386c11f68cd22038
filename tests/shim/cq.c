/* SPDX-License-Identifier: Apache-2.0 */
/* cq.c -- completion queues. Reading one is also what drives a provider with manual progress, so the software side of
 * the imitated endpoints is turned here.
 *
 * Entries stand in an array from `front` on; an unordered provider's are taken from any of the first CHOICE that are
 * due, an ordered one's from the front. The limit is what was asked for: real EFA providers give at least 8192, but a
 * program that keeps to its own number keeps to that one, too. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/base.h"
#include "tests/shim/inside.h"

enum { CHOICE = 64 };

struct queue {
	struct shim_cq cq;
	size_t front, room;
};

static struct queue *queue_of(struct shim_cq *cq)
{
	return CONTAINER(cq, struct queue, cq);
}

static bool room_for_one(struct shim_cq *cq)
{
	struct queue *q = queue_of(cq);
	if (q->front + cq->entries < q->room)
		return true;
	if (q->front > q->room / 2) {
		memmove(cq->entry, cq->entry + q->front, cq->entries * sizeof(*cq->entry));
		q->front = 0;
		return true;
	}
	size_t room = q->room ? q->room * 2 : 64;
	void *more = realloc(cq->entry, room * sizeof(*cq->entry));
	if (!more)
		return false;
	cq->entry = more;
	q->room = room;
	return true;
}

void shim_cq_push(struct shim_cq *cq, struct shim_cqe e)
{
	uint64_t one = 1;
	if (cq->entries >= cq->size) {
		if (!cq->overrun) {
			shim_count.overruns++;
			shim_violation("a completion queue of %zu entries overran", cq->size);
		}
		cq->overrun = true;
		return;
	}
	if (cq->overrun || !room_for_one(cq))
		return;
	e.order = cq->order++;
	e.due = 0;
	if (cq->event_fd < 0 && shim_one_in(shim_config.delay))
		e.due = shim_now() + shim_random() % (shim_config.delay_us * 1000 + 1);
	cq->entry[queue_of(cq)->front + cq->entries++] = e;
	shim_count.cq_peak = KV_MAX(shim_count.cq_peak, cq->entries);
	if (cq->event_fd >= 0 && write(cq->event_fd, &one, sizeof(one)) < 0)
		return; /* full of wake-ups already */
}

void shim_cq_stir(struct shim_cq *cq)
{
	uint64_t one = 1;
	cq->stirred = true;
	if (cq->event_fd >= 0 && write(cq->event_fd, &one, sizeof(one)) < 0)
		return;
}

void shim_cq_forget(struct shim_cq *cq, const struct shim_ep *ep)
{
	struct queue *q = queue_of(cq);
	size_t kept = 0;
	for (size_t i = 0; i < cq->entries; i++)
		if (cq->entry[q->front + i].ep != ep)
			cq->entry[kept++] = cq->entry[q->front + i];
	q->front = 0;
	cq->entries = kept;
	cq->held = false;
}

/* Bring an entry that is due to the front. */
static bool choose(struct shim_cq *cq)
{
	struct queue *q = queue_of(cq);
	struct shim_cqe *e = cq->entry + q->front, t;
	size_t choice = KV_MIN(cq->entries, (size_t)CHOICE), first;
	uint64_t now = shim_now(), oldest = UINT64_MAX;
	if (cq->entries == 0)
		return false;
	if (cq->held || !cq->domain->kind->unordered)
		return cq->held || e->due <= now;
	first = shim_random() % choice;
	for (size_t i = 0; i < cq->entries; i++) {
		size_t at = i < choice ? (first + i) % choice : i;
		if (e[at].due > now)
			continue;
		for (size_t k = 0; k < choice; k++)
			oldest = KV_MIN(oldest, e[k].order);
		shim_count.overtaken += e[at].order > oldest;
		t = e[0];
		e[0] = e[at];
		e[at] = t;
		return true;
	}
	return false;
}

/* The entry at the front has been read: its send queue slot is free. */
static void drop_front(struct shim_cq *cq)
{
	struct queue *q = queue_of(cq);
	struct shim_cqe *e = cq->entry + q->front;
	if (e->op) {
		e->op->state = OP_FREE;
		e->op->free = e->ep->free;
		e->ep->free = e->op;
		e->ep->used--;
	}
	q->front++;
	if (--cq->entries == 0)
		q->front = 0;
	cq->held = false;
}

static void turn(struct shim_cq *cq)
{
	cq->stirred = false;
	KV_LIST_EACH (n, &cq->eps) {
		struct shim_ep *ep = KV_LIST_ENTRY(n, struct shim_ep, of_cq);
		if (ep->burst)
			ep->burst--;
		if (ep->enabled && !ep->dead && !shim_frozen)
			device_soft(ep);
	}
}

static bool stalled(struct shim_cq *cq)
{
	if (!shim_config.stall)
		return false;
	if (shim_now() < cq->stalled)
		return true;
	if (cq->entries && shim_one_in(shim_config.stall))
		cq->stalled = shim_now() + shim_config.stall_ms * 1000000;
	return false;
}

static ssize_t read_some(struct shim_cq *cq, struct fi_cq_data_entry *out, size_t count)
{
	size_t n = 0;
	turn(cq);
	if (cq->overrun)
		return -FI_EOVERRUN;
	if (stalled(cq))
		return -FI_EAGAIN;
	while (n < count && choose(cq)) {
		struct shim_cqe *e = cq->entry + queue_of(cq)->front;
		if (e->err) {
			cq->held = true;
			return n ? (ssize_t)n : -FI_EAVAIL;
		}
		out[n++] = (struct fi_cq_data_entry){
			.op_context = e->ctx, .flags = e->flags, .len = e->len, .data = e->data};
		drop_front(cq);
	}
	return n ? (ssize_t)n : -FI_EAGAIN;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct shim_cq *cq = CONTAINER(fid, struct shim_cq, fid);
	shim_enter(cq->domain);
	ssize_t rc = read_some(cq, buf, count);
	shim_leave(cq->domain);
	return rc;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *out, uint64_t flags)
{
	struct shim_cq *cq = CONTAINER(fid, struct shim_cq, fid);
	ssize_t rc = -FI_EAGAIN;
	(void)flags;
	shim_enter(cq->domain);
	if (cq->held) {
		const struct shim_cqe *e = cq->entry + queue_of(cq)->front;
		out->op_context = e->ctx;
		out->flags = e->flags;
		out->len = e->len;
		out->err = e->err;
		out->prov_errno = e->prov_errno;
		if (out->err_data_size) /* EFA tells where the peer was */
			out->err_data_size = (size_t)snprintf(out->err_data, out->err_data_size, "imitated");
		drop_front(cq);
		rc = 1;
	}
	shim_leave(cq->domain);
	return rc;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *data, char *buf, size_t len)
{
	(void)fid, (void)data;
	snprintf(buf, len, "imitated, status %d", prov_errno);
	return buf;
}

static struct fi_ops_cq cq_table = {
	.size = sizeof(struct fi_ops_cq), .read = cq_read, .readerr = cq_readerr, .strerror = cq_strerror};

int shim_trywait(struct fid_fabric *f, struct fid **fids, int count)
{
	int rc = 0;
	uint64_t drained;
	(void)f;
	pthread_mutex_lock(&shim_lock);
	for (int i = 0; i < count; i++) {
		struct shim_cq *cq = CONTAINER(fids[i], struct shim_cq, fid.fid);
		if (cq->event_fd < 0) {
			shim_violation("fi_trywait on a CQ without a wait object");
			rc = -FI_EINVAL;
		} else if (cq->entries || cq->stirred) {
			rc = -FI_EAGAIN;
		} else if (read(cq->event_fd, &drained, sizeof(drained)) < 0 && errno != EAGAIN) {
			rc = -FI_EOTHER;
		}
	}
	pthread_mutex_unlock(&shim_lock);
	return rc;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct shim_cq *cq = CONTAINER(fid, struct shim_cq, fid.fid);
	if (command != FI_GETWAIT || cq->event_fd < 0)
		return -FI_ENOSYS;
	*(int *)arg = cq->event_fd;
	return 0;
}

static int cq_close(struct fid *fid)
{
	struct shim_cq *cq = CONTAINER(fid, struct shim_cq, fid.fid);
	if (shim_busy(cq->refs, "a completion queue"))
		return -FI_EBUSY;
	cq->domain->refs--;
	if (cq->event_fd >= 0)
		close(cq->event_fd);
	free(cq->entry);
	free(queue_of(cq));
	return 0;
}

static struct fi_ops cq_ops = {.size = sizeof(struct fi_ops),
			       .close = cq_close,
			       .bind = shim_no_bind,
			       .control = cq_control,
			       .ops_open = shim_no_ops};

int shim_cq_open(struct fid_domain *d, struct fi_cq_attr *attr, struct fid_cq **out, void *context)
{
	struct shim_domain *domain = CONTAINER(d, struct shim_domain, fid);
	struct queue *q;
	bool fd = domain->kind->wait_fd || (domain->kind->efa && shim_config.wait_fd);
	if (attr->wait_obj != FI_WAIT_NONE && !(fd && attr->wait_obj == FI_WAIT_FD))
		return -FI_ENOSYS;
	if (shim_config.cq_max && attr->size > shim_config.cq_max)
		return -FI_EINVAL;
	if (attr->format != FI_CQ_FORMAT_DATA)
		return -FI_ENOSYS;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -FI_ENOMEM;
	q->cq.domain = domain;
	q->cq.size = attr->size ? attr->size : domain->kind->cq;
	q->cq.event_fd = attr->wait_obj == FI_WAIT_FD ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
	if (attr->wait_obj == FI_WAIT_FD && q->cq.event_fd < 0) {
		free(q);
		return -FI_EMFILE;
	}
	kv_list_init(&q->cq.eps);
	domain->refs++;
	q->cq.fid.fid = (struct fid){.fclass = FI_CLASS_CQ, .context = context, .ops = &cq_ops};
	q->cq.fid.ops = &cq_table;
	*out = &q->cq.fid;
	return 0;
}
