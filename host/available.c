/* SPDX-License-Identifier: Apache-2.0 */
/* available.c -- before memory is mapped, check that so much is available; if not, name the limit that is short.
 *
 * Linux maps more memory than there is and kills processes later, so the sum is made beforehand. It has three parts:
 * the machine's free memory (MemAvailable), the share of it that the memory cgroups allow, and hugetlb pages, which
 * neither of them counts. The check describes one moment; a mapping that it refuses would surely have failed. */
#include <stdio.h>

#include "base/base.h"
#include "host/machine.h"
#include "host/memory.h"

struct there {
	uint64_t machine, group;          /* ordinary memory */
	uint64_t huge_free, huge_allowed; /* hugetlb pages: free bytes, and how many of them the cgroups allow */
};

static struct there look(const char *root)
{
	static const uint64_t sizes[] = {(uint64_t)1 << 30, (uint64_t)2 << 20};
	struct there t = {.machine = kv_meminfo_available(root), .group = kv_cgroup_memory_room(root)};
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		uint64_t bytes = kv_hugepages_free(root, sizes[i]) * sizes[i];
		uint64_t room = bytes ? kv_cgroup_hugetlb_room(root, sizes[i]) : 0;
		t.huge_free += bytes;
		t.huge_allowed += KV_MIN(bytes, room);
	}
	return t;
}

/* Write ", and 4 GiB in free huge pages", or why the cgroup allows fewer. */
static void huge_text(const struct there *t, char *buf, size_t cap)
{
	char all[32], allowed[32];
	buf[0] = '\0';
	kv_size_format(t->huge_free, all, sizeof(all));
	kv_size_format(t->huge_allowed, allowed, sizeof(allowed));
	if (t->huge_allowed < t->huge_free)
		snprintf(buf, cap,
			 ", and of %s in free huge pages the hugetlb cgroup allows %s (hugepages-2Mi or hugepages-1Gi "
			 "in "
			 "the resources of a Kubernetes pod)",
			 all, allowed);
	else if (t->huge_free)
		snprintf(buf, cap, ", and %s in free huge pages", all);
}

int kv_memory_fits_in(const char *root, uint64_t bytes, const char *what, const char *option, struct kv_error *err)
{
	struct there t = look(root);
	uint64_t plain = KV_MIN(t.machine, t.group), sum = plain + t.huge_allowed;
	char want[32], have[32], huge[256];
	if (t.machine == 0 || bytes <= sum) /* 0: there is no /proc to ask */
		return 0;
	kv_size_format(bytes, want, sizeof(want));
	kv_size_format(plain, have, sizeof(have));
	huge_text(&t, huge, sizeof(huge));
	return kv_fail(err, -KV_ENOMEM, "%s of memory are wanted for %s; %s %s%s; use %s %llu or less, or %s", want,
		       what, t.group < t.machine ? "the memory cgroup of this process allows" : "this machine can give",
		       have, huge, option, (unsigned long long)(sum / 10 * 9 >> 20),
		       t.group < t.machine
			       ? "raise its limit (memory.max; --memory in docker, resources.limits.memory in "
				 "Kubernetes)"
			       : "free memory");
}

int kv_memory_fits(uint64_t bytes, const char *what, const char *option, struct kv_error *err)
{
	return kv_memory_fits_in("", bytes, what, option, err);
}
