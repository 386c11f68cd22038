/* SPDX-License-Identifier: Apache-2.0 */
/* budget.c -- the resources of several engines, added up before the first one opens, because a pool must not open half.
 *
 * A load beyond a limit of the device or the process is refused; a shortage of the machine (memory, huge pages) is only
 * a warning. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/inside.h"
#include "engine/plan.h"
#include "host/host.h"

#define PART_DEFAULT  ((uint64_t)1 << 30) /* as in region.c */
#define AREA_BYTES    ((uint64_t)2 << 20)
#define REGION_SOON   ((uint64_t)8 << 20)  /* memory that an unpinned region touches at once */
#define THREAD_BYTES  ((uint64_t)12 << 20) /* address space for the stacks of a thread and its coroutines */
#define PROCESS_BYTES ((uint64_t)8 << 20)  /* the process itself: library data, stacks, tables */

static void device_copy(struct te_device *to, const struct fab_device *from)
{
	*to = (struct te_device){.link_bits_per_s = from->link_bits_per_s, .numa_node = from->numa_node};
	memcpy(to->provider, from->provider, sizeof(to->provider));
	memcpy(to->fabric, from->fabric, sizeof(to->fabric));
	memcpy(to->domain, from->domain, sizeof(to->domain));
	memcpy(to->short_name, from->short_name, sizeof(to->short_name));
	memcpy(to->local, from->local, sizeof(to->local));
}

static struct kv_need rail_need(const struct te_options *o, const struct te_load *load, const struct fab_device *device)
{
	struct fab_options fo = {.tx_depth = o->tx_depth,
				 .rx_depth = o->receives ? o->receives : TE_RECEIVES_DEFAULT,
				 .cq_depth = o->cq_depth,
				 .log = o->log};
	uint64_t messages = (uint64_t)(o->messages ? o->messages : TE_MESSAGES_DEFAULT) + fo.rx_depth;
	uint64_t area = kv_align_up(messages * KV_MSG_MAX, AREA_BYTES), bytes = load->region_bytes + area;
	struct kv_need need = {0};
	fab_need(device, &fo, load->peers, &need);
	need.registered_bytes += bytes;
	need.pinned_bytes += bytes;
	need.memory_bytes += area; /* regions are shared by all rails: see add_engines */
	need.memory_soon_bytes += need.memory_bytes;
	need.address_bytes += area;
	need.mrs += 1 + (load->region_bytes + PART_DEFAULT - 1) / PART_DEFAULT;
	need.part_bytes = KV_MIN(KV_MAX(load->region_bytes, area), PART_DEFAULT);
	return need;
}

/* Reserve huge pages where enough are free; they are optional. */
static void pages_count(struct te_budget *budget, const struct kv_host *host)
{
	bool fits = kv_huge_bytes(host, false) >= budget->process.huge_bytes;
	for (unsigned i = 0; i < budget->num_devices; i++)
		budget->device[i].need.pages = budget->device[i].need.registered_bytes >> (fits ? 21 : 12);
}

static int add_engines(const struct te_options *o, const struct te_load *load, const struct fab_device *devices,
		       struct te_budget *budget, struct kv_error *err)
{
	uint64_t region = kv_align_up(load->region_bytes, AREA_BYTES);
	for (unsigned e = 0; e < load->engines; e++) {
		struct te_options mine = *o;
		unsigned at[KV_RAILS_MAX];
		mine.engine = e;
		mine.engines = load->engines;
		int rc = te_plan_devices(&mine, devices, budget->num_devices, at, &budget->rails, err);
		if (rc)
			return rc;
		for (unsigned r = 0; r < budget->rails; r++) {
			struct kv_need need = rail_need(o, load, &devices[at[r]]);
			kv_need_add(&budget->device[at[r]].need, &need);
		}
		budget->process.memory_bytes += region;
		/* Without pinning, pages appear as bytes arrive. */
		budget->process.memory_soon_bytes += budget->pins_memory ? region : KV_MIN(region, REGION_SOON);
		budget->process.huge_bytes += region;
		budget->process.address_bytes += region;
	}
	return 0;
}

