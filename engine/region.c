/* SPDX-License-Identifier: Apache-2.0 */
/* region.c -- local memory registered on every rail, in parts.
 *
 * NICs bound the size of one registration, so regions have parts, equal on all rails: a remote names {rail, part} with
 * one part size. If a rail has no room for its first part, everything is retried with half the size. If it has taken
 * some, their sum is too large, and the region fails.
 *
 * For providers that pin, many threads first touch the pages; then one thread registers each rail. An engine at work
 * registers and closes step by step between its turns. A returning rail registers missing regions before its endpoint
 * opens. A rail may refuse before its death is known, so at work a refusal other than for lack of memory is retried a
 * turn later. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/inside.h"
#include "engine/region.h"
#include "host/host.h"

#define PART_DEFAULT ((uint64_t)1 << 30)
/* Halving ends here: a smaller part would not help a NIC without free entries. */
#define PART_MIN ((uint64_t)1 << 20)
#define TELL_NS  100000000ull /* log registrations that take longer */

/* Keys of one region: the most that a control message of KV_CTRL_MAX holds, and the number beyond which parts exceed 1
 * GiB. */
enum { KEYS_MAX = (KV_CTRL_MAX - 256) / 16, KEYS_GOAL = 16384 };

void te_regions_init(struct te_regions *r)
{
	kv_list_init(&r->ready);
	kv_list_init(&r->pending);
}

static unsigned access_of(unsigned access)
{
	return (access & TE_LOCAL ? FAB_LOCAL : 0u) | (access & TE_REMOTE_READ ? FAB_REMOTE_READ : 0u) |
	       (access & TE_REMOTE_WRITE ? FAB_REMOTE_WRITE : 0u);
}

/* ---- parts ---- */

static struct fab_mr **mr_at(const struct te_region *region, unsigned rail, uint32_t part)
{
	return &region->mrs[(size_t)rail * region->parts + part];
}

static int table_make(struct te_region *region, struct kv_error *err)
{
	uint64_t parts = (region->len - 1) / region->part_bytes + 1;
	char size[32], part[32];
	if (parts > KEYS_MAX / region->te->nrails)
		return kv_fail(err, -KV_ELIMIT,
			       "%s in parts of %s on %u rails are more parts than "
			       "can be announced (%d): register less at a time",
			       kv_size_format(region->len, size, sizeof(size)),
			       kv_size_format(region->part_bytes, part, sizeof(part)), region->te->nrails,
			       (int)KEYS_MAX);
	region->parts = (uint32_t)parts;
	region->rail_at = region->part_at = 0;
	region->mrs = calloc((size_t)region->te->nrails * region->parts, sizeof(*region->mrs));
	return region->mrs ? 0 : kv_fail(err, -KV_ENOMEM, "no memory for the %u parts of a region", region->parts);
}

/* Until this time, one part at least. True: some are left. */
static bool parts_close(struct te_region *region, uint64_t until)
{
	size_t all = (size_t)region->te->nrails * region->parts;
	/* While the engine closes, fab_close has closed them already. */
	while (region->mrs && !region->te->closing && region->close_at < all) {
		struct fab_mr **mr = &region->mrs[region->close_at++];
		if (!*mr)
			continue;
		fab_mr_close(mr);
		if (te_now(region->te) >= until && region->close_at < all)
			return true;
	}
	free(region->mrs);
	region->mrs = NULL;
	region->close_at = 0;
	return false;
}

static int part_open(const struct te_region *region, struct rail *r, uint32_t part, struct kv_error *err)
{
	struct fab_mr **mr = mr_at(region, r->index, part);
	uint64_t from = part * region->part_bytes, len = KV_MIN(region->part_bytes, region->len - from);
	return *mr ? 0 : fab_mr_reg(r->fab, region->base + from, len, region->access, mr, err);
}

/* Register the missing parts of one rail. *out_done: how many are registered. */
static int rail_parts_open(const struct te_region *region, struct rail *r, const _Atomic bool *stop, uint32_t *out_done,
			   struct kv_error *err)
{
	int rc = 0;
	uint32_t p = 0;
	for (; p < region->parts && rc == 0; p++)
		rc = atomic_load(stop) ? -KV_ECANCELED : part_open(region, r, p, err);
	*out_done = rc ? p - 1 : p;
	return rc;
}

