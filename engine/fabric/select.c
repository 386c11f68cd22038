/* SPDX-License-Identifier: Apache-2.0 */
/* select.c -- the choice of provider and devices, and one sentence of explanation.
 *
 * "auto" takes the first automatic row of the quirk table with a device. A demanded provider is used or is an error.
 * The hints pin the exact provider name: "tcp" alone means tcp;ofi_rxm before libfabric 1.18 and the incompatible own
 * endpoints after it. Several entries describe the same device. */
#include "engine/fabric/private.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { NIC_ADDRESSES = 16 };

/* Engines look for another address on their own threads. */
static pthread_mutex_t getinfo_lock = PTHREAD_MUTEX_INITIALIZER;

void fab_select_fork(bool hold)
{
	(void)(hold ? pthread_mutex_lock(&getinfo_lock) : pthread_mutex_unlock(&getinfo_lock));
}

uint32_t fab_api_version(void)
{
	uint32_t header = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), library = fi_version();
	return FI_VERSION_LT(header, library) ? header : library;
}

struct fi_info *fab_hints(const struct fab_quirk *quirk, const char *prov_name)
{
	struct fi_info *h = fi_allocinfo();
	if (!h)
		return NULL;
	h->caps = FI_MSG | FI_RMA;
	h->mode = quirk->mode;
	h->addr_format = FI_FORMAT_UNSPEC;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->mr_mode = (int)quirk->mr_mode;
	/* FI_THREAD_DOMAIN would save some locks, but a mistake of ours would no longer meet one. */
	h->domain_attr->threading = FI_THREAD_SAFE;
	h->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->av_type = FI_AV_TABLE;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->cq_data_size = sizeof(uint32_t);
	h->fabric_attr->prov_name = strdup(prov_name);
	if (quirk->fabric_name)
		h->fabric_attr->name = strdup(quirk->fabric_name);
	if (!h->fabric_attr->prov_name || (quirk->fabric_name && !h->fabric_attr->name)) {
		fi_freeinfo(h);
		return NULL;
	}
	return h;
}

void fab_address_text(const void *addr, size_t len, char *out)
{
	const struct sockaddr *sa = addr;
	out[0] = 0;
	if (!sa || len < sizeof(struct sockaddr_in))
		return;
	if (sa->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)addr)->sin_addr, out, LOCAL_TEXT_MAX);
	else if (sa->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6))
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)addr)->sin6_addr, out, LOCAL_TEXT_MAX);
}

static int numa_read(const char *path)
{
	int node = -1;
	FILE *f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%d", &node) != 1)
		node = -1;
	fclose(f);
	return node;
}

/* The node of a device: by its PCI address if the provider knows it, else as a network interface or RDMA device of that
 * name. -1: one node, or unknown. */
static int numa_of(const struct fi_info *info)
{
	static const char *const classes[] = {"net", "infiniband"};
	char path[160];
	const char *name = info->domain_attr->name;
	int node = -1;
	if (info->nic && info->nic->bus_attr && info->nic->bus_attr->bus_type == FI_BUS_PCI) {
		const struct fi_pci_attr *pci = &info->nic->bus_attr->attr.pci;
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/numa_node", pci->domain_id,
			 pci->bus_id, pci->device_id, pci->function_id);
		node = numa_read(path);
	}
	for (unsigned i = 0; node < 0 && name && !strchr(name, '/') && i < KV_COUNT(classes); i++) {
		snprintf(path, sizeof(path), "/sys/class/%s/%.*s/device/numa_node", classes[i], KV_NAME_MAX, name);
		node = numa_read(path);
	}
	return node;
}

static void name_copy(char *out, const char *name)
{
	snprintf(out, KV_NAME_MAX, "%s", name ? name : "");
}

