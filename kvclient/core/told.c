/* SPDX-License-Identifier: Apache-2.0 */
/* told.c -- what the pool's log was told of a server.
 *
 * All clients of a pool meet the trouble of a server, each on its own loop and within moments. The first one logs it;
 * for the others it is a line of level debug. When the last one has the server back the log is told that, too. So a
 * trouble that only some clients get over has no end in the log, and no second beginning. */
#include "kvclient/core/told.h"

bool kvc_told_begin(struct kvc_told *t, bool *mine, enum kvc_trouble trouble)
{
	if (mine[trouble])
		return false;
	mine[trouble] = true;
	return atomic_fetch_add(&t->clients[trouble], 1) == 0;
}

bool kvc_told_end(struct kvc_told *t, bool *mine, enum kvc_trouble trouble)
{
	if (!mine[trouble])
		return false;
	mine[trouble] = false;
	return atomic_fetch_sub(&t->clients[trouble], 1) == 1;
}

void kvc_told_forget(struct kvc_told *t, bool *mine)
{
	for (unsigned i = 0; i < KVC_TROUBLES; i++)
		kvc_told_end(t, mine, (enum kvc_trouble)i);
}
