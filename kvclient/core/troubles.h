/* SPDX-License-Identifier: Apache-2.0 */
/* troubles.h -- troubles of a server that the pool's log knows. */
#ifndef KVRAIL_KVCLIENT_CORE_TROUBLES_H
#define KVRAIL_KVCLIENT_CORE_TROUBLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum kc_trouble {
	KC_TROUBLE_LOST,    /* an attachment ended without a goodbye */
	KC_TROUBLE_PARTED,  /* the server said goodbye */
	KC_TROUBLE_FAILING, /* attempts to attach fail */
	KC_TROUBLES
};

/* Of one server of the pool's table. Any thread. */
struct kc_troubles {
	_Atomic unsigned clients[KC_TROUBLES]; /* with the trouble */
	_Atomic uint64_t incarnation;          /* last one heard */
	_Atomic uint32_t beat_ms;              /* of its heartbeats, if too slow */
	_Atomic int refusal;                   /* last code logged */
};

/* kc_trouble_begin -- a client has this trouble; mine: its marks, [KC_TROUBLES]. True: the pool's first: log it.
 * kc_trouble_end -- its trouble is over. True: the pool's also. */
bool kc_trouble_begin(struct kc_troubles *t, bool *mine, enum kc_trouble trouble);
bool kc_trouble_end(struct kc_troubles *t, bool *mine, enum kc_trouble trouble);

/* kc_troubles_forget -- the client leaves the server. */
void kc_troubles_forget(struct kc_troubles *t, bool *mine);

#endif
