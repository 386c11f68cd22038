/* SPDX-License-Identifier: Apache-2.0 */
/* told.h -- troubles of a server that the pool's log knows. */
#ifndef KVRAIL_KVCLIENT_CORE_TOLD_H
#define KVRAIL_KVCLIENT_CORE_TOLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum kvc_trouble {
	KVC_TROUBLE_LOST,    /* an attachment ended without a goodbye */
	KVC_TROUBLE_PARTED,  /* the server said goodbye */
	KVC_TROUBLE_FAILING, /* attempts to attach fail */
	KVC_TROUBLES
};

/* Of one server of the pool's table. Any thread. */
struct kvc_told {
	_Atomic unsigned clients[KVC_TROUBLES]; /* with the trouble */
	_Atomic uint64_t incarnation;           /* last one heard */
	_Atomic uint32_t beat_ms;               /* of its heartbeats, if too slow */
	_Atomic int refusal;                    /* last code logged */
};

/* kvc_told_begin -- a client has this trouble; mine: its marks, [KVC_TROUBLES]. True: the pool's first: log it.
 * kvc_told_end -- its trouble is over. True: the pool's also. */
bool kvc_told_begin(struct kvc_told *t, bool *mine, enum kvc_trouble trouble);
bool kvc_told_end(struct kvc_told *t, bool *mine, enum kvc_trouble trouble);

/* kvc_told_forget -- the client leaves the server. */
void kvc_told_forget(struct kvc_told *t, bool *mine);

#endif