static int device_fill(struct fab_device *d, const struct fab_quirk *quirk, const struct fi_info *info)
{
	memset(d, 0, sizeof(*d));
	name_copy(d->provider, info->fabric_attr->prov_name);
	name_copy(d->fabric, info->fabric_attr->name);
	name_copy(d->domain, info->domain_attr->name);
	name_copy(d->short_name, quirk->short_name ? quirk->short_name : info->fabric_attr->prov_name);
	if (quirk->ip)
		fab_address_text(info->src_addr, info->src_addrlen, d->local);
	d->ep_max = info->domain_attr->ep_cnt;
	d->cq_max = info->domain_attr->cq_cnt;
	d->mr_max = info->domain_attr->mr_cnt;
	d->tx_depth = info->tx_attr->size;
	d->rx_depth = info->rx_attr->size;
	d->msg_max = info->ep_attr->max_msg_size;
	d->rma_max = KV_MIN((uint64_t)info->ep_attr->max_msg_size, FAB_RMA_MAX);
	d->numa_node = numa_of(info);
	d->shared = !quirk->pins_memory;
	d->one_network = quirk->efa;
	if (info->nic && info->nic->link_attr) {
		d->link_bits_per_s = info->nic->link_attr->speed;
		d->link_down = info->nic->link_attr->state == FI_LINK_DOWN;
	}
	struct fi_info *copy = fi_dupinfo(info);
	if (!copy)
		return -KV_ENOMEM;
	copy->next = NULL;
	d->info = copy;
	return 0;
}

static bool nic_matches(const struct fi_info *info, const char *local, const char *nic)
{
	const char *domain = info->domain_attr->name;
	if (!nic)
		return true;
	if (domain && strcmp(domain, nic) == 0)
		return true;
	if (local[0] && strcmp(local, nic) == 0)
		return true;
	return info->nic && info->nic->device_attr && info->nic->device_attr->name &&
	       strcmp(info->nic->device_attr->name, nic) == 0;
}

static bool usable(const struct fi_info *info, const struct fab_quirk *quirk, const char *prov_name,
		   const struct fab_query *query)
{
	char local[LOCAL_TEXT_MAX] = "";
	if (strcasecmp(info->fabric_attr->prov_name, prov_name) != 0 || info->ep_attr->type != FI_EP_RDM)
		return false;
	if (quirk->fabric_name &&
	    (!info->fabric_attr->name || strcmp(info->fabric_attr->name, quirk->fabric_name) != 0))
		return false;
	if ((info->domain_attr->mr_mode & ~(int)quirk->mr_mode) || (info->mode & ~quirk->mode) ||
	    info->domain_attr->mr_key_size > sizeof(uint64_t))
		return false;
	if (quirk->ip) {
		fab_address_text(info->src_addr, info->src_addrlen, local);
		/* A link-local address is meaningless without its interface, which a blob does not carry. */
		if (strncmp(local, "fe80:", 5) == 0 && query->local.ss_family == 0)
			return false;
	}
	return nic_matches(info, local, query->nic);
}

/* A NIC with several addresses is one device; without a NIC each address is one. */
static bool same_device(const struct fab_quirk *quirk, const struct fab_device *a, const struct fab_device *b)
{
	return strcmp(a->domain, b->domain) == 0 && (quirk->pins_memory || strcmp(a->local, b->local) == 0);
}

static unsigned drop_duplicates(const struct fab_quirk *quirk, struct fab_device *list, unsigned count)
{
	unsigned n = 0;
	for (unsigned i = 0; i < count; i++) {
		unsigned j = 0;
		while (j < n && !same_device(quirk, &list[j], &list[i]))
			j++;
		if (j < n)
			fi_freeinfo(list[i].info);
		else
			list[n++] = list[i];
	}
	return n;
}

/* Addresses reachable by other hosts come first: loopback is last, IPv6 comes after IPv4. */
static int rank(const struct fab_device *d)
{
	bool loopback = strncmp(d->local, "127.", 4) == 0 || strcmp(d->local, "::1") == 0;
	return (loopback ? 2 : 0) + (strchr(d->local, ':') ? 1 : 0);
}

