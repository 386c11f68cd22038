/* SPDX-License-Identifier: Apache-2.0 */
/* troubles.c -- troubles of a server that the pool's log knows. The first client logs at full level, the others at
 * debug. The end is logged when the last client has the server back, so a trouble that remains for some has no second
 * beginning in the log. */
#include "kvclient/core/troubles.h"

bool kc_trouble_begin(struct kc_troubles *t, bool *mine, enum kc_trouble trouble)
{
	if (mine[trouble])
		return false;
	mine[trouble] = true;
	return atomic_fetch_add(&t->clients[trouble], 1) == 0;
}

bool kc_trouble_end(struct kc_troubles *t, bool *mine, enum kc_trouble trouble)
{
	if (!mine[trouble])
		return false;
	mine[trouble] = false;
	return atomic_fetch_sub(&t->clients[trouble], 1) == 1;
}

void kc_troubles_forget(struct kc_troubles *t, bool *mine)
{
	for (unsigned i = 0; i < KC_TROUBLES; i++)
		kc_trouble_end(t, mine, (enum kc_trouble)i);
}
