/* SPDX-License-Identifier: Apache-2.0 */
/* test_shim.c -- that the shim does what its table says (by bare libfabric calls), and what the engine makes of it. */
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/engine/node.h"
#include "tests/shim/inside.h"

enum { MEM = 1 << 20, QUEUE = 64 };
#define SECOND 1000000000ull

/* One endpoint with everything, on the first device of a provider and fabric. */
struct raw {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_eq *eq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	uint8_t *mem;
	uint8_t name[BLOB_MAX];
	struct fi_context2 ctx[QUEUE];
};

static struct fi_info *info_of(const char *prov, const char *fabric, uint64_t mode)
{
	struct fi_info *h = fi_allocinfo(), *out = NULL;
	h->caps = FI_MSG | FI_RMA;
	h->mode = mode;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	h->domain_attr->cq_data_size = 4;
	h->fabric_attr->prov_name = strdup(prov);
	h->fabric_attr->name = fabric ? strdup(fabric) : NULL;
	int rc = fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL, 0, h, &out);
	fi_freeinfo(h);
	return rc ? NULL : out;
}

static void raw_open_cq(struct raw *r, const char *fabric, uint64_t mode, size_t cq_size)
{
	struct fi_cq_attr cq = {.size = cq_size, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};
	size_t len = sizeof(r->name);
	memset(r, 0, sizeof(*r));
	r->info = info_of("efa", fabric, FI_CONTEXT | FI_CONTEXT2 | mode);
	assert_non_null(r->info);
	r->info->tx_attr->size = r->info->rx_attr->size = QUEUE;
	assert_int_equal(fi_fabric(r->info->fabric_attr, &r->fabric, NULL), 0);
	assert_int_equal(fi_domain(r->fabric, r->info, &r->domain, NULL), 0);
	assert_int_equal(fi_cq_open(r->domain, &cq, &r->cq, NULL), 0);
	assert_int_equal(fi_av_open(r->domain, &av, &r->av, NULL), 0);
	assert_int_equal(fi_eq_open(r->fabric, &eq, &r->eq, NULL), 0);
	assert_int_equal(fi_endpoint(r->domain, r->info, &r->ep, NULL), 0);
	assert_int_equal(fi_ep_bind(r->ep, &r->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_ep_bind(r->ep, &r->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(r->ep, &r->eq->fid, 0), 0);
	assert_int_equal(fi_enable(r->ep), 0);
	assert_int_equal(fi_getname(&r->ep->fid, r->name, &len), 0);
	assert_int_equal(len, BLOB_MAX);
	r->mem = calloc(1, MEM);
	assert_int_equal(fi_mr_reg(r->domain, r->mem, MEM,
				   FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0,
				   &r->mr, NULL),
			 0);
}

static void raw_open(struct raw *r, const char *fabric)
{
	raw_open_cq(r, fabric, 0, 1024);
}

static void raw_close(struct raw *r)
{
	assert_int_equal(fi_close(&r->ep->fid), 0);
	assert_int_equal(fi_close(&r->cq->fid), 0);
	assert_int_equal(fi_close(&r->av->fid), 0);
	assert_int_equal(fi_close(&r->eq->fid), 0);
	assert_int_equal(fi_close(&r->mr->fid), 0);
	assert_int_equal(fi_close(&r->domain->fid), 0);
	assert_int_equal(fi_close(&r->fabric->fid), 0);
	fi_freeinfo(r->info);
	free(r->mem);
}

static fi_addr_t raw_knows(struct raw *r, struct raw *peer)
{
	fi_addr_t addr;
	assert_int_equal(fi_av_insert(r->av, peer->name, 1, &addr, 0, NULL), 1);
	return addr;
}

/* The next completion of r, while both are polled; what `peer` gets is dropped. 1, or the code of -FI_EAVAIL in *err.
 */
static int raw_next(struct raw *r, struct raw *peer, struct fi_cq_data_entry *e, struct fi_cq_err_entry *err)
{
	uint64_t end = shim_now() + 10 * SECOND;
	struct fi_cq_data_entry dropped;
	while (shim_now() < end) {
		ssize_t rc = fi_cq_read(r->cq, e, 1);
		if (rc == 1)
			return 1;
		if (rc == -FI_EAVAIL) {
			memset(err, 0, sizeof(*err));
			assert_int_equal(fi_cq_readerr(r->cq, err, 0), 1);
			return 0;
		}
		assert_int_equal(rc, -FI_EAGAIN);
		if (peer)
			(void)fi_cq_read(peer->cq, &dropped, 1);
	}
	fail_msg("no completion within 10 s");
	return -1;
}

static ssize_t write_when_taken(struct raw *r, struct raw *peer, fi_addr_t to, uint64_t key, size_t len,
				struct fi_context2 *ctx)
{
	struct fi_cq_data_entry e;
	ssize_t rc;
	while ((rc = fi_write(r->ep, r->mem, len, fi_mr_desc(r->mr), to, (uint64_t)(uintptr_t)peer->mem, key, ctx)) ==
	       -FI_EAGAIN) {
		(void)fi_cq_read(r->cq, &e, 0);
		(void)fi_cq_read(peer->cq, &e, 0);
	}
	return rc;
}

static uint64_t violations(void)
{
	struct shim_counts c;
	shim_counts(&c);
	return c.violations;
}

static void quiet(const char *text)
{
	assert_int_equal(shim_configure(text), 0);
}

/* What the environment says of unsolicited receives: te_env_for_programs has turned them off. */
static void unsolicited(const char *value)
{
	if (value)
		setenv("FI_EFA_USE_UNSOLICITED_WRITE_RECV", value, 1);
	else
		unsetenv("FI_EFA_USE_UNSOLICITED_WRITE_RECV");
}

/* ---- what fi_getinfo says ---- */

static void a_p5_has_both_fabrics_direct_first(void **state)
{
	(void)state;
	quiet("efa,nics=2");
	struct fi_info *i = info_of("efa", NULL, FI_CONTEXT2);
	static const char *const fabric[] = {"efa-direct", "efa", "efa-direct", "efa"}, *const domain[] = {
												"rdmap79s0-rdm",
												"rdmap80s0-rdm"};
	unsigned n = 0;
	for (struct fi_info *at = i; at; at = at->next, n++) {
		assert_string_equal(at->fabric_attr->name, fabric[n]);
		assert_string_equal(at->domain_attr->name, domain[n / 2]);
		assert_int_equal(at->addr_format, FI_ADDR_EFA);
		assert_int_equal(at->mode, n % 2 ? 0 : FI_CONTEXT2);
		assert_int_equal(at->domain_attr->mr_key_size, 4);
		assert_string_equal(at->nic->device_attr->vendor_id, "0x1d0f");
	}
	assert_int_equal(n, 4);
	fi_freeinfo(i);
	i = info_of("efa", NULL, 0); /* without FI_CONTEXT2 there is no efa-direct */
	assert_string_equal(i->fabric_attr->name, "efa");
	fi_freeinfo(i);
	i = info_of("tcp;ofi_rxm", NULL, 0); /* everything else is libfabric's */
	assert_string_equal(i->fabric_attr->prov_name, "tcp;ofi_rxm");
	fi_freeinfo(i);
}

static void a_p4d_has_no_direct_fabric(void **state)
{
	(void)state;
	quiet("efa-p4d");
	assert_null(info_of("efa", "efa-direct", FI_CONTEXT2));
	struct fi_info *i = info_of("efa", NULL, FI_CONTEXT2);
	assert_string_equal(i->fabric_attr->name, "efa");
	fi_freeinfo(i);
	assert_null(info_of("verbs;ofi_rxm", NULL, 0));
}

/* ---- what is refused ---- */

static void misuse_is_told(void **state)
{
	static const struct {
		const char *why;
		size_t at, len;
		char mr; /* whose; 0: none */
		bool stranger, no_context;
		ssize_t rc;
	} sends[] = {
		{"memory that is not registered", 0, 8, 0, false, false, -FI_EINVAL},
		{"no context", 0, 8, 'a', false, true, -FI_EINVAL},
		{"more than is registered", MEM - 4, 8, 'a', false, false, -FI_EINVAL},
		{"a registration of another domain", 0, 8, 'b', false, false, -FI_EINVAL},
		{"an address that nobody has", 0, 8, 'a', true, false, -FI_EINVAL},
		{"a message that is too long", 0, 8929, 'a', false, false, -FI_EMSGSIZE},
	};
	struct raw a, b;
	struct fi_context2 c, d;
	(void)state;
	quiet("efa,strict=0,eagain=0");
	raw_open(&a, "efa-direct");
	raw_open(&b, "efa-direct");
	fi_addr_t to = raw_knows(&a, &b);
	for (unsigned i = 0; i < KV_COUNT(sends); i++) {
		struct fid_mr *mr = sends[i].mr == 'a' ? a.mr : b.mr;
		ssize_t rc = fi_send(a.ep, a.mem + sends[i].at, sends[i].len, sends[i].mr ? fi_mr_desc(mr) : NULL,
				     to + sends[i].stranger, sends[i].no_context ? NULL : &c);
		if (rc != sends[i].rc)
			fail_msg("%s: %zd", sends[i].why, rc);
	}
	assert_int_equal(fi_recv(b.ep, b.mem, 8, NULL, FI_ADDR_UNSPEC, &d), -FI_EINVAL);
	assert_int_equal(violations(), 7);
	assert_int_equal(fi_recv(b.ep, b.mem, 64, fi_mr_desc(b.mr), FI_ADDR_UNSPEC, &d), 0);
	assert_int_equal(fi_recv(b.ep, b.mem + 64, 64, fi_mr_desc(b.mr), FI_ADDR_UNSPEC, &d), -FI_EINVAL);
	assert_int_equal(violations(), 8);
	/* Registered for something else. */
	struct fid_mr *mr;
	assert_int_equal(fi_mr_reg(a.domain, a.mem, 64, FI_SEND | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL), 0);
	assert_int_equal(fi_recv(a.ep, a.mem, 64, fi_mr_desc(mr), FI_ADDR_UNSPEC, &c), -FI_EINVAL);
	assert_int_equal(fi_read(a.ep, a.mem, 64, fi_mr_desc(mr), to, 0, 0, &c), -FI_EINVAL);
	assert_int_equal(fi_write(a.ep, a.mem, 64, fi_mr_desc(mr), to, 0, 0, &c), -FI_EINVAL);
	assert_int_equal(violations(), 11);
	assert_int_equal(fi_close(&mr->fid), 0);
	/* More immediate than there is. */
	assert_int_equal(fi_writedata(a.ep, a.mem, 8, fi_mr_desc(a.mr), 1ull << 32, to, (uint64_t)(uintptr_t)b.mem,
				      fi_mr_key(b.mr), &c),
			 0);
	assert_int_equal(violations(), 12);
	/* Closed while an endpoint uses it. */
	assert_int_equal(fi_close(&a.cq->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&a.av->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&a.eq->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&a.domain->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&a.fabric->fid), -FI_EBUSY);
	assert_int_equal(violations(), 17);
	raw_close(&a);
	raw_close(&b);
}

static uint64_t read_ns;

static void *read_for_a_while(void *arg)
{
	struct raw *r = arg;
	struct fi_cq_data_entry e;
	for (uint64_t end = shim_now() + read_ns; shim_now() < end && violations() == 0;)
		(void)fi_cq_read(r->cq, &e, 1);
	return NULL;
}

static void two_threads_at_once_are_told(void **state)
{
	struct raw a;
	pthread_t thread;
	(void)state;
	quiet("efa,strict=0");
	raw_open(&a, "efa");
	read_ns = SECOND / 20;
	read_for_a_while(&a);
	assert_int_equal(violations(), 0);
	read_ns = 10 * SECOND;
	assert_int_equal(pthread_create(&thread, NULL, read_for_a_while, &a), 0);
	read_for_a_while(&a);
	pthread_join(thread, NULL);
	assert_true(violations() > 0);
	raw_close(&a);
}

static void a_newer_api_than_the_librarys_is_refused(void **state)
{
	struct fi_info *info = NULL;
	(void)state;
	quiet("efa");
	assert_int_equal(fi_getinfo(FI_VERSION(9, 9), NULL, NULL, 0, NULL, &info), -FI_ENOSYS);
	assert_null(info);
}

/* Whether `what` ends a process by abort(), after a domain was opened. */
static bool aborts(void (*what)(void))
{
	int status = 0;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct raw a;
		signal(SIGABRT, SIG_DFL);
		if (!freopen("/dev/null", "w", stderr) || shim_configure("efa,rdma=0"))
			_exit(1);
		raw_open(&a, "efa");
		what();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void just_fork(void)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
}

static void fork_unprepared(void)
{
	unsetenv("FI_EFA_FORK_SAFE");
	just_fork();
}

static void ask_with(const char *name)
{
	setenv(name, "1", 1);
	fi_freeinfo(info_of("efa", NULL, 0));
}

static void demand_rdma(void)
{
	ask_with("FI_EFA_USE_DEVICE_RDMA");
}

static void set_mtu(void)
{
	ask_with("FI_EFA_MTU_SIZE");
}

static void what_aborts_the_process_is_told(void **state)
{
	(void)state;
	quiet("efa");                    /* nothing is open in this process */
	assert_false(aborts(just_fork)); /* te_env_for_programs has said that it may */
	assert_true(aborts(fork_unprepared));
	assert_true(aborts(demand_rdma));
	assert_true(aborts(set_mtu));
}

static void a_newer_efa_has_a_wait_object(void **state)
{
	struct node a, b;
	struct result r;
	struct te_info info;
	uint8_t data[8] = {0};
	(void)state;
	quiet("efa,wait_fd=1");
	node_open(&a, "efa", NULL);
	node_open(&b, "efa", NULL);
	te_info(a.te, &info);
	assert_true(info.wait_fd);
	struct te_peer *ab = node_peer(&a, &b);
	(void)node_peer(&b, &a);
	te_msg_send(a.te, ab, 0, msg_for(&a, &r, data, 8), KV_NEVER);
	WAIT(r.done && b.messages == 1);
	assert_int_equal(r.status, 0);
	node_close(&a);
	node_close(&b);
}

static void what_changes_in_flight_is_told(void **state)
{
	struct raw a, b;
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	(void)state;
	quiet("efa,strict=0,eagain=0,delay=0");
	raw_open(&a, "efa-direct");
	raw_open(&b, "efa-direct");
	fi_addr_t to = raw_knows(&a, &b);
	assert_int_equal(fi_send(a.ep, a.mem, 64, fi_mr_desc(a.mr), to, &a.ctx[0]), 0); /* waits for a receive */
	pthread_mutex_lock(&shim_lock); /* or ThreadSanitizer tells it, too */
	a.mem[5] ^= 1;
	pthread_mutex_unlock(&shim_lock);
	assert_int_equal(fi_recv(b.ep, b.mem, 64, fi_mr_desc(b.mr), FI_ADDR_UNSPEC, &b.ctx[0]), 0);
	assert_int_equal(raw_next(&a, NULL, &e, &err), 1);
	assert_int_equal(violations(), 1);
	assert_int_equal(fi_send(a.ep, a.mem, 64, fi_mr_desc(a.mr), to, &a.ctx[0]), 0);
	pthread_mutex_lock(&shim_lock);
	memset(&a.ctx[0], 0, sizeof(a.ctx[0]));
	pthread_mutex_unlock(&shim_lock);
	assert_int_equal(fi_recv(b.ep, b.mem, 64, fi_mr_desc(b.mr), FI_ADDR_UNSPEC, &b.ctx[1]), 0);
	assert_int_equal(raw_next(&a, NULL, &e, &err), 1);
	assert_int_equal(violations(), 2);
	assert_int_equal(fi_send(a.ep, a.mem, 64, fi_mr_desc(a.mr), to, &a.ctx[1]), 0);
	fi_addr_t gone = to;
	assert_int_equal(fi_av_remove(a.av, &gone, 1, 0), 0);
	assert_int_equal(violations(), 3);
	raw_close(&a);
	raw_close(&b);
}

static void a_cq_gives_no_wait_object(void **state)
{
	struct raw a;
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD};
	struct fid_cq *cq;
	(void)state;
	quiet("efa,cq_max=2048");
	raw_open(&a, "efa");
	assert_int_equal(fi_cq_open(a.domain, &attr, &cq, NULL), -FI_ENOSYS);
	attr.wait_obj = FI_WAIT_NONE;
	attr.size = 2049;
	assert_int_equal(fi_cq_open(a.domain, &attr, &cq, NULL), -FI_EINVAL);
	raw_close(&a);
}

/* ---- what goes wrong, and how ---- */

static void a_stranger_may_not_write(void **state)
{
	struct raw a, b;
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	(void)state;
	quiet("efa,eagain=0");
	raw_open(&a, "efa-direct");
	raw_open(&b, "efa-direct");
	fi_addr_t to = raw_knows(&a, &b);
	assert_int_equal(write_when_taken(&a, &b, to, fi_mr_key(b.mr), 100, &a.ctx[0]), 0);
	assert_int_equal(raw_next(&a, &b, &e, &err), 0);
	assert_int_equal(err.err, FI_ENOTCONN);
	assert_int_equal(err.prov_errno, 14);
	assert_ptr_equal(err.op_context, &a.ctx[0]);
	(void)raw_knows(&b, &a);
	assert_int_equal(write_when_taken(&a, &b, to, fi_mr_key(b.mr), 100, &a.ctx[0]), 0);
	assert_int_equal(raw_next(&a, &b, &e, &err), 1);
	raw_close(&a);
	raw_close(&b);
}

static void a_wrong_key_is_an_error_of_the_operation(void **state)
{
	struct raw a, b;
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	(void)state;
	quiet("efa,eagain=0");
	raw_open(&a, "efa");
	raw_open(&b, "efa");
	fi_addr_t to = raw_knows(&a, &b);
	(void)raw_knows(&b, &a);
	assert_int_equal(write_when_taken(&a, &b, to, fi_mr_key(b.mr) ^ 1, 100, &a.ctx[0]), 0);
	assert_int_equal(raw_next(&a, &b, &e, &err), 0);
	assert_int_equal(err.err, FI_EINVAL);
	assert_int_equal(err.prov_errno, 7);
	assert_int_equal(write_when_taken(&a, &b, to, fi_mr_key(b.mr), MEM, &a.ctx[0]), 0);
	assert_int_equal(raw_next(&a, &b, &e, &err), 1);
	assert_int_equal(write_when_taken(&a, &b, to, fi_mr_key(b.mr), 0, &a.ctx[0]), 0);
	assert_int_equal(raw_next(&a, &b, &e, &err), 1);
	raw_close(&a);
	raw_close(&b);
}

/* a knows b, b knows a, and both have said so. */
static fi_addr_t raw_pair(struct raw *a, struct raw *b, const char *fabric)
{
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	raw_open(a, fabric);
	raw_open(b, fabric);
	fi_addr_t to = raw_knows(a, b);
	(void)raw_knows(b, a);
	assert_int_equal(write_when_taken(a, b, to, fi_mr_key(b->mr), 8, &a->ctx[0]), 0);
	assert_int_equal(raw_next(a, b, &e, &err), 1);
	return to;
}

static void eq_says(struct raw *r, int prov_errno)
{
	struct fi_cq_data_entry e;
	struct fi_eq_err_entry ee = {0};
	uint32_t event;
	uint64_t end = shim_now() + 10 * SECOND;
	while (fi_eq_read(r->eq, &event, &e, sizeof(e), 0) == -FI_EAGAIN && shim_now() < end)
		(void)fi_cq_read(r->cq, &e, 1);
	assert_int_equal(fi_eq_readerr(r->eq, &ee, 0), sizeof(ee));
	assert_int_equal(ee.prov_errno, prov_errno);
}

static void a_large_emulated_write_is_fetched_by_the_target(void **state)
{
	struct raw a, b;
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	(void)state;
	quiet("efa-p4d,eagain=0,delay=0");
	fi_addr_t to = raw_pair(&a, &b, "efa");
	fill(a.mem, MEM, 9);
	assert_int_equal(write_when_taken(&a, &b, to, fi_mr_key(b.mr), SOFT_READ_MIN, &a.ctx[0]), 0);
	usleep(20000);
	assert_int_equal(fi_cq_read(a.cq, &e, 1), -FI_EAGAIN); /* b reads nothing */
	assert_int_equal(raw_next(&a, &b, &e, &err), 1);
	assert_memory_equal(a.mem, b.mem, SOFT_READ_MIN);
	assert_int_equal(write_when_taken(&a, &b, to, fi_mr_key(b.mr) ^ 1, SOFT_READ_MIN, &a.ctx[0]), 0);
	eq_says(&b, 4111);
	assert_int_equal(fi_cq_read(a.cq, &e, 1), -FI_EAGAIN); /* and the initiator hears nothing */
	raw_close(&a);
	raw_close(&b);
}

static void a_small_emulated_write_ends_before_it_lands(void **state)
{
	struct raw a, b;
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	(void)state;
	quiet("efa-p4d,eagain=0,delay=0");
	fi_addr_t to = raw_pair(&a, &b, "efa");
	fill(a.mem, MEM, 9);
	assert_int_equal(write_when_taken(&a, &b, to, fi_mr_key(b.mr), 30000, &a.ctx[0]), 0);
	assert_int_equal(raw_next(&a, NULL, &e, &err), 1); /* b reads nothing */
	assert_memory_not_equal(a.mem, b.mem, 30000);
	raw_close(&a); /* and it lands though its initiator is gone */
	usleep(20000);
	(void)fi_cq_read(b.cq, &e, 1);
	uint8_t *want = malloc(30000);
	fill(want, 30000, 9);
	assert_memory_equal(want, b.mem, 30000);
	free(want);
	raw_close(&b);
}

static void a_wrong_key_of_a_small_emulated_write_is_told_to_the_target(void **state)
{
	struct raw a, b;
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	(void)state;
	quiet("efa-p4d,eagain=0,delay=0");
	fi_addr_t to = raw_pair(&a, &b, "efa");
	assert_int_equal(write_when_taken(&a, &b, to, fi_mr_key(b.mr) ^ 1, 100, &a.ctx[0]), 0);
	assert_int_equal(raw_next(&a, NULL, &e, &err), 1);
	eq_says(&b, 4111);
	raw_close(&a);
	raw_close(&b);
}

static void without_device_rdma_reads_need_the_target_too(void **state)
{
	struct raw a, b;
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	bool soft = false;
	size_t len = sizeof(soft);
	(void)state;
	quiet("efa,rdma=0,eagain=0,delay=0");
	assert_null(info_of("efa", "efa-direct", FI_CONTEXT2));
	fi_addr_t to = raw_pair(&a, &b, "efa");
	assert_int_equal(fi_getopt(&a.ep->fid, FI_OPT_ENDPOINT, -(0xefa << 16) + 1, &soft, &len), 0);
	assert_true(soft);
	fill(b.mem, MEM, 4);
	assert_int_equal(fi_read(a.ep, a.mem, 30000, fi_mr_desc(a.mr), to, (uint64_t)(uintptr_t)b.mem, fi_mr_key(b.mr),
				 &a.ctx[0]),
			 0);
	usleep(20000);
	assert_int_equal(fi_cq_read(a.cq, &e, 1), -FI_EAGAIN);
	assert_int_equal(raw_next(&a, &b, &e, &err), 1);
	assert_memory_equal(a.mem, b.mem, 30000);
	assert_int_equal(fi_read(a.ep, a.mem, 30000, fi_mr_desc(a.mr), to, (uint64_t)(uintptr_t)b.mem,
				 fi_mr_key(b.mr) ^ 1, &a.ctx[0]),
			 0);
	eq_says(&b, 4111);
	raw_close(&a);
	raw_close(&b);
}

/* Which of the two a connection does is drawn: twenty are enough to see both. */
static void first_contact_needs_both_to_read(void **state)
{
	struct raw a, b;
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	struct shim_counts c;
	unsigned held = 0;
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		char config[64];
		snprintf(config, sizeof(config), "efa,eagain=0,delay=0,nics=1,seed=%u", i + 1);
		quiet(config);
		raw_open(&a, "efa");
		raw_open(&b, "efa");
		fi_addr_t to = raw_knows(&a, &b);
		(void)raw_knows(&b, &a);
		uint64_t at = (uint64_t)(uintptr_t)b.mem;
		ssize_t rc = fi_write(a.ep, a.mem, 8, fi_mr_desc(a.mr), to, at, fi_mr_key(b.mr), &a.ctx[0]);
		assert_true(rc == 0 || rc == -FI_EAGAIN);
		held += rc == 0;
		for (unsigned k = 1; rc == 0 && k < HELD_MAX; k++)
			assert_int_equal(fi_write(a.ep, a.mem, 8, fi_mr_desc(a.mr), to, at, fi_mr_key(b.mr), &a.ctx[k]),
					 0);
		for (unsigned k = 0; k < 50; k++) {
			usleep(100);
			assert_int_equal(
				fi_write(a.ep, a.mem, 8, fi_mr_desc(a.mr), to, at, fi_mr_key(b.mr), &a.ctx[HELD_MAX]),
				-FI_EAGAIN);
		}
		assert_int_equal(fi_cq_read(b.cq, &e, 1), -FI_EAGAIN); /* b has read; now a has to */
		usleep(5000);
		assert_int_equal(fi_write(a.ep, a.mem, 8, fi_mr_desc(a.mr), to, at, fi_mr_key(b.mr), &a.ctx[HELD_MAX]),
				 -FI_EAGAIN);
		assert_int_equal(write_when_taken(&a, &b, to, fi_mr_key(b.mr), 8, &a.ctx[HELD_MAX]), 0);
		for (unsigned k = 0; k < (rc == 0 ? HELD_MAX + 1 : 1); k++)
			assert_int_equal(raw_next(&a, &b, &e, &err), 1);
		shim_counts(&c);
		assert_int_equal(c.handshakes, 1);
		raw_close(&a);
		raw_close(&b);
	}
	assert_true(held > 0 && held < 20);
}

