/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- small functions of member/. */
#ifndef KVRAIL_KVSERVER_MEMBER_PRIVATE_H
#define KVRAIL_KVSERVER_MEMBER_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"
#include "kvserver/member/member.h"

struct ping;

/* ---- own.c ---- */

/* own_foreign -- how many of the addresses in `where` are not this server's, which listens on `listen` (HOST:PORT), and
 * is reached under `advertised` ("": none). out: those addresses. A name without a look-up result counts as its own.
 * May wait for a resolver. */
unsigned own_foreign(const char *where, const char *listen, const char *advertised, char out[KV_WHERE_MAX]);

/* ---- ping.c ---- */

/* ping_start -- ask them. 0, -KV_ENOMEM or -errno. *out until ping_take or ping_drop. */
int ping_start(const struct kv_view *whom, struct ping **out);
/* ping_take -- false: not done yet. Else *out has the silent members, is the caller's, and *p is NULL. */
bool ping_take(struct ping **p, struct kv_view *out_silent);
/* ping_drop -- abandon the ping. NULL is accepted. */
void ping_drop(struct ping **p);

/* ---- base64.c ---- */

#endif