int regions_complete(struct rail *r, uint64_t until, struct kv_error *err)
{
	bool any = false;
	KV_LIST_EACH (n, &r->te->regions.ready) {
		const struct te_region *region = KV_LIST_ENTRY(n, const struct te_region, node);
		for (uint32_t p = 0; p < region->parts; p++) {
			if (*mr_at(region, r->index, p))
				continue;
			if (any && te_now(r->te) >= until)
				return 1;
			int rc = part_open(region, r, p, err);
			if (rc)
				return rc;
			any = true;
		}
	}
	return 0;
}

/* A rail took `done` parts and refused the next. Close all; then retry with smaller parts, or fail the region with
 * region->why. */
static void give_up(struct te_region *region, const struct rail *r, uint32_t done, int rc, const struct kv_error *why)
{
	uint64_t half = kv_align_up(region->part_bytes / 2, PART_MIN);
	char size[32];
	region->undo = true;
	region->close_at = 0;
	region->failed = rc;
	region->why = *why;
	if (rc != -KV_ENOMEM)
		return;
	if (done > 0) {
		kv_fail(&region->why, rc,
			"rail %u registered %u of %u parts of %s, and then failed: %s; smaller parts would not help",
			r->index, done, region->parts, kv_size_format(region->part_bytes, size, sizeof(size)),
			why->text);
		return;
	}
	if (region->part_bytes / 2 < PART_MIN || (region->len - 1) / half >= KEYS_MAX / region->te->nrails)
		return;
	kv_info(region->te->log, "registering %llu MiB: %s; trying parts of %llu MiB",
		(unsigned long long)(region->len >> 20), why->text, (unsigned long long)(half >> 20));
	region->failed = 0;
	region->part_bytes = half;
}

static void region_free(struct te_region *region)
{
	KV_ASSERT(region->users == 0); /* 6: no operation uses it */
	kv_list_del(&region->node);
	free(region);
}

/* Close parts after give_up, until this time. 1: some are left; 0: the region begins anew; else the code, and the
 * region is gone. */
static int undo(struct te_region *region, uint64_t until, struct kv_error *err)
{
	int rc = region->failed;
	if (parts_close(region, until))
		return 1;
	region->undo = false;
	if (rc && err)
		*err = region->why;
	if (rc == 0)
		rc = table_make(region, err);
	if (rc)
		region_free(region);
	return rc;
}

/* ---- begin, step by step, end ---- */

/* 1 GiB, or more if that makes too many keys. */
static uint64_t part_default(const struct te *te, uint64_t len)
{
	uint64_t part = te->rules.part_bytes ? te->rules.part_bytes : PART_DEFAULT;
	while ((len - 1) / part >= KEYS_GOAL / te->nrails && part < (uint64_t)1 << 40)
		part *= 2;
	return part;
}

int te_region_begin(struct te *te, void *base, uint64_t len_bytes, unsigned access, uint64_t part_bytes,
		    struct te_region **out, struct kv_error *err)
{
	if (!base || len_bytes == 0 || access == 0)
		return kv_fail(err, -KV_EINVAL, "a region needs memory, a length and an access right");
	struct te_region *region = calloc(1, sizeof(*region));
	if (!region)
		return kv_fail(err, -KV_ENOMEM, "no memory for a region");
	region->te = te;
	region->base = base;
	region->len = len_bytes;
	region->part_bytes = KV_MIN(part_bytes ? part_bytes : part_default(te, len_bytes), len_bytes);
	region->virt = fab_caps(te->rails[0].fab)->virt_addr;
	region->access = access_of(access);
	region->ns = te_now(te);
	int rc = table_make(region, err);
	if (rc) {
		free(region);
		return rc;
	}
	kv_list_add_tail(&te->regions.pending, &region->node);
	*out = region;
	return 0;
}