static void a_closed_endpoint_is_not_written_to(void **state)
{
	struct raw a, b;
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	(void)state;
	quiet("efa,eagain=0,death_ms=20");
	raw_open(&a, "efa-direct");
	raw_open(&b, "efa-direct");
	fi_addr_t to = raw_knows(&a, &b);
	(void)raw_knows(&b, &a);
	shim_freeze(true);
	assert_int_equal(write_when_taken(&a, &b, to, fi_mr_key(b.mr), MEM, &a.ctx[0]), 0);
	raw_close(&b);
	shim_freeze(false);
	assert_int_equal(raw_next(&a, NULL, &e, &err), 0);
	assert_true(err.err == FI_ENOTCONN || err.err == FI_ECONNABORTED || err.err == FI_EHOSTUNREACH);
	raw_close(&a);
}

static void a_burst_ends_by_reading_the_cq(void **state)
{
	struct raw a, b;
	struct fi_cq_data_entry e;
	unsigned refused = 0, reads = 0;
	(void)state;
	quiet("efa,eagain=1"); /* every post begins one */
	raw_open(&a, "efa-direct");
	raw_open(&b, "efa-direct");
	fi_addr_t to = raw_knows(&a, &b);
	(void)raw_knows(&b, &a);
	for (unsigned i = 0; i < 1000; i++)
		refused += fi_send(a.ep, a.mem, 8, fi_mr_desc(a.mr), to, &a.ctx[0]) == -FI_EAGAIN;
	assert_int_equal(refused, 1000);
	for (; reads < 100; reads++)
		(void)fi_cq_read(a.cq, &e, 1);
	raw_close(&a);
	raw_close(&b);
}

