/* SPDX-License-Identifier: Apache-2.0 */
/* host.h -- the resources of this machine, and the share of them that this process may use. Other folders include no
 * other header of host/. */
#ifndef KVRAIL_HOST_HOST_H
#define KVRAIL_HOST_HOST_H

#include "host/limits.h"
#include "host/memory.h"
#include "host/numa.h"

#endif
