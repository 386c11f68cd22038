/* SPDX-License-Identifier: Apache-2.0 */
/* host.h -- this machine's resources, and the share of this process. Other folders include no other header of host/. */
#ifndef KVRAIL_HOST_HOST_H
#define KVRAIL_HOST_HOST_H

#include "host/disk.h"
#include "host/footprint.h"
#include "host/limits.h"
#include "host/memory.h"
#include "host/numa.h"
#include "host/prefault.h"
#include "host/proc_files.h"
#include "host/rdma.h"
#include "host/service.h"
#include "host/shortage.h"

#endif
