/* SPDX-License-Identifier: Apache-2.0 */
/* heat.h -- the keys of a shard with many reads now. Pure: one thread, own memory, times are passed in. */
#ifndef KVRAIL_STORE_HEAT_H
#define KVRAIL_STORE_HEAT_H

#include "base/base.h"

enum {
	HEAT_GETS_MIN = 64, /* a hot key has this many GETs in a window or more, */
	HEAT_SHARE = 64,    /* and this part of all GETs or more */
	HEAT_SLOTS_LOG2 = 9,
	HEAT_SLOTS = 1 << HEAT_SLOTS_LOG2,
	HEAT_WINDOW_NS = 1000000000
};

struct heat_slot {
	_Alignas(16) uint32_t tag; /* bits of the holder's digest that do not choose the slot */
	uint32_t window;           /* of gets and votes */
	uint32_t gets;
	uint8_t votes; /* the holder's GETs less the others', bounded; at 0 another key takes the slot */
	bool was_hot;  /* in the window before */
};

/* Zero it before the first heat_asked. */
struct heat {
	uint64_t began_ns; /* of the window */
	uint32_t window, gets, gets_before;
	struct heat_slot slot[HEAT_SLOTS];
};

/* heat_asked -- count a GET of the key with this digest (all bits random). Returns whether the key is hot: in this
 * window or the last one it had HEAT_GETS_MIN GETs and 1/HEAT_SHARE of all. now_ns: monotonic. */
bool heat_asked(struct heat *h, uint64_t digest, uint64_t now_ns);

#endif
