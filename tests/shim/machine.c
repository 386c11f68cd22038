/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c -- which machine is imitated, and what fi_getinfo says there.
 *
 * fi_getinfo and fi_fabric are the only functions of libfabric that are symbols and decide anything; all others are
 * calls through tables that hang on what these two give out. So these two are defined here and go on to libfabric's
 * (RTLD_NEXT) for everything that the imitated machine does not have. In a preloaded library and in a test that links
 * this file that is the same. libfabric itself links its own copies and never comes by here.
 *
 * The cells of the table and what fi_getinfo does with hints are those of libfabric 2.6 (prov/efa/src/efa_prov_info.c,
 * efa_user_info.c); README.md has the list. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/base.h"
#include "tests/shim/inside.h"

#define EXPORT __attribute__((visibility("default")))

enum { EFA_MTU = 8928, KILO = 1024, GETINFO_US = 200, TOLD_MAX = 20 };
#define RDMA_MAX ((uint64_t)1 << 30)

static const struct shim_kind kinds[] = {
	{.short_name = "efa",
	 .prov_name = "efa",
	 .fabric = "efa",
	 .efa = true,
	 .unordered = true,
	 .pool = true,
	 .handshake = true,
	 .needs_av = true,
	 .msg_max = UINT64_MAX,
	 .rma_max = RDMA_MAX,
	 .tx = 4096,
	 .rx = 8192,
	 .cq = 8192,
	 .eps = 256,
	 .mrs = 262144},
	{.short_name = "efa-direct",
	 .prov_name = "efa",
	 .fabric = "efa-direct",
	 .efa = true,
	 .unordered = true,
	 .context2 = true,
	 .local = true,
	 .needs_av = true,
	 .msg_max = EFA_MTU,
	 .rma_max = RDMA_MAX,
	 .tx = 4096,
	 .rx = 8192,
	 .cq = 8192,
	 .eps = 256,
	 .mrs = 262144},
	{.short_name = "efa-p4d",
	 .prov_name = "efa",
	 .fabric = "efa",
	 .efa = true,
	 .unordered = true,
	 .pool = true,
	 .handshake = true,
	 .soft_writes = true,
	 .needs_av = true,
	 .msg_max = UINT64_MAX,
	 .rma_max = RDMA_MAX,
	 .tx = 4096,
	 .rx = 8192,
	 .cq = 8192,
	 .eps = 256,
	 .mrs = 262144},
	{.short_name = "verbs",
	 .prov_name = "verbs;ofi_rxm",
	 .fabric = "IB-0xfe80000000000000",
	 .pool = true,
	 .connects = true,
	 .wait_fd = true,
	 .msg_max = 1u << 30,
	 .rma_max = 1u << 30,
	 .tx = 2048,
	 .rx = 2048,
	 .cq = 4096,
	 .eps = 131072,
	 .mrs = 1u << 20},
};

static const struct {
	const char *name;
	int first, second; /* of kinds; -1: no second */
	const char *bus;
	size_t speed;
} machines[] = {
	{"efa", 1, 0, "rdmap", 100000000000u},        /* a p5 */
	{"efa-direct", 1, 0, "rdmap", 100000000000u}, /* the same */
	{"efa-p4d", 2, -1, "rdmap", 100000000000u},
	{"verbs", 3, -1, "mlx5_", 200000000000u},
};

struct shim_config shim_config;
struct shim_counts shim_count;
pthread_mutex_t shim_lock = PTHREAD_MUTEX_INITIALIZER;
bool shim_frozen;
atomic_uint shim_domains;
static struct kv_prng prng;
static size_t machine_at;

/* ---- what is imitated ---- */