static void immediates_that_nobody_bounds_overrun_the_cq(void **state)
{
	struct raw a, b;
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	struct shim_counts c;
	(void)state;
	quiet("efa,strict=0,eagain=0");
	unsolicited(NULL);
	raw_open(&a, "efa-direct");
	raw_open_cq(&b, "efa-direct", 0, 16);
	unsolicited("0");
	fi_addr_t to = raw_knows(&a, &b);
	(void)raw_knows(&b, &a);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(fi_writedata(a.ep, a.mem, 8, fi_mr_desc(a.mr), i, to, (uint64_t)(uintptr_t)b.mem,
					      fi_mr_key(b.mr), &a.ctx[i]),
				 0);
		assert_int_equal(raw_next(&a, NULL, &e, &err), 1);
	}
	shim_counts(&c);
	assert_int_equal(c.overruns, 1);
	assert_int_equal(fi_cq_read(b.cq, &e, 1), -FI_EOVERRUN);
	raw_close(&a);
	raw_close(&b);
}

static void immediates_use_up_receives_where_that_was_offered(void **state)
{
	struct raw a, b;
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	(void)state;
	quiet("efa,eagain=0,delay=0");
	raw_open(&a, "efa-direct");
	raw_open_cq(&b, "efa-direct", FI_RX_CQ_DATA, 64);
	assert_true(b.info->mode & FI_RX_CQ_DATA);
	fi_addr_t to = raw_knows(&a, &b);
	(void)raw_knows(&b, &a);
	assert_int_equal(fi_writedata(a.ep, a.mem, 8, fi_mr_desc(a.mr), 77, to, (uint64_t)(uintptr_t)b.mem,
				      fi_mr_key(b.mr), &a.ctx[0]),
			 0);
	usleep(20000);
	assert_int_equal(fi_cq_read(a.cq, &e, 1), -FI_EAGAIN); /* receiver not ready */
	assert_int_equal(fi_recv(b.ep, b.mem + 512, 64, fi_mr_desc(b.mr), FI_ADDR_UNSPEC, &b.ctx[0]), 0);
	assert_int_equal(raw_next(&b, NULL, &e, &err), 1);
	assert_int_equal(e.flags, FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE);
	assert_int_equal(e.data, 77);
	assert_ptr_equal(e.op_context, &b.ctx[0]);
	assert_int_equal(raw_next(&a, NULL, &e, &err), 1);
	raw_close(&a);
	raw_close(&b);
}

