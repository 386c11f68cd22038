/* SPDX-License-Identifier: Apache-2.0 */
/* lfget.c -- the least that a GET over libfabric is: a request of 64 bytes, and a write with immediate that answers it.
 *
 * Two processes, a thread each. The client has --conns endpoints with --depth requests in flight on each; a request
 * names a block and a place; the server writes the block there with the place's number as immediate (fi_writedata). No
 * look-up, no deadline, no checksum, no second message, nothing that survives an error: what a GET costs more than this
 * is ours. Both sides poll, and give the processor away on an empty poll (two spinning sides of two pairs on two cores
 * collapse otherwise).
 *
 * Blocks are read in kv-bench's order (kvbench/load/workload.h). Each begins and ends with a word of its own, which the
 * client wipes before it asks and compares when the immediate is there: a place that was not written is noticed. A
 * place is used again at once, so the destination is as warm as a receive buffer is; with --blocks 1 the source is,
 * too.
 *
 * fork() comes before the first libfabric call; addresses and keys are exchanged over a socket pair. Any failure ends
 * the run with a sentence: there is nothing to save, and nothing is given back before the end. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "host/host.h"
#include "kvbench/load/workload.h"
#include "tests/bench/load.h"
#include "tests/bench/result.h"

enum { REQUEST_BYTES = 64, NAME_MAX_BYTES = 256, CONNS_MAX = 256, DEPTH_MAX = 256, REAP = 64, GRACE_S = 10 };

struct options {
	const char *provider;
	struct load_shape shape;
	uint32_t conns, depth;
	bool split;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct kv_opt table[] = {
	{.name = "provider",
	 .letter = 'p',
	 .type = KV_OPT_STRING,
	 AT(provider),
	 .metavar = "NAME",
	 .def = "tcp;ofi_rxm",
	 .help = "libfabric's name of the provider."},
	LOAD_ROWS(struct options),
	LOAD_BLOCKS_ROW(struct options, "blocks",
			"Blocks that the server holds, read in kv-bench's random order; 1: always the same."),
	LOAD_COUNT_ROW(.name = "conns", .letter = 'c', AT(conns), .def = "1", .max = CONNS_MAX,
		       .help = "Endpoints of the client."),
	LOAD_COUNT_ROW(.name = "depth", .letter = 'n', AT(depth), .def = "1", .max = DEPTH_MAX,
		       .help = "Requests in flight on each."),
	{.name = "split",
	 .type = KV_OPT_FLAG,
	 AT(split),
	 .help = "Write without immediate, then an empty write with it, as KVRail does on tcp."},
	{.name = NULL},
};

static const struct kv_opt_program program = {
	.name = "lfget", .about = "The least GET over libfabric: one request, one write with immediate. Prints JSON."};

/* Everything below ends the process when it fails. */
static void die(const char *what, long rc)
{
	fprintf(stderr, "lfget: %s: %s\n", what, rc ? fi_strerror((int)(rc < 0 ? -rc : rc)) : "not as it should be");
	exit(1);
}

static void check(long rc, const char *what)
{
	if (rc < 0)
		die(what, rc);
}

/* ---- an endpoint with what belongs to it ---- */

struct node {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
};

struct domain {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	bool virt_addr;
};

struct region {
	uint8_t *base;
	struct fid_mr *mr;
	void *desc;
};

struct request {
	uint64_t block, offset, rkey, base;
	uint32_t conn, place;
	uint8_t pad[REQUEST_BYTES - 40];
};

_Static_assert(sizeof(struct request) == REQUEST_BYTES, "a request of 64 bytes");

static void domain_open(struct domain *d, const struct options *o)
{
	struct fi_info *hints = fi_allocinfo();
	bool shm = strcmp(o->provider, "shm") == 0;
	if (!hints)
		die("fi_allocinfo", -FI_ENOMEM);
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->fabric_attr->prov_name = strdup(o->provider);
	check(fi_getinfo(FI_VERSION(1, 17), shm ? NULL : "127.0.0.1", NULL, shm ? 0 : FI_SOURCE, hints, &d->info),
	      "fi_getinfo");
	fi_freeinfo(hints);
	d->virt_addr = d->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	check(fi_fabric(d->info->fabric_attr, &d->fabric, NULL), "fi_fabric");
	check(fi_domain(d->fabric, d->info, &d->domain, NULL), "fi_domain");
}