static void sort_by_rank(struct fab_device *list, unsigned count)
{
	for (unsigned i = 1; i < count; i++) {
		struct fab_device d = list[i];
		unsigned j = i;
		for (; j > 0 && rank(&list[j - 1]) > rank(&d); j--)
			list[j] = list[j - 1];
		list[j] = d;
	}
}

static int getinfo(const struct fab_quirk *quirk, const char *prov_name, const struct fab_query *query,
		   struct fi_info **out)
{
	char node[NI_MAXHOST] = "";
	struct fi_info *hints = fab_hints(quirk, prov_name);
	if (!hints)
		return -KV_ENOMEM;
	if (quirk->ip && query->local.ss_family != 0)
		(void)getnameinfo((const struct sockaddr *)&query->local, sizeof(query->local), node, sizeof(node),
				  NULL, 0, NI_NUMERICHOST);
	pthread_mutex_lock(&getinfo_lock);
	int rc = fi_getinfo(fab_api_version(), node[0] ? node : NULL, NULL, node[0] ? FI_SOURCE : 0, hints, out);
	pthread_mutex_unlock(&getinfo_lock);
	fi_freeinfo(hints);
	return rc;
}

/* All matching devices of one provider. Returns 0 with *out_count > 0, or the code of the reason for none. */
static int probe_any(const struct fab_quirk *quirk, const char *prov_name, const struct fab_query *query,
		     struct fab_device *out, unsigned max, unsigned *out_count)
{
	struct fi_info *list = NULL;
	unsigned n = 0;
	*out_count = 0;
	int rc = getinfo(quirk, prov_name, query, &list);
	if (rc)
		return rc;
	for (const struct fi_info *info = list; info && n < max; info = info->next) {
		if (!usable(info, quirk, prov_name, query))
			continue;
		rc = device_fill(&out[n], quirk, info);
		if (rc)
			break;
		n++;
	}
	fi_freeinfo(list);
	if (rc) {
		fab_devices_free(out, n);
		return rc;
	}
	sort_by_rank(out, n);
	*out_count = drop_duplicates(quirk, out, n);
	return n ? 0 : -FI_ENODATA;
}

/* ---- NICs by name ---- */

/* Choose a NIC's address: that of query->local, else one of its family, else the first. */
static unsigned best_address(const struct fab_query *query, const struct fab_device *d, unsigned n)
{
	char local[LOCAL_TEXT_MAX];
	unsigned best = 0;
	fab_address_text(&query->local, sizeof(query->local), local);
	if (!local[0])
		return 0;
	for (unsigned i = n; i-- > 0;)
		if (!strchr(d[i].local, ':') == !strchr(local, ':'))
			best = i;
	for (unsigned i = 0; i < n; i++)
		if (strcmp(d[i].local, local) == 0)
			best = i;
	return best;
}

/* An address names its interface, even one of a whole network (127.0.0.2 on lo), which no list of addresses shows. */
static bool is_address(const char *name, struct sockaddr_storage *out)
{
	struct sockaddr_in *in = (struct sockaddr_in *)out;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, name, &in->sin_addr) == 1)
		in->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, name, &in6->sin6_addr) == 1)
		in6->sin6_family = AF_INET6;
	return out->ss_family != 0;
}

static int probe_one(const struct fab_quirk *quirk, const char *prov_name, const struct fab_query *query,
		     const char *name, struct fab_device *out)
{
	struct fab_query one = {.nic = name, .log = query->log};
	struct fab_device found[NIC_ADDRESSES];
	unsigned n, best;
	if (quirk->ip && is_address(name, &one.local)) {
		/* libfabric accepts any source address, and fails when the endpoint opens. */
		if (!kv_sockaddr_is_ours(&one.local))
			return -FI_ENODATA;
		one.nic = NULL;
	}
	int rc = probe_any(quirk, prov_name, &one, found, NIC_ADDRESSES, &n);
	if (rc)
		return rc;
	best = best_address(query, found, n);
	*out = found[best];
	found[best].info = NULL;
	fab_devices_free(found, n);
	return 0;
}