static const struct {
	const char *name;
	uint64_t *value, otherwise;
} knobs[] = {
	{"seed", &shim_config.seed, 0},
	{"tx", &shim_config.tx, 0}, /* send queue, entries; 0: the kind's */
	{"rx", &shim_config.rx, 0},
	{"rma_kb", &shim_config.rma_kb, 0},       /* the longest read or write; 0: the kind's */
	{"cq_max", &shim_config.cq_max, 0},       /* entries that a CQ may have; 0: any */
	{"eps", &shim_config.ep_max, 48},         /* endpoints per NIC and process that fi_enable gives */
	{"sq_budget", &shim_config.sq_budget, 0}, /* entries of all send queues of a NIC together; 0: any */
	{"einval", &shim_config.einval, 0},       /* fi_enable says EINVAL, as in libfabric 1.17, not ENOMEM */
	{"inuse", &shim_config.inuse, 0},         /* the first so many fi_enable say that the address is in use */
	{"eagain", &shim_config.eagain, 200},     /* one in so many posts begins a burst of refusals; 0: none */
	{"delay", &shim_config.delay, 16},        /* one in so many operations and completions is kept back ... */
	{"stall", &shim_config.stall, 0}, /* one in so many reads of a CQ begins a time in which it gives nothing, as if
					     the program had no CPU ... */
	{"stall_ms", &shim_config.stall_ms, 300},  /* ... of this */
	{"delay_us", &shim_config.delay_us, 2000}, /* ... for up to this */
	{"fail", &shim_config.fail, 0}, /* one in so many operations ends with an error, having landed or not */
	{"fail_at", &shim_config.fail_at,
	 0}, /* so does the operation of this number of every domain, from 1, not having landed */
	{"fail_us", &shim_config.fail_us, 0},     /* what did not land fails so long after it was posted */
	{"eq", &shim_config.eq, 0},               /* one in so many posts breaks its endpoint, told by the EQ */
	{"death_ms", &shim_config.death_ms, 300}, /* operations to a peer that is gone end within this */
	{"lost_ms", &shim_config.lost_ms, 3000},  /* operations to a host that says nothing for so long end */
	{"close_ms", &shim_config.close_ms,
	 2000},                           /* fi_close of an EFA endpoint waits for what is out, so long at most */
	{"mr_mb", &shim_config.mr_mb, 0}, /* memory that a NIC can register in all; 0: any */
	{"mr_part_mb", &shim_config.mr_part_mb, 0},   /* ... at once */
	{"unsolicited", &shim_config.unsolicited, 1}, /* the device can do unsolicited receives */
	{"setopt", &shim_config.setopt,
	 1},                              /* 0: as before libfabric 2.5, which has no option for unsolicited receives */
	{"check", &shim_config.check, 1}, /* compare what was posted when it ends: it must not have changed */
	{"rdma", &shim_config.rdma,
	 1}, /* 0: the device does neither (Nitro 3), or may not (asked for by API 1.17): both are emulated */
	{"wait_fd", &shim_config.wait_fd, 0}, /* libfabric is 2.5, where EFA's CQs have a wait object */
	{"strict", &shim_config.strict, 1},
};

static int knob_set(const char *text)
{
	char name[32];
	const char *eq = strchr(text, '=');
	char *end;
	if (!eq || (size_t)(eq - text) >= sizeof(name))
		return -1;
	snprintf(name, sizeof(name), "%.*s", (int)(eq - text), text);
	uint64_t value = strtoull(eq + 1, &end, 0);
	if (*end || end == eq + 1)
		return -1;
	for (size_t i = 0; i < KV_COUNT(knobs); i++)
		if (strcmp(knobs[i].name, name) == 0) {
			*knobs[i].value = value;
			return 0;
		}
	if (strcmp(name, "nics") == 0 && value >= 1 && value <= 32)
		shim_config.nics = (unsigned)value;
	else if (strcmp(name, "mtu") == 0 && value >= 64 && value <= 64 * KILO)
		shim_config.mtu = (unsigned)value;
	else
		return -1;
	return 0;
}

