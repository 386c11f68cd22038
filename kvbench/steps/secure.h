/* SPDX-License-Identifier: Apache-2.0 */
/* secure.h -- TLS 1.3 with one key over a blocking socket: OpenSSL as in a program with a connection for each client,
 * which releases the buffers of idle connections. A context may be used by several threads at once, a connection by
 * one. SIGPIPE must be ignored (bench_signals_install). */
#ifndef KVRAIL_KVBENCH_STEPS_SECURE_H
#define KVRAIL_KVBENCH_STEPS_SECURE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

struct secure_context;
struct secure;

/* secure_key_make -- a new key for the contexts of this process and of its children. Returns 0 or -errno. */
int secure_key_make(void);

/* secure_context_create -- for the server's side, or the client's. Error: -KV_ENOMEM. */
int secure_context_create(bool server, struct secure_context **out, struct kv_error *err);
void secure_context_destroy(struct secure_context **ctx); /* accepts NULL */

/* secure_open -- make the handshake. Blocks: by the socket's timeouts. Owner: fd stays the caller's.
 * Returns 0, -KV_ETIMEOUT, -KV_EDENIED (it was refused), -KV_ENOMEM. */
int secure_open(struct secure_context *ctx, int fd, struct secure **out);
void secure_close(struct secure **s); /* without goodbye; accepts NULL */

/* Exactly len bytes. Blocks likewise. Returns 0, -KV_EPEERDOWN or -KV_ETIMEOUT. */
int secure_read(struct secure *s, void *buf, size_t len);
int secure_write(struct secure *s, const void *buf, size_t len);

#endif
