/* SPDX-License-Identifier: Apache-2.0 */
/* ping.h -- checks whether members answer: a TCP connection to each, on a thread of its own. */
#ifndef KVRAIL_KVSERVER_MEMBER_PING_H
#define KVRAIL_KVSERVER_MEMBER_PING_H

#include "kvserver/member/member.h"

struct ping;

/* ping_start -- ask them. 0, -KV_ENOMEM or -errno. *out until ping_take or ping_drop. */
int ping_start(const struct kv_view *whom, struct ping **out);
/* ping_take -- false: not done yet. Else *out has the silent members, is the caller's, and *p is NULL. */
bool ping_take(struct ping **p, struct kv_view *out_silent);
/* ping_drop -- abandon the ping. NULL is accepted. */
void ping_drop(struct ping **p);

#endif
