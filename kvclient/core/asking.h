/* SPDX-License-Identifier: Apache-2.0 */
/* asking.h -- when a client asks a server for its view of the cluster. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_ASKING_H
#define KVRAIL_KVCLIENT_CORE_ASKING_H

#include "base/base.h"

#define KVC_ASK_PATIENCE_NS 250000000ull /* another server is asked when one has not answered for so long */

struct kvc_asking {
	uint64_t asked_ns; /* when a server was last asked; 0: none was */
};

/* kvc_asking_now -- a server, one of `servers` that announce the view which is to be followed, announces it, or a beat
 * is over since then: whether to ask it for its view now. random: any number, another one each time. kvc_asking_over --
 * another view is to be followed, or none: all begins anew. */
bool kvc_asking_now(struct kvc_asking *a, unsigned servers, uint64_t now_ns, uint64_t random);
static inline void kvc_asking_over(struct kvc_asking *a)
{
	*a = (struct kvc_asking){0};
}

#endif