static int machine_set(const char *name)
{
	for (size_t i = 0; i < KV_COUNT(machines); i++)
		if (strcmp(machines[i].name, name) == 0) {
			machine_at = i;
			shim_config.machine = machines[i].name;
			shim_config.kinds[0] = &kinds[machines[i].first];
			shim_config.kinds[1] = machines[i].second < 0 ? NULL : &kinds[machines[i].second];
			return 0;
		}
	return -1;
}

static int configure(const char *text)
{
	char copy[512], *save = NULL;
	const char *program = program_invocation_short_name;
	memset(&shim_config, 0, sizeof(shim_config));
	memset(&shim_count, 0, sizeof(shim_count));
	for (size_t i = 0; i < KV_COUNT(knobs); i++)
		*knobs[i].value = knobs[i].otherwise;
	shim_config.nics = 4;
	shim_config.mtu = 8 * KILO;
	if (!text || !text[0])
		return 0;
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *word = strtok_r(copy, ",", &save), *first = word; word; word = strtok_r(NULL, ",", &save))
		if (word == first ? machine_set(word) : knob_set(word)) {
			fprintf(stderr, "kvrail-shim: '%s' in '%s' is neither a machine nor a knob\n", word, text);
			shim_config.machine = NULL;
			return -1;
		}
	if (strcmp(program, "kv-server") == 0)
		shim_config.stall = 0; /* else nobody would write to a client that stands still */
	if (!shim_config.seed)
		shim_config.seed = kv_seed_from_env("KVRAIL_SEED");
	kv_prng_seed(&prng, shim_config.seed);
	if (!getenv("KVRAIL_SHIM_QUIET"))
		fprintf(stderr, "kvrail-shim: %s: imitating %s, seed %llu\n", program, text,
			(unsigned long long)shim_config.seed);
	return 0;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void configure_from_env(void)
{
	if (configure(getenv("KVRAIL_SHIM")))
		abort();
}

bool shim_active(void)
{
	pthread_once(&once, configure_from_env);
	return shim_config.machine != NULL;
}

int shim_configure(const char *text)
{
	(void)shim_active();
	if (!kv_list_empty(&shim_eps)) {
		fprintf(stderr, "kvrail-shim: endpoints are open: it stays as it is\n");
		return -1;
	}
	return configure(text ? text : getenv("KVRAIL_SHIM"));
}

uint64_t shim_seed(void)
{
	return shim_config.seed;
}

void shim_counts(struct shim_counts *out)
{
	pthread_mutex_lock(&shim_lock);
	*out = shim_count;
	pthread_mutex_unlock(&shim_lock);
}

void shim_freeze(bool frozen)
{
	pthread_mutex_lock(&shim_lock);
	shim_frozen = frozen;
	device_wake();
	pthread_mutex_unlock(&shim_lock);
}

/* For runs of programs: KVRAIL_SHIM_REPORT names a file that gets a line from each process at its end. */
__attribute__((destructor)) static void report(void)
{
	const char *path = getenv("KVRAIL_SHIM_REPORT");
	FILE *f = path && shim_config.machine && shim_count.posts ? fopen(path, "ae") : NULL;
	const struct shim_counts *c = &shim_count;
	(void)shim_counters_write(true);
	if (!f)
		return;
	const struct {
		const char *name;
		uint64_t n;
	} told[] = {{"posts", c->posts},
		    {"refused", c->eagain},
		    {"overtaken", c->overtaken},
		    {"handshakes", c->handshakes},
		    {"immediates", c->immediates},
		    {"rnr", c->rnr},
		    {"cq peak", c->cq_peak},
		    {"failed", c->op_errors},
		    {"eq", c->eq_errors},
		    {"emulated", c->emulated},
		    {"emulated bytes", c->emulated_bytes},
		    {"sends", c->sends},
		    {"send bytes", c->send_bytes},
		    {"writes", c->writes},
		    {"write bytes", c->write_bytes},
		    {"reads", c->reads},
		    {"read bytes", c->read_bytes},
		    {"violations", c->violations}};
	fprintf(f, "%s:", program_invocation_short_name);
	for (size_t i = 0; i < KV_COUNT(told); i++)
		fprintf(f, "%s %s %llu", i ? "," : "", told[i].name, (unsigned long long)told[i].n);
	fprintf(f, "\n");
	fclose(f);
}

