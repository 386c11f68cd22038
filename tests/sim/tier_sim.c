/* SPDX-License-Identifier: Apache-2.0 */
/* tier_sim.c -- see tier_sim.h. The linker finds these two functions before those of kvserver/tier/tier_device.c. A
 * transfer reaches the file at one time of the world, and then its loop, as a completion does. */
#include "tests/sim/tier_sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "loop/loop.h"
#include "tests/sim/world.h"

enum { DEVICES_MAX = 256, IOS_MAX = 256 };

#define DELAY_MIN_NS (20 * US)
#define DELAY_MAX_NS (2 * MS)
#define AGAIN_NS     (1 * MS)

struct device {
	struct tier_device dev; /* first */
	struct loop *loop;
	int fd;
	bool dead;
	struct transfer *under_way[IOS_MAX];
};

struct transfer {
	struct device *d;
	struct tier_io *io;
	unsigned slot;
	int64_t result;
};

static struct {
	struct sim_world *world;
	struct kv_prng prng;
	unsigned fail_ppm;
	struct device *device[DEVICES_MAX];
} all;

void tier_sim_begin(struct sim_world *world, uint64_t seed, unsigned fail_ppm)
{
	all.world = world;
	all.fail_ppm = fail_ppm;
	kv_prng_seed(&all.prng, seed ^ 0x71e5);
}

static uint64_t some(uint64_t n)
{
	return kv_prng_below(&all.prng, n);
}

/* The bytes of a transfer, up to len. */
static void move(const struct transfer *t, size_t len)
{
	const struct tier_io *io = t->io;
	off_t at = (off_t)(t->d->dev.offset + io->offset);
	ssize_t n = io->write ? pwrite(t->d->fd, io->buf, len, at) : pread(t->d->fd, io->buf, len, at);
	if (n != (ssize_t)len)
		abort();
}

/* On the loop. */
static void finish(void *arg)
{
	struct transfer *t = arg;
	struct tier_io *io = t->io;
	int64_t result = t->result;
	free(t);
	io->done(io, result);
}

static void deliver(void *arg)
{
	struct transfer *t = arg;
	if (loop_post(t->d->loop, finish, t) == -KV_EBUSY)
		sim_world_at(all.world, sim_world_now(all.world) + AGAIN_NS, deliver, t);
}

static void arrive(void *arg)
{
	struct transfer *t = arg;
	t->d->under_way[t->slot] = NULL;
	t->result = -EIO;
	if (!t->d->dead && some(1000000) >= all.fail_ppm) {
		move(t, t->io->len);
		t->result = (int64_t)t->io->len;
	}
	deliver(t);
}

static void submit(struct tier_device *dev, struct tier_io *io)
{
	struct device *d = (struct device *)dev;
	struct transfer *t = malloc(sizeof(*t));
	unsigned i = 0;
	while (i < IOS_MAX && d->under_way[i])
		i++;
	if (!t || i == IOS_MAX || io->offset % TIER_PAGE || io->len % TIER_PAGE || io->offset + io->len > dev->bytes)
		abort();
	*t = (struct transfer){.d = d, .io = io, .slot = i};
	d->under_way[i] = t;
	sim_world_at(all.world, sim_world_now(all.world) + DELAY_MIN_NS + some(DELAY_MAX_NS), arrive, t);
}

static const struct tier_device_ops ops = {.submit = submit};

int tier_device_open(const struct tier_file *file, unsigned shard, unsigned shards, struct loop *loop,
		     struct tier_device **out, struct kv_error *err)
{
	struct device *d = calloc(1, sizeof(*d));
	uint64_t bytes = kv_align_down(file->bytes / shards, TIER_PAGE);
	unsigned i = 0;
	(void)err;
	while (i < DEVICES_MAX && all.device[i])
		i++;
	if (!d || i == DEVICES_MAX)
		abort();
	d->dev = (struct tier_device){.ops = &ops, .name = file->path, .offset = bytes * shard, .bytes = bytes};
	d->loop = loop;
	d->fd = open(file->path, O_RDWR | O_CLOEXEC);
	if (d->fd < 0)
		abort();
	all.device[i] = d;
	*out = &d->dev;
	return 0;
}

void tier_device_close(struct tier_device **device)
{
	struct device *d = (struct device *)*device;
	if (!d)
		return;
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (all.device[i] == d)
			all.device[i] = NULL;
	close(d->fd);
	free(d);
	*device = NULL;
}

static void crash(struct device *d)
{
	d->dead = true;
	for (unsigned i = 0; i < IOS_MAX; i++) {
		const struct transfer *t = d->under_way[i];
		if (t && t->io->write && some(3))
			move(t, some(2) ? t->io->len : (size_t)some(t->io->len));
	}
}

void tier_sim_crash(const struct loop *loop)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (all.device[i] && all.device[i]->loop == loop && !all.device[i]->dead)
			crash(all.device[i]);
}

void tier_sim_unlock(const struct tier_files *files)
{
	for (unsigned i = 0; i < files->count; i++)
		(void)flock(files->file[i].fd, LOCK_UN);
}
