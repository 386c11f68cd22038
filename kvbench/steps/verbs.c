/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.c -- the bare model: for each client one queue pair, two completion queues and two memory regions of one RDMA
 * device, without libfabric.
 *
 * It separates a limit of the device or the kernel from one of a provider. It uses nothing of KVRail's engine, because
 * the engine is compared with it.
 *
 * All in one process: client i is connected to client i ^ 1 (the last of an odd number to itself), every queue pair is
 * brought to RTS, and every client sends 64 bytes to its peer, to be compared. They are reliable connections, or SRD
 * queue pairs on EFA (made by libefa, loaded at run time). The EFA part has never run on such a device. */
#include "kvbench/steps/steps.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/host.h"

enum {
	BYTES = 64,      /* of a message */
	MEMORY = 4096,   /* of a client: half to send, half to receive */
	DEPTH = 16,      /* of its queues */
	LOOK_EVERY = 16, /* clients */
	LOOK_NS = 50000000,
	LOCKED_MARGIN = 64 << 10, /* of the limit: bytes that one client locks */
	VENDOR_AMAZON = 0x1d0f,
	EFA_SRD = 0, /* EFADV_QP_DRIVER_TYPE_SRD */
	QKEY = 0x11111111,
	PSN = 7
};

struct bare {
	struct ibv_qp *qp;
	struct ibv_cq *cq[2];
	struct ibv_mr *mr[2];
	uint8_t *memory;
	bool sent, received;
};

struct verbs {
	struct step *t;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_port_attr port;
	struct ibv_ah *ah; /* SRD: the way to ourselves */
	union ibv_gid gid;
	int gid_index;
	uint8_t port_num;
	bool srd;
	void *libefa;
	struct ibv_qp *(*srd_create)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, uint32_t driver_qp_type);
	struct bare *client;
	uint32_t made; /* clients that exist, the last one perhaps in part */
};

/* ---- devices ---- */

static struct ibv_device *device_pick(struct ibv_device **list, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!name || strcmp(ibv_get_device_name(list[i]), name) == 0)
			return list[i];
	return NULL;
}

static int no_device(const char *name, int n, struct kv_error *err)
{
	if (n > 0 && name)
		return kv_fail(err, -KV_ENOTSUP,
			       "there is no RDMA device %s; `ibv_devices` lists those of this machine", name);
	return kv_fail(err, -KV_ENOTSUP,
		       "this machine has no RDMA device (%s): this needs an InfiniBand, "
		       "RoCE or EFA device with its kernel driver, or "
		       "Soft-RoCE (rdma link add rxe0 type rxe netdev DEV)",
		       access("/sys/class/infiniband", F_OK) == 0 ? "/sys/class/infiniband is empty"
								  : "this kernel has no /sys/class/infiniband");
}

static struct ibv_context *device_open(const char *name, struct kv_error *err)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n), *device;
	struct ibv_context *ctx = NULL;
	if (!list) {
		if (errno == ENOSYS)
			no_device(name, 0, err);
		else
			kv_fail(err, -KV_ENOTSUP, "libibverbs is not usable here: %s", kv_strerror(errno));
		return NULL;
	}
	device = device_pick(list, n, name);
	if (!device)
		no_device(name, n, err);
	else if (!(ctx = ibv_open_device(device)))
		kv_fail(err, -KV_ENOTSUP,
			"RDMA device %s cannot be opened: %s; /dev/infiniband/uverbs* "
			"must be there and readable (in a container it must be passed in)",
			ibv_get_device_name(device), kv_strerror(errno));
	ibv_free_device_list(list);
	return ctx;
}

/* The first active port. */
static int port_find(struct verbs *v, const struct ibv_device_attr *attr)
{
	for (unsigned i = 1; i <= attr->phys_port_cnt; i++)
		if (ibv_query_port(v->ctx, (uint8_t)i, &v->port) == 0 && v->port.state == IBV_PORT_ACTIVE) {
			v->port_num = (uint8_t)i;
			return 0;
		}
	return -ENETDOWN;
}

/* The last valid GID: on RoCE those of IP addresses come after the link-local one, and those of version 2 after version
 * 1. */
static int gid_find(struct verbs *v)
{
	static const union ibv_gid none;
	union ibv_gid gid;
	int found = -1;
	for (int i = 0; i < v->port.gid_tbl_len && i < 256; i++)
		if (ibv_query_gid(v->ctx, v->port_num, i, &gid) == 0 && memcmp(&gid, &none, sizeof(gid)) != 0) {
			v->gid = gid;
			found = i;
		}
	v->gid_index = found;
	return found;
}