int te_budget(const struct te_options *options, const struct te_load *load, struct te_budget *out, struct kv_error *err)
{
	struct fab_device *devices = calloc(KV_RAILS_MAX, sizeof(*devices));
	struct kv_host host;
	int rc;
	memset(out, 0, sizeof(*out));
	if (!devices)
		return kv_fail(err, -KV_ENOMEM, "no memory for a list of devices");
	rc = te_devices_find(options, devices, &out->num_devices, out->why, err);
	if (rc)
		goto out_devices;
	for (unsigned i = 0; i < out->num_devices; i++) {
		device_copy(&out->device[i].device, &devices[i]);
		fab_limits(&devices[i], &out->device[i].limits);
	}
	out->pins_memory = out->device[0].limits.pins_memory;
	out->shared_memory = out->device[0].limits.shared_memory;
	rc = add_engines(options, load, devices, out, err);
	for (unsigned i = 0; i < out->num_devices; i++)
		kv_need_add(&out->process, &out->device[i].need);
	out->process.memory_bytes += PROCESS_BYTES;
	out->process.memory_soon_bytes += PROCESS_BYTES;
	out->process.files += load->files;
	out->process.threads = load->threads;
	out->process.address_bytes += PROCESS_BYTES + load->threads * THREAD_BYTES;
	kv_host_read("", &host);
	pages_count(out, &host);
	fab_devices_free(devices, out->num_devices);
out_devices:
	free(devices);
	return rc;
}

uint64_t te_budget_beside(const struct te_budget *budget, const struct te_load *load)
{
	uint64_t regions = load->engines * kv_align_up(load->region_bytes, AREA_BYTES);
	return budget->process.memory_bytes - KV_MIN(budget->process.memory_bytes, regions);
}

/* Warnings are logged; the first failed limit is the error. verdicts: room for KV_CHECKS_MAX. */
static int scope_check(const struct kv_checkup *c, unsigned scope, const char *subject, const struct kv_log *log,
		       struct kv_verdict *verdicts, struct kv_error *err)
{
	unsigned n = kv_check(c, scope, verdicts, KV_CHECKS_MAX);
	for (unsigned i = 0; i < n; i++) {
		const struct kv_verdict *v = &verdicts[i];
		if (v->status == KV_FAIL)
			return kv_verdict_fail(v, subject, err);
		if (v->status == KV_WARN)
			kv_warn(log, "%s: %s: %s; %s", subject, v->name, v->text, v->remedy);
	}
	return 0;
}

static int budget_check(const struct te_budget *b, const struct kv_log *log, struct kv_verdict *verdicts,
			uint64_t *out_files, struct kv_error *err)
{
	struct kv_host host;
	struct kv_checkup c = {
		.host = &host, .pins_memory = b->pins_memory, .shared_memory = b->shared_memory, .cma_error = -1};
	int rc = 0;
	kv_host_read("", &host);
	/* Threads count against no limit for root. */
	if (!host.root || host.mapped_users)
		kv_host_threads_count(&host);
	for (unsigned i = 0; i < b->num_devices && rc == 0; i++) {
		c.limits = &b->device[i].limits;
		c.need = &b->device[i].need;
		if (c.need->endpoints)
			rc = scope_check(&c, KV_CHECK_DEVICE, b->device[i].device.domain, log, verdicts, err);
	}
	c.limits = NULL;
	c.need = &b->process;
	if (rc == 0)
		rc = scope_check(&c, KV_CHECK_PROCESS, b->device[0].device.provider, log, verdicts, err);
	if (rc == 0 && out_files)
		*out_files = (host.files_open < KV_UNKNOWN ? host.files_open : 0) + b->process.files;
	return rc;
}

int te_preflight(const struct te_options *options, const struct te_load *load, uint64_t *out_files,
		 struct kv_error *err)
{
	struct te_budget *budget = malloc(sizeof(*budget));
	struct kv_verdict *verdicts = malloc(KV_CHECKS_MAX * sizeof(*verdicts));
	int rc = budget && verdicts ? 0 : kv_fail(err, -KV_ENOMEM, "no memory for a budget");
	if (rc == 0)
		rc = te_budget(options, load, budget, err);
	if (rc == 0)
		rc = budget_check(budget, options->log, verdicts, out_files, err);
	free(verdicts);
	free(budget);
	return rc;
}
