/* SPDX-License-Identifier: Apache-2.0 */
/* available.c -- before memory is mapped, check that so much is available; if not, name the limit that is short.
 *
 * Linux maps more memory than there is and kills processes later, so the sum is made beforehand. It has three parts:
 * the machine's free memory (MemAvailable), the share of it that the memory cgroups allow, and hugetlb pages, which
 * neither of them counts. The check describes one moment; a mapping that it refuses would surely have failed. */
#include <stdio.h>

#include "base/base.h"
#include "host/limits.h"
#include "host/machine.h"
#include "host/memory.h"

/* Write ", and 4 GiB in free huge pages", or why the cgroup allows fewer. */
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

int kv_memory_fits_in(const char *root, uint64_t bytes, const char *what, const char *option, struct kv_error *err)
{
	struct kv_host h;
	kv_host_read(root, &h);
	bool grouped = h.memory_group < h.memory_available;
	uint64_t plain = KV_MIN(h.memory_available, h.memory_group), sum = plain + kv_huge_bytes(&h, true);
	char want[32], have[32], huge[256];
	if (h.memory_available == KV_UNKNOWN || bytes <= sum)
		return 0;
	kv_size_format(bytes, want, sizeof(want));
	kv_size_format(plain, have, sizeof(have));
	huge_text(&h, huge, sizeof(huge));
	return kv_fail(err, -KV_ENOMEM, "%s of memory are wanted for %s; %s %s%s; use %s %llu or less, or %s", want,
		       what, grouped ? "the memory cgroup of this process allows" : "this machine can give", have, huge,
		       option, (unsigned long long)(sum / 10 * 9 >> 20),
		       grouped ? "raise its limit (memory.max; --memory in docker, resources.limits.memory in "
				 "Kubernetes)"
			       : "free memory");
}

int kv_memory_fits(uint64_t bytes, const char *what, const char *option, struct kv_error *err)
{
	return kv_memory_fits_in("", bytes, what, option, err);
}
