/* SPDX-License-Identifier: Apache-2.0 */
/* device.h -- a device as a tier uses it: the interface of kvserver/tier/ (loop, O_DIRECT) and of tests. */
#ifndef KVRAIL_STORE_TIER_DEVICE_H
#define KVRAIL_STORE_TIER_DEVICE_H

#include "base/base.h"

struct tier_device;

/* One transfer. offset and len are multiples of TIER_PAGE, buf is aligned to it. The memory stays in place until done()
 * ran, exactly once, in a later turn of the loop, or until tier_device_ops.close has returned. */
struct tier_io {
	uint64_t offset; /* of the shard's range */
	uint8_t *buf;
	uint32_t len;
	bool write;
	bool durable;                                     /* a write that holds when power fails */
	void (*done)(struct tier_io *io, int64_t result); /* bytes, maybe fewer than len; or a negative code */
	uint64_t begun_ns;                                /* the tier's */
	void *arg;                                        /* the tier's */
	struct kv_list node;                              /* the tier's */
	uint64_t priv[40];                                /* the device's */
};

/* On the shard's thread; nothing parks. */
struct tier_device_ops {
	/* submit -- start a transfer. Reads come first; writes have best-effort priority. */
	void (*submit)(struct tier_device *d, struct tier_io *io);
	/* reopen -- the device failed some time ago: open it again, if it is still the same one. 0 or a code with *err.
	 * With transfers in flight: -KV_EBUSY. May be NULL: always the same. */
	int (*reopen)(struct tier_device *d, struct kv_error *err);
};

/* The head of an implementation's struct. */
struct tier_device {
	const struct tier_device_ops *ops;
	const char *name; /* path, for events; lives as long as the device */
	uint64_t offset, bytes;
};

#endif
