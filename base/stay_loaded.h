/* SPDX-License-Identifier: Apache-2.0 */
/* stay_loaded.h -- keep the library loaded after dlclose. */
#ifndef KVRAIL_BASE_STAY_LOADED_H
#define KVRAIL_BASE_STAY_LOADED_H

/* kv_stay_loaded -- from now on dlclose leaves this code's object and its dependencies loaded. Thread: any. */
void kv_stay_loaded(void);

#endif