/* ---- what all files use ---- */

uint64_t shim_random(void)
{
	return kv_prng_next(&prng);
}

bool shim_one_in(uint64_t n)
{
	return n && kv_prng_below(&prng, n) == 0;
}

uint64_t shim_now(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

void shim_violation(const char *format, ...)
{
	va_list args;
	if (shim_count.violations++ >= TOLD_MAX)
		return;
	va_start(args, format);
	flockfile(stderr);
	fprintf(stderr, "kvrail-shim: %s[%d]: VIOLATION: ", program_invocation_short_name, (int)getpid());
	vfprintf(stderr, format, args);
	fprintf(stderr, " (seed %llu)\n", (unsigned long long)shim_config.seed);
	funlockfile(stderr);
	va_end(args);
	if (shim_config.strict)
		abort();
}

void shim_enter(struct shim_domain *d)
{
	bool alone = atomic_fetch_add(&d->inside, 1) == 0;
	pthread_mutex_lock(&shim_lock);
	if (!alone)
		shim_violation("two threads use an endpoint, or what is bound to it, at the same time");
	while (d->held) {
		pthread_mutex_unlock(&shim_lock);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		pthread_mutex_lock(&shim_lock);
	}
}

void shim_leave(struct shim_domain *d)
{
	pthread_mutex_unlock(&shim_lock);
	atomic_fetch_sub(&d->inside, 1);
}

/* ---- what libfabric's EFA provider aborts for ---- */

static void trap(const char *text)
{
	fprintf(stderr, "kvrail-shim: %s: libfabric's EFA provider calls abort() here\n", text);
	abort();
}

/* prov/efa/src/efa_env.c and efa_rdm_get_use_device_rdma. */
static void traps_of_environment(void)
{
	const char *rdma = getenv("FI_EFA_USE_DEVICE_RDMA");
	if (!shim_config.kinds[0]->efa)
		return;
	if (getenv("FI_EFA_MTU_SIZE") || getenv("FI_EFA_TX_IOV_LIMIT") || getenv("FI_EFA_RX_IOV_LIMIT"))
		trap("FI_EFA_MTU_SIZE or FI_EFA_..._IOV_LIMIT is set");
	if (rdma && strcmp(rdma, "1") == 0 && !shim_config.rdma)
		trap("FI_EFA_USE_DEVICE_RDMA=1, and the device cannot");
}

/* efa_fork_support.c, as on Linux before 5.13. */
static void before_fork(void)
{
	const char *safe = getenv("FI_EFA_FORK_SAFE");
	if (shim_domains > 0 && !(safe && strcmp(safe, "1") == 0) && !getenv("RDMAV_FORK_SAFE") &&
	    !getenv("IBV_FORK_SAFE"))
		trap("fork() while an EFA domain is open, and FI_EFA_FORK_SAFE is not set");
	pthread_mutex_lock(&shim_lock); /* the child has it then, too */
}

static void after_fork(void)
{
	pthread_mutex_unlock(&shim_lock);
}

static void fork_watch(void)
{
	(void)pthread_atfork(before_fork, after_fork, after_fork);
}

void shim_fork_watch(void)
{
	static pthread_once_t watched = PTHREAD_ONCE_INIT;
	pthread_once(&watched, fork_watch);
}

/* ---- fi_getinfo ---- */

static void nic_free(struct fid_nic *nic)
{
	if (nic->device_attr) {
		free(nic->device_attr->name);
		free(nic->device_attr->device_id);
		free(nic->device_attr->vendor_id);
		free(nic->device_attr->driver);
	}
	free(nic->device_attr);
	free(nic->bus_attr);
	if (nic->link_attr)
		free(nic->link_attr->network_type);
	free(nic->link_attr);
	free(nic);
}

static int nic_close(struct fid *fid)
{
	nic_free(CONTAINER(fid, struct fid_nic, fid));
	return 0;
}

static struct fid_nic *nic_make(unsigned index, const char *name);

static int nic_control(struct fid *fid, int command, void *arg)
{
	struct fid_nic *nic = CONTAINER(fid, struct fid_nic, fid);
	if (command != FI_DUP)
		return -FI_ENOSYS;
	struct fid_nic *copy = nic_make(nic->bus_attr->attr.pci.bus_id - 0x4fu, nic->device_attr->name);
	*(struct fid_nic **)arg = copy;
	return copy ? 0 : -FI_ENOMEM;
}

static struct fi_ops nic_ops = {.size = sizeof(struct fi_ops),
				.close = nic_close,
				.bind = shim_no_bind,
				.control = nic_control,
				.ops_open = shim_no_ops};

static struct fid_nic *nic_make(unsigned index, const char *name)
{
	bool efa = shim_config.kinds[0]->efa;
	struct fid_nic *nic = calloc(1, sizeof(*nic));
	if (!nic)
		return NULL;
	nic->fid.fclass = FI_CLASS_NIC;
	nic->fid.ops = &nic_ops;
	nic->device_attr = calloc(1, sizeof(*nic->device_attr));
	nic->bus_attr = calloc(1, sizeof(*nic->bus_attr));
	nic->link_attr = calloc(1, sizeof(*nic->link_attr));
	if (!nic->device_attr || !nic->bus_attr || !nic->link_attr) {
		nic_free(nic);
		return NULL;
	}
	nic->device_attr->name = strdup(name);
	nic->device_attr->vendor_id = strdup(efa ? "0x1d0f" : "0x2c9");
	nic->device_attr->device_id = strdup(!efa                                ? "0x101b"
					     : !shim_config.rdma                 ? "0xefa0"
					     : shim_config.kinds[0]->soft_writes ? "0xefa1"
										 : "0xefa2");
	nic->device_attr->driver = strdup(efa ? "efa" : "mlx5_core");
	nic->bus_attr->bus_type = FI_BUS_PCI;
	nic->bus_attr->attr.pci.bus_id = (uint8_t)(0x4f + index);
	nic->link_attr->speed = machines[machine_at].speed;
	nic->link_attr->mtu = efa ? EFA_MTU : 4096;
	nic->link_attr->state = FI_LINK_UP;
	nic->link_attr->network_type = strdup(efa ? "Ethernet" : "InfiniBand");
	return nic;
}

/* What the provider needs of what is offered; false: it needs more. */
static bool modes(const struct shim_kind *k, const struct fi_info *hints, struct fi_info *info)
{
	uint64_t need = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | (k->local ? FI_MR_LOCAL : 0);
	uint64_t offered = hints && hints->domain_attr ? (uint64_t)hints->domain_attr->mr_mode : ~0ull;
	uint64_t mode = hints ? hints->mode : ~0ull;
	if ((offered & need) != need || (k->context2 && !(mode & FI_CONTEXT2)))
		return false;
	/* verbs keeps FI_MR_LOCAL where it is offered: else rxm registers behind one's back. */
	info->domain_attr->mr_mode = (int)(need | (k->efa ? 0 : offered & FI_MR_LOCAL));
	info->mode = k->context2 ? FI_CONTEXT2 | (mode & FI_RX_CQ_DATA) : 0;
	return !(k->context2 && !shim_config.unsolicited && !(mode & FI_RX_CQ_DATA));
}

static bool hints_fit(const struct shim_kind *k, const struct fi_info *hints)
{
	uint64_t caps = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE |
			FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SOURCE;
	if (!hints)
		return true;
	if (hints->caps & ~caps ||
	    (hints->ep_attr && hints->ep_attr->type != FI_EP_UNSPEC && hints->ep_attr->type != FI_EP_RDM))
		return false;
	if (hints->fabric_attr && hints->fabric_attr->name && strcmp(hints->fabric_attr->name, k->fabric) != 0)
		return false;
	if (k->context2 && hints->tx_attr &&
	    (hints->tx_attr->msg_order & FI_ORDER_SAS || hints->tx_attr->op_flags & FI_DELIVERY_COMPLETE))
		return false;
	return !hints->domain_attr || hints->domain_attr->cq_data_size <= 4;
}

static int addresses(const struct shim_kind *k, unsigned nic, const char *node, struct fi_info *info)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	info->addr_format = k->efa ? FI_ADDR_EFA : FI_SOCKADDR_IN;
	info->src_addrlen = k->efa ? BLOB_MAX : sizeof(in);
	info->src_addr = calloc(1, info->src_addrlen);
	if (!info->src_addr)
		return -FI_ENOMEM;
	if (k->efa) {
		uint8_t gid[16] = {0xfe, 0x80, [11] = (uint8_t)nic};
		memcpy(info->src_addr, gid, sizeof(gid));
		return 0;
	}
	if (node && inet_pton(AF_INET, node, &in.sin_addr) != 1)
		return -FI_ENODATA;
	memcpy(info->src_addr, &in, sizeof(in));
	return 0;
}

