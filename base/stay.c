/* SPDX-License-Identifier: Apache-2.0 */
/* stay.c -- keep the library loaded.
 *
 * A host may load libkvrail as a plug-in, close its pools, and call dlclose. Two things outlive a pool: functions of
 * ours in libfabric's import table, and threads that wait for a name server. Whoever makes one of them calls this
 * before. Otherwise nothing of ours is left, and dlclose unloads the library. (Rejected: to be linked with -z nodelete.
 * A host that loads a new version of its plug-in would go on with the old library.) */
#include "base/stay.h"

#include <dlfcn.h>
#include <stdint.h>

void kv_stay_loaded(void)
{
	Dl_info info;
	if (dladdr((void *)(uintptr_t)&kv_stay_loaded, &info) && info.dli_fname)
		(void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	(void)dlerror(); /* the main program cannot be unloaded, nor opened */
}
