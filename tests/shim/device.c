/* SPDX-License-Identifier: Apache-2.0 */
/* device.c -- the imitated NIC: one thread per process that moves bytes, whatever the program is doing.
 *
 * An endpoint listens on a loopback port; an endpoint that posts to its address connects there and says who it is and
 * whom it wants. On such a connection requests go one way and answers the other: SEND, WRITE (both cut into packets of
 * an MTU) and READ; ACK and DATA. The target looks up key and initiator for every packet, copies straight into the
 * program's memory, and acknowledges an operation when its last byte has landed. Everything that happens to memory
 * happens on this thread under the lock, so a closed endpoint is a fence, as a destroyed queue pair is; under
 * ThreadSanitizer the program's accesses race with it as they would with a DMA.
 *
 * Why not libfabric's tcp;ofi_rxm below, with patched tables: it has no virtual addresses and no keys of its own,
 * breaks the connection on a wrong key, crashes when a write with immediate or (1.17) a read is cut off, checks no AV,
 * moves nothing while the program does not read its CQ, and answers errors of its own kind. Each of these would have to
 * be undone from outside; what is imitated here would then be tcp.
 *
 * Emulated writes and reads (a p4d's writes) are packets that wait until the target's program reads its CQ. A write of
 * less than SOFT_READ_MIN has ended for its initiator when the packets are there, as efa_rdm_rma.c's do when the NIC
 * has delivered them: the bytes land later, also when the initiator has died since. A longer one is fetched by the
 * target, so it ends when it has landed, or never when its initiator is gone.
 *
 * Never blocks: a request is read only while there is room for its answer, and answers are always read, so two devices
 * cannot wait for each other. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "tests/shim/inside.h"

enum { PACKETS_BUFFERED = 4, EVENTS = 64, MAGIC = 0x4b565368, POOL = 8192, FDS_MAX = 65536, TURN_US = 1000 };
enum packet_type { PKT_HELLO, PKT_SEND, PKT_WRITE, PKT_READ, PKT_ACK, PKT_DATA, PKT_SHAKE, PKT_SHAKEN };
enum {
	ST_FLUSHED = 1,
	ST_BAD_ADDRESS = 7,
	ST_ABORT = 8,
	ST_BAD_QPN = 9,
	ST_LENGTH = 11,
	ST_UNRESP = 13,
	ST_UNKNOWN_PEER = 14,
	ST_UNREACH = 15,
	ST_RMA_ADDR = 4111
};

struct packet {
	uint32_t magic;
	uint8_t type, has_imm;
	uint16_t status;
	uint32_t len, imm;
	uint64_t op, total, offset, addr, key;
	uint64_t spare;
};
_Static_assert(sizeof(struct packet) == HEADER_BYTES, "the header has no padding");

struct hello {
	uint8_t from[BLOB_MAX];
	uint32_t qpn, qkey;
};

/* A write that is arriving, or a read that is being answered. */
struct job {
	struct kv_list node;
	uint64_t op, total, got, came, addr, key, next;
	uint16_t status;
	bool acked; /* its initiator knows it as done */
};

struct shim_conn {
	struct kv_list node;
	struct shim_ep *ep;
	int fd;
	bool ours, up, stuck, said, shake_wanted, shake_sent, shake_came, shaken, holds, want_out, removed;
	bool over;      /* closed; what it has brought already waits for the program */
	unsigned softs; /* packets of it that wait for the program's CPU */
	uint16_t bad;   /* answer everything with this */
	uint64_t heard; /* when something came last */
	uint8_t peer[BLOB_MAX];
	uint8_t *in, *out;
	size_t in_len, out_len, cap;
	struct shim_op **op; /* not yet sent to the last packet */
	size_t ops, ops_room;
	struct kv_list writes, reads;
	struct {
		uint64_t op;
		uint16_t status;
	} *ack;
	size_t acks, acks_room;
};

/* A packet that waits: for a receive, or for the program to read its CQ. */
struct waiting {
	struct kv_list node;
	struct shim_conn *conn;
	struct packet p;
	bool soft;
	uint8_t data[];
};

static struct shim_conn *by_fd[FDS_MAX];
static struct shim_ep *listening[FDS_MAX];
static int epoll_fd = -1, bell_fd = -1;
static bool asleep;
static pthread_once_t started = PTHREAD_ONCE_INIT;

static void conn_break(struct shim_conn *c, uint16_t status);
static void conn_free(struct shim_conn *c);

static size_t blob_len(const struct shim_ep *ep)
{
	return ep->kind->efa ? BLOB_MAX : sizeof(struct sockaddr_in);
}

void device_wake(void)
{
	uint64_t one = 1;
	if (!asleep)
		return;
	asleep = false;
	if (write(bell_fd, &one, sizeof(one)) < 0)
		return; /* it rings already */
}

/* ---- sending ---- */

