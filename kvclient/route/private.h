/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- data that the files of kvclient/route/ alone know (and tests). */
#ifndef KVRAIL_KVCLIENT_ROUTE_PRIVATE_H
#define KVRAIL_KVCLIENT_ROUTE_PRIVATE_H

#include "kvclient/route/repair.h"

enum { REPAIRS = 256 }; /* values that wait to be copied */

struct kvc_repairs {
	struct kvc_repair ring[REPAIRS];
	unsigned head, count;   /* the first one is under way, if `copying` */
	bool running;           /* the coroutine that copies ... */
	bool copying;           /* ... and is at the first one, not at rest */
	struct co_queue copied; /* woken when it has ended with one */
};

#endif