static void a_device_works_while_the_program_sleeps(void **state)
{
	struct raw a, b;
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	struct shim_counts c;
	(void)state;
	quiet("efa,eagain=0");
	raw_open(&a, "efa-direct");
	raw_open(&b, "efa-direct");
	fi_addr_t to = raw_knows(&a, &b);
	(void)raw_knows(&b, &a);
	fill(a.mem, MEM, 3);
	for (unsigned i = 0; i < QUEUE; i++) {
		uint64_t at = (uint64_t)i * (MEM / QUEUE);
		assert_int_equal(fi_write(a.ep, a.mem + at, MEM / QUEUE, fi_mr_desc(a.mr), to,
					  (uint64_t)(uintptr_t)b.mem + at, fi_mr_key(b.mr), &a.ctx[i]),
				 0);
	}
	assert_int_equal(fi_write(a.ep, a.mem, 8, fi_mr_desc(a.mr), to, (uint64_t)(uintptr_t)b.mem, fi_mr_key(b.mr),
				  &(struct fi_context2){0}),
			 -FI_EAGAIN);
	for (unsigned i = 0; i < QUEUE; i++)
		assert_int_equal(raw_next(&a, NULL, &e, &err), 1);
	assert_memory_equal(a.mem, b.mem, MEM);
	shim_counts(&c);
	assert_true(c.overtaken > 0);
	raw_close(&a);
	raw_close(&b);
}