static bool room(const struct shim_conn *c, size_t len)
{
	return c->cap - c->out_len >= HEADER_BYTES + len;
}

static void put(struct shim_conn *c, struct packet p, const void *data)
{
	p.magic = MAGIC;
	memcpy(c->out + c->out_len, &p, sizeof(p));
	if (p.len)
		memcpy(c->out + c->out_len + sizeof(p), data, p.len);
	c->out_len += sizeof(p) + p.len;
}

/* Returns whether something went out. A broken connection is left to the reader. */
static bool flush(struct shim_conn *c)
{
	size_t done = 0;
	while (c->up && done < c->out_len) {
		ssize_t n = send(c->fd, c->out + done, c->out_len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	memmove(c->out, c->out + done, c->out_len - done);
	c->out_len -= done;
	bool want = c->up && c->out_len > 0;
	if (want != c->want_out) {
		struct epoll_event ev = {.events = EPOLLIN | (want ? EPOLLOUT : 0), .data.fd = c->fd};
		(void)epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
		c->want_out = want;
	}
	return done > 0;
}

static void ack(struct shim_conn *c, uint64_t op, uint16_t status)
{
	if (c->acks == c->acks_room) {
		c->acks_room = c->acks_room ? c->acks_room * 2 : 64;
		c->ack = realloc(c->ack, c->acks_room * sizeof(*c->ack));
		if (!c->ack)
			abort(); /* the imitation has no other answer to a lack of memory */
	}
	c->ack[c->acks].op = op;
	c->ack[c->acks++].status = status;
}

static bool produce_acks(struct shim_conn *c)
{
	size_t done = 0;
	while (done < c->acks && room(c, 0)) {
		put(c, (struct packet){.type = PKT_ACK, .op = c->ack[done].op, .status = c->ack[done].status}, NULL);
		done++;
	}
	if (done)
		memmove(c->ack, c->ack + done, (c->acks - done) * sizeof(*c->ack));
	c->acks -= done;
	return done > 0;
}

static uint16_t target_check(struct shim_conn *c, const struct packet *p, uint64_t access, uint8_t **out)
{
	struct shim_ep *ep = c->ep;
	if (ep->kind->needs_av && !shim_av_has(ep->av, c->peer))
		return ST_UNKNOWN_PEER;
	if (p->total == 0)
		return 0; /* nothing is touched, so nothing is looked up */
	struct shim_mr *mr = shim_mr_find(ep->domain, p->key);
	if (!mr || !(mr->access & access) || p->addr < (uint64_t)(uintptr_t)mr->base || p->total > mr->len ||
	    p->addr - (uint64_t)(uintptr_t)mr->base > mr->len - p->total)
		return ST_BAD_ADDRESS;
	*out = (uint8_t *)(uintptr_t)p->addr;
	return 0;
}

/* A packet of the answer to a read. */
static bool produce_read(struct shim_conn *c)
{
	uint64_t mtu = shim_config.mtu;
	uint8_t *from = NULL;
	if (kv_list_empty(&c->reads) || !room(c, mtu))
		return false;
	struct job *j = KV_LIST_ENTRY(c->reads.next, struct job, node);
	struct packet p = {.type = PKT_DATA, .op = j->op, .total = j->total, .addr = j->addr, .key = j->key};
	uint16_t status = c->bad ? c->bad : target_check(c, &p, FI_REMOTE_READ, &from);
	if (status && c->ep->soft_reads && !c->bad) {
		shim_eq_push(c->ep, ST_RMA_ADDR);
		kv_list_del(&j->node);
		free(j);
		return false;
	}
	if (status || j->total == 0) {
		ack(c, j->op, status);
		if (status && !c->ep->kind->efa)
			c->bad = ST_FLUSHED;
		kv_list_del(&j->node);
		free(j);
		return true;
	}
	/* Halves change places, so that no read is answered in the order of its bytes. */
	uint64_t packets = (j->total + mtu - 1) / mtu,
		 at = c->ep->kind->unordered ? (j->next + packets / 2) % packets : j->next;
	p.offset = at * mtu;
	p.len = (uint32_t)KV_MIN(mtu, j->total - p.offset);
	put(c, p, from + p.offset);
	shim_nic_count(c->ep, c->ep->soft_reads ? COUNT_SEND : COUNT_READ_RESP, p.len);
	kv_list_del(&j->node);
	if (++j->next == packets)
		free(j);
	else
		kv_list_add_tail(&c->reads, &j->node);
	return true;
}

/* The operation whose packet is next: any that is released, or the oldest. */
static size_t choose(struct shim_conn *c, uint64_t now)
{
	bool unordered = c->ep->kind->unordered;
	size_t first = unordered ? shim_random() % c->ops : 0;
	for (size_t i = 0; i < c->ops; i++) {
		size_t at = (first + i) % c->ops;
		bool held = c->ep->kind->handshake && c->op[at]->type != OP_SEND && !c->shaken;
		if (c->op[at]->release <= now && !held) {
			shim_count.overtaken += at > 0;
			return at;
		}
		if (!unordered)
			break;
	}
	return SIZE_MAX;
}

static bool produce_request(struct shim_conn *c)
{
	uint64_t mtu = shim_config.mtu;
	if (!c->ops || !room(c, MESSAGE_MAX))
		return false;
	size_t at = choose(c, shim_now());
	if (at == SIZE_MAX)
		return false;
	struct shim_op *op = c->op[at];
	uint32_t index = (uint32_t)(((uint64_t)op->start + (uint64_t)op->next * op->step) % op->packets);
	struct packet p = {.type = op->type == OP_SEND    ? PKT_SEND
				   : op->type == OP_WRITE ? PKT_WRITE
							  : PKT_READ,
			   .op = op->id,
			   .total = op->len,
			   .addr = op->addr,
			   .key = op->key,
			   .imm = op->imm,
			   .has_imm = op->has_imm,
			   .offset = index * mtu};
	if (op->type != OP_READ)
		p.len = (uint32_t)(op->type == OP_SEND ? op->len : KV_MIN(mtu, op->len - p.offset));
	put(c, p, op->buf + p.offset);
	shim_nic_count(c->ep, op->type == OP_WRITE && !c->ep->soft_writes ? COUNT_WRITE : COUNT_SEND, p.len);
	if (++op->next < op->packets && op->type != OP_READ)
		return true;
	op->state = OP_SENT;
	c->op[at] = c->op[c->ops - 1];
	if (!c->ep->kind->unordered)
		memmove(c->op, c->op + 1, (c->ops - 1) * sizeof(*c->op));
	c->ops--;
	return true;
}

static bool produce(struct shim_conn *c)
{
	bool any = false;
	if (!c->up || c->ep->dead)
		return false;
	if (!c->ours) {
		any |= produce_acks(c);
		while (produce_read(c))
			any = true;
	} else if (c->said) {
		if (c->shake_wanted && !c->shake_sent && room(c, 0)) {
			put(c, (struct packet){.type = PKT_SHAKE}, NULL);
			c->shake_sent = true;
		}
		while (produce_request(c))
			any = true;
	}
	any |= flush(c);
	return any;
}

/* ---- the target's side ---- */

static void cqe_immediate(struct shim_ep *ep, const struct packet *p, void *ctx)
{
	/* Context and length of an immediate mean nothing where receives are the provider's: here they are poison (a
	 * guess). */
	bool own = !ep->kind->pool && !ep->unsolicited;
	struct shim_cqe e = {.ctx = own ? ctx : (void *)(uintptr_t)0x6b76736869700000,
			     .ep = ep,
			     .flags = FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE,
			     .len = p->total,
			     .data = p->imm};
	if (!ep->kind->efa) {
		e.ctx = NULL;
		e.len = 0;
	}
	shim_count.immediates++;
	shim_cq_push(ep->cq, e);
}

/* Deliver what needs a receive, or room in the provider's own pool of them. Returns whether it went. */
static bool deliver(struct shim_ep *ep, struct shim_conn *c, const struct packet *p, const uint8_t *data)
{
	struct shim_rx rx = {0};
	if (ep->cq->entries >= ep->cq->size && !ep->unsolicited)
		return false; /* receives are posted again when the CQ is read: it is not */
	if (p->type == PKT_WRITE) {
		bool takes = !ep->kind->pool && !ep->unsolicited;
		if (takes && !shim_recv_take(ep, &rx))
			return false;
		cqe_immediate(ep, p, rx.ctx);
		return true;
	}
	if (!shim_recv_take(ep, &rx))
		return false;
	if (rx.len < p->total)
		shim_violation("a message of %llu bytes meets a receive of %zu", (unsigned long long)p->total, rx.len);
	memcpy(rx.buf, data, KV_MIN(rx.len, (size_t)p->total));
	if (ep->kind->context2)
		memset(rx.ctx, 0xdb, CONTEXT_BYTES);
	shim_cq_push(ep->cq, (struct shim_cqe){.ctx = rx.ctx, .ep = ep, .flags = FI_RECV | FI_MSG, .len = p->total});
	(void)c;
	return true;
}

static void wait_here(struct shim_ep *ep, struct shim_conn *c, const struct packet *p, const uint8_t *data, bool soft)
{
	size_t len = data ? p->len : 0;
	struct waiting *w = malloc(sizeof(*w) + len);
	if (!w)
		abort();
	w->conn = c;
	w->p = *p;
	w->soft = soft;
	if (len)
		memcpy(w->data, data, len);
	kv_list_add_tail(&ep->waiting, &w->node);
	ep->waiting_count++;
	if (soft) {
		c->softs++;
		shim_count.emulated++;
		shim_count.emulated_bytes += len;
		shim_cq_stir(ep->cq);
	} else {
		shim_count.rnr++;
	}
}

/* A whole message, or the last byte of a write with immediate, is here. */
static void arrived(struct shim_conn *c, const struct packet *p, const uint8_t *data, bool acked)
{
	struct shim_ep *ep = c->ep;
	if (deliver(ep, c, p, data)) {
		if (!acked)
			ack(c, p->op, 0);
		return;
	}
	/* A provider with a pool has taken the message; it waits there for the program's receive. */
	if (p->type == PKT_SEND && ep->kind->pool && ep->waiting_count < POOL) {
		ack(c, p->op, 0);
		wait_here(ep, NULL, p, data, false);
		return;
	}
	wait_here(ep, acked ? NULL : c, p, data, false);
}

static struct job *job_get(struct shim_conn *c, const struct packet *p)
{
	KV_LIST_EACH (n, &c->writes) {
		struct job *j = KV_LIST_ENTRY(n, struct job, node);
		if (j->op == p->op)
			return j;
	}
	struct job *j = calloc(1, sizeof(*j));
	if (!j)
		abort();
	j->op = p->op;
	j->total = p->total;
	kv_list_add_tail(&c->writes, &j->node);
	return j;
}

/* A packet of a write lands. */
static void land(struct shim_conn *c, const struct packet *p, const uint8_t *data)
{
	struct job *j = job_get(c, p);
	uint8_t *to = NULL;
	if (!j->status)
		j->status = c->bad ? c->bad : target_check(c, p, FI_REMOTE_WRITE, &to);
	if (!j->status && p->len)
		memcpy(to + p->offset, data, p->len);
	j->got += p->len;
	if (j->got < j->total)
		return;
	uint16_t status = j->status;
	bool acked = j->acked;
	kv_list_del(&j->node);
	free(j);
	if (status && c->ep->soft_writes && !c->bad) {
		/* The provider's own code refuses, and tells its own program; the initiator waits for ever. */
		shim_eq_push(c->ep, ST_RMA_ADDR);
	} else if (status || !p->has_imm) {
		if (!acked)
			ack(c, p->op, status);
		if (status && !c->ep->kind->efa)
			c->bad = ST_FLUSHED; /* an access error ends the connection */
	} else {
		arrived(c, p, NULL, acked);
	}
}

static void read_begin(struct shim_conn *c, const struct packet *p)
{
	struct job *j = calloc(1, sizeof(*j));
	if (!j)
		abort();
	j->op = p->op;
	j->total = p->total;
	j->addr = p->addr;
	j->key = p->key;
	kv_list_add_tail(&c->reads, &j->node);
}

/* What the program's CPU is to do waits for it. */
static void soft_in(struct shim_conn *c, const struct packet *p, const uint8_t *data)
{
	wait_here(c->ep, c, p, p->type == PKT_WRITE ? data : NULL, true);
	if (p->type != PKT_WRITE || p->total >= SOFT_READ_MIN)
		return;
	struct job *j = job_get(c, p);
	j->came += p->len;
	if (j->came < j->total)
		return;
	j->acked = true;
	ack(c, p->op, 0);
}

static void hello_in(struct shim_conn *c, const uint8_t *data)
{
	struct hello h;
	memcpy(&h, data, sizeof(h));
	memcpy(c->peer, h.from, BLOB_MAX);
	c->said = true;
	if (c->ep->kind->efa && (h.qpn != c->ep->qpn || h.qkey != c->ep->qkey))
		c->bad = ST_BAD_QPN;
}

static void request_in(struct shim_conn *c, const struct packet *p, const uint8_t *data)
{
	shim_nic_count(c->ep, p->type == PKT_WRITE && !c->ep->soft_writes ? COUNT_WRITE_RECV : COUNT_RECV, p->len);
	switch (p->type) {
	case PKT_HELLO:
		hello_in(c, data);
		break;
	case PKT_SHAKE:
		c->shake_wanted = true; /* answered when the program reads its CQ */
		shim_cq_stir(c->ep->cq);
		break;
	case PKT_SEND:
		if (c->bad)
			ack(c, p->op, c->bad);
		else
			arrived(c, p, data, false);
		break;
	case PKT_WRITE:
		if (c->ep->soft_writes && !c->bad)
			soft_in(c, p, data);
		else
			land(c, p, data);
		break;
	case PKT_READ:
		if (c->ep->soft_reads && !c->bad)
			soft_in(c, p, NULL);
		else
			read_begin(c, p);
		break;
	default:
		break;
	}
}

static void waiting_drop(struct shim_ep *ep, struct waiting *w)
{
	kv_list_del(&w->node);
	ep->waiting_count--;
	free(w);
}

void device_receives(struct shim_ep *ep)
{
	KV_LIST_EACH_SAFE (n, &ep->waiting) {
		struct waiting *w = KV_LIST_ENTRY(n, struct waiting, node);
		if (w->soft)
			continue;
		if (!deliver(ep, w->conn, &w->p, w->data))
			return;
		if (w->conn)
			ack(w->conn, w->p.op, 0);
		waiting_drop(ep, w);
	}
	device_wake();
}

static void soft_do(struct shim_conn *c, const struct packet *p, const uint8_t *data)
{
	/* What is fetched from an initiator that is gone does not come. */
	if (c->over && (p->type != PKT_WRITE || p->total >= SOFT_READ_MIN))
		return;
	if (p->type == PKT_WRITE)
		land(c, p, data);
	else
		read_begin(c, p);
}

void device_soft(struct shim_ep *ep)
{
	if (ep->waiting_count) {
		struct kv_list batch, *n;
		kv_list_init(&batch);
		KV_LIST_EACH_SAFE (m, &ep->waiting)
			if (KV_LIST_ENTRY(m, struct waiting, node)->soft) {
				kv_list_del(m);
				kv_list_add_tail(&batch, m);
				ep->waiting_count--;
			}
		while ((n = kv_list_pop(&batch))) {
			struct waiting *w = KV_LIST_ENTRY(n, struct waiting, node);
			w->conn->softs--;
			if (!ep->dead)
				soft_do(w->conn, &w->p, w->data);
			free(w);
		}
		device_receives(ep);
		device_wake();
	}
	KV_LIST_EACH_SAFE (n, &ep->conns) {
		struct shim_conn *c = KV_LIST_ENTRY(n, struct shim_conn, node);
		if (c->over && c->softs == 0) {
			conn_free(c);
			continue;
		}
		if (c->ours && c->shake_came && !c->shaken) {
			c->shaken = true; /* its program has read that, too */
			device_wake();
		}
		if (c->ours || !c->shake_wanted || c->shake_sent || !room(c, 0))
			continue;
		put(c, (struct packet){.type = PKT_SHAKEN}, NULL);
		c->shake_sent = true;
		device_wake();
	}
}

/* ---- the initiator's side ---- */

static struct shim_op *op_find(struct shim_ep *ep, uint64_t id)
{
	struct shim_op *op = &ep->op[id % ep->tx];
	return op->id == id && (op->state == OP_SENT || op->state == OP_ACTIVE) ? op : NULL;
}

static void conn_op_forget(struct shim_conn *c, const struct shim_op *op)
{
	for (size_t i = 0; i < c->ops; i++)
		if (c->op[i] == op) {
			memmove(c->op + i, c->op + i + 1, (c->ops - i - 1) * sizeof(*c->op));
			c->ops--;
			return;
		}
}

static void op_flush(struct shim_op *op)
{
	op->state = OP_DYING;
	op->status = ST_FLUSHED;
	op->release = 0;
	op->conn = NULL;
	op->ep->dying++;
}

/* A queue pair in error: what is posted to it is flushed, until its endpoint is closed or its address removed
 * (FI_AV_REMOVE_CLEANUP). */
static void conn_stick(struct shim_conn *c)
{
	struct shim_ep *ep = c->ep;
	for (size_t i = 0; i < ep->tx; i++)
		if (ep->op[i].conn == c && (ep->op[i].state == OP_ACTIVE || ep->op[i].state == OP_SENT))
			op_flush(&ep->op[i]);
	c->ops = 0;
	c->stuck = true;
}

static void answer_in(struct shim_conn *c, const struct packet *p, const uint8_t *data)
{
	struct shim_op *op = op_find(c->ep, p->op);
	if (p->type == PKT_SHAKEN) {
		c->shake_came = true;
		shim_cq_stir(c->ep->cq);
		return;
	}
	if (!op || op->conn != c || c->ep->dead)
		return;
	if (p->type == PKT_DATA) {
		memcpy(op->buf + p->offset, data, p->len);
		shim_nic_count(c->ep, c->ep->soft_reads ? COUNT_RECV : COUNT_READ, p->len);
		op->got += p->len;
		if (op->got < op->len)
			return;
	}
	conn_op_forget(c, op);
	shim_op_complete(op, p->type == PKT_ACK ? p->status : 0);
	/* An access error ends the connection, and what else was under way there. rxm posts to it for ever after. */
	if (p->type == PKT_ACK && p->status && !c->ep->kind->efa)
		conn_stick(c);
}

/* Returns whether a whole packet was handled. */
static bool packet_in(struct shim_conn *c, size_t *at)
{
	struct packet p;
	if (c->in_len - *at < sizeof(p))
		return false;
	memcpy(&p, c->in + *at, sizeof(p));
	if (p.magic != MAGIC || p.len > MESSAGE_MAX)
		return conn_break(c, ST_ABORT), false;
	if (c->in_len - *at < sizeof(p) + p.len)
		return false;
	const uint8_t *data = c->in + *at + sizeof(p);
	*at += sizeof(p) + p.len;
	if (c->ours)
		answer_in(c, &p, data);
	else
		request_in(c, &p, data);
	return true;
}

/* ---- connections ---- */

static struct shim_conn *conn_new(struct shim_ep *ep, int fd, bool ours)
{
	struct epoll_event ev = {.events = EPOLLIN | (ours ? EPOLLOUT : 0), .data.fd = fd};
	struct shim_conn *c = fd < FDS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		goto fail;
	c->cap = PACKETS_BUFFERED * (HEADER_BYTES + MESSAGE_MAX);
	c->in = malloc(c->cap);
	c->out = malloc(c->cap);
	if (!c->in || !c->out || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev))
		goto fail;
	c->ep = ep;
	c->fd = fd;
	c->ours = ours;
	c->up = !ours;
	c->want_out = ours;
	kv_list_init(&c->writes);
	kv_list_init(&c->reads);
	kv_list_add_tail(&ep->conns, &c->node);
	by_fd[fd] = c;
	return c;
fail:
	if (c) {
		free(c->in);
		free(c->out);
	}
	free(c);
	close(fd);
	return NULL;
}

static void jobs_free(struct kv_list *jobs)
{
	struct kv_list *n;
	while ((n = kv_list_pop(jobs)))
		free(KV_LIST_ENTRY(n, struct job, node));
}

static void conn_free(struct shim_conn *c)
{
	KV_LIST_EACH_SAFE (n, &c->ep->waiting) {
		struct waiting *w = KV_LIST_ENTRY(n, struct waiting, node);
		if (w->conn == c)
			waiting_drop(c->ep, w);
	}
	jobs_free(&c->writes);
	jobs_free(&c->reads);
	if (!c->over) {
		by_fd[c->fd] = NULL;
		close(c->fd);
	}
	kv_list_del(&c->node);
	free(c->in);
	free(c->out);
	free(c->op);
	free(c->ack);
	free(c);
}

/* The other side has closed. What it had sent has arrived, and is not taken back. */
static void conn_over(struct shim_conn *c)
{
	if (c->softs == 0) {
		conn_free(c);
		return;
	}
	by_fd[c->fd] = NULL;
	close(c->fd);
	c->over = true;
	c->up = false;
}

/* The peer is gone: what was posted to it ends some time later, each operation with one of the codes that such a death
 * has. */
/* (Its reader frees it.) */
static void conn_break(struct shim_conn *c, uint16_t status)
{
	static const uint16_t deaths[] = {ST_BAD_QPN, ST_UNRESP, ST_ABORT};
	struct shim_ep *ep = c->ep;
	for (size_t i = 0; c->ours && i < ep->tx; i++) {
		struct shim_op *op = &ep->op[i];
		if ((op->state != OP_ACTIVE && op->state != OP_SENT) || op->conn != c)
			continue;
		op->state = OP_DYING;
		op->status = status ? status : ep->kind->efa ? deaths[shim_random() % KV_COUNT(deaths)] : ST_FLUSHED;
		op->release = shim_now() + shim_random() % (shim_config.death_ms * 1000000 + 1);
		op->conn = NULL;
		ep->dying++;
	}
	c->up = false;
	c->removed = true;
}

static void die(struct shim_ep *ep)
{
	uint64_t now = shim_now();
	for (size_t i = 0; ep->dying && i < ep->tx; i++) {
		struct shim_op *op = &ep->op[i];
		if (op->state != OP_DYING || op->release > now)
			continue;
		ep->dying--;
		shim_op_complete(op, op->status);
	}
}

static uint16_t port_of(const struct shim_ep *ep, const uint8_t *blob)
{
	struct sockaddr_in in;
	if (ep->kind->efa)
		return (uint16_t)(blob[14] << 8 | blob[15]);
	memcpy(&in, blob, sizeof(in));
	return ntohs(in.sin_port);
}

static void hello_out(struct shim_conn *c)
{
	struct hello h = {0};
	memcpy(h.from, c->ep->blob, blob_len(c->ep));
	if (c->ep->kind->efa) {
		uint16_t qpn;
		memcpy(&qpn, c->peer + 16, sizeof(qpn));
		memcpy(&h.qkey, c->peer + 20, sizeof(h.qkey));
		h.qpn = qpn;
	}
	put(c, (struct packet){.type = PKT_HELLO, .len = sizeof(h)}, &h);
	c->said = true;
}

struct shim_conn *device_conn(struct shim_ep *ep, const uint8_t *blob)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons(port_of(ep, blob))};
	KV_LIST_EACH (n, &ep->conns) {
		struct shim_conn *c = KV_LIST_ENTRY(n, struct shim_conn, node);
		if (c->ours && !c->removed && memcmp(c->peer, blob, blob_len(ep)) == 0)
			return c;
	}
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) && errno != EINPROGRESS) {
		close(fd);
		return NULL;
	}
	struct shim_conn *c = conn_new(ep, fd, true);
	if (!c)
		return NULL;
	memcpy(c->peer, blob, blob_len(ep));
	c->holds = shim_one_in(2);
	hello_out(c);
	return c;
}

