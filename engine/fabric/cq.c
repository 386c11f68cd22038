/* SPDX-License-Identifier: Apache-2.0 */
/* cq.c -- completions, error entries and the event queue, translated into struct fab_event.
 *
 * FI_RECV is a message, FI_REMOTE_CQ_DATA without it an immediate, else the context decides: only these flags are
 * reliable on every provider. Error entries have the operation in op_context or nothing. The EQ is drained as well: the
 * EFA provider reports errors there, and aborts the process if no EQ is bound. */
#include "engine/fabric/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CQ_BATCH = 32, EQ_EVERY = 32, ERR_DATA_MAX = 64, EFA_LOCAL_QP_ERROR = 2 };

enum fab_error_class fab_error_class(int status)
{
	switch (-status) {
	case FI_ECANCELED:
	case FI_ECONNABORTED:
	case FI_ECONNRESET:
	case FI_ECONNREFUSED:
	case FI_ENOTCONN:
	case FI_EHOSTUNREACH:
	case FI_EHOSTDOWN:
	case FI_ENETUNREACH:
	case FI_ENETDOWN:
	case FI_ETIMEDOUT:
	case FI_ESHUTDOWN:
	case FI_EREMOTEIO:
	case FI_EIO:
	case FI_ENORX:
	case EPIPE:
		return FAB_ERR_PEER;
	case FI_EOVERRUN:
	case KV_EPROVIDER:
		return FAB_ERR_ENDPOINT;
	default:
		return FAB_ERR_OP;
	}
}

/* One operation of a context has ended: untag the context, keep the first bad status. Returns whether it was the last
 * one. */
static bool ctx_ended(const struct fab *fab, struct fab_event *ev)
{
	if (!fab->split_imm || !ev->ctx)
		return true;
	ev->ctx = (struct fab_ctx *)((uintptr_t)ev->ctx & ~(uintptr_t)FAB_CTX_IMM);
	struct fab_split *s = fab_split_of(ev->ctx);
	if (s->left == 0)
		return true;
	s->status = s->status ? s->status : ev->status;
	if (--s->left > 0)
		return false;
	if (s->status && ev->type == FAB_EV_DONE)
		ev->type = FAB_EV_FAIL;
	ev->status = s->status;
	return true;
}

static bool event_from(const struct fab *fab, const struct fi_cq_data_entry *e, struct fab_event *ev)
{
	memset(ev, 0, sizeof(*ev));
	if (e->flags & FI_RECV) {
		ev->type = FAB_EV_RECV;
		ev->ctx = e->op_context;
		ev->len = e->len;
	} else if (e->flags & FI_REMOTE_CQ_DATA) {
		ev->type = FAB_EV_IMM;
		ev->imm = (uint32_t)e->data;
		/* Only in that mode does the context have a meaning: a posted receive used up by the immediate. */
		ev->ctx = fab->info->mode & FI_RX_CQ_DATA ? e->op_context : NULL;
	} else {
		ev->type = FAB_EV_DONE;
		ev->ctx = e->op_context;
	}
	return ev->type == FAB_EV_IMM || ctx_ended(fab, ev);
}

/* Returns 0 when there was none, else 1; *report says whether it is an event. */
static int error_entry(struct fab *fab, struct fab_event *ev, bool *report)
{
	uint8_t data[ERR_DATA_MAX];
	char text[128] = "";
	struct fi_cq_err_entry e;
	memset(&e, 0, sizeof(e));
	e.err_data = data;
	e.err_data_size = sizeof(data);
	if (fi_cq_readerr(fab->ends.cq, &e, 0) <= 0)
		return 0;
	const char *words = fi_cq_strerror(fab->ends.cq, e.prov_errno, e.err_data, text, sizeof(text));
	int code = abs(e.err) ? abs(e.err) : FI_EOTHER;
	snprintf(fab->last_error, sizeof(fab->last_error), "%s %s: %s, prov_errno %d (%s)", fab->caps.provider,
		 fab->caps.domain, fi_strerror(code), e.prov_errno, words && words[0] ? words : "no words");
	memset(ev, 0, sizeof(*ev));
	ev->type = FAB_EV_FAIL;
	ev->ctx = e.op_context;
	ev->status = -code;
	if (fab_error_class(-code) == FAB_ERR_ENDPOINT || (fab->quirk->efa && e.prov_errno == EFA_LOCAL_QP_ERROR))
		fab->dead_due = true;
	*report = ctx_ended(fab, ev);
	return 1;
}

