/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- data private to kvclient/route/ (and tests). */
#ifndef KVRAIL_KVCLIENT_ROUTE_PRIVATE_H
#define KVRAIL_KVCLIENT_ROUTE_PRIVATE_H

#include "kvclient/route/repair.h"

enum { REPAIRS = 256 }; /* values that wait to be copied */

struct kc_repairs {
	struct kc_repair ring[REPAIRS];
	unsigned head, count;   /* the first is under way, if `copying` */
	bool running;           /* the coroutine runs ... */
	bool copying;           /* ... and copies, not resting */
	struct co_queue copied; /* woken after each copy */
};

#endif