bool device_shaken(struct shim_conn *c)
{
	if (!c->shaken && !c->shake_wanted) {
		c->shake_wanted = true;
		shim_count.handshakes++;
		device_wake();
	}
	return c->shaken;
}

/* efa_rdm_ep_enforce_handshake_for_txe: libfabric 1.22 and later take a few; earlier ones refuse. */
bool device_holds(const struct shim_conn *c)
{
	return c->holds && c->ops < HELD_MAX;
}

void device_conn_add(struct shim_conn *c, struct shim_op *op)
{
	if (c->stuck) {
		op_flush(op);
		return;
	}
	op->conn = c;
	if (c->ops == c->ops_room) {
		c->ops_room = c->ops_room ? c->ops_room * 2 : 64;
		c->op = realloc(c->op, c->ops_room * sizeof(*c->op));
		if (!c->op)
			abort();
	}
	c->op[c->ops++] = op;
}

/* rxm: with FI_AV_REMOVE_CLEANUP the connection goes, and what is under way is flushed; without it nothing happens. */
static void peer_removed_verbs(struct shim_ep *ep, const uint8_t *blob)
{
	const char *cleanup = getenv("FI_AV_REMOVE_CLEANUP");
	if (!cleanup || strcmp(cleanup, "1") != 0)
		return;
	KV_LIST_EACH_SAFE (n, &ep->conns) {
		struct shim_conn *c = KV_LIST_ENTRY(n, struct shim_conn, node);
		if (!c->ours || memcmp(c->peer, blob, blob_len(ep)) != 0)
			continue;
		conn_stick(c);
		conn_free(c);
	}
}