/* ---- what the engine makes of it ---- */

static int engine_open(const char *provider, struct te_options o, struct te **out, struct kv_error *err)
{
	static const struct te_handlers none;
	o.provider = provider;
	return te_open(&o, &none, NULL, out, err);
}

static void auto_takes_efa_and_says_why(void **state)
{
	struct te *te;
	struct te_info info;
	struct kv_error err;
	(void)state;
	quiet("efa,nics=2");
	assert_int_equal(engine_open(NULL, (struct te_options){0}, &te, &err), 0);
	te_info(te, &info);
	assert_string_equal(info.provider, "efa");
	assert_string_equal(info.fabric, "efa");
	assert_string_equal(info.domain, "rdmap79s0-rdm");
	assert_false(info.wait_fd);
	assert_true(info.virt_addr);
	assert_false(info.write_emulated || info.read_emulated || info.reads_refused);
	te_close(&te);
	assert_int_equal(engine_open("efa", (struct te_options){.nic = "rdmap80s0-rdm"}, &te, &err), 0);
	assert_string_equal(te_rail_device(te, 0), "rdmap80s0-rdm");
	te_close(&te);
	assert_int_equal(engine_open("efa", (struct te_options){.nic = "rdmap81s0-rdm"}, &te, &err), -KV_ENOTSUP);
	assert_int_equal(engine_open("efa", (struct te_options){.rails = 3}, &te, &err), -KV_ELIMIT);
	quiet("efa-p4d");
	assert_int_equal(engine_open("efa", (struct te_options){0}, &te, &err), 0);
	te_info(te, &info);
	assert_true(info.write_emulated);
	assert_false(info.read_emulated);
	te_close(&te);
	assert_int_equal(engine_open("efa-direct", (struct te_options){0}, &te, &err), -KV_ENOTSUP);
}