uint64_t shim_rma_max(const struct shim_kind *k)
{
	return shim_config.rma_kb ? shim_config.rma_kb << 10 : k->rma_max;
}

static void sizes(const struct shim_kind *k, struct fi_info *info)
{
	info->caps = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	info->ep_attr->type = FI_EP_RDM;
	info->ep_attr->protocol = k->efa ? FI_PROTO_EFA : FI_PROTO_RXM;
	/* efa-direct says the larger of message and RMA here; the truth about messages is FI_OPT_MAX_MSG_SIZE. */
	info->ep_attr->max_msg_size = k->context2 ? shim_rma_max(k) : k->msg_max;
	info->tx_attr->size = shim_config.tx ? shim_config.tx : k->tx;
	info->rx_attr->size = shim_config.rx ? shim_config.rx : k->rx;
	info->tx_attr->iov_limit = k->context2 ? 2 : 4;
	info->rx_attr->iov_limit = info->tx_attr->iov_limit;
	info->tx_attr->rma_iov_limit = 1;
	info->tx_attr->inject_size = k->context2 ? 32 : 64;
	info->domain_attr->threading = FI_THREAD_SAFE;
	info->domain_attr->control_progress = k->context2 ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
	info->domain_attr->data_progress = info->domain_attr->control_progress;
	info->domain_attr->resource_mgmt = FI_RM_ENABLED;
	info->domain_attr->av_type = FI_AV_TABLE;
	info->domain_attr->mr_key_size = 4;
	info->domain_attr->cq_data_size = 4;
	info->domain_attr->ep_cnt = k->eps;
	info->domain_attr->cq_cnt = 2 * k->eps;
	info->domain_attr->mr_cnt = k->mrs;
}