static int read_errors(struct fab *fab, struct fab_event *out, int n, bool *any)
{
	int count = 0;
	bool report = false;
	*any = false;
	while (count < n && error_entry(fab, &out[count], &report)) {
		*any = true;
		count += report;
	}
	return count;
}

/* One read of at most CQ_BATCH entries. Returns the count; *more: whether another read may find some. */
static int read_batch(struct fab *fab, struct fab_event *out, int n, bool *more)
{
	struct fi_cq_data_entry entries[CQ_BATCH];
	int want = KV_MIN(n, (int)CQ_BATCH);
	ssize_t rc = fi_cq_read(fab->ends.cq, entries, (size_t)want);
	*more = rc == want;
	if (rc > 0) {
		int count = 0;
		for (ssize_t i = 0; i < rc; i++)
			count += event_from(fab, &entries[i], &out[count]);
		return count;
	}
	if (rc == -FI_EAGAIN || rc == 0)
		return 0;
	if (rc == -FI_EAVAIL) {
		return read_errors(fab, out, n, more);
	}
	snprintf(fab->last_error, sizeof(fab->last_error), "%s %s: reading completions: %s", fab->caps.provider,
		 fab->caps.domain, fi_strerror((int)-rc));
	fab->dead_due = true;
	return 0;
}

static void eq_drain(struct fab *fab)
{
	uint8_t buf[256];
	uint32_t event = 0;
	for (int i = 0; i < EQ_EVERY; i++) {
		ssize_t rc = fi_eq_read(fab->ends.eq, &event, buf, sizeof(buf), 0);
		if (rc == -FI_EAGAIN)
			return;
		if (rc >= 0)
			continue;
		struct fi_eq_err_entry e;
		char text[128] = "";
		memset(&e, 0, sizeof(e));
		if (rc != -FI_EAVAIL || fi_eq_readerr(fab->ends.eq, &e, 0) < 0)
			return;
		const char *words = fi_eq_strerror(fab->ends.eq, e.prov_errno, e.err_data, text, sizeof(text));
		snprintf(fab->last_error, sizeof(fab->last_error), "%s %s: endpoint event: %s, prov_errno %d (%s)",
			 fab->caps.provider, fab->caps.domain, fi_strerror(abs(e.err)), e.prov_errno,
			 words ? words : "");
		fab->dead_due = true;
	}
}

int fab_poll(struct fab *fab, struct fab_event *out, int n)
{
	int count = 0;
	bool more = true;
	if (!fab->ends.ep)
		return 0;
	if (fab->door)
		door_poll(fab->door);
	while (count < n && more)
		count += read_batch(fab, out + count, n - count, &more);
	if (count == 0 || ++fab->polls % EQ_EVERY == 0)
		eq_drain(fab);
	if (fab->dead_due && count < n) {
		fab->dead_due = false;
		out[count++] = (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER};
	}
	return count;
}

/* A read without a result may have handled a batch of rxm's own messages: only many such reads in a row mean the end. A
 * verbs message between here and the end of its queue pair, some 100 us, still crashes; only libfabric can close that
 * gap. */
void fab_drain(struct fab *fab)
{
	enum { READS_MAX = 4096, EMPTY_READS = 64 };
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error;
	for (int i = 0, empty = 0; i < READS_MAX && empty < EMPTY_READS && fab->ends.cq; i++) {
		ssize_t rc = fi_cq_read(fab->ends.cq, &entry, 1);
		memset(&error, 0, sizeof(error));
		if (rc == -FI_EAVAIL)
			rc = fi_cq_readerr(fab->ends.cq, &error, 0);
		empty = rc > 0 ? 0 : empty + 1;
	}
}

int fab_wait_fd(const struct fab *fab)
{
	return fab->ends.ep && fab->caps.wait_fd ? fab->wait_fd : -1;
}

int fab_arm(struct fab *fab)
{
	struct fid *fid;
	int rc;
	/* fi_trywait on a CQ without a wait object crashes libfabric 1.17. */
	if (!fab->ends.ep || !fab->caps.wait_fd || fab->dead_due)
		return -EAGAIN;
	fid = &fab->ends.cq->fid;
	if (fab->door)
		door_rest(fab->door);
	rc = fi_trywait(fab->fabric, &fid, 1);
	if (rc == FI_SUCCESS && fab->door)
		door_rested(fab->door);
	return rc == FI_SUCCESS ? 0 : -EAGAIN;
}

const char *fab_last_error(const struct fab *fab)
{
	return fab->last_error;
}
