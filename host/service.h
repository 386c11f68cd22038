/* SPDX-License-Identifier: Apache-2.0 */
/* service.h -- reports to the service manager (systemd, sd_notify(3)). */
#ifndef KVRAIL_HOST_SERVICE_H
#define KVRAIL_HOST_SERVICE_H

#include <stdint.h>

/* kv_service_tell -- send lines such as "READY=1". Returns 0, 1 (no NOTIFY_SOCKET), or -errno, which needs no reaction.
 * Blocks: no. Thread: any. */
int kv_service_tell(const char *lines);

/* kv_service_watchdog_ns -- the longest time between two "WATCHDOG=1"; 0: no watchdog. */
uint64_t kv_service_watchdog_ns(void);

#endif