static void region_finish(struct te_region *region)
{
	char size[32], part[32], took[32];
	region->ns = te_now(region->te) - region->ns;
	region->ready = true;
	kv_list_del(&region->node);
	kv_list_add_tail(&region->te->regions.ready, &region->node);
	kv_log(region->te->log, region->ns >= TELL_NS ? KV_LOG_INFO : KV_LOG_DEBUG,
	       "registered %s in %u part%s of %s on %u rail%s in %s by %u thread%s",
	       kv_size_format(region->len, size, sizeof(size)), region->parts, region->parts == 1 ? "" : "s",
	       kv_size_format(region->part_bytes, part, sizeof(part)), region->te->nrails,
	       region->te->nrails == 1 ? "" : "s", kv_duration_format(region->ns, took, sizeof(took)),
	       KV_MAX(region->threads, 1u), region->threads > 1 ? "s" : "");
}

/* Find the next part to register; false: none. A rail that works again gets another turn. */
static bool next_part(struct te_region *region)
{
	const struct te *te = region->te;
	if (region->part_at == region->parts) {
		region->part_at = 0;
		region->rail_at++;
	}
	if (region->rail_at < te->nrails)
		return true;
	for (unsigned r = 0; r < te->nrails; r++)
		for (uint32_t p = 0; p < region->parts && rail_up(&te->rails[r]); p++)
			if (!*mr_at(region, r, p)) {
				region->rail_at = r;
				region->part_at = p;
				return true;
			}
	return false;
}

/* Register that part. 1: wait for the next turn. */
static int part_step(struct te_region *region, bool at_work)
{
	struct rail *r = &region->te->rails[region->rail_at];
	struct kv_error why = {0};
	int rc = part_open(region, r, region->part_at, &why);
	if (rc == 0) {
		region->part_at++;
		region->doubted = false;
	} else if (!rail_up(r)) {
		/* The rail registers it when it returns; without room it stays out. */
		region->part_at = region->parts;
	} else if (at_work && (r->state == RAIL_DEAD || (rc != -KV_ENOMEM && !region->doubted))) {
		/* The rail has failed and will be rebuilt or left out; or its failure is not known yet. */
		region->doubted = true;
		return 1;
	} else {
		give_up(region, r, region->part_at, rc, &why);
	}
	return 0;
}

/* at_work: the engine turns between the steps. */
static int step(struct te_region *region, bool at_work, struct kv_error *err)
{
	struct te *te = region->te;
	uint64_t until = te_now(te) + TE_STEP_NS;
	int rc = 0;
	if (region->ready)
		return 0;
	do {
		if (region->undo)
			rc = undo(region, until, err);
		else if (next_part(region))
			rc = part_step(region, at_work);
		else
			break;
		if (rc)
			return rc;
	} while (te_now(te) < until);
	if (region->undo || next_part(region))
		return 1;
	region_finish(region);
	return 0;
}

int te_region_step(struct te_region *region, struct kv_error *err)
{
	return step(region, true, err);
}

/* ---- all at once ---- */

struct rail_job {
	struct te_region *region;
	struct rail *rail;
	_Atomic bool *stop;
	pthread_t thread;
	bool started;
	uint32_t done;
	int rc;
	struct kv_error error;
};

static void *rail_thread(void *arg)
{
	struct rail_job *j = arg;
	j->rc = rail_parts_open(j->region, j->rail, j->stop, &j->done, &j->error);
	if (j->rc)
		atomic_store(j->stop, true);
	return NULL;
}

/* Register all parts with the region's part size: a thread for each rail but the first, which this thread does. This
 * thread also replaces a thread that cannot start. */
static int rails_open(struct te_region *region, struct rail_job *job, unsigned *out_failed)
{
	unsigned n = region->te->nrails;
	_Atomic bool stop = false;
	sigset_t before;
	kv_signals_block(&before);
	for (unsigned r = 0; r < n; r++) {
		job[r] = (struct rail_job){.region = region, .rail = &region->te->rails[r], .stop = &stop};
		job[r].started = r > 0 && pthread_create(&job[r].thread, NULL, rail_thread, &job[r]) == 0;
	}
	kv_signals_restore(&before);
	for (unsigned r = 0; r < n; r++)
		if (!job[r].started)
			rail_thread(&job[r]);
	for (unsigned r = 0; r < n; r++)
		if (job[r].started)
			pthread_join(job[r].thread, NULL);
	region->threads = KV_MAX(region->threads, n);
	*out_failed = n;
	/* Rails stopped by another's failure have no failure of their own. */
	for (unsigned r = 0; r < n && *out_failed == n; r++)
		if (job[r].rc && job[r].rc != -KV_ECANCELED)
			*out_failed = r;
	return *out_failed < n ? job[*out_failed].rc : 0;
}

