/* SPDX-License-Identifier: Apache-2.0 */
/* stay_loaded.c -- keep the library loaded.
 *
 * A host may close its pools and dlclose libkvrail. Two things can outlive a pool: our functions in libfabric's import
 * table, and threads that wait for a name server. Each calls this before. Otherwise dlclose unloads the library, as a
 * host with a new version needs. */
#include "base/stay_loaded.h"

#include <dlfcn.h>
#include <stdint.h>

void kv_stay_loaded(void)
{
	Dl_info info;
	if (dladdr((void *)(uintptr_t)&kv_stay_loaded, &info) && info.dli_fname)
		(void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	(void)dlerror(); /* the main program is not unloaded, nor can it be opened */
}