static void node_open(struct node *n, const struct domain *d)
{
	struct fi_cq_attr cq = {.size = 8192, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	check(fi_endpoint(d->domain, d->info, &n->ep, NULL), "fi_endpoint");
	check(fi_cq_open(d->domain, &cq, &n->cq, NULL), "fi_cq_open");
	check(fi_av_open(d->domain, &av, &n->av, NULL), "fi_av_open");
	check(fi_ep_bind(n->ep, &n->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	check(fi_ep_bind(n->ep, &n->av->fid, 0), "fi_ep_bind");
	check(fi_enable(n->ep), "fi_enable");
}

static void region_open(struct region *r, const struct domain *d, uint64_t len, uint64_t access, uint64_t key)
{
	struct kv_error err = {0};
	struct kv_area area;
	if (kv_area_map(len, &area, &err) < 0) {
		fprintf(stderr, "lfget: %s\n", err.text);
		exit(1);
	}
	r->base = area.base;
	check(fi_mr_reg(d->domain, r->base, area.len_bytes, access, 0, key, 0, &r->mr, NULL), "fi_mr_reg");
	r->desc = fi_mr_desc(r->mr);
}

/* Completions, or 0 after the processor was offered to others. */
static int reap(struct node *n, struct fi_cq_data_entry *e)
{
	ssize_t got = fi_cq_read(n->cq, e, REAP);
	struct fi_cq_err_entry err = {0};
	if (got == -FI_EAGAIN) {
		sched_yield();
		return 0;
	}
	if (got == -FI_EAVAIL && fi_cq_readerr(n->cq, &err, 0) > 0)
		die("a completion", -err.err);
	check(got, "fi_cq_read");
	return (int)got;
}

/* ---- what the two processes tell each other before ---- */

struct hello {
	uint64_t name_len;
	uint8_t name[NAME_MAX_BYTES];
};

static void hello_send(int fd, struct node *n)
{
	struct hello h = {.name_len = sizeof(h.name)};
	size_t len = sizeof(h.name);
	check(fi_getname(&n->ep->fid, h.name, &len), "fi_getname");
	h.name_len = len;
	if (send(fd, &h, sizeof(h), MSG_NOSIGNAL) != sizeof(h))
		die("the other process", -errno);
}

/* A wait that takes longer than this is one for a process that has died or hangs. */
static fi_addr_t hello_receive(int fd, struct node *n)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	fi_addr_t addr;
	struct hello h;
	if (poll(&p, 1, GRACE_S * 1000) != 1 || recv(fd, &h, sizeof(h), MSG_WAITALL) != sizeof(h))
		die("the other process said nothing", -ETIMEDOUT);
	if (fi_av_insert(n->av, h.name, 1, &addr, 0, NULL) != 1)
		die("fi_av_insert", -FI_EINVAL);
	return addr;
}

/* ---- the server ---- */

struct receive {
	struct fi_context2 context; /* first: a completion's context is the receive */
	struct request *request;
};

struct server {
	const struct options *o;
	struct domain d;
	struct node n;
	struct region blocks, requests;
	struct receive *receive;
	struct fi_context2 *tx; /* one per request that can be in flight */
	fi_addr_t client[CONNS_MAX];
	struct request *queue; /* not yet answered; a ring of `slots` */
	uint64_t head, tail, slots, receives;
};

static void receive_post(struct server *s, struct receive *r)
{
	ssize_t rc;
	do
		rc = fi_recv(s->n.ep, r->request, REQUEST_BYTES, s->requests.desc, FI_ADDR_UNSPEC, r);
	while (rc == -FI_EAGAIN);
	check(rc, "fi_recv");
}

static void server_open(struct server *s, const struct options *o)
{
	s->o = o;
	s->slots = (uint64_t)o->conns * o->depth;
	domain_open(&s->d, o);
	s->receives = KV_MIN(2 * s->slots, (uint64_t)s->d.info->rx_attr->size); /* the provider keeps the others */
	node_open(&s->n, &s->d);
	region_open(&s->blocks, &s->d, o->shape.blocks * o->shape.size, FI_WRITE, 1);
	region_open(&s->requests, &s->d, s->receives * REQUEST_BYTES, FI_RECV, 2);
	blocks_fill(&o->shape, s->blocks.base);
	s->receive = calloc(s->receives, sizeof(*s->receive));
	s->tx = calloc(2 * s->slots, sizeof(*s->tx));
	s->queue = calloc(s->slots, sizeof(*s->queue));
	if (!s->receive || !s->tx || !s->queue)
		die("calloc", -ENOMEM);
	for (uint64_t i = 0; i < s->receives; i++) {
		s->receive[i].request = (struct request *)(s->requests.base + i * REQUEST_BYTES);
		receive_post(s, &s->receive[i]);
	}
}

/* Answer one request. -FI_EAGAIN: the provider is full; with --split the second half may be what is left. */
static ssize_t answer(struct server *s, const struct request *q, bool *half)
{
	uint64_t slot = (uint64_t)q->conn * s->o->depth + q->place, to = q->base + q->offset;
	const uint8_t *from = s->blocks.base + q->block * s->o->shape.size;
	fi_addr_t client = s->client[q->conn];
	ssize_t rc = 0;
	if (!s->o->split)
		return fi_writedata(s->n.ep, from, s->o->shape.size, s->blocks.desc, q->place, client, to, q->rkey,
				    &s->tx[slot]);
	if (!*half)
		rc = fi_write(s->n.ep, from, s->o->shape.size, s->blocks.desc, client, to, q->rkey,
			      &s->tx[s->slots + slot]);
	if (rc == 0) {
		*half = true;
		rc = fi_writedata(s->n.ep, NULL, 0, NULL, q->place, client, to, q->rkey, &s->tx[slot]);
	}
	if (rc == 0)
		*half = false;
	return rc;
}

static void server_reap(struct server *s)
{
	struct fi_cq_data_entry e[REAP];
	int n = reap(&s->n, e);
	for (int i = 0; i < n; i++) {
		struct receive *r = e[i].op_context;
		if (!(e[i].flags & FI_RECV))
			continue;
		if (r->request->block >= s->o->shape.blocks || r->request->conn >= s->o->conns ||
		    r->request->place >= s->o->depth)
			die("a request", 0);
		s->queue[s->tail++ % s->slots] = *r->request;
		receive_post(s, r);
	}
}

/* Runs until the client closes the socket. */
static int server_run(const struct options *o, int fd)
{
	struct server s = {0};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	bool half = false;
	server_open(&s, o);
	hello_send(fd, &s.n);
	for (uint32_t i = 0; i < o->conns; i++)
		s.client[i] = hello_receive(fd, &s.n);
	for (uint64_t turn = 0;; turn++) {
		ssize_t rc = 0;
		server_reap(&s);
		while (s.head != s.tail && rc == 0) {
			rc = answer(&s, &s.queue[s.head % s.slots], &half);
			if (rc == 0)
				s.head++;
			else if (rc != -FI_EAGAIN)
				die("fi_writedata", rc);
		}
		if (turn % 1024 == 0 && poll(&p, 1, 0) != 0)
			return 0; /* the client has gone */
	}
}

/* ---- the client ---- */

struct conn {
	struct node n;
	struct region places, requests;
	fi_addr_t server;
	uint64_t block[DEPTH_MAX], start_ns[DEPTH_MAX];
	struct fi_context2 tx[DEPTH_MAX];
};

struct client {
	const struct options *o;
	struct domain d;
	struct conn *conn;
	uint64_t number, in_flight; /* number: of the next request, in kv-bench's order */
	bool counting;
	struct result result;
};

static void place_check(const struct client *c, const struct conn *k, uint32_t place)
{
	const uint8_t *at = k->places.base + place * c->o->shape.size;
	if (!block_is(&c->o->shape, at, k->block[place]))
		die("a block that arrived", 0);
}

static void ask(struct client *c, uint32_t number, uint32_t place)
{
	struct conn *k = &c->conn[number];
	struct request *q = (struct request *)(k->requests.base + place * REQUEST_BYTES);
	struct fi_cq_data_entry e[REAP];
	ssize_t rc;
	k->block[place] = bench_order_key(c->number++, c->o->shape.blocks, c->o->shape.seed);
	*q = (struct request){.block = k->block[place],
			      .offset = place * c->o->shape.size,
			      .rkey = fi_mr_key(k->places.mr),
			      .base = c->d.virt_addr ? (uint64_t)(uintptr_t)k->places.base : 0,
			      .conn = number,
			      .place = place};
	block_wipe(&c->o->shape, k->places.base + place * c->o->shape.size);
	k->start_ns[place] = now_ns();
	do {
		rc = fi_inject(k->n.ep, q, REQUEST_BYTES, k->server);
		if (rc == -FI_EAGAIN && fi_cq_read(k->n.cq, e, 0) == -FI_EAVAIL)
			reap(&k->n, e);
	} while (rc == -FI_EAGAIN);
	check(rc, "fi_inject");
	c->in_flight++;
}

static void conn_reap(struct client *c, uint32_t number, bool again)
{
	struct conn *k = &c->conn[number];
	struct fi_cq_data_entry e[REAP];
	int n = reap(&k->n, e);
	uint64_t now = n > 0 ? now_ns() : 0;
	for (int i = 0; i < n; i++) {
		uint32_t place = (uint32_t)e[i].data;
		if (!(e[i].flags & FI_REMOTE_CQ_DATA))
			continue;
		if (place >= c->o->depth)
			die("an immediate", 0);
		place_check(c, k, place);
		c->in_flight--;
		if (c->counting) {
			c->result.gets++;
			c->result.bytes += c->o->shape.size;
			kv_hist_add(&c->result.latency, now - k->start_ns[place]);
		}
		if (again)
			ask(c, number, place);
	}
}

/* Read for so long, or until the first answer where that takes longer (a busy machine, a sanitizer). */
static void read_for(struct client *c, uint64_t duration_ns)
{
	uint64_t end = now_ns() + duration_ns, now;
	do {
		for (uint32_t i = 0; i < c->o->conns; i++)
			conn_reap(c, i, true);
		now = now_ns();
	} while (now < end || (c->counting && c->result.gets == 0 && now < end + GRACE_S * 1000000000ull));
}

static void drain(struct client *c)
{
	uint64_t end = now_ns() + GRACE_S * 1000000000ull;
	while (c->in_flight > 0) {
		for (uint32_t i = 0; i < c->o->conns; i++)
			conn_reap(c, i, false);
		if (now_ns() > end)
			die("the server", -ETIMEDOUT);
	}
}

static void client_open(struct client *c, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct hello h;
	c->conn = calloc(c->o->conns, sizeof(*c->conn));
	if (!c->conn)
		die("calloc", -ENOMEM);
	domain_open(&c->d, c->o);
	/* The server fills its blocks first: a gigabyte takes its time. */
	if (poll(&p, 1, 60000) != 1 || recv(fd, &h, sizeof(h), MSG_WAITALL) != sizeof(h))
		die("the server did not start", -ETIMEDOUT);
	for (uint32_t i = 0; i < c->o->conns; i++) {
		struct conn *k = &c->conn[i];
		node_open(&k->n, &c->d);
		region_open(&k->places, &c->d, c->o->depth * c->o->shape.size, FI_REMOTE_WRITE, 1 + 2ull * i);
		region_open(&k->requests, &c->d, c->o->depth * REQUEST_BYTES, FI_SEND, 2 + 2ull * i);
		hello_send(fd, &k->n);
		if (fi_av_insert(k->n.av, h.name, 1, &k->server, 0, NULL) != 1)
			die("fi_av_insert", -FI_EINVAL);
	}
}

static int client_run(const struct options *o, int fd)
{
	struct client *c = calloc(1, sizeof(*c));
	uint64_t start;
	double cpu;
	if (!c)
		die("calloc", -ENOMEM);
	c->o = o;
	result_init(&c->result);
	client_open(c, fd);
	for (uint32_t i = 0; i < o->conns; i++)
		for (uint32_t place = 0; place < o->depth; place++)
			ask(c, i, place);
	read_for(c, o->shape.duration_ns / 10);
	c->counting = true;
	cpu = cpu_seconds_now();
	start = now_ns();
	read_for(c, o->shape.duration_ns);
	c->result.elapsed_ns = now_ns() - start;
	c->result.cpu_seconds = cpu_seconds_now() - cpu;
	c->counting = false;
	drain(c);
	if (c->result.gets == 0)
		die("not one answer", -ETIMEDOUT);
	return result_print(&c->result) < 0;
}

int main(int argc, char **argv)
{
	struct options o;
	int fd[2], rc = load_options(&program, table, argc, argv, &o);
	pid_t child;
	if (rc >= 0)
		return rc;
	setenv("FI_TCP_IFACE", "lo", 0);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd) < 0)
		die("socketpair", -errno);
	child = peer_start();
	if (child < 0)
		die("fork", -errno);
	if (child == 0) {
		close(fd[0]);
		_exit(server_run(&o, fd[1]));
	}
	close(fd[1]);
	rc = client_run(&o, fd[0]);
	close(fd[0]);
	return peer_end(child, program.name) ? rc : 1;
}