/* On failure the region is closed. */
static int region_open_at_once(struct te_region *region, struct kv_error *err)
{
	struct rail_job *job = calloc(region->te->nrails, sizeof(*job));
	unsigned failed;
	int rc = 0;
	if (!job)
		return 0; /* register step by step */
	while ((rc = rails_open(region, job, &failed)) != 0) {
		/* Complete or stopped rails begin anew as well. */
		give_up(region, &region->te->rails[failed], job[failed].done, rc, &job[failed].error);
		rc = undo(region, KV_NEVER, err);
		if (rc)
			break;
	}
	free(job);
	return rc;
}

static bool all_up(const struct te *te)
{
	for (unsigned r = 0; r < te->nrails; r++)
		if (!rail_up(&te->rails[r]))
			return false;
	return true;
}

int te_region_register(struct te *te, void *base, uint64_t len_bytes, unsigned access, uint64_t part_bytes,
		       struct te_region **out, struct kv_error *err)
{
	struct te_region *region;
	char size[32];
	int rc = te_region_begin(te, base, len_bytes, access, part_bytes, &region, err);
	if (rc)
		return rc;
	if (fab_caps(te->rails[0].fab)->pins_memory) {
		rc = kv_memory_populate(base, len_bytes, te->place.near ? te->place.node : KV_NODE_ANY,
					&region->threads);
		if (rc && rc != -KV_ENOTSUP) {
			te_region_close(&region);
			return kv_fail(err, rc,
				       "the kernel has no pages for %s of memory that "
				       "the NIC is to pin: free memory, or use less",
				       kv_size_format(len_bytes, size, sizeof(size)));
		}
		rc = te->nrails > 1 && all_up(te) ? region_open_at_once(region, err) : 0;
		if (rc)
			return rc;
	}
	while ((rc = step(region, false, err)) == 1)
		;
	if (rc == 0)
		*out = region;
	return rc;
}

/* ---- close ---- */

void te_regions_free(struct te_regions *r)
{
	struct kv_list *n;
	while ((n = kv_list_pop(&r->ready)) || (n = kv_list_pop(&r->pending))) {
		struct te_region *region = KV_LIST_ENTRY(n, struct te_region, node);
		free(region->mrs);
		free(region);
	}
}

static int close_until(struct te_region **region_ref, uint64_t until)
{
	struct te_region *region = *region_ref;
	if (!region)
		return 0;
	if (region->users || (region->ready && region->close_at == 0 && fence_limbo(&region->te->fence)))
		return -KV_EBUSY;
	/* From here on no returning rail registers it. */
	kv_list_del(&region->node);
	kv_list_add_tail(&region->te->regions.pending, &region->node);
	if (parts_close(region, until))
		return 1;
	region_free(region);
	*region_ref = NULL;
	return 0;
}

int te_region_close(struct te_region **region)
{
	return close_until(region, KV_NEVER);
}

int te_region_close_step(struct te_region **region)
{
	return close_until(region, *region ? te_now((*region)->te) + TE_STEP_NS : 0);
}

void te_region_info(const struct te_region *region, struct te_region_info *out)
{
	*out = (struct te_region_info){.part_bytes = region->part_bytes,
				       .ns = region->ready ? region->ns : 0,
				       .parts = region->parts,
				       .rails = region->te->nrails,
				       .threads = KV_MAX(region->threads, 1u)};
}

void te_region_announce(const struct te_region *region, struct te_remote *out, struct te_key *keys)
{
	out->len_bytes = region->len;
	out->part_bytes = region->part_bytes;
	out->parts = region->parts;
	out->rails = (uint16_t)region->te->nrails;
	out->virt = region->virt;
	if (!keys)
		return;
	for (unsigned r = 0; r < region->te->nrails; r++)
		for (uint32_t p = 0; p < region->parts; p++) {
			/* The key of the rail that stands for it, if it is out. */
			const struct fab_mr *mr = region->mrs[(size_t)region->te->fence.map[r] * region->parts + p];
			struct te_key *k = &keys[(size_t)r * region->parts + p];
			if (mr) /* else no rail is up, and no peer uses the key */
				fab_mr_remote(mr, &k->base, &k->key);
		}
	out->keys = keys;
}
