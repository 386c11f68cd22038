/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap.h -- the control connection: TCP with TLS 1.3 (or without it, on request), which carries the control
 * messages of wire/wire.h. The public header of bootstrap/. kvclient/ and kvserver/ decide what the messages mean
 * (hello, regions, heartbeats, goodbye). Only the check that both sides make (boot_hello_check) is here.
 *
 * With TLS the server sends one byte 'K' inside TLS after the handshake, before any control message, and the client
 * waits for it. A TLS 1.3 client cannot know otherwise that its certificate was accepted. boot_connect_await and
 * boot_accept_await do this by themselves.
 *
 * Everything runs on one loop; *_await functions park. One coroutine may read a connection while others write to it;
 * writers queue up. */
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
	BOOT_PSK,   /* TLS 1.3 with a pre-shared key */
	BOOT_CERT   /* TLS 1.3; both sides show a certificate of the same CA */
};

struct boot_security {
	/* A line "identity:hex" with at least 16 bytes of key; or NULL. Of several lines this side shows the last
	 * one, and a server accepts each. */
	const char *psk_file;
	const char *psk;                            /* one such line directly (kv-bench's one-time key); or NULL */
	const char *cert_file, *key_file, *ca_file; /* PEM; all three or none */
	const char *crl_file; /* with certificates: PEM, revocation lists, at least one for each CA of a chain; or NULL.
				 The loop reads it again when it changes, ... */
	bool crl_kept; /* ... unless this is set: then the loop reads no file, and another thread makes new contexts and
			  has them adopted */
	const char *server_name; /* client with certificates: name or address that every server's certificate must have;
				    NULL: the one that the client dials */
};

struct boot_context; /* keys and settings, shared by all connections of one side */

/* boot_context_create -- read the keys. Both a PSK and certificates give -KV_EINVAL; neither gives BOOT_PLAIN. Errors
 * name file and cause: -KV_EINVAL, -KV_EDENIED (others may read a key file), -errno. The context's end wipes its
 * secrets. Thread: any; afterwards one loop at a time uses it. */
int boot_context_create(const struct boot_security *security, bool server, const struct kv_log *log,
			struct boot_context **out, struct kv_error *err);
void boot_context_destroy(struct boot_context **ctx);
enum boot_mode boot_context_mode(const struct boot_context *ctx);

/* boot_context_adopt -- use the keys, certificates and lists of *fresh for all handshakes that begin from now on;
 * *fresh becomes NULL. Earlier connections, and handshakes in progress, keep those that they began with. Both contexts
 * have the same role and the same mode, which is not BOOT_PLAIN. Thread: ctx's loop. */
void boot_context_adopt(struct boot_context *ctx, struct boot_context **fresh);

/* ---- names of servers: threads look them up, since that may take half a minute ---- */

struct boot_resolver;

/* boot_resolver_create -- make a resolver for names 0 to n - 1. Returns 0 or -KV_ENOMEM. Thread: any. Many loops may
 * use it at once. */
int boot_resolver_create(unsigned n, struct boot_resolver **out);

/* boot_resolver_destroy -- never waits: a look-up in progress goes on by itself and frees the rest. Accepts NULL. */
void boot_resolver_destroy(struct boot_resolver **resolver);

/* boot_resolve -- get the addresses of name `i`: hp, which is the same for all who ask at a time. When it is another
 * one, what was found before does not count. Never blocks. Returns 0 with *out filled; 1 while a look-up is in
 * progress: ask again in at most BOOT_RESOLVE_AGAIN_NS; or an error with *err. -KV_EPEERDOWN: there is no such name, or
 * no name server answers, which may change later. -KV_ELIMIT: no thread could be started. Thread: any. */
int boot_resolve(struct boot_resolver *resolver, unsigned i, const struct kv_hostport *hp, struct kv_addresses *out,
		 struct kv_error *err);

#define BOOT_RESOLVE_AGAIN_NS 50000000ull

struct boot_conn;

