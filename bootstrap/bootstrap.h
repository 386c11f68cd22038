/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap.h -- the control connection: TCP, with TLS 1.3 unless it is switched off, for the control messages of
 * wire/wire.h.
 *
 * Everything runs on one loop; *_await functions park. One coroutine may read while others write; writers queue up. */
#ifndef KVRAIL_BOOTSTRAP_BOOTSTRAP_H
#define KVRAIL_BOOTSTRAP_BOOTSTRAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/base.h"
#include "loop/loop.h"
#include "wire/wire.h"

enum boot_mode {
	BOOT_PLAIN, /* no TLS: loopback, simulation, or --insecure */
	BOOT_PSK,   /* TLS 1.3, pre-shared key */
	BOOT_CERT   /* TLS 1.3, certificates of one CA on both sides */
};

struct boot_security {
	/* File with lines "identity:hex" of at least 16 bytes of key; or NULL. This side proves the last one; a server
	 * accepts each. "a#1" and "a#2" are keys of one identity, a (boot_peer_names). */
	const char *psk_file;
	const char *psk;                            /* such a line (kv-bench's one-time key), or NULL */
	const char *cert_file, *key_file, *ca_file; /* PEM; all three or none */
	const char *crl_file; /* PEM, a revocation list for each CA of a chain; or NULL. The loop rereads it ... */
	bool crl_kept;        /* ... unless this is set: then another thread makes new contexts and has them adopted */
	const char *server_name; /* in every server's certificate; NULL: the dialled name */
};

struct boot_context;

/* boot_context_create -- read the keys. Errors: -KV_EINVAL, -KV_EDENIED (others may read a key file), -errno. Thread:
 * any; afterwards one loop at a time. */
int boot_context_create(const struct boot_security *security, bool server, const struct kv_log *log,
			struct boot_context **out, struct kv_error *err);
void boot_context_destroy(struct boot_context **ctx);
enum boot_mode boot_context_mode(const struct boot_context *ctx);

/* boot_context_adopt -- new handshakes use the keys, certificates and lists of *fresh, which becomes NULL; earlier ones
 * keep theirs. Both contexts have the same role and mode, not BOOT_PLAIN. Thread: ctx's loop. */
void boot_context_adopt(struct boot_context *ctx, struct boot_context **fresh);

enum { BOOT_OWNER = 32 }; /* bytes */

/* boot_owner_prove -- this process knows the pre-shared key: the proof for a nonce. Without a key: zeros.
 * boot_owner_check -- verify it by any key of this side. 0; -KV_EDENIED; or the codes of boot_context_create. Thread:
 * any. */
int boot_owner_prove(const struct boot_security *security, const uint8_t nonce[BOOT_OWNER], uint8_t out[BOOT_OWNER],
		     struct kv_error *err);
int boot_owner_check(const struct boot_security *security, const uint8_t nonce[BOOT_OWNER],
		     const uint8_t proof[BOOT_OWNER]);

/* ---- names of servers: threads look them up, which may take half a minute ---- */

struct boot_resolver;

/* boot_resolver_create -- for names 0 to n - 1. Returns 0 or -KV_ENOMEM. Thread: any. For many loops at once. */
int boot_resolver_create(unsigned n, struct boot_resolver **out);

/* boot_resolver_destroy -- never waits: a look-up in progress ends by itself and frees the rest. Accepts NULL. */
void boot_resolver_destroy(struct boot_resolver **resolver);

/* boot_resolve -- the addresses of name `i`: hp, equal for all callers at a time; another hp voids earlier results.
 * Never blocks. 0; 1: ask again within BOOT_RESOLVE_AGAIN_NS; -KV_EPEERDOWN: no such name, or no name server answers;
 * -KV_ELIMIT: no thread. Thread: any. */
int boot_resolve(struct boot_resolver *resolver, unsigned i, const struct kv_hostport *hp, struct kv_addresses *out,
		 struct kv_error *err);

#define BOOT_RESOLVE_AGAIN_NS 50000000ull

struct boot_conn;

/* A server to dial. */
struct boot_server {
	const struct sockaddr_storage *addr;
	socklen_t addr_len;
	const char *name; /* the host as written, a DNS name or IP address, for its certificate */
};

/* boot_connect_await -- connect by TCP and do the TLS handshake by the deadline. user_timeout_ms: see io_user_timeout.
 * Errors, which name the address: -KV_ETIMEOUT, -KV_EPEERDOWN (refused, unreachable), -KV_EDENIED (TLS refused). */
int boot_connect_await(struct boot_context *ctx, const struct boot_server *server, unsigned user_timeout_ms,
		       uint64_t deadline_ns, struct boot_conn **out, struct kv_error *err);

/* boot_accept_await -- do the TLS handshake on an accepted socket, which it owns, also on failure. */
int boot_accept_await(struct boot_context *ctx, int fd, const struct sockaddr_storage *peer, unsigned user_timeout_ms,
		      uint64_t deadline_ns, struct boot_conn **out, struct kv_error *err);

/* boot_send_await -- send one message. Returns 0, -KV_ETIMEOUT (the connection is broken: a part may be sent),
 * -KV_EPEERDOWN, -KV_EPROTO (TLS), -KV_EINVAL (cannot be encoded, or no coroutine), or -KV_ENOMEM. */
int boot_send_await(struct boot_conn *conn, const struct wire_ctrl_msg *msg, uint64_t deadline_ns);

/* boot_send_both_await -- the same for two messages in one write, of 4 KiB together. */
int boot_send_both_await(struct boot_conn *conn, const struct wire_ctrl_msg *first, const struct wire_ctrl_msg *second,
			 uint64_t deadline_ns);

