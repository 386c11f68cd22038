/* SPDX-License-Identifier: Apache-2.0 */
/* service.h -- reports to the service manager (systemd, sd_notify(3)). */
#ifndef KVRAIL_HOST_SERVICE_H
#define KVRAIL_HOST_SERVICE_H

#include <stdint.h>

/* kv_service_tell -- send lines such as "READY=1". Returns 0, 1 (no NOTIFY_SOCKET), or -errno, which needs no reaction.
 * Blocks: no. Thread: any. */
int kv_service_tell(const char *lines);

/* kv_service_store -- let the service manager keep a descriptor over this process, under this name (letters, digits and
 * '-'): a later process of the service gets it. As kv_service_tell; 0 does not mean that it does
 * (FileDescriptorStoreMax). kv_service_unstore -- forget those of this name. kv_service_take -- the descriptor of this
 * name that this process got, the caller's from now on; -1: none. Call it once per name, before other threads start. */
int kv_service_store(const char *name, int fd);
int kv_service_unstore(const char *name);
int kv_service_take(const char *name);

/* kv_service_watchdog_ns -- the longest time between two "WATCHDOG=1"; 0: no watchdog. */
uint64_t kv_service_watchdog_ns(void);

#endif
