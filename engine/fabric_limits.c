/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_limits.c -- which limit of the machine is short, said before and after it bites.
 *
 * Providers answer a short limit with ENOMEM, EINVAL or an abort in a later call. So what can be compared is compared
 * first (check.c's table), and when a provider says ENOMEM all the same, it is compared again: the sentence then names
 * what is short, or gives the figures of all that is not. The census of endpoints is the one piece of process-wide state: limits are
 * per process and device, and nothing else knows of the other engines. */
#include "engine/fabric_inside.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CENSUS_ROWS = 64 };

static pthread_mutex_t census_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	char domain[KV_NAME_MAX];
	int count;
} census[CENSUS_ROWS];

/* The row of a domain, else a free one if wanted, else NULL. Under the lock. */
static int *census_row(const char *domain, bool make)
{
	int *empty = NULL;
	for (unsigned i = 0; i < CENSUS_ROWS; i++) {
		if (census[i].count > 0 && strcmp(census[i].domain, domain) == 0)
			return &census[i].count;
		if (census[i].count == 0 && !empty && make) {
			empty = &census[i].count;
			snprintf(census[i].domain, sizeof(census[i].domain), "%s", domain);
		}
	}
	return empty;
}

void fab_census_add(const char *domain, int delta)
{
	pthread_mutex_lock(&census_lock);
	int *row = census_row(domain, delta > 0);
	if (row)
		*row = KV_MAX(0, *row + delta);
	pthread_mutex_unlock(&census_lock);
}

unsigned fab_census(const char *domain)
{
	pthread_mutex_lock(&census_lock);
	int *row = census_row(domain, false);
	unsigned count = row ? (unsigned)*row : 0;
	pthread_mutex_unlock(&census_lock);
	return count;
}

/* ---- before ---- */

/* What one endpoint on this device, and perhaps more than it, takes of what there is. */
static unsigned checks_of(const struct fab_device *device, const struct te_need *need, struct te_verdict *out, unsigned max)
{
	struct te_limits limits;
	struct kv_host host;
	struct te_checkup c = {.host = &host, .limits = &limits, .need = need, .cma_error = -1};
	fab_limits(device, &limits);
	kv_host_read("", &host);
	c.pins_memory = limits.pins_memory;
	c.shared_memory = limits.shared_memory;
	return te_check(&c, TE_CHECK_DEVICE | TE_CHECK_PROCESS, out, max);
}

int fab_limits_check(const struct fab_device *device, const struct fab_options *options, struct kv_error *err)
{
	struct te_verdict v[TE_CHECKS_MAX];
	struct te_need need;
	char subject[2 * KV_NAME_MAX + 8];
	fab_need(device, options, 1, &need);
	unsigned n = checks_of(device, &need, v, KV_COUNT(v));
	snprintf(subject, sizeof(subject), "%s on %s", device->provider, device->domain);
	for (unsigned i = 0; i < n; i++) {
		if (v[i].status == TE_FAIL)
			return te_verdict_fail(&v[i], subject, err);
		if (v[i].status == TE_WARN)
			kv_warn(options->log, "%s: %s: %s; %s", subject, v[i].name, v[i].text, v[i].remedy);
	}
	return 0;
}

/* ---- after ---- */

static bool exhaustion(int rc)
{
	switch (-rc) {
	case FI_ENOMEM:
	case FI_ENOSPC:
	case FI_EMFILE:
	case FI_ENOBUFS:
	case FAB_ENOMR:
	case ENFILE:
	case FI_EAGAIN:
		return true;
	case FI_EINVAL: /* efa 1.17 hides every errno behind it */
		return true;
	default:
		return false;
	}
}

static void device_of(const struct fab *fab, struct fab_device *out)
{
	memset(out, 0, sizeof(*out));
	snprintf(out->domain, sizeof(out->domain), "%s", fab->caps.domain);
	snprintf(out->provider, sizeof(out->provider), "%s", fab->caps.provider);
	snprintf(out->short_name, sizeof(out->short_name), "%s",
		 fab->quirk->short_name ? fab->quirk->short_name : fab->caps.provider);
	out->ep_max = fab->info->domain_attr->ep_cnt;
	out->cq_max = fab->info->domain_attr->cq_cnt;
	out->mr_max = fab->info->domain_attr->mr_cnt;
}

void fab_limits_short(const struct fab *fab, const struct te_need *need, char *buf, size_t cap)
{
	struct fab_device device;
	struct te_verdict v[TE_CHECKS_MAX];
	size_t at = 0;
	device_of(fab, &device);
	unsigned n = checks_of(&device, need, v, KV_COUNT(v));
	for (unsigned i = 0; i < n; i++)
		if (v[i].status == TE_FAIL) {
			snprintf(buf, cap, "%s is short: %s; %s", v[i].name, v[i].text, v[i].remedy);
			return;
		}
	at += (size_t)snprintf(buf, cap, "no limit that can be seen is short (");
	for (unsigned i = 0; i < n && at < cap; i++)
		if (v[i].need != KV_UNKNOWN && v[i].need > 0)
			at += (size_t)snprintf(buf + at, cap - at, "%s: %s; ", v[i].name, v[i].text);
	if (at < cap)
		snprintf(buf + at - 2, cap - at + 2, ")%s",
			 fab->quirk->pins_memory ? ": the device itself is; use fewer clients or rails, or huge pages" : "");
}

int fab_limits_fail(const struct fab *fab, const char *what, int rc, struct kv_error *err)
{
	const char *prov = fab->info->fabric_attr->prov_name, *domain = fab->info->domain_attr->name;
	struct fab_device device;
	struct te_need need;
	char why[384];
	if (!exhaustion(rc))
		return kv_fail(err, -KV_EPROVIDER, "%s on %s (%s): %s", what, domain, prov, fi_strerror(-rc));
	device_of(fab, &device);
	fab_need(&device, &fab->options, 1, &need);
	need.cq_entries = KV_MIN(need.cq_entries, (uint64_t)fab->cq_wanted);
	fab_limits_short(fab, &need, why, sizeof(why));
	return kv_fail(err, -KV_ELIMIT, "%s on %s (%s): %s, with %u endpoints of this process open; %s", what, domain, prov,
		       fi_strerror(-rc), fab_census(domain), why);
}