/* The NICs of the list query->nic, in its order: all of them, or an error. missing (KV_NAME_MAX bytes): the first
 * missing name; *out_count: how many were found before it. */
static int probe_list(const struct fab_quirk *quirk, const char *prov_name, const struct fab_query *query,
		      struct fab_device *out, unsigned max, unsigned *out_count, char *missing)
{
	const char *at = query->nic;
	unsigned n = 0;
	int rc = 0;
	do {
		size_t len = strcspn(at, ",");
		snprintf(missing, KV_NAME_MAX, "%.*s", (int)KV_MIN(len, (size_t)KV_NAME_MAX), at);
		if (len == 0 || len >= KV_NAME_MAX)
			rc = -FI_ENODATA;
		else
			rc = n == max ? -FI_E2BIG : probe_one(quirk, prov_name, query, missing, &out[n]);
		at += len + (at[len] == ',');
		for (unsigned i = 0; rc == 0 && i < n; i++)
			if (same_device(quirk, &out[i], &out[n])) {
				fab_devices_free(&out[n], 1);
				rc = -FI_EALREADY;
			}
		n += rc == 0;
		if (rc == 0 && *at == '\0' && at[-1] == ',') { /* it ends with a comma */
			missing[0] = '\0';
			rc = -FI_ENODATA;
		}
	} while (rc == 0 && *at);
	*out_count = n;
	if (rc)
		fab_devices_free(out, n);
	return rc;
}

/* The devices of one provider. missing: as for probe_list; "" without a list. */
static int probe(const struct fab_quirk *quirk, const char *prov_name, const struct fab_query *query,
		 struct fab_device *out, unsigned max, unsigned *out_count, char *missing)
{
	missing[0] = '\0';
	return query->nic ? probe_list(quirk, prov_name, query, out, max, out_count, missing)
			  : probe_any(quirk, prov_name, query, out, max, out_count);
}

/* ---- a lost address ---- */

static bool source_of(const struct fi_info *info, struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (!info->src_addr || info->src_addrlen > sizeof(*out))
		return false;
	memcpy(out, info->src_addr, info->src_addrlen);
	return out->ss_family == AF_INET || out->ss_family == AF_INET6;
}

bool fab_address_gone(const struct fab *fab)
{
	struct sockaddr_storage own;
	return fab->quirk->ip && source_of(fab->info, &own) && !kv_sockaddr_is_ours(&own);
}

static bool stands_in(const struct fab *fab, const struct fi_info *info)
{
	struct sockaddr_storage own, other;
	return source_of(fab->info, &own) && source_of(info, &other) && own.ss_family == other.ss_family &&
	       kv_sockaddr_is_ours(&other);
}

static bool name_put(char **to, const char *name)
{
	char *copy = name ? strdup(name) : NULL;
	if (!copy)
		return false;
	free(*to);
	*to = copy;
	return true;
}

/* Replace our address by the other one, in every place that fi_dupinfo copies. */
static bool address_put(struct fab *fab, const struct fab_device *d)
{
	const struct fi_info *info = d->info;
	void *copy = malloc(info->src_addrlen);
	if (!copy || !name_put(&fab->info->domain_attr->name, info->domain_attr->name) ||
	    !name_put(&fab->info->fabric_attr->name, info->fabric_attr->name)) {
		free(copy);
		return false;
	}
	memcpy(copy, info->src_addr, info->src_addrlen);
	free(fab->info->src_addr);
	fab->info->src_addr = copy;
	fab->info->src_addrlen = info->src_addrlen;
	memcpy(fab->caps.local, d->local, sizeof(fab->caps.local));
	memcpy(fab->caps.domain, d->domain, sizeof(fab->caps.domain));
	return true;
}