/* EFA drops the completions of peers that were removed; a program that removes one with operations in flight waits for
 * ever.
 */
void device_peer_removed(struct shim_ep *ep, const uint8_t *blob)
{
	unsigned lost = 0;
	if (!ep->kind->efa) {
		peer_removed_verbs(ep, blob);
		return;
	}
	KV_LIST_EACH_SAFE (n, &ep->conns) {
		struct shim_conn *c = KV_LIST_ENTRY(n, struct shim_conn, node);
		if (!c->ours || c->removed || memcmp(c->peer, blob, blob_len(ep)) != 0)
			continue;
		for (size_t i = 0; i < ep->tx; i++)
			lost += ep->op[i].conn == c && (ep->op[i].state == OP_ACTIVE || ep->op[i].state == OP_SENT);
		if (!lost)
			conn_free(c);
	}
	if (lost)
		shim_violation("an address is removed with %u operations to it in flight", lost);
}

static void accept_all(struct shim_ep *ep)
{
	int fd;
	while ((fd = accept4(ep->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		if (!conn_new(ep, fd, false))
			return;
}

/* Returns whether something was read. */
static bool conn_read(struct shim_conn *c)
{
	bool any = false;
	for (int i = 0; i < PACKETS_BUFFERED; i++) {
		size_t at = 0;
		/* Requests are read while their answers have room. */
		if (!c->ours && c->acks > POOL)
			return any;
		ssize_t n = recv(c->fd, c->in + c->in_len, c->cap - c->in_len, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			conn_break(c, c->up ? 0 : shim_one_in(2) ? ST_UNREACH : ST_BAD_QPN);
			conn_over(c);
			return true;
		}
		if (n < 0)
			return any;
		any = true;
		c->heard = shim_now();
		c->in_len += (size_t)n;
		if (c->ep->dead)
			at = c->in_len;
		while (!c->removed && packet_in(c, &at))
			;
		memmove(c->in, c->in + at, c->in_len - at);
		c->in_len -= at;
		if (c->removed) {
			conn_free(c);
			return true;
		}
	}
	return any;
}

static void on_event(const struct epoll_event *ev)
{
	int fd = ev->data.fd;
	uint64_t rung;
	if (fd == bell_fd) {
		if (read(bell_fd, &rung, sizeof(rung)) < 0)
			return;
		return;
	}
	if (listening[fd]) {
		accept_all(listening[fd]);
		return;
	}
	struct shim_conn *c = by_fd[fd];
	if (!c)
		return; /* closed since */
	if (!c->up && ev->events & EPOLLOUT && !(ev->events & (EPOLLERR | EPOLLHUP)))
		c->up = true;
	(void)conn_read(c);
}

/* ---- the thread ---- */

/* EFA's device gives up a host that says nothing for so long, here one whose process stands still. Only where nothing
 * waits for the target's program. */
static void lose(struct shim_ep *ep)
{
	uint64_t now = shim_now(), limit = shim_config.lost_ms * 1000000;
	for (size_t i = 0; i < ep->tx; i++) {
		const struct shim_op *op = &ep->op[i];
		struct shim_conn *c = op->state == OP_ACTIVE || op->state == OP_SENT ? op->conn : NULL;
		if (!c || !c->ours || !(c->shaken || op->type == OP_SEND) || now - op->posted < limit ||
		    now - c->heard < limit)
			continue;
		conn_break(c, ST_UNRESP);
		conn_over(c);
	}
}

/* One turn: returns 0 when there may be more to do, else how many milliseconds to sleep. */
static int turn(void)
{
	bool any = false, held = false, out = false;
	if (shim_frozen)
		return 1;
	KV_LIST_EACH (e, &shim_eps) {
		struct shim_ep *ep = KV_LIST_ENTRY(e, struct shim_ep, all);
		KV_LIST_EACH_SAFE (n, &ep->conns) {
			struct shim_conn *c = KV_LIST_ENTRY(n, struct shim_conn, node);
			any |= produce(c);
			held |= c->up && c->ops > 0;
		}
		if (ep->dying)
			die(ep);
		held |= ep->dying > 0;
		if (ep->kind->efa && ep->kind->pool && ep->used) {
			lose(ep);
			out = true;
		}
		if (ep->waiting_count && ep->cq && !ep->soft_writes)
			device_receives(ep), held = true;
	}
	return any ? 0 : held ? 1 : out ? 100 : -1;
}

static void *run(void *arg)
{
	struct epoll_event ev[EVENTS];
	int timeout = 0;
	(void)arg;
	for (;;) {
		int n = epoll_wait(epoll_fd, ev, EVENTS, timeout);
		pthread_mutex_lock(&shim_lock);
		asleep = false;
		for (int i = 0; i < n && !shim_frozen; i++)
			on_event(&ev[i]);
		timeout = turn();
		int counters = shim_counters_write(false);
		timeout = timeout < 0 ? counters : timeout;
		asleep = timeout != 0;
		bool frozen = shim_frozen;
		pthread_mutex_unlock(&shim_lock);
		if (frozen)
			usleep(TURN_US);
	}
	return NULL;
}

static void start(void)
{
	struct epoll_event ev = {.events = EPOLLIN};
	static const int open_to[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF};
	sigset_t all, old;
	pthread_t thread;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	bell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ev.data.fd = bell_fd;
	if (epoll_fd < 0 || bell_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, bell_fd, &ev))
		goto fail;
	sigfillset(&all);
	for (unsigned i = 0; i < sizeof(open_to) / sizeof(open_to[0]);
	     i++) /* as threads of the library (base/signals.c) */
		sigdelset(&all, open_to[i]);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pthread_create(&thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0) {
		pthread_detach(thread);
		return;
	}
fail:
	fprintf(stderr, "kvrail-shim: the device cannot start: %s\n", strerror(errno));
	abort();
}

/* ---- endpoints ---- */

static void address_make(struct shim_ep *ep)
{
	memset(ep->blob, 0, sizeof(ep->blob));
	if (!ep->kind->efa) {
		struct sockaddr_in in = {
			.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons(ep->port)};
		memcpy(ep->blob, &in, sizeof(in));
		return;
	}
	/* struct efa_ep_addr: GID, queue pair number, padding, queue key. The port stands in the interface part of the
	 * GID. */
	uint8_t gid[16] = {
		0xfe, 0x80, [11] = (uint8_t)ep->domain->nic, [14] = (uint8_t)(ep->port >> 8), [15] = (uint8_t)ep->port};
	uint16_t qpn = (uint16_t)shim_random();
	ep->qpn = qpn;
	ep->qkey = (uint32_t)shim_random();
	memcpy(ep->blob, gid, sizeof(gid));
	memcpy(ep->blob + 16, &qpn, sizeof(qpn));
	memcpy(ep->blob + 20, &ep->qkey, sizeof(ep->qkey));
}

int device_attach(struct shim_ep *ep)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(in);
	struct epoll_event ev = {.events = EPOLLIN};
	pthread_once(&started, start);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	ev.data.fd = fd;
	if (fd < 0 || fd >= FDS_MAX || bind(fd, (struct sockaddr *)&in, sizeof(in)) || listen(fd, SOMAXCONN) ||
	    getsockname(fd, (struct sockaddr *)&in, &len) || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
		int rc = -errno;
		if (fd >= 0)
			close(fd);
		return rc;
	}
	listening[fd] = ep;
	ep->listener = fd;
	ep->port = ntohs(in.sin_port);
	address_make(ep);
	return 0;
}

void device_detach(struct shim_ep *ep)
{
	while (!kv_list_empty(&ep->conns))
		conn_free(KV_LIST_ENTRY(ep->conns.next, struct shim_conn, node));
	while (!kv_list_empty(&ep->waiting))
		waiting_drop(ep, KV_LIST_ENTRY(ep->waiting.next, struct waiting, node));
	if (ep->listener >= 0) {
		listening[ep->listener] = NULL;
		close(ep->listener);
	}
	ep->listener = -1;
}
