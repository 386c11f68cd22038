/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h -- TLS 1.3 as a byte stream. Private to bootstrap/. Here only tls.c, trust.c and hmac.c use OpenSSL. */
#ifndef KVRAIL_BOOTSTRAP_TLS_H
#define KVRAIL_BOOTSTRAP_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "bootstrap/secret.h"
#include "bootstrap/stream.h"

struct tls_context;
struct gate;

struct tls_settings {
	bool server;
	struct secret_psks *psks;                   /* at least one; or NULL: certificates. Moved */
	const char *cert_file, *key_file, *ca_file; /* all three, unless psks is set */
	const char *crl_file;                       /* NULL: no revocation */
	bool crl_kept;                              /* another thread makes new contexts for changed lists */
	const char *server_name; /* client with certificates: expected instead of the dialled name; or NULL. Copied */
	struct gate *gate;       /* of a server's computations; outlives the context */
	const struct kv_log *log;
};

/* tls_context_create -- Errors: -KV_EINVAL, -KV_EDENIED (mode of the key file), -KV_ENOMEM, -errno. Thread: any. */
int tls_context_create(const struct tls_settings *settings, struct tls_context **out, struct kv_error *err);

/* tls_context_release -- end the owner's reference; the last stream frees the context. *ctx may be NULL. Thread: the
 * streams' loop. tls_context_follow -- take gate and log of the former context, before the first stream. */
void tls_context_release(struct tls_context **ctx);
void tls_context_follow(struct tls_context *ctx, const struct tls_context *former);

/* The other side: its address, for messages, and a server's dialled name. Valid until the call returns. */
struct tls_peer {
	const char *address, *name;
	uint64_t source;
};

/* tls_open_await -- do the handshake on a connected socket. After 0 each side has accepted the other, and the stream
 * owns fd. Errors: -KV_EDENIED (TLS refused, with the advice), -KV_ETIMEOUT, -KV_EPEERDOWN, -KV_EINVAL (no name to
 * expect), -KV_ENOMEM. */
int tls_open_await(struct tls_context *ctx, struct loop *loop, int fd, const struct tls_peer *peer,
		   uint64_t deadline_ns, struct boot_stream **out, struct kv_error *err);

#endif
