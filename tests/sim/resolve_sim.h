/* SPDX-License-Identifier: Apache-2.0 */
/* resolve_sim.h -- names of the simulated world. resolve_sim.c stands in for bootstrap/resolve.c: it defines the same
 * functions, so that the linker takes none of that file, and answers from a table, in virtual time and without threads.
 */
#ifndef KVRAIL_TESTS_SIM_RESOLVE_SIM_H
#define KVRAIL_TESTS_SIM_RESOLVE_SIM_H

#include <stdint.h>

#include "base/base.h"

enum { SIM_NAMES = 8, SIM_NAME_ADDRESSES = 3 };

/* sim_name_set -- from now on this host has the ports (of 127.0.0.1) that are not 0, in this order, and questions for
 * it are answered after delay_ns; none: there is no such host. Names that were never set do not exist, and say so at
 * once. */
void sim_name_set(const char *host, const uint16_t port[SIM_NAME_ADDRESSES], uint64_t delay_ns);
void sim_names_forget(void);

#endif