/* boot_recv_await -- receive the next message; pointers in *out are valid until the next call. Returns 0; -KV_ETIMEOUT
 * (nothing is lost: call again); -KV_EVERSION (a HELLO without a common version: a REFUSE may be sent); -KV_EPEERDOWN,
 * -KV_EPROTO, -KV_ENOMEM: close the connection. */
int boot_recv_await(struct boot_conn *conn, struct wire_ctrl_msg *out, uint64_t deadline_ns);

/* boot_limit -- from the next boot_recv_await on, refuse longer messages before memory is taken. At most KV_CTRL_MAX.
 */
void boot_limit(struct boot_conn *conn, unsigned bytes);

/* boot_interrupt -- end a boot_recv_await in progress as at its deadline, or with a message that has arrived. */
void boot_interrupt(struct boot_conn *conn);

/* boot_sound -- no send or receive has failed, and there was no boot_shutdown. */
bool boot_sound(const struct boot_conn *conn);

/* boot_shutdown -- reads and writes in progress return -KV_EPEERDOWN. boot_close -- only when no other coroutine is
 * inside a call on the connection. */
void boot_shutdown(struct boot_conn *conn);
void boot_close(struct boot_conn **conn);
const char *boot_peer_name(const struct boot_conn *conn); /* "127.0.0.1:7411", for messages */
const char *boot_peer_who(const struct boot_conn *conn);  /* the proved identity, for logs: 'PSK identity "a"',
							     'certificate CN=b, DNS:c', "no credential" */
/* boot_peer_names -- the proved identity as names, each ended by 0, and behind the last one another 0: the PSK identity
 * up to a '#', or "CN=b" and "DNS:c" of a certificate. No credential: none. Valid as long as the connection. */
const char *boot_peer_names(const struct boot_conn *conn);
/* boot_peer_expiry -- the second since 1970 at which the peer's certificate chain expires; INT64_MAX: never. */
int64_t boot_peer_expiry(const struct boot_conn *conn);
const char *boot_failure(const struct boot_conn *conn); /* the last failed send or receive; "": none */

/* ---- further sessions: their proofs (docs/reference/protocol.md 2.7) ---- */

struct boot_key;
struct boot_keys;

/* boot_key_parse -- read "identity:hex". boot_keys_load -- read a file of such lines. Errors: -KV_EINVAL with the line,
 * -KV_EDENIED (others may read the file), -KV_ENOMEM, -errno. Thread: any; afterwards read only. */
int boot_key_parse(const char *text, struct boot_key **out, struct kv_error *err);
void boot_key_destroy(struct boot_key **key);
int boot_keys_load(const char *path, struct boot_keys **out, struct kv_error *err);
void boot_keys_destroy(struct boot_keys **keys);

/* boot_secrets_read -- call take with each key of a file of such lines. what: names the file in errors. Errors: as
 * boot_keys_load, and those of take, which end the call. Thread: any. */
int boot_secrets_read(const char *path, const char *what,
		      int (*take)(void *arg, const char *name, const uint8_t *key, size_t len, struct kv_error *err),
		      void *arg, struct kv_error *err);

/* More inputs of a proof: the server's nonce, and the token of the connection's own session. */
struct boot_challenge {
	uint8_t nonce[WIRE_NONCE_LEN], token[KV_TOKEN_LEN];
};

/* boot_prove -- fill in identity and proof of a SESSION_OPEN with id, client id and nonce. key NULL: the connection's
 * secret. Returns 0, -KV_EPROTO (TLS exports no value) or -KV_ENOMEM. */
int boot_prove(struct boot_conn *conn, const struct boot_challenge *challenge, const struct boot_key *key,
	       struct wire_session_open *open);

/* boot_proof_check -- 0 or -KV_EDENIED, in the same time and without a hint. keys NULL: only the connection's own
 * secret counts. -KV_EPROTO, -KV_ENOMEM as above. */
int boot_proof_check(struct boot_conn *conn, const struct boot_challenge *challenge, const struct boot_keys *keys,
		     const struct wire_session_open *open);

/* ---- the keys of frames (docs/reference/protocol.md 3) ---- */

enum { BOOT_FRAME_SECRET = 32 }; /* bytes */

/* boot_frame_secret -- derive the secret of an attachment's keys, equal at both ends. 0, -KV_EPROTO (TLS exports no
 * value) or -KV_ENOMEM. The caller wipes it. */
int boot_frame_secret(struct boot_conn *conn, const uint8_t token[KV_TOKEN_LEN], uint8_t out[BOOT_FRAME_SECRET]);

/* boot_frame_keys -- derive the session's keys at one shard, for this side. 0 or -KV_ENOMEM. Thread: any. The caller
 * wipes them. */
int boot_frame_keys(const uint8_t secret[BOOT_FRAME_SECRET], uint32_t session, unsigned shard, bool server,
		    struct kv_seal_keys *out);

/* boot_frame_macs -- the same keys, for seals (kv_seal_init). Once per side: counters begin anew. *out is zeroed
 * before. 0 or -KV_ENOMEM. Thread: any. Release with kv_macs_fini. */
int boot_frame_macs(const uint8_t secret[BOOT_FRAME_SECRET], uint32_t session, unsigned shard, bool server,
		    struct kv_macs *out);

/* Properties of one side, compared in the hello. */
struct boot_identity {
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX];
	uint32_t eager_bytes;
};

/* boot_hello_check -- 0, or -KV_EVERSION with a sentence that names the difference and the way out. */
int boot_hello_check(const struct boot_identity *ours, const char *our_side, const struct boot_identity *theirs,
		     const char *their_side, struct kv_error *err);

#endif
