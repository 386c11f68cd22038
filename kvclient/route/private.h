/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- data private to kvclient/route/ (and tests). */
#ifndef KVRAIL_KVCLIENT_ROUTE_PRIVATE_H
#define KVRAIL_KVCLIENT_ROUTE_PRIVATE_H

#include "kvclient/route/view_ask.h"
#include "kvclient/route/notes_carry.h"
#include "kvclient/route/repair.h"

enum { REPAIRS = 256 }; /* values that wait to be copied */

struct kc_repairs {
	struct kc_repair ring[REPAIRS];
	unsigned head, count;   /* the first is under way, if `copying` */
	bool running;           /* the coroutine runs ... */
	bool copying;           /* ... and copies, not resting */
	struct co_queue copied; /* woken after each copy */
};

enum { KC_FORMER_PLACES = 4 };

/* A former placement (view.c). */
struct kc_former_place {
	struct kc_place place;
	uint64_t until_ns; /* then misses no longer ask its servers */
};

/* How the client came to its view, and what it left behind (view.c). */
struct kc_cluster_own {
	struct kv_view held;
	struct kc_choice wanted; /* has a majority and is to be fetched; digest 0: none */
	struct kc_asking asking;
	uint64_t asked;      /* view requests due to news */
	uint64_t opening_ns; /* then servers without an answer are no longer awaited */
	uint64_t differ_ns;  /* since when servers announce other views; 0: no */
	bool differ_said;    /* logged */
	bool reached;        /* a server has answered since none was up */
	bool listed;         /* the list placed keys at first */
	bool said;
	bool carrying;
	struct kc_carry carry;                           /* of notes to the new placement */
	struct kc_former_place former[KC_FORMER_PLACES]; /* newest first */
	uint64_t looked_ns;
	uint32_t naming_number; /* kc_cluster_name_number last followed */
};

#endif
