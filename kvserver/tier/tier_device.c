/* SPDX-License-Identifier: Apache-2.0 */
/* tier_device.c -- a shard's part of a file or partition, read and written by the shard's loop.
 *
 * With other --worker-threads or another size the parts begin elsewhere, where values may lie: bytes that a client
 * chose, maybe those of a superblock. The first part always begins with the file. So if its superblock, which no value
 * can lie at, is not of this layout, the first page of every other part is made void before any shard writes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvserver/tier/tier_file.h"
#include "loop/loop.h"

struct device {
	struct tier_device dev; /* first */
	struct loop *loop;
	const struct tier_file *file;
	int fd;
};

struct transfer {
	struct io_at at;
	struct tier_io *io;
};

_Static_assert(sizeof(struct transfer) <= sizeof(((struct tier_io *)0)->priv), "it has room in tier_io");

static void transfer_done(struct io_at *at, int64_t result)
{
	struct tier_io *io = KV_CONTAINER(at, struct transfer, at)->io;
	io->done(io, result);
}

static void device_submit(struct tier_device *dev, struct tier_io *io)
{
	const struct device *d = (struct device *)dev;
	struct transfer *t = (struct transfer *)io->priv;
	*t = (struct transfer){.io = io,
			       .at = {.fd = d->fd,
				      .write = io->write,
				      .background = io->write,
				      .durable = io->durable,
				      .buf = io->buf,
				      .len = io->len,
				      .offset = dev->offset + io->offset,
				      .done = transfer_done}};
	io_at_submit(d->loop, &t->at);
}

static bool same_file(int fd, int locked)
{
	struct stat a, b;
	return fstat(fd, &a) == 0 && fstat(locked, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino &&
	       a.st_rdev == b.st_rdev;
}

static int device_open(struct device *d, struct kv_error *err)
{
	int fd = open(d->file->path, O_RDWR | O_CLOEXEC | (d->file->buffered ? 0 : O_DIRECT), 0);
	if (fd < 0)
		return kv_fail(err, -errno, "--tier %s: %s", d->file->path, kv_strerror(-errno));
	if (!same_file(fd, d->file->fd)) { /* its contents may be anybody's */
		close(fd);
		return kv_fail(err, -KV_ESTALE,
			       "--tier %s: another file or disk is there now; restart the server to use it",
			       d->file->path);
	}
	if (d->fd >= 0)
		close(d->fd);
	d->fd = fd;
	return 0;
}

static int device_reopen(struct tier_device *dev, struct kv_error *err)
{
	return device_open((struct device *)dev, err);
}

static const struct tier_device_ops ops = {.submit = device_submit, .reopen = device_reopen};

/* Whether the file is laid out in parts like this one. */
static bool layout_same(const struct device *d, unsigned shards, uint8_t *page)
{
	struct tier_super s;
	return pread(d->fd, page, TIER_PAGE, 0) == TIER_PAGE && tier_super_check(page, &s) == 0 && s.offset == 0 &&
	       s.shards == shards && s.bytes == d->dev.bytes;
}

static int part_check(const struct device *d, unsigned shards, struct kv_error *err)
{
	uint8_t *page = aligned_alloc(TIER_PAGE, TIER_PAGE);
	int rc = 0;
	if (!page)
		return kv_fail(err, -KV_ENOMEM, "no memory for a device of the tier");
	if (!layout_same(d, shards, page)) {
		memset(page, 0, TIER_PAGE);
		if (d->file->later)
			rc = kv_fail(err, -KV_EINVAL,
				     "--tier %s was written with another size or number of worker threads: give the "
				     "running server's, or start without --handover",
				     d->file->path);
		else if (pwrite(d->fd, page, TIER_PAGE, (off_t)d->dev.offset) != TIER_PAGE || fdatasync(d->fd) < 0)
			rc = kv_fail(err, -EIO, "--tier %s: its parts could not be written: %s", d->file->path,
				     kv_strerror(-errno));
	}
	free(page);
	return rc;
}

int tier_device_open(const struct tier_file *file, unsigned shard, unsigned shards, struct loop *loop,
		     struct tier_device **out, struct kv_error *err)
{
	struct device *d = calloc(1, sizeof(*d));
	uint64_t bytes = kv_align_down(file->bytes / shards, TIER_PAGE);
	int rc;
	if (!d)
		return kv_fail(err, -KV_ENOMEM, "no memory for a device of the tier");
	d->dev = (struct tier_device){.ops = &ops, .name = file->path, .offset = bytes * shard, .bytes = bytes};
	d->loop = loop;
	d->file = file;
	d->fd = -1;
	rc = device_open(d, err);
	if (rc == 0 && shard > 0 && (rc = part_check(d, shards, err)) != 0)
		close(d->fd);
	if (rc)
		free(d);
	else
		*out = &d->dev;
	return rc;
}

void tier_device_close(struct tier_device **device)
{
	struct device *d = (struct device *)*device;
	if (!d)
		return;
	close(d->fd);
	free(d);
	*device = NULL;
}