static void srd_find(struct verbs *v, const struct ibv_device_attr *attr)
{
	if (attr->vendor_id != VENDOR_AMAZON)
		return;
	v->srd = true;
	v->libefa = dlopen("libefa.so.1", RTLD_NOW);
	*(void **)&v->srd_create = v->libefa ? dlsym(v->libefa, "efadv_create_driver_qp") : NULL;
}

static void device_start(struct verbs *v)
{
	struct step *t = v->t;
	struct ibv_device_attr attr = {0};
	struct kv_error err = {0};
	v->ctx = device_open(t->opt->device, &err);
	if (!v->ctx) {
		step_fail(t, STEP_UNUSABLE, err.code, "%s", err.text);
		return;
	}
	snprintf(t->info.provider, sizeof(t->info.provider), "libibverbs");
	snprintf(t->info.domain, sizeof(t->info.domain), "%s", ibv_get_device_name(v->ctx->device));
	if (ibv_query_device(v->ctx, &attr) != 0 || port_find(v, &attr) < 0) {
		step_fail(t, STEP_UNUSABLE, -KV_ENOTSUP, "RDMA device %s has no active port", t->info.domain);
		return;
	}
	gid_find(v);
	srd_find(v, &attr);
	if (v->srd && !v->srd_create)
		step_fail(t, STEP_UNUSABLE, -KV_ENOTSUP,
			  "RDMA device %s is an EFA, whose queue pairs need libefa.so.1: "
			  "install the AWS EFA installer's rdma-core",
			  t->info.domain);
	v->pd = ibv_alloc_pd(v->ctx);
	if (!v->pd)
		step_fail(t, STEP_PROVIDER, -errno, "ibv_alloc_pd on %s: %s", t->info.domain, kv_strerror(errno));
}

/* ---- one client ---- */

/* ENOMEM is the device's word for having no more of it, and the kernel's for more locked memory than the process may
 * have: rings of queues are locked as regions are. The kernel counts the locked memory. */
enum step_end step_verbs_end(enum step_end what, int error, const struct kv_host *host)
{
	const struct kv_need more = {.pinned_bytes = LOCKED_MARGIN};
	const struct kv_checkup c = {.host = host, .need = &more, .pins_memory = true};
	if (error == EMFILE || error == ENFILE)
		return STEP_FILES;
	if ((error == ENOMEM || error == EAGAIN) && kv_check_one(&c, KV_LIMIT_MEMLOCK, NULL) == KV_FAIL)
		return STEP_LOCKED;
	return what;
}

static int call_failed(struct verbs *v, enum step_end end, const char *call, uint32_t i)
{
	struct ibv_device_attr attr = {0};
	struct kv_host host;
	int error = errno ? errno : EIO;
	kv_host_read("", &host);
	end = step_verbs_end(end, error, &host);
	ibv_query_device(v->ctx, &attr);
	step_fail(
		v->t, end, -error,
		"%s of client %u on %s: %s; the device says: %d queue pairs, %d completion queues, %d memory regions%s",
		call, i, v->t->info.domain, kv_strerror(error), attr.max_qp, attr.max_cq, attr.max_mr,
		end == STEP_LOCKED ? "; locked memory is short: ulimit -l unlimited" : "");
	return -error;
}

static int cqs_make(struct verbs *v, struct bare *b, uint32_t i)
{
	for (unsigned k = 0; k < 2; k++) {
		errno = 0;
		b->cq[k] = ibv_create_cq(v->ctx, DEPTH, NULL, NULL, 0);
		if (!b->cq[k])
			return call_failed(v, STEP_CQS, "ibv_create_cq", i);
		v->t->made.cqs++;
	}
	return 0;
}

static int mrs_make(struct verbs *v, struct bare *b, uint32_t i)
{
	if (posix_memalign((void **)&b->memory, MEMORY, MEMORY) != 0) {
		b->memory = NULL;
		step_fail(v->t, STEP_MEMORY, -KV_ENOMEM, "no memory for client %u", i);
		return -ENOMEM;
	}
	memset(b->memory, 0, MEMORY);
	for (unsigned k = 0; k < 2; k++) {
		errno = 0;
		b->mr[k] = ibv_reg_mr(v->pd, b->memory + k * MEMORY / 2, MEMORY / 2, k ? IBV_ACCESS_LOCAL_WRITE : 0);
		if (!b->mr[k])
			return call_failed(v, STEP_MRS, "ibv_reg_mr", i);
		v->t->made.mrs++;
	}
	return 0;
}