/* A server, as a client dials it. */
struct boot_server {
	const struct sockaddr_storage *addr;
	socklen_t addr_len;
	const char *name; /* the host that is dialled, as written: a DNS name or an IP address that its certificate must
			     name. Unused without certificates */
};

/* boot_connect_await -- connect by TCP and make the TLS handshake by the deadline. user_timeout_ms: see
 * io_user_timeout. Errors: -KV_ETIMEOUT, -KV_EPEERDOWN (refused, unreachable), -KV_EDENIED (TLS refused), with a
 * sentence that names the address. */
int boot_connect_await(struct boot_context *ctx, const struct boot_server *server, unsigned user_timeout_ms,
		       uint64_t deadline_ns, struct boot_conn **out, struct kv_error *err);

/* boot_accept_await -- make the TLS handshake on an accepted socket. It owns fd from now on, also on failure. */
int boot_accept_await(struct boot_context *ctx, int fd, const struct sockaddr_storage *peer, unsigned user_timeout_ms,
		      uint64_t deadline_ns, struct boot_conn **out, struct kv_error *err);

/* boot_send_await -- send one message. Returns 0, -KV_ETIMEOUT (the connection is then broken: part of a message may
 * have been sent), -KV_EPEERDOWN, -KV_EPROTO (TLS failed), -KV_EINVAL (cannot be encoded, or called outside a
 * coroutine), or -KV_ENOMEM. */
int boot_send_await(struct boot_conn *conn, const struct wire_ctrl_msg *msg, uint64_t deadline_ns);

/* boot_send_both_await -- the same for two messages in one write, which costs little more than one alone. Together they
 * have 4 KiB at most, as a heartbeat of KV_SHARDS_MAX shards and one of 64 bytes have. */
int boot_send_both_await(struct boot_conn *conn, const struct wire_ctrl_msg *first, const struct wire_ctrl_msg *second,
			 uint64_t deadline_ns);

/* boot_recv_await -- receive the next message; pointers in *out are valid until the next call. Returns 0; -KV_ETIMEOUT
 * (nothing is lost: call again); -KV_EPEERDOWN (closed or reset); -KV_EPROTO; -KV_EVERSION (a HELLO without a common
 * version: its version fields are filled, and a REFUSE may still be sent); -KV_ENOMEM. After any code other than
 * -KV_ETIMEOUT and -KV_EVERSION the connection can only be closed. */
int boot_recv_await(struct boot_conn *conn, struct wire_ctrl_msg *out, uint64_t deadline_ns);

/* boot_limit -- from the next boot_recv_await on, refuse a message longer than this, length field included, with
 * -KV_EPROTO before room is made for it. The limit begins at KV_CTRL_MAX and never exceeds it. */
void boot_limit(struct boot_conn *conn, unsigned bytes);

/* boot_interrupt -- make a boot_recv_await in progress return -KV_ETIMEOUT at once, as at its deadline; nothing is
 * lost. It may also return the message that has come meanwhile. Sending, and the next boot_recv_await, are not
 * affected. Thread: the connection's loop. */
void boot_interrupt(struct boot_conn *conn);

/* boot_sound -- whether the connection is usable as far as is known: no send or receive has failed, and there was no
 * boot_shutdown. */
bool boot_sound(const struct boot_conn *conn);

/* boot_shutdown -- make reads and writes in progress return -KV_EPEERDOWN. The memory stays until boot_close. Call
 * boot_close only when no other coroutine is inside a call on the connection. */
void boot_shutdown(struct boot_conn *conn);
void boot_close(struct boot_conn **conn);
const char *boot_peer_name(const struct boot_conn *conn); /* "127.0.0.1:7411", for messages */
const char *boot_peer_who(const struct boot_conn *conn);  /* the identity that the peer has proved, for logs: 'PSK
							     identity "a"', 'certificate CN=b, DNS:c', "no credential" */
/* boot_peer_expiry -- the second since 1970 after which the peer's certificate, or one of those that vouch for it, is
 * not valid any more; INT64_MAX: there is none. */
