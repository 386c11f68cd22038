/* SPDX-License-Identifier: Apache-2.0 */
/* drive.c -- a device of a tier: its transfers, its failures, its budgets.
 *
 *   READING -- superblock and footers are read --> UP -- errors, or a stall --> DOWN -- a new attempt --> READING
 *
 * A transfer of a device that is down stays in flight until the device returns it; its memory is not used before. */
#include "store/tier/private.h"

#include <errno.h>

void drive_begin(struct tier_drive *d, struct tier_io *io, void (*done)(struct tier_io *io, int64_t result),
		 uint64_t offset, uint8_t *buf, uint32_t len, bool write)
{
	io->done = done;
	io->arg = d;
	io->offset = offset;
	io->buf = buf;
	io->len = len;
	io->write = write;
	io->begun_ns = d->t->now_ns;
	kv_list_add_tail(&d->flying, &io->node);
	d->flying_count++;
	d->stats.writes_now += write;
	d->dev->ops->submit(d->dev, io);
}

static void drive_error(struct tier_drive *d, const struct tier_io *io, int64_t result)
{
	char why[160];
	snprintf(why, sizeof(why), "%s at byte %llu: %s", io->write ? "writing" : "reading",
		 (unsigned long long)(d->dev->offset + io->offset), kv_strerror((int)result));
	d->errors++;
	if (io->write)
		d->stats.write_errors++;
	else
		d->stats.read_errors++;
	if (d->errors >= TIER_ERRORS_MAX || d->state == TIER_READING)
		drive_down(d, why);
}

int64_t drive_ended(struct tier_drive *d, struct tier_io *io, int64_t result)
{
	uint64_t ns;
	tier_time(d->t, kv_clock_now(d->t->opt.clock));
	ns = d->t->now_ns - io->begun_ns;
	kv_list_del(&io->node);
	d->flying_count--;
	d->stats.writes_now -= io->write;
	if (result == 0)
		result = -EIO; /* the device ends here */
	if (d->t->stopped)
		return result < 0 ? result : -KV_ECLOSED;
	if (result < 0) {
		if (d->state != TIER_DOWN)
			drive_error(d, io, result);
		return result;
	}
	d->errors = 0;
	if (io->write) {
		d->stats.writes++;
		d->stats.write_bytes += (uint64_t)result;
		d->stats.write_ns += ns;
	} else {
		d->stats.reads++;
		d->stats.read_bytes += (uint64_t)result;
		d->stats.read_ns += ns;
	}
	return d->state == TIER_DOWN ? -KV_ECLOSED : result;
}

void drive_down(struct tier_drive *d, const char *why)
{
	struct tier *t = d->t;
	if (d->state == TIER_DOWN)
		return;
	d->state = TIER_DOWN;
	d->stats.downs++;
	d->wait_ns = d->wait_ns ? KV_MIN(2 * d->wait_ns, TIER_AGAIN_MAX_NS) : TIER_AGAIN_NS;
	d->again_ns = t->now_ns + d->wait_ns;
	kv_event(t->opt.log, KV_LOG_ERROR,
		 KV_EVENT("tier_down", KV_NUMBER("shard", t->opt.shard), KV_FIELD("device", d->dev->name),
			  KV_FIELD("reason", why)),
		 "shard %u: the tier on %s is not used until the device answers again: %s; its values are misses",
		 t->opt.shard, d->dev->name, why);
	t->hooks->down(d);
}

void budget_refill(struct tier_budget *b, uint64_t ns)
{
	uint64_t more;
	if (b->per_s == 0)
		return;
	more = (uint64_t)((double)b->per_s * (double)ns / 1e9);
	b->left = KV_MIN(b->left + (int64_t)more, (int64_t)b->most);
}
