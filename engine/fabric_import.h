/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_import.h -- replace functions that libfabric imports, in its own import table. Private to engine/fabric*. */
#ifndef KVRAIL_ENGINE_FABRIC_IMPORT_H
#define KVRAIL_ENGINE_FABRIC_IMPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

struct import {
	const char *name;
	void *ours;     /* what libfabric is to call */
	void *ordinary; /* what this program calls by that name */
	bool needed;
	void *before;   /* out: what libfabric called until now, for ours to call */
	unsigned found; /* out: import slots that were replaced */
};

/* import_replace -- have libfabric, and the providers that it loaded as plug-ins, call ours. Once per process, before
 * the first endpoint; nothing undoes it, so the object that holds ours is kept loaded. Other users of libfabric in this
 * process go through ours as well, which must pass on what is not its own. *why (static) says why it could not be done:
 * -KV_ENOTSUP (this machine's relocations are not known, libfabric is linked in another way, a needed function is not
 * imported), -KV_EDENIED (the table cannot be made writable). Nothing is replaced then. Thread: any, one at a time. */
int import_replace(struct import *imports, size_t n, const char **why);

#endif
