/* SPDX-License-Identifier: Apache-2.0 */
/* try.h -- what the child of a trial is told, and what it reports. Private to kvdoctor/. */
#ifndef KVRAIL_KVDOCTOR_TRY_H
#define KVRAIL_KVDOCTOR_TRY_H

#include "kvdoctor/doctor.h"

enum { TRY_ARGS = 8, TRY_LINE = 480 };

/* The arguments behind TRY_CHILD, all text, in this order: provider, NICs or "", rails, engines, bytes of a region,
 * messages, receives, source address or "". The child prints lines "NAME VALUE". */
struct try_args {
	const char *provider, *nic, *local;
	uint64_t rails, engines, region_bytes, messages, receives;
};

/* try_line -- take one line of the child into *t. Ignores unknown lines. */
void try_line(struct trial *t, const char *line);

#endif
