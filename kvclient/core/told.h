/* SPDX-License-Identifier: Apache-2.0 */
/* told.h -- what the pool's log was told of a server. */
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
	_Atomic unsigned clients[KVC_TROUBLES]; /* that have the trouble */
	_Atomic uint64_t incarnation;           /* as the last client heard it */
	_Atomic uint32_t beat_ms;               /* of its heartbeats, if they are too slow */
	_Atomic int refusal;                    /* the code of the last refusal that was logged */
};

/* kvc_told_begin -- a client has this trouble from now on; mine: its own marks, [KVC_TROUBLES]. True: no other client
 * of the pool has it, so the log is to be told. kvc_told_end -- it has it no more. True: nor has any other. */
bool kvc_told_begin(struct kvc_told *t, bool *mine, enum kvc_trouble trouble);
bool kvc_told_end(struct kvc_told *t, bool *mine, enum kvc_trouble trouble);

/* kvc_told_forget -- the client has nothing to do with the server any more. */
void kvc_told_forget(struct kvc_told *t, bool *mine);

#endif