void shim_device_name(unsigned nic, char *out, size_t cap)
{
	if (shim_config.kinds[0]->efa)
		snprintf(out, cap, "rdmap%us0", 79 + nic);
	else
		snprintf(out, cap, "mlx5_%u", nic);
}

static struct fi_info *info_make(const struct shim_kind *k, unsigned nic, const char *node, const struct fi_info *hints)
{
	char device[32], domain[48];
	struct fi_info *info = fi_allocinfo();
	if (!info)
		return NULL;
	shim_device_name(nic, device, sizeof(device));
	snprintf(domain, sizeof(domain), "%s%s", device, k->efa ? "-rdm" : "");
	sizes(k, info);
	info->fabric_attr->prov_name = strdup(k->prov_name);
	info->fabric_attr->name = strdup(k->fabric);
	info->fabric_attr->prov_version = FI_VERSION(202, 60);
	info->domain_attr->name = strdup(domain);
	info->nic = nic_make(nic, device);
	const char *wanted = hints && hints->domain_attr ? hints->domain_attr->name : NULL;
	if (!modes(k, hints, info) || addresses(k, nic, node, info) || (wanted && strcmp(wanted, domain) != 0)) {
		fi_freeinfo(info);
		return NULL;
	}
	return info;
}

/* The imitated machine's entries, best first. */
static struct fi_info *ours(const char *node, const struct fi_info *hints)
{
	struct fi_info *list = NULL, **tail = &list;
	for (unsigned nic = 0; nic < shim_config.nics; nic++)
		for (unsigned i = 0; i < KV_COUNT(shim_config.kinds) && shim_config.kinds[i]; i++) {
			if (!hints_fit(shim_config.kinds[i], hints) ||
			    (shim_config.kinds[i]->context2 && !shim_config.rdma))
				continue;
			*tail = info_make(shim_config.kinds[i], nic, node, hints);
			if (*tail)
				tail = &(*tail)->next;
		}
	return list;
}