static int qp_make(struct verbs *v, struct bare *b, uint32_t i)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = b->cq[0],
		.recv_cq = b->cq[1],
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = v->srd ? IBV_QPT_DRIVER : IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	errno = 0;
	b->qp = v->srd ? v->srd_create(v->pd, &attr, EFA_SRD) : ibv_create_qp(v->pd, &attr);
	if (!b->qp)
		return call_failed(v, STEP_QPS, v->srd ? "efadv_create_driver_qp" : "ibv_create_qp", i);
	v->t->made.qps++;
	return 0;
}

static void client_close(struct bare *b)
{
	if (b->qp)
		ibv_destroy_qp(b->qp);
	for (unsigned k = 0; k < 2; k++) {
		if (b->mr[k])
			ibv_dereg_mr(b->mr[k]);
		if (b->cq[k])
			ibv_destroy_cq(b->cq[k]);
	}
	free(b->memory);
}

static void clients_make(struct verbs *v)
{
	struct step *s = v->t;
	int rc = 0;
	while (rc == 0 && v->made < s->opt->clients) {
		struct bare *b = &v->client[v->made];
		uint32_t i = v->made++;
		rc = cqs_make(v, b, i);
		if (rc == 0)
			rc = mrs_make(v, b, i);
		if (rc == 0)
			rc = qp_make(v, b, i);
		s->opened += rc == 0;
		if (rc == 0 && i % LOOK_EVERY == 0 && !step_look(v->t))
			rc = -ECANCELED;
	}
}

/* ---- connecting: RESET, INIT, RTR, RTS ---- */

static struct ibv_ah_attr way_to_self(const struct verbs *v)
{
	struct ibv_ah_attr ah = {.dlid = v->port.lid, .port_num = v->port_num};
	if (v->port.link_layer == IBV_LINK_LAYER_ETHERNET || v->port.lid == 0) {
		ah.is_global = 1;
		ah.grh.dgid = v->gid;
		ah.grh.sgid_index = (uint8_t)KV_MAX(v->gid_index, 0);
		ah.grh.hop_limit = 1;
	}
	return ah;
}

static int rc_connect(struct verbs *v, struct bare *b, uint32_t peer)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = v->port_num};
	int rc = ibv_modify_qp(b->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				 .path_mtu = v->port.active_mtu,
				 .dest_qp_num = peer,
				 .rq_psn = PSN,
				 .max_dest_rd_atomic = 1,
				 .min_rnr_timer = 12,
				 .ah_attr = way_to_self(v)};
	if (rc == 0)
		rc = ibv_modify_qp(b->qp, &a,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				 .timeout = 14,
				 .retry_cnt = 7,
				 .rnr_retry = 7,
				 .sq_psn = PSN,
				 .max_rd_atomic = 1};
	if (rc == 0)
		rc = ibv_modify_qp(b->qp, &a,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC);
	return rc;
}

static int srd_start(struct verbs *v, struct bare *b)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = v->port_num, .qkey = QKEY};
	int rc = ibv_modify_qp(b->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	a.qp_state = IBV_QPS_RTR;
	if (rc == 0)
		rc = ibv_modify_qp(b->qp, &a, IBV_QP_STATE);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = PSN};
	if (rc == 0)
		rc = ibv_modify_qp(b->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return rc;
}

static uint32_t peer_of(const struct verbs *v, uint32_t i)
{
	return (i ^ 1) < v->t->opened ? i ^ 1 : i;
}

static void clients_connect(struct verbs *v)
{
	struct step *s = v->t;
	for (uint32_t i = 0; i < s->opened; i++) {
		struct bare *b = &v->client[i];
		int rc = v->srd ? srd_start(v, b) : rc_connect(v, b, v->client[peer_of(v, i)].qp->qp_num);
		if (rc != 0) {
			errno = rc > 0 ? rc : errno;
			call_failed(v, STEP_QPS, "ibv_modify_qp (to RTS)", i);
			return;
		}
		s->connected++;
		if (i % LOOK_EVERY == 0 && !step_look(v->t))
			return;
	}
}

/* ---- 64 bytes from each ---- */

static void pattern(uint8_t *at, uint32_t from)
{
	for (unsigned k = 0; k < BYTES; k++)
		at[k] = (uint8_t)(from * 31 + k + (from >> 8) + 1);
}