static void too_many_endpoints_are_a_sentence(const char *config)
{
	struct te *te[4];
	struct kv_error err = {0};
	quiet(config);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(engine_open("efa", (struct te_options){0}, &te[i], &err), 0);
	assert_int_equal(engine_open("efa", (struct te_options){0}, &te[3], &err), -KV_ELIMIT);
	if (!strstr(err.text, "fi_enable") || !strstr(err.text, "3 endpoints") || !strstr(err.text, "rdmap79s0"))
		fail_msg("the sentence was: %s", err.text);
	te_close(&te[0]);
	assert_int_equal(engine_open("efa", (struct te_options){0}, &te[0], &err), 0);
	for (unsigned i = 0; i < 3; i++)
		te_close(&te[i]);
}

static void no_memory_for_a_queue_pair_is_a_sentence(void **state)
{
	(void)state;
	too_many_endpoints_are_a_sentence("efa,nics=1,eps=3");
}

static void einval_of_old_libfabric_is_the_same_sentence(void **state)
{
	(void)state;
	too_many_endpoints_are_a_sentence("efa,nics=1,eps=3,einval=1");
}

static void a_port_that_is_taken_is_changed_for_another(void **state)
{
	struct te *te;
	struct kv_error err = {0};
	(void)state;
	quiet("efa,nics=1,inuse=3");
	assert_int_equal(engine_open("efa", (struct te_options){0}, &te, &err), 0);
	te_close(&te);
	quiet("efa,nics=1,inuse=100");
	assert_int_equal(engine_open("efa", (struct te_options){0}, &te, &err), -KV_EPROVIDER);
	assert_non_null(strstr(err.text, "in use"));
}

static void queues_are_halved(const char *config)
{
	struct te *te[2];
	struct te_info info;
	struct kv_error err;
	quiet(config);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(engine_open("efa-direct", (struct te_options){.tx_depth = 1024}, &te[i], &err), 0);
		te_info(te[i], &info);
		assert_int_equal(info.tx_depth, i ? 256 : 1024);
	}
	te_close(&te[0]);
	te_close(&te[1]);
}

static void queues_are_halved_until_they_fit(void **state)
{
	(void)state;
	queues_are_halved("efa,nics=1,sq_budget=1300");
	queues_are_halved("efa,nics=1,sq_budget=1300,einval=1");
}

/* Else a device with small completion queues would have no receives, and so no room for immediates, which use them up.
 */
static void only_the_completion_queue_is_halved_where_it_is_refused(void **state)
{
	struct te_info info;
	struct node n;
	(void)state;
	quiet("efa,nics=1,cq_max=1024");
	node_open(&n, "efa-direct", NULL);
	te_info(n.te, &info);
	assert_int_equal(info.cq_depth, 1024);
	assert_int_equal(info.rx_depth, 256);
	assert_int_equal(info.imm_room, 128);
	node_close(&n);
}

static void transfers_are_no_longer_than_the_device_takes(void **state)
{
	struct node a, b;
	struct area near, far;
	struct te_xfer x;
	struct result r;
	(void)state;
	quiet("efa,rma_kb=64");
	node_open(&a, "efa", &(struct te_options){.chunk_bytes = MEM});
	node_open(&b, "efa", NULL);
	struct te_peer *ab = node_peer(&a, &b);
	(void)node_peer(&b, &a);
	area_open(&near, &a, MEM, 0, 1);
	area_open(&far, &b, MEM, 0, 0);
	xfer_init(&x, &r, TE_WRITE, ab, &near, 0, &far, 0, MEM);
	assert_true(te_xfer_start(a.te, &x) >= 0);
	WAIT(r.done);
	assert_int_equal(r.status, 0);
	assert_int_equal(x.completed, MEM / (64 << 10));
	area_close(&near);
	area_close(&far);
	node_close(&a);
	node_close(&b);
}

