/* SPDX-License-Identifier: Apache-2.0 */
/* footprint.c -- check that memory is available before it is mapped, and name the short limit: Linux maps more memory
 * than there is and kills processes later.
 *
 * Available are the machine's free memory (MemAvailable), within the memory cgroups, and hugetlb pages for values only.
 */
#include "host/footprint.h"

#include <stdio.h>

#include "host/limits.h"

struct have {
	uint64_t plain, huge; /* KV_UNKNOWN: not in /proc */
	bool grouped;
	char huge_text[256];
};

static void huge_text(const struct kv_host *h, char *buf, size_t cap)
{
	uint64_t all_bytes = kv_huge_bytes(h, false), allowed_bytes = kv_huge_bytes(h, true);
	char all[32], allowed[32];
	buf[0] = '\0';
	kv_size_format(all_bytes, all, sizeof(all));
	kv_size_format(allowed_bytes, allowed, sizeof(allowed));
	if (allowed_bytes < all_bytes)
		snprintf(buf, cap,
			 ", and of %s in free huge pages the hugetlb cgroup allows %s (hugepages-2Mi or hugepages-1Gi "
			 "in the resources of a Kubernetes pod)",
			 all, allowed);
	else if (all_bytes)
		snprintf(buf, cap, ", and %s in free huge pages", all);
}

static void have_read(const char *root, struct have *out)
{
	struct kv_host h;
	kv_host_read(root, &h);
	out->grouped = h.memory_group < h.memory_available;
	out->plain = h.memory_available == KV_UNKNOWN ? KV_UNKNOWN : KV_MIN(h.memory_available, h.memory_group);
	out->huge = kv_huge_bytes(&h, true);
	huge_text(&h, out->huge_text, sizeof(out->huge_text));
}

/* ---- needs ---- */

static uint64_t index_bytes(const struct kv_footprint *r)
{
	uint64_t values = r->values_max ? r->values_max : r->values_bytes / KV_FOOTPRINT_VALUE_MEAN;
	return values * KV_FOOTPRINT_VALUE_BYTES;
}

static uint64_t clients_bytes(const struct kv_footprint *r)
{
	return (uint64_t)KV_MIN(r->clients, (unsigned)KV_FOOTPRINT_CLIENTS) * KV_FOOTPRINT_CLIENT_BYTES;
}

uint64_t kv_footprint_tier(const struct kv_footprint *r)
{
	return r->tier_bytes / KV_FOOTPRINT_VALUE_MEAN * KV_FOOTPRINT_TIER_VALUE_BYTES +
	       (uint64_t)r->tier_drives * KV_FOOTPRINT_TIER_DRIVE_BYTES;
}

static uint64_t with_reserve(uint64_t bytes)
{
	return bytes + KV_MAX(bytes / KV_FOOTPRINT_RESERVE_SHARE, (uint64_t)KV_FOOTPRINT_RESERVE_LEAST);
}

uint64_t kv_footprint_need(const struct kv_footprint *r)
{
	return with_reserve(r->values_bytes + index_bytes(r) + r->engines_bytes + r->landing_bytes + clients_bytes(r) +
			    kv_footprint_tier(r) + r->others_bytes);
}

static bool fits(const struct kv_footprint *r, const struct have *h)
{
	return h->plain == KV_UNKNOWN || kv_footprint_need(r) - KV_MIN(r->values_bytes, h->huge) <= h->plain;
}

static uint64_t most_mib(const struct kv_footprint *r, const struct have *h)
{
	struct kv_footprint less = *r;
	uint64_t low = 0, high = r->values_bytes >> 20;
	while (low < high) { /* low fits, or is 0; high + 1 does not */
		uint64_t mid = low + (high - low + 1) / 2;
		less.values_bytes = mid << 20;
		if (fits(&less, h))
			low = mid;
		else
			high = mid - 1;
	}
	return low;
}

uint64_t kv_footprint_values(const char *root, const struct kv_footprint *r)
{
	uint64_t most = r->values_bytes >> 10, least = KV_MAX(r->values_bytes / KV_FOOTPRINT_VALUE_MEAN, (uint64_t)1),
		 need;
	struct kv_footprint more = *r;
	struct have h;
	have_read(root, &h);
	if (h.plain == KV_UNKNOWN)
		return most;
	more.values_max = least;
	need = kv_footprint_need(&more) - KV_MIN(r->values_bytes, h.huge);
	/* (The reserve grows with it.) */
	least += need < h.plain ? (h.plain - need) / KV_FOOTPRINT_VALUE_BYTES / 100 * 95 : 0;
	return KV_MIN(least, most);
}

uint64_t kv_footprint_landing(const char *root, uint64_t wanted)
{
	struct have h;
	have_read(root, &h);
	return h.plain == KV_UNKNOWN ? wanted
				     : KV_MIN(wanted, KV_MAX(h.plain / 16, (uint64_t)KV_FOOTPRINT_LANDING_LEAST));
}

/* ---- the sentences ---- */

static const char *allows(const struct have *h)
{
	return h->grouped ? "the memory cgroup of this process allows" : "this machine can give";
}

static const char *more_by(const struct have *h)
{
	return h->grouped ? "raise its limit (memory.max; --memory in docker, resources.limits.memory in Kubernetes)"
			  : "free memory";
}

#define SIZE(value) kv_size_format((value), (char[32]){0}, 32)

int kv_footprint_fits(const char *root, const struct kv_footprint *r, struct kv_error *err)
{
	struct have h;
	char less[64] = "", tier[64] = "";
	uint64_t most;
	have_read(root, &h);
	if (fits(r, &h))
		return 0;
	most = most_mib(r, &h);
	if (most)
		snprintf(less, sizeof(less), "use --memory-mb %llu or less, or ", (unsigned long long)most);
	if (kv_footprint_tier(r))
		snprintf(tier, sizeof(tier), "%s for the index and buffers of --tier, ", SIZE(kv_footprint_tier(r)));
	return kv_fail(
		err, -KV_ENOMEM,
		"%s of memory are wanted: %s for values, %s for keys and index, %s%s for endpoints and messages, "
		"%s for landing areas, %s for clients, the rest in reserve; %s %s%s; %s%s",
		SIZE(kv_footprint_need(r)), SIZE(r->values_bytes), SIZE(index_bytes(r)), tier, SIZE(r->engines_bytes),
		SIZE(r->landing_bytes), SIZE(clients_bytes(r)), allows(&h), SIZE(h.plain), h.huge_text, less,
		more_by(&h));
}

int kv_footprint_others(const char *root, uint64_t bytes, const char *what, const char *way_out, struct kv_error *err)
{
	struct have h;
	have_read(root, &h);
	if (h.plain == KV_UNKNOWN || with_reserve(bytes) <= h.plain + h.huge)
		return 0;
	return kv_fail(err, -KV_ENOMEM, "%s of memory are wanted for %s, with a reserve; %s %s%s; %s, or %s",
		       SIZE(with_reserve(bytes)), what, allows(&h), SIZE(h.plain), h.huge_text, way_out, more_by(&h));
}
