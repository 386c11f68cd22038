/* SPDX-License-Identifier: Apache-2.0 */
/* stay.h -- the library stays loaded after dlclose, where something in the process still needs its code. */
#ifndef KVRAIL_BASE_STAY_H
#define KVRAIL_BASE_STAY_H

/* kv_stay_loaded -- from now on dlclose leaves the object that this code is part of loaded, with what it depends on. A
 * program, or a library that was linked into one, stays anyhow. Thread: any. */
void kv_stay_loaded(void);

#endif