static void large_regions_are_halved_until_they_fit(void **state)
{
	struct te *te;
	struct te_region *region;
	struct te_remote remote;
	struct kv_error err;
	uint8_t *memory = aligned_alloc(4096, 64u << 20);
	(void)state;
	quiet("efa,mr_part_mb=8");
	assert_int_equal(engine_open("efa", (struct te_options){.rails = 2}, &te, &err), 0);
	assert_int_equal(te_region_register(te, memory, 64u << 20, TE_LOCAL, 0, &region, &err), 0);
	te_region_announce(region, &remote, NULL);
	assert_true(remote.part_bytes <= 8u << 20);
	assert_int_equal(remote.parts * remote.part_bytes, 64u << 20);
	assert_int_equal(te_region_close(&region), 0);
	te_close(&te);
	quiet("efa,mr_mb=32");
	assert_int_equal(engine_open("efa", (struct te_options){0}, &te, &err), 0);
	assert_int_equal(te_region_register(te, memory, 64u << 20, TE_LOCAL, 0, &region, &err), -KV_ENOMEM);
	te_close(&te);
	free(memory);
}

/* How often somebody looked for RDMA devices: libibverbs and netlink are asked behind that, which takes its time. */
static _Atomic unsigned looks; /* rails are registered by several threads */

DIR *opendir(const char *name)
{
	static DIR *(*real)(const char *);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "opendir");
	looks += strcmp(name, "/sys/class/infiniband") == 0;
	return real(name);
}

/* A loop serves calls: what fails then is explained without asking the device. */
static void an_engine_at_work_does_not_ask_its_device(void **state)
{
	enum { BYTES = 16 << 20 };
	uint8_t *memory = aligned_alloc(4096, BYTES);
	struct te_region *region;
	struct te_region_info info;
	struct kv_error err;
	struct node a;
	(void)state;
	quiet("efa,nics=1");
	looks = 0;
	node_open(&a, "efa", NULL);
	assert_true(looks > 0);
	looks = 0;
	shim_config.mr_part_mb = 2;
	assert_int_equal(te_region_begin(a.te, memory, BYTES, TE_LOCAL, 0, &region, &err), 0);
	while (te_region_step(region, &err) == 1)
		te_poll(a.te);
	te_region_info(region, &info);
	assert_int_equal(info.part_bytes, 2 << 20); /* 16, 8 and 4 were refused */
	shim_config.mr_mb = 1;
	assert_int_equal(te_region_begin(a.te, memory, 4096, TE_LOCAL, 0, &region, &err), 0);
	int rc;
	while ((rc = te_region_step(region, &err)) == 1)
		te_poll(a.te);
	assert_int_equal(rc, -KV_ENOMEM);
	assert_non_null(strstr(err.text, "kv-doctor"));
	shim_config.ep_max = 0;
	shim_eq_error();
	WAIT(a.resets > 0 &&
	     a.reset_status !=
		     -KV_EBUSY); /* busy: until the old endpoint is closed, which may have been what took the room */
	assert_int_equal(a.reset_status, -KV_ELIMIT);
	assert_int_equal(looks, 0);
	shim_config.ep_max = 48;
	WAIT(a.reset_status == 0);
	assert_int_equal(looks, 0);
	node_close(&a);
	free(memory);
}

static void an_eq_error_rebuilds_the_endpoint(void **state)
{
	struct node a, b;
	struct area near, far;
	struct te_xfer x;
	struct result r;
	(void)state;
	quiet("efa,nics=2");
	node_open(&a, "efa", &(struct te_options){.rails = 2});
	node_open(&b, "efa", &(struct te_options){.rails = 2});
	struct te_peer *ab = node_peer(&a, &b), *ba = node_peer(&b, &a);
	area_open(&near, &a, MEM, 0, 1);
	area_open(&far, &b, MEM, 0, 0);
	xfer_init(&x, &r, TE_WRITE, ab, &near, 0, &far, 0, MEM);
	shim_freeze(true);
	while (te_xfer_start(a.te, &x) < 0)
		node_poll_all();
	shim_eq_error();
	shim_freeze(false);
	WAIT(a.resets == 1 && b.resets == 1);
	assert_int_equal(a.reset_status, 0);
	node_readdress(ab, &b);
	node_readdress(ba, &a);
	WAIT(!te_busy(a.te));
	assert_int_equal(r.done, 1);
	xfer_init(&x, &r, TE_WRITE, ab, &near, 0, &far, 0, MEM);
	assert_true(te_xfer_start(a.te, &x) >= 0);
	WAIT(r.done);
	assert_int_equal(r.status, 0);
	assert_memory_equal(far.base, near.base, MEM);
	area_close(&near);
	area_close(&far);
	node_close(&a);
	node_close(&b);
}

static void an_overrun_cq_rebuilds_the_endpoint(void **state)
{
	enum { COUNT = 200 };
	static struct te_xfer x[COUNT];
	static struct result r[COUNT];
	struct node a, b;
	struct area near, far;
	(void)state;
	/* As before libfabric 2.5, in a program that set no environment: unsolicited receives are on. */
	unsolicited(NULL);
	quiet("efa,nics=1,strict=0,setopt=0");
	node_open(&a, "efa", NULL);
	node_open(&b, "efa", &(struct te_options){.cq_depth = 64});
	struct te_peer *ab = node_peer(&a, &b);
	(void)node_peer(&b, &a);
	area_open(&near, &a, MEM, 0, 1);
	area_open(&far, &b, MEM, 0, 0);
	uint64_t end = shim_now() + 2 * SECOND;
	for (unsigned i = 0; i < COUNT; i++) {
		xfer_init(&x[i], &r[i], TE_WRITE, ab, &near, 0, &far, 0, 64);
		x[i].deadline_ns = end;
		assert_true(te_xfer_start(a.te, &x[i]) >= 0);
		while (!r[i].done && shim_now() < end) { /* b is polled until the first is there, for the handshake */
			te_poll(a.te);
			if (i == 0)
				te_poll(b.te);
		}
	}
	WAIT(b.resets == 1);
	assert_int_equal(b.reset_status, 0);
	WAIT(!te_busy(a.te));
	unsolicited("0");
	area_close(&near);
	area_close(&far);
	node_close(&a);
	node_close(&b);
}

