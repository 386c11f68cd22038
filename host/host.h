/* SPDX-License-Identifier: Apache-2.0 */
/* host.h -- what this machine has and what it grants this process: the only header of host/ that other folders include.
 */
#ifndef KVRAIL_HOST_HOST_H
#define KVRAIL_HOST_HOST_H

#include "host/limits.h"
#include "host/memory.h"
#include "host/numa.h"

#endif
