/* SPDX-License-Identifier: Apache-2.0 */
/* tier.c -- the NVMe tiers of the run's own server: what is at their places, and whether there is as much as they want.
 * Their index is memory of the server (plan.c). */
#include <stdio.h>
#include <string.h>

#include "host/host.h"
#include "kvdoctor/doctor.h"

#define SIZE(n) kv_size_format((n), (char[32]){0}, 32)

/* Tested are ext4 and xfs. */
static bool system_is_good(const struct kv_disk *k)
{
	return k->device || strcmp(k->system, "ext4") == 0 || strcmp(k->system, "xfs") == 0;
}

static void place_found(struct doctor *d, const struct kv_disk_spec *spec, const struct kv_disk *k, uint64_t bytes)
{
	enum kv_status status = system_is_good(k) ? KV_OK : KV_WARN;
	struct finding *f;
	if (bytes > k->bytes)
		status = KV_FAIL;
	f = doctor_found(d, SECTION_RUN, status, "tier", spec->path, "tier", "wants %s, %s there%s%s", SIZE(bytes),
			 SIZE(k->bytes), k->device ? " on the device" : ", a file on ", k->system);
	f->need = bytes;
	f->have = k->bytes;
	f->unit = "bytes";
	if (bytes > k->bytes)
		doctor_remedy(d, "give a smaller SIZE in --tier, another place, or free space (`df -h`)");
	else if (status == KV_WARN)
		doctor_remedy(d, "use ext4, xfs or a partition: other file systems may refuse O_DIRECT, and the server "
				 "then uses memory of the page cache");
}

/* Returns the bytes of the tier, or 0. */
static uint64_t tier_look(struct doctor *d, const char *text)
{
	struct kv_disk_spec spec;
	struct kv_disk disk = {0};
	struct kv_error err = {0};
	uint64_t bytes;
	int rc = kv_disk_parse(text, &spec, &err);
	if (rc == 0 && *d->root)
		return spec.bytes; /* the place is another machine's */
	if (rc == 0)
		rc = kv_disk_look(spec.path, &disk, &err);
	if (rc < 0) {
		doctor_found(d, SECTION_RUN, KV_FAIL, "tier", text, "tier", "%s", err.text);
		return 0;
	}
	bytes = spec.bytes ? spec.bytes : disk.bytes;
	place_found(d, &spec, &disk, bytes);
	return bytes;
}

uint64_t doctor_tier(struct doctor *d, unsigned *out_places)
{
	uint64_t bytes = 0;
	*out_places = 0;
	for (unsigned i = 0; i < d->opt->tier.count; i++) {
		char list[KV_OPT_STRINGS_MAX * KV_DISK_PATH_MAX], *rest = list, *text;
		snprintf(list, sizeof(list), "%s", d->opt->tier.item[i]);
		while ((text = strsep(&rest, ",")) != NULL) {
			bytes += tier_look(d, text);
			(*out_places)++;
		}
	}
	return bytes;
}