int64_t boot_peer_expiry(const struct boot_conn *conn);
const char *boot_failure(const struct boot_conn *conn); /* a sentence, with the peer's name, about the last send or
							   receive that failed (timeouts aside); "" if none did */
bool boot_peer_local(const struct boot_conn *conn);     /* the peer's address is loopback */

/* ---- further sessions: the proofs that open them (docs/reference/protocol.md 2.7) ---- */

struct boot_key;  /* a client's identity and key */
struct boot_keys; /* all identities and keys that a server knows */

/* boot_key_parse -- read "identity:hex". boot_keys_load -- read a file of such lines, which only its owner may read.
 * Errors: -KV_EINVAL with the line, also for an identity that is there twice; -KV_EDENIED (the file's mode),
 * -KV_ENOMEM, -errno. Destroying wipes the keys; it accepts NULL. Thread: any; afterwards read only. */
int boot_key_parse(const char *text, struct boot_key **out, struct kv_error *err);
void boot_key_destroy(struct boot_key **key);
int boot_keys_load(const char *path, struct boot_keys **out, struct kv_error *err);
void boot_keys_destroy(struct boot_keys **keys);

/* Further inputs of a proof, known to both ends of a connection: the server's nonce, and the token of the connection's
 * own session. */
struct boot_challenge {
	uint8_t nonce[WIRE_NONCE_LEN], token[KV_TOKEN_LEN];
};

/* boot_prove -- fill in identity and proof of a SESSION_OPEN whose id, client id and nonce are set. key NULL: the
 * connection's own secret. Returns 0, -KV_EPROTO (TLS exports no value) or -KV_ENOMEM. */
int boot_prove(struct boot_conn *conn, const struct boot_challenge *challenge, const struct boot_key *key,
	       struct wire_session_open *open);

/* boot_proof_check -- returns 0 or -KV_EDENIED. A refusal takes the same time and does not tell which part is wrong.
 * keys may be NULL: then only the connection's own secret is accepted. -KV_EPROTO, -KV_ENOMEM as above. */
int boot_proof_check(struct boot_conn *conn, const struct boot_challenge *challenge, const struct boot_keys *keys,
		     const struct wire_session_open *open);

/* ---- the keys of frames (docs/reference/protocol.md 3) ---- */

enum { BOOT_FRAME_SECRET = 32 }; /* bytes */

/* boot_frame_secret -- derive the secret of an attachment's keys from the connection's TLS (if there is any) and from
 * the WELCOME's token. Both ends get the same secret; another token gives another one. Returns 0, -KV_EPROTO (TLS
 * exports no value) or -KV_ENOMEM. Thread: the connection's loop. The caller wipes it. */
int boot_frame_secret(struct boot_conn *conn, const uint8_t token[KV_TOKEN_LEN], uint8_t out[BOOT_FRAME_SECRET]);

/* boot_frame_keys -- derive the keys of the session at one shard, as this side (server or client) uses them. Returns 0
 * or -KV_ENOMEM. Thread: any. The caller wipes them. */
int boot_frame_keys(const uint8_t secret[BOOT_FRAME_SECRET], uint32_t session, unsigned shard, bool server,
		    struct kv_seal_keys *out);

/* boot_frame_macs -- the same keys, ready for the seals of the links (kv_seal_init). Call it once per side: counters
 * begin anew with each call. *out is all zero before. Returns 0 or -KV_ENOMEM. Thread: any. Release with kv_macs_fini.
 */
int boot_frame_macs(const uint8_t secret[BOOT_FRAME_SECRET], uint32_t session, unsigned shard, bool server,
		    struct kv_macs *out);

/* The properties of one side that the other side compares in the hello. */
struct boot_identity {
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX];
	uint32_t eager_bytes;
};

/* boot_hello_check -- returns 0, or -KV_EVERSION with a sentence that names the difference, its side, and how to make
 * both equal. Compared are provider, fabric ("efa" against "efa-direct") and eager size (with the environment variable
 * that sets it). */
int boot_hello_check(const struct boot_identity *ours, const char *our_side, const struct boot_identity *theirs,
		     const char *their_side, struct kv_error *err);

#endif
