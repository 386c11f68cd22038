/* SPDX-License-Identifier: Apache-2.0 */
/* service.h -- what a program tells the service manager that started it (systemd; sd_notify(3) has the words). */
#ifndef KVRAIL_HOST_SERVICE_H
#define KVRAIL_HOST_SERVICE_H

#include <stdint.h>

/* kv_service_tell -- send a line, or several, such as "READY=1". Returns 0, 1 when no manager asked for it
 * (NOTIFY_SOCKET), or -errno: it does not listen, and nothing follows from that. Blocks: no. Thread: any. */
int kv_service_tell(const char *lines);

/* kv_service_watchdog_ns -- the time within which the manager wants to hear "WATCHDOG=1" again, else it ends this
 * process; 0: it does not watch us. */
uint64_t kv_service_watchdog_ns(void);

#endif
