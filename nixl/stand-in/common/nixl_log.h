/* SPDX-License-Identifier: Apache-2.0 */
/* nixl_log.h -- in place of NIXL's header of this name, which needs Abseil: NIXL's headers for plug-ins name these two.
 */
#ifndef KVRAIL_NIXL_STAND_IN_LOG_H
#define KVRAIL_NIXL_STAND_IN_LOG_H

#include <cassert>
#include <iostream>

#define NIXL_ASSERT(condition) assert(condition)
#define NIXL_ERROR             std::cerr

#endif