static int receive_post(struct bare *b)
{
	struct ibv_sge sge = {(uintptr_t)b->mr[1]->addr, BYTES, b->mr[1]->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	return ibv_post_recv(b->qp, &wr, &bad);
}

static int send_post(struct verbs *v, uint32_t i)
{
	struct bare *b = &v->client[i];
	struct ibv_sge sge = {(uintptr_t)b->mr[0]->addr, BYTES, b->mr[0]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	if (v->srd) {
		wr.wr.ud.ah = v->ah;
		wr.wr.ud.remote_qpn = v->client[peer_of(v, i)].qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	pattern(b->memory, i);
	return ibv_post_send(b->qp, &wr, &bad);
}

static int traffic_post(struct verbs *v)
{
	uint32_t n = v->t->connected;
	int rc = 0;
	if (v->srd) {
		struct ibv_ah_attr attr = way_to_self(v);
		v->ah = ibv_create_ah(v->pd, &attr);
		if (!v->ah)
			return call_failed(v, STEP_PROVIDER, "ibv_create_ah", 0);
	}
	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = receive_post(&v->client[i]);
	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = send_post(v, i);
	if (rc != 0) {
		errno = rc > 0 ? rc : -rc;
		call_failed(v, STEP_DATA, "posting a message", 0);
	}
	return rc;
}

/* One look at a completion queue. 1: done; 0: not yet; -1: failed, and reported. */
static int completion_look(struct verbs *v, struct ibv_cq *cq, uint32_t i)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);
	if (n == 0 || (n > 0 && wc.status == IBV_WC_SUCCESS))
		return n;
	step_fail(v->t, STEP_DATA, -KV_EPROVIDER, "the message of client %u failed: %s", i,
		  n < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status));
	return -1;
}

/* False: something failed. */
static bool client_look(struct verbs *v, uint32_t i)
{
	struct bare *b = &v->client[i];
	int sent = b->sent ? 1 : completion_look(v, b->cq[0], i);
	int received = b->received ? 1 : completion_look(v, b->cq[1], i);
	uint8_t want[BYTES];
	if (sent < 0 || received < 0)
		return false;
	if (sent && received && !(b->sent && b->received)) {
		pattern(want, peer_of(v, i));
		if (memcmp(want, b->mr[1]->addr, BYTES) == 0)
			v->t->verified++;
		else
			v->t->wrong++;
	}
	b->sent = sent;
	b->received = received;
	return true;
}

static void traffic_run(struct verbs *v)
{
	struct step *s = v->t;
	uint64_t begun = kv_clock_now(&kv_clock_monotonic), looked = begun;
	if (traffic_post(v) != 0)
		return;
	while (s->verified + s->wrong < s->connected) {
		uint64_t now = kv_clock_now(&kv_clock_monotonic);
		if (now - looked >= LOOK_NS && !step_look(v->t))
			return;
		looked = now - looked >= LOOK_NS ? now : looked;
		for (uint32_t i = 0; i < s->connected; i++)
			if (!client_look(v, i))
				return;
	}
	s->talk_ns = kv_clock_now(&kv_clock_monotonic) - begun;
	if (s->wrong > 0)
		step_fail(v->t, STEP_DATA, -KV_ECORRUPT, "%llu client%s received wrong bytes",
			  (unsigned long long)s->wrong, kv_plural(s->wrong));
}

/* ---- all of it ---- */

static void verbs_close(struct verbs *v)
{
	for (uint32_t i = 0; v->client && i < v->made; i++)
		client_close(&v->client[i]);
	if (v->ah)
		ibv_destroy_ah(v->ah);
	if (v->pd)
		ibv_dealloc_pd(v->pd);
	if (v->ctx)
		ibv_close_device(v->ctx);
	if (v->libefa)
		dlclose(v->libefa);
	free(v->client);
}

/* If one more client was too many, those that exist are connected and used all the same: that they work is the result.
 */
static bool worth_going_on(const struct step *s)
{
	return s->opened > 0 && s->end != STEP_TIME && s->end != STEP_INTERRUPTED && s->end != STEP_MEMORY;
}

void step_verbs_run(struct step *t)
{
	struct verbs v = {.t = t};
	v.client = calloc(t->opt->clients, sizeof(*v.client));
	if (!v.client)
		step_fail(t, STEP_MEMORY, -KV_ENOMEM, "no memory for %u client%s", t->opt->clients,
			  kv_plural(t->opt->clients));
	else
		device_start(&v);
	if (t->end == STEP_COMPLETE)
		clients_make(&v);
	if (worth_going_on(t))
		clients_connect(&v);
	t->open_ns = kv_clock_now(&kv_clock_monotonic) - t->begun_ns;
	if (worth_going_on(t))
		traffic_run(&v);
	t->final = true;
	step_look(t);
	verbs_close(&v);
}
