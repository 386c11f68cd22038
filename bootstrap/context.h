/* SPDX-License-Identifier: Apache-2.0 */
/* context.h -- the body of boot_context, for context.c and conn.c. */
#ifndef KVRAIL_BOOTSTRAP_CONTEXT_H
#define KVRAIL_BOOTSTRAP_CONTEXT_H

#include "bootstrap/bootstrap.h"
#include "bootstrap/gate.h"
#include "bootstrap/tls.h"

struct boot_context {
	enum boot_mode mode;
	bool server;
	struct tls_context *tls; /* NULL with BOOT_PLAIN */
	struct gate gate;        /* of a server's handshakes */
};

#endif
