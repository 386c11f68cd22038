/* SPDX-License-Identifier: Apache-2.0 */
/* heat.h -- which keys of a shard are asked for often now. Pure: one thread, no memory but its own, times passed in. */
#ifndef KVRAIL_STORE_HEAT_H
#define KVRAIL_STORE_HEAT_H

#include "base/base.h"

enum {
	HEAT_GETS_MIN = 64, /* a key that was asked for less often in a window is not hot, */
	HEAT_SHARE = 64,    /* nor one with less than this part of all GETs */
	HEAT_SLOTS_LOG2 = 9,
	HEAT_SLOTS = 1 << HEAT_SLOTS_LOG2,
	HEAT_WINDOW_NS = 1000000000
};

/* What is counted for one key: the slot's holder. */
struct heat_slot {
	_Alignas(16) uint32_t tag; /* bits of the holder's digest that do not say the slot */
	uint32_t window;           /* that gets and votes speak of */
	uint32_t gets;             /* of the holder in that window, since it holds the slot */
	uint8_t votes; /* the holder's asks less those of the others, bounded: at 0 another key takes the slot */
	bool was_hot;  /* in the window before */
};

/* Zero it before the first heat_asked. */
struct heat {
	uint64_t began_ns; /* of the window */
	uint32_t window, gets, gets_before;
	struct heat_slot slot[HEAT_SLOTS];
};

/* heat_asked -- count a GET of the key with this digest (all of its bits are to be random), and say whether the key is
 * hot: in this window or in the last one it was asked for HEAT_GETS_MIN times at least, and had a part of 1/HEAT_SHARE
 * of all that was counted in that window. now_ns: monotonic; a time before the window's begin counts as its begin. */
bool heat_asked(struct heat *h, uint64_t digest, uint64_t now_ns);

#endif