static bool address_of(struct fab *fab, const struct fab_query *query)
{
	struct fab_device found[NIC_ADDRESSES];
	unsigned n, i = 0;
	bool taken;
	if (probe_any(fab->quirk, fab->caps.provider, query, found, NIC_ADDRESSES, &n))
		return false;
	while (i < n && !stands_in(fab, found[i].info))
		i++;
	taken = i < n && address_put(fab, &found[i]);
	fab_devices_free(found, n);
	return taken;
}

void fab_address_take(struct fab *fab)
{
	const struct fab_query own = {.nic = fab->caps.domain, .log = fab->options.log},
			       other = {.local = fab->local, .log = fab->options.log};
	/* Memory is registered with a NIC; with tcp's domains it is not. */
	if (!address_of(fab, &own) && fab->local.ss_family != 0 && fab->quirk->tcp)
		(void)address_of(fab, &other);
}

void fab_local_set(struct fab *fab, const struct sockaddr_storage *local)
{
	fab->local = *local;
}

static void append(char *buf, size_t cap, const char *text)
{
	size_t len = strlen(buf);
	if (len < cap)
		snprintf(buf + len, cap - len, "%s", text);
}

/* "eth0 (192.0.2.2), lo (127.0.0.1)": the NICs of one provider. */
static void list_nics(const struct fab_quirk *quirk, const char *prov_name, char *out, size_t cap)
{
	struct fab_query any = {0};
	struct fab_device d[KV_RAILS_MAX];
	unsigned n;
	if (probe_any(quirk, prov_name, &any, d, KV_RAILS_MAX, &n))
		return;
	for (unsigned i = 0; i < n; i++) {
		append(out, cap, out[0] ? ", " : "");
		append(out, cap, d[i].domain);
		if (!d[i].local[0])
			continue;
		append(out, cap, " (");
		append(out, cap, d[i].local);
		append(out, cap, ")");
	}
	fab_devices_free(d, n);
}

static int nic_fail(const struct fab_query *query, const char *missing, int rc, const char *where, const char *present,
		    struct kv_error *err)
{
	if (rc == -FI_EALREADY)
		return kv_fail(err, -KV_EINVAL, "NIC %s is twice in the list %s", missing, query->nic);
	if (rc == -FI_E2BIG)
		return kv_fail(err, -KV_EINVAL, "the list of NICs %s is too long; an engine has at most %d", query->nic,
			       KV_RAILS_MAX);
	if (!missing[0])
		return kv_fail(err, -KV_EINVAL, "the list of NICs \"%s\" has an empty name", query->nic);
	return kv_fail(err, -KV_ENOTSUP, "no NIC %s %s; there are: %s", missing, where, present[0] ? present : "none");
}

/* "tcp, shm": the providers of this machine. */
static void list_present(const struct fab_query *query, char *out, size_t cap)
{
	struct fab_device d[1];
	struct fab_query any = {.local = query->local, .log = query->log};
	unsigned n;
	out[0] = 0;
	for (unsigned i = 0; fab_quirk_at(i); i++) {
		const struct fab_quirk *q = fab_quirk_at(i);
		if (probe_any(q, q->prov_name, &any, d, 1, &n))
			continue;
		fab_devices_free(d, n);
		append(out, cap, out[0] ? ", " : "");
		append(out, cap, q->short_name);
	}
	if (!out[0])
		append(out, cap, "none");
}

static void describe(const struct fab_device *d, unsigned count, const char *reason, char *out_why)
{
	if (!out_why)
		return;
	snprintf(out_why, 512, "%s (%s): %s; %u device%s: ", d->short_name, d->provider, reason, count,
		 count == 1 ? "" : "s");
	for (unsigned i = 0; i < count; i++) {
		append(out_why, 512, i ? ", " : "");
		append(out_why, 512, d[i].domain);
		append(out_why, 512, d[i].local[0] ? " " : "");
		append(out_why, 512, d[i].local);
	}
}

/* The user's own filter, easily forgotten; "" without one. */
static const char *hidden_by(char *buf, size_t cap)
{
	const char *set = getenv("FI_PROVIDER");
	buf[0] = '\0';
	if (set)
		snprintf(buf, cap,
			 "; FI_PROVIDER=%.64s is set, and limits the providers that libfabric shows: unset it", set);
	return buf;
}

