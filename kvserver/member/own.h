/* SPDX-License-Identifier: Apache-2.0 */
/* own.h -- whether addresses of a member are this server's own. */
#ifndef KVRAIL_KVSERVER_MEMBER_OWN_H
#define KVRAIL_KVSERVER_MEMBER_OWN_H

#include "base/base.h"

/* own_foreign -- how many of the addresses in `where` are not this server's, which listens on `listen` (HOST:PORT), and
 * is reached under `advertised` ("": none). out: those addresses. A name without a look-up result counts as its own.
 * May wait for a resolver. */
unsigned own_foreign(const char *where, const char *listen, const char *advertised, char out[KV_WHERE_MAX]);

#endif