/* EFA waits in fi_close for what is out to a host that died, with the domain in its hands. So the engine goes on with a
 * new endpoint, and closes the old one when nothing is out: then memory is safe. */
static void an_endpoint_that_waits_to_be_closed_holds_nobody_up(void **state)
{
	struct te_xfer old, next;
	struct result r_old, r_next;
	struct shim_counts before, counts;
	struct node a, b, c;
	struct area near, far;
	(void)state;
	quiet("efa,nics=1,eagain=0,close_ms=5000");
	node_open(&a, "efa", NULL);
	node_open(&b, "efa", NULL);
	node_open(&c, "efa", NULL);
	shim_counts(&before);
	struct te_peer *ab = node_peer(&a, &b), *ac;
	(void)node_peer(&b, &a);
	area_open(&near, &a, MEM, 0, 1);
	area_open(&far, &b, MEM, 0, 0);
	xfer_init(&next, &r_next, TE_READ, ab, &near, 0, &far, 0, 8); /* their handshake */
	assert_true(te_xfer_start(a.te, &next) >= 0);
	WAIT(r_next.done == 1);
	shim_freeze(true);
	xfer_init(&old, &r_old, TE_READ, ab, &near, 0, &far, 0, MEM / 2);
	assert_int_equal(te_xfer_start(a.te, &old), 1);
	assert_int_equal(te_peer_fence(ab, NULL), 1);
	WAIT(a.resets == 1);
	node_poll_for(200000000); /* a thread that closed it now would be found waiting */
	assert_int_equal(a.fenced, 0);
	assert_true(te_fencing(a.te));
	assert_int_equal(r_old.done, 0);
	/* The device is at work again: the old read lands where it was to, and a new one beside it. */
	ac = node_peer(&a, &c);
	(void)node_peer(&c, &a);
	area_close(&far);
	area_open(&far, &c, MEM, 0, 0);
	xfer_init(&next, &r_next, TE_READ, ac, &near, MEM / 2, &far, 0, MEM / 2);
	assert_true(te_xfer_start(a.te, &next) >= 0);
	shim_freeze(false);
	WAIT(r_next.done == 1);
	assert_int_equal(r_next.status, 0);
	WAIT(a.fenced == 1);
	assert_int_equal(r_old.done, 1);
	assert_int_equal(r_old.status, -KV_ERESET);
	assert_false(te_fencing(a.te));
	shim_counts(&counts);
	assert_int_equal(counts.slow_closes, before.slow_closes);
	area_close(&near);
	area_close(&far);
	node_close(&a);
	node_close(&b);
	node_close(&c);
}

static void efa_direct_does_not_try_without_end(void **state)
{
	struct shim_counts counts;
	struct node a;
	(void)state;
	quiet("efa-direct,nics=1");
	node_open(&a, "efa-direct", NULL);
	shim_counts(&counts);
	assert_int_equal(counts.rnr_retry, 6); /* 7 would be without end */
	node_close(&a);
}

/* What a client may ask for: half of its receives where they are used up, else what its completion queue has room for.
 */
static void room_for_immediates_is_bound_by_the_receives_they_use_up(void **state)
{
	struct te_info direct, own;
	struct node n;
	(void)state;
	quiet("efa,nics=1");
	node_open(&n, "efa-direct", NULL);
	te_info(n.te, &direct);
	node_close(&n);
	node_open(&n, "efa", NULL);
	te_info(n.te, &own);
	node_close(&n);
	assert_int_equal(direct.imm_room, direct.rx_depth / 2);
	assert_true(own.imm_room > own.rx_depth);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_p5_has_both_fabrics_direct_first),
		cmocka_unit_test(a_p4d_has_no_direct_fabric),
		cmocka_unit_test(misuse_is_told),
		cmocka_unit_test(what_changes_in_flight_is_told),
		cmocka_unit_test(a_cq_gives_no_wait_object),
		cmocka_unit_test(a_stranger_may_not_write),
		cmocka_unit_test(a_wrong_key_is_an_error_of_the_operation),
		cmocka_unit_test(a_large_emulated_write_is_fetched_by_the_target),
		cmocka_unit_test(a_small_emulated_write_ends_before_it_lands),
		cmocka_unit_test(a_wrong_key_of_a_small_emulated_write_is_told_to_the_target),
		cmocka_unit_test(without_device_rdma_reads_need_the_target_too),
		cmocka_unit_test(first_contact_needs_both_to_read),
		cmocka_unit_test(two_threads_at_once_are_told),
		cmocka_unit_test(a_newer_api_than_the_librarys_is_refused),
		cmocka_unit_test(what_aborts_the_process_is_told),
		cmocka_unit_test(a_newer_efa_has_a_wait_object),
		cmocka_unit_test(a_closed_endpoint_is_not_written_to),
		cmocka_unit_test(a_burst_ends_by_reading_the_cq),
		cmocka_unit_test(immediates_that_nobody_bounds_overrun_the_cq),
		cmocka_unit_test(immediates_use_up_receives_where_that_was_offered),
		cmocka_unit_test(room_for_immediates_is_bound_by_the_receives_they_use_up),
		cmocka_unit_test(a_device_works_while_the_program_sleeps),
		cmocka_unit_test(auto_takes_efa_and_says_why),
		cmocka_unit_test(no_memory_for_a_queue_pair_is_a_sentence),
		cmocka_unit_test(einval_of_old_libfabric_is_the_same_sentence),
		cmocka_unit_test(a_port_that_is_taken_is_changed_for_another),
		cmocka_unit_test(queues_are_halved_until_they_fit),
		cmocka_unit_test(only_the_completion_queue_is_halved_where_it_is_refused),
		cmocka_unit_test(transfers_are_no_longer_than_the_device_takes),
		cmocka_unit_test(large_regions_are_halved_until_they_fit),
		cmocka_unit_test(an_engine_at_work_does_not_ask_its_device),
		cmocka_unit_test(an_eq_error_rebuilds_the_endpoint),
		cmocka_unit_test(an_overrun_cq_rebuilds_the_endpoint),
		cmocka_unit_test(an_endpoint_that_waits_to_be_closed_holds_nobody_up),
		cmocka_unit_test(efa_direct_does_not_try_without_end),
	};
	test_env();
	return cmocka_run_group_tests(tests, node_forget_all, NULL);
}