static int demanded(const struct fab_query *query, struct fab_device *out, unsigned max, unsigned *out_count,
		    char *out_why, struct kv_error *err)
{
	char present[512] = "", missing[KV_NAME_MAX], where[KV_NAME_MAX + 32], hidden[160];
	const struct fab_quirk *quirk = fab_quirk_find(query->provider);
	const char *prov_name = quirk->prov_name ? quirk->prov_name : query->provider;
	int rc = probe(quirk, prov_name, query, out, max, out_count, missing);
	if (rc == 0) {
		describe(out, *out_count, "as demanded", out_why);
		return 0;
	}
	if (rc == -KV_ENOMEM)
		return kv_fail(err, rc, "no memory for the list of fabric devices");
	if (query->nic)
		list_nics(quirk, prov_name, present, sizeof(present));
	if (present[0]) {
		snprintf(where, sizeof(where), "for provider %s", query->provider);
		return nic_fail(query, missing, rc, where, present, err);
	}
	if (fab_limits_shm(quirk, err))
		return -KV_ELIMIT;
	list_present(query, present, sizeof(present));
	return kv_fail(err, -KV_ENOTSUP, "provider %s is not here (%s); present: %s%s", query->provider,
		       fi_strerror(rc < 0 ? -rc : FI_ENODATA), present, hidden_by(hidden, sizeof(hidden)));
}

/* No automatic provider has all NICs of the list. The provider with most of them reports the missing one. */
static int auto_nics_fail(const struct fab_query *query, const char *missing, int rc, struct kv_error *err)
{
	char present[512] = "";
	for (unsigned i = 0; fab_quirk_at(i); i++)
		if (fab_quirk_at(i)->automatic)
			list_nics(fab_quirk_at(i), fab_quirk_at(i)->prov_name, present, sizeof(present));
	return nic_fail(query, missing, rc, "here", present, err);
}

static int automatic(const struct fab_query *query, struct fab_device *out, unsigned max, unsigned *out_count,
		     char *out_why, struct kv_error *err)
{
	char reason[256] = "auto", missing[KV_NAME_MAX], blamed[KV_NAME_MAX] = "", hidden[160];
	unsigned most = 0;
	int why = 0;
	for (unsigned i = 0; fab_quirk_at(i); i++) {
		const struct fab_quirk *q = fab_quirk_at(i);
		if (!q->automatic)
			continue;
		int rc = probe(q, q->prov_name, query, out, max, out_count, missing);
		if (rc == 0) {
			describe(out, *out_count, reason, out_why);
			return 0;
		}
		if (!why || *out_count > most) {
			why = rc;
			most = *out_count;
			memcpy(blamed, missing, sizeof(blamed));
		}
		append(reason, sizeof(reason), ", no ");
		append(reason, sizeof(reason), q->short_name);
		kv_debug(query->log, "auto: no %s: %s", q->prov_name,
			 fi_strerror(rc < 0 && rc > -1000 ? -rc : FI_ENOMEM));
	}
	if (query->nic)
		return auto_nics_fail(query, blamed, why, err);
	hidden_by(hidden, sizeof(hidden));
	return kv_fail(err, -KV_ENOTSUP, "no usable fabric provider: %s%s", reason,
		       hidden[0] ? hidden : "; is libfabric complete, and the local address one of this machine?");
}

int fab_devices(const struct fab_query *query, struct fab_device *out, unsigned max, unsigned *out_count, char *out_why,
		struct kv_error *err)
{
	if (!query->provider || strcasecmp(query->provider, "auto") == 0)
		return automatic(query, out, max, out_count, out_why, err);
	return demanded(query, out, max, out_count, out_why, err);
}

void fab_devices_free(struct fab_device *devices, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		fi_freeinfo(devices[i].info);
		devices[i].info = NULL;
	}
}
