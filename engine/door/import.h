/* SPDX-License-Identifier: Apache-2.0 */
/* import.h -- replace functions in libfabric's import table. Private to engine/fabric/ and engine/door/. */
#ifndef KVRAIL_ENGINE_DOOR_IMPORT_H
#define KVRAIL_ENGINE_DOOR_IMPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

struct import {
	const char *name;
	void *ours; /* the replacement */
	void *ordinary;
	bool needed;
	void *before; /* out: the previous function, for ours to call */
	unsigned found;
};

/* import_replace -- let libfabric and its loaded provider plug-ins call ours. Once per process, before the first
 * endpoint; our object stays loaded. Other users of libfabric in this process call ours as well, which must pass on
 * foreign descriptors. On failure nothing is replaced, and *why (static) is the reason: -KV_ENOTSUP (unknown
 * relocations, libfabric linked differently, a needed function not imported), -KV_EDENIED (the table cannot be made
 * writable). Thread: any, one at a time. */
int import_replace(struct import *imports, size_t n, const char **why);

#endif
