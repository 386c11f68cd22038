/* SPDX-License-Identifier: Apache-2.0 */
/* disk_sim.c -- see disk_sim.h. The bytes of a write reach the medium when it ends; what the writer changes before is a
 * fault that the checksums show. */
#include "tests/sim/disk_sim.h"

#include <errno.h>
#include <stdlib.h>

static bool chance(struct disk_sim *d, unsigned ppm)
{
	return ppm && kv_prng_below(d->prng, 1000000) < ppm;
}

static void submit(struct tier_device *device, struct tier_io *io)
{
	struct disk_sim *d = KV_CONTAINER(device, struct disk_sim, device);
	uint64_t delay =
		d->options.delay_min_ns + kv_prng_below(d->prng, d->options.delay_max_ns - d->options.delay_min_ns + 1);
	unsigned i = 0;
	if (io->offset % TIER_PAGE || io->len % TIER_PAGE || (uintptr_t)io->buf % TIER_PAGE || io->len == 0 ||
	    io->offset + io->len > device->bytes)
		abort(); /* O_DIRECT would refuse it, or it leaves the shard's range */
	while (i < DISK_SIM_IOS_MAX && d->under_way[i].io)
		i++;
	if (i == DISK_SIM_IOS_MAX)
		abort();
	if (chance(d, d->options.stall_ppm))
		delay = d->options.stall_ns;
	d->under_way[i].io = io;
	d->under_way[i].due_ns = d->now_ns + 1 + delay;
	if (io->write && ++d->writes == d->crash_at)
		d->crashed = true;
	d->reads += !io->write;
}

static const struct tier_device_ops ops = {.submit = submit};

void disk_sim_open(struct disk_sim *d, uint64_t bytes, struct kv_prng *prng, const struct disk_sim_options *options)
{
	*d = (struct disk_sim){.device = {.ops = &ops, .name = "simulated", .bytes = bytes},
			       .options = *options,
			       .prng = prng,
			       .bytes = calloc(1, bytes)};
	if (!d->bytes)
		abort();
}

void disk_sim_close(struct disk_sim *d)
{
	free(d->bytes);
	*d = (struct disk_sim){0};
}

/* The bytes of a transfer, up to len. */
static void move(struct disk_sim *d, struct tier_io *io, size_t len)
{
	if (!io->write)
		memcpy(io->buf, d->bytes + io->offset, len);
	else
		memcpy(d->bytes + io->offset, io->buf, len);
	if (io->write && len && chance(d, d->options.damage_ppm)) {
		d->bytes[io->offset + kv_prng_below(d->prng, len)] ^= (uint8_t)(1u << kv_prng_below(d->prng, 8));
		d->damaged++;
	}
}

static void end(struct disk_sim *d, struct tier_io *io)
{
	size_t len = io->len;
	if (chance(d, d->options.fail_ppm)) {
		d->failed++;
		move(d, io, io->write ? kv_prng_below(d->prng, len + 1) : 0);
		io->done(io, -EIO);
		return;
	}
	if (chance(d, d->options.short_ppm))
		len = (size_t)kv_prng_below(d->prng, len / TIER_PAGE + 1) * TIER_PAGE;
	move(d, io, len);
	io->done(io, (int64_t)len);
}

unsigned disk_sim_run(struct disk_sim *d, uint64_t now_ns)
{
	unsigned from = (unsigned)kv_prng_below(d->prng, DISK_SIM_IOS_MAX), ended = 0;
	d->now_ns = now_ns;
	for (unsigned k = 0; k < DISK_SIM_IOS_MAX && !d->crashed; k++) {
		unsigned i = (from + k) % DISK_SIM_IOS_MAX;
		struct tier_io *io = d->under_way[i].io;
		if (!io || d->under_way[i].due_ns > now_ns)
			continue;
		d->under_way[i].io = NULL;
		end(d, io);
		ended++;
	}
	return ended;
}

uint64_t disk_sim_next(const struct disk_sim *d)
{
	uint64_t next = KV_NEVER;
	for (unsigned i = 0; i < DISK_SIM_IOS_MAX; i++)
		if (d->under_way[i].io)
			next = KV_MIN(next, d->under_way[i].due_ns);
	return next;
}

void disk_sim_crash(struct disk_sim *d)
{
	d->crashed = true;
	for (unsigned i = 0; i < DISK_SIM_IOS_MAX; i++) {
		struct tier_io *io = d->under_way[i].io;
		size_t len = io ? io->len : 0;
		if (io && io->write && kv_prng_below(d->prng, 3))
			move(d, io, kv_prng_below(d->prng, 2) ? len : (size_t)kv_prng_below(d->prng, len));
	}
}

void disk_sim_drop(struct disk_sim *d)
{
	for (unsigned i = 0; i < DISK_SIM_IOS_MAX; i++) {
		struct tier_io *io = d->under_way[i].io;
		d->under_way[i].io = NULL;
		if (io)
			io->done(io, -EIO);
	}
}

void disk_sim_again(struct disk_sim *d)
{
	d->crashed = false;
	d->crash_at = 0;
}
