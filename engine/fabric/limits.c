/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c -- names the machine's limit that is too low, before or after a failure.
 *
 * Providers report a low limit as ENOMEM, EINVAL or an abort in a later call. So limits are compared first (the table
 * in host/shortage.c), and again after an ENOMEM. The device is asked only while a rail is opened, since that takes up
 * to half a second. */
#include "engine/fabric/private.h"
#include "host/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- before ---- */

/* Too large for the stack of a coroutine. */
struct checks {
	struct kv_device_limits limits;
	struct kv_host host;
	unsigned n;
	struct kv_verdict v[KV_CHECKS_MAX];
};

/* known: earlier answers of the device; NULL: ask it. For free(); NULL: no memory. */
static struct checks *checks_of(const struct fab_device *device, const struct kv_need *need,
				const struct kv_device_limits *known)
{
	struct checks *k = malloc(sizeof(*k));
	if (!k)
		return NULL;
	if (known)
		k->limits = *known;
	else
		fab_limits(device, &k->limits);
	kv_host_read("", &k->host);
	struct kv_checkup c = {.host = &k->host,
			       .limits = &k->limits,
			       .need = need,
			       .pins_memory = k->limits.pins_memory,
			       .shared_memory = k->limits.shared_memory,
			       .cma_error = -1};
	k->n = kv_check(&c, KV_CHECK_DEVICE | KV_CHECK_PROCESS, k->v, KV_COUNT(k->v));
	return k;
}

static void limits_keep(struct fab *fab, const struct kv_device_limits *now)
{
	fab->limits = *now;
	fab->limits.qps_used = fab->limits.cqs_used = fab->limits.mrs_used = KV_UNKNOWN;
	fab->limits.link = -1;
}

int fab_limits_check(struct fab *fab, const struct fab_device *device, const struct fab_options *options,
		     struct kv_error *err)
{
	struct kv_need need;
	char subject[2 * KV_NAME_MAX + 8];
	int rc = 0;
	fab_need(device, options, 1, &need);
	struct checks *k = checks_of(device, &need, NULL);
	if (!k)
		return kv_fail(err, -KV_ENOMEM, "no memory to look at the limits of %s", device->domain);
	limits_keep(fab, &k->limits);
	snprintf(subject, sizeof(subject), "%s on %s", device->provider, device->domain);
	for (unsigned i = 0; i < k->n && rc == 0; i++) {
		if (k->v[i].status == KV_FAIL)
			rc = kv_verdict_fail(&k->v[i], subject, err);
		if (k->v[i].status == KV_WARN)
			kv_warn(options->log, "%s: %s: %s; %s", subject, k->v[i].name, k->v[i].text, k->v[i].remedy);
	}
	free(k);
	return rc;
}

int fab_limits_shm(const struct fab_quirk *quirk, struct kv_error *err)
{
	struct fab_device device = {.provider = "shm", .domain = "shm", .short_name = "shm"};
	struct fab_options options = {0};
	struct kv_verdict v;
	struct kv_need need;
	struct kv_host host;
	if (!quirk->dev_shm)
		return 0;
	fab_need(&device, &options, 1, &need);
	kv_host_read("", &host);
	struct kv_checkup c = {.host = &host, .need = &need, .shared_memory = true, .cma_error = -1};
	return kv_check_one(&c, KV_LIMIT_SHM, &v) == KV_FAIL ? kv_verdict_fail(&v, "provider shm", err) : 0;
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

static void figures(const struct checks *k, const struct fab *fab, char *buf, size_t cap)
{
	size_t at = (size_t)snprintf(buf, cap, "no limit that can be seen is short (");
	for (unsigned i = 0; i < k->n && at < cap; i++)
		if (k->v[i].need != KV_UNKNOWN && k->v[i].need > 0)
			at += (size_t)snprintf(buf + at, cap - at, "%s%s: %s", buf[at - 1] == '(' ? "" : "; ",
					       k->v[i].name, k->v[i].text);
	if (at < cap)
		snprintf(buf + at, cap - at, ")%s%s",
			 fab->quirk->pins_memory
				 ? ": the device itself is full; use fewer clients or rails, or huge pages"
				 : "",
			 fab->quirk->pins_memory && fab->opened ? "; kv-doctor shows how much of the device is in use"
								: "");
}

void fab_limits_short(struct fab *fab, const struct kv_need *need, char *buf, size_t cap)
{
	struct fab_device device;
	buf[0] = '\0';
	device_of(fab, &device);
	fab->limits.endpoints_used = fab_census(device.domain);
	struct checks *k = checks_of(&device, need, fab->opened ? &fab->limits : NULL);
	for (unsigned i = 0; k && i < k->n && !buf[0]; i++)
		if (k->v[i].status == KV_FAIL)
			kv_verdict_short(&k->v[i], buf, cap);
	if (k && !buf[0])
		figures(k, fab, buf, cap);
	free(k);
}

static const char *way_out(const struct fab *fab, int rc)
{
	if (fab->quirk->dev_shm && (rc == -EACCES || rc == -EROFS))
		return "; this user must be able to write to /dev/shm (`ls -ld /dev/shm`)";
	if (rc == -EADDRNOTAVAIL)
		return "; the address must be one of this machine's (`ip address` lists them)";
	return "";
}

int fab_limits_fail(struct fab *fab, const char *what, int rc, struct kv_error *err)
{
	const char *prov = fab->info->fabric_attr->prov_name, *domain = fab->info->domain_attr->name;
	struct fab_device device;
	struct kv_need need;
	char why[384];
	if (!exhaustion(rc))
		return kv_fail(err, -KV_EPROVIDER, "%s on %s (%s): %s%s", what, domain, prov, fi_strerror(-rc),
			       way_out(fab, rc));
	device_of(fab, &device);
	fab_need(&device, &fab->options, 1, &need);
	need.cq_entries = KV_MIN(need.cq_entries, (uint64_t)fab->cq_wanted);
	fab_limits_short(fab, &need, why, sizeof(why));
	return kv_fail(err, -KV_ELIMIT, "%s on %s (%s): %s, with %u endpoints of this process open%s%s", what, domain,
		       prov, fi_strerror(-rc), fab_census(domain), why[0] ? "; " : "", why);
}