static bool named(const char *prov_name)
{
	return strcasecmp(prov_name, shim_config.kinds[0]->prov_name) == 0;
}

typedef int getinfo_fn(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
typedef int fabric_fn(struct fi_fabric_attr *, struct fid_fabric **, void *);
typedef uint32_t version_fn(void);

static void *next(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);
	if (!f) {
		fprintf(stderr, "kvrail-shim: no %s behind the shim: %s\n", name, dlerror());
		abort();
	}
	return f;
}

/* libfabric itself has fi_version, of course; it is answered for where what is imitated is newer. */
EXPORT uint32_t fi_version(void)
{
	uint32_t real = ((version_fn *)next("fi_version"))();
	return shim_active() && shim_config.wait_fd ? KV_MAX(real, (uint32_t)FI_VERSION(2, 5)) : real;
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		   struct fi_info **info)
{
	getinfo_fn *real = (getinfo_fn *)next("fi_getinfo");
	const char *wanted = hints && hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;
	if (wanted && !named(wanted))
		return real(version, node, service, flags, hints, info);
	if (FI_VERSION_LT(fi_version(), version))
		return -FI_ENOSYS;
	traps_of_environment();
	struct fi_info *list = ours(node, hints), *rest = NULL, **tail = &list;
	while (*tail)
		tail = &(*tail)->next;
	if (!wanted && real(version, node, service, flags, hints, &rest) == 0)
		*tail = rest;
	*info = list;
	return list ? 0 : -FI_ENODATA;
}

/* Two threads at a time crashed libfabric (its issue 5860). The pause makes them meet. libfabric itself may come by
 * here, from within. */
EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		      const struct fi_info *hints, struct fi_info **info)
{
	static atomic_uint inside;
	static __thread bool within;
	if (!shim_active() || within)
		return ((getinfo_fn *)next("fi_getinfo"))(version, node, service, flags, hints, info);
	within = true;
	if (atomic_fetch_add(&inside, 1) > 0)
		shim_violation("two threads are in fi_getinfo at the same time");
	usleep(GETINFO_US);
	int rc = getinfo(version, node, service, flags, hints, info);
	atomic_fetch_sub(&inside, 1);
	within = false;
	return rc;
}

const struct shim_kind *shim_kind_of(const struct fi_fabric_attr *attr)
{
	for (unsigned i = 0; i < KV_COUNT(shim_config.kinds) && shim_config.kinds[i]; i++)
		if (attr->prov_name && named(attr->prov_name) && attr->name &&
		    strcmp(attr->name, shim_config.kinds[i]->fabric) == 0)
			return shim_config.kinds[i];
	return NULL;
}

EXPORT int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	const struct shim_kind *k = shim_active() ? shim_kind_of(attr) : NULL;
	fabric_fn *real = (fabric_fn *)next("fi_fabric");
	return k ? shim_fabric_open(k, attr, out, context) : real(attr, out, context);
}
