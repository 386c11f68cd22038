/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap.h -- the control connection: a TCP connection with TLS 1.3 (or, when told, without) that carries the
 * control messages of wire/wire.h. The public header of bootstrap/. What the messages mean (hello, regions, heartbeats,
 * goodbye) is decided by kvclient/ and kvserver/; only what both sides check alike (boot_hello_check) is here.
 *
 * With TLS the server sends one byte 'K' inside TLS after the handshake, before any control message; the client waits
 * for it (a TLS 1.3 client cannot know otherwise that its certificate was accepted). boot_connect_await and
 * boot_accept_await do this by themselves.
 *
 * Everything runs on one loop; *_await functions park. One coroutine may read a connection while others write it
 * (writers queue up). */
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
	BOOT_CERT   /* TLS 1.3, both sides show a certificate of the same CA */
};

struct boot_security {
	const char *psk_file;                       /* one line "identity:hex", at least 16 bytes of key; or NULL */
	const char *psk;                            /* the same text directly (kv-bench's one-time key); or NULL */
	const char *cert_file, *key_file, *ca_file; /* PEM; all three or none */
	const char *crl_file; /* with certificates: PEM, lists of revoked ones, one of each CA of a chain at least; or
				 NULL. Read again when it changes, ... */
	bool crl_kept; /* ... unless somebody else looks at it, and makes and adopts a new context: the loop reads no
			  file then */
	const char *server_name; /* client with certificates: name or address to find in every server's certificate;
				    NULL: that by which it is dialled */
};

struct boot_context; /* keys and settings, shared by the connections of one side */

/* boot_context_create -- read keys. Both psk and certificates: -KV_EINVAL. Neither: BOOT_PLAIN. Errors name file and
 * cause: -KV_EINVAL, -KV_EDENIED (a key file that others may read), -errno. Secrets are wiped with the context. Thread:
 * any; afterwards used by one loop at a time. */
int boot_context_create(const struct boot_security *security, bool server, const struct kv_log *log,
			struct boot_context **out, struct kv_error *err);
void boot_context_destroy(struct boot_context **ctx);
enum boot_mode boot_context_mode(const struct boot_context *ctx);

/* boot_context_adopt -- use keys, certificates and lists of *fresh from now on, for handshakes that begin; *fresh
 * becomes NULL. Connections of before, and handshakes under way, keep what they began with. Both have one mode, other
 * than BOOT_PLAIN, and one role. Thread: ctx's loop. */
void boot_context_adopt(struct boot_context *ctx, struct boot_context **fresh);

/* ---- names of servers: looked up by threads of their own, since that may take half a minute ---- */

struct boot_resolver;

/* boot_resolver_create -- for names 0 to n - 1. 0 or -KV_ENOMEM. Thread: any. It may be used by many loops at once. */
int boot_resolver_create(unsigned n, struct boot_resolver **out);

/* boot_resolver_destroy -- never waits: a look-up that is under way goes on by itself, and frees what is left. NULL is
 * accepted. */
void boot_resolver_destroy(struct boot_resolver **resolver);

/* boot_resolve -- the addresses of name `i`, which is always the same hp. Never blocks. 0: *out is filled; 1: it is
 * being looked up, ask again in at most BOOT_RESOLVE_AGAIN_NS; or -KV_EPEERDOWN (there is no such name, or nobody
 * answers: later that may be otherwise) or -KV_ELIMIT (no thread), with *err. Thread: any. */
int boot_resolve(struct boot_resolver *resolver, unsigned i, const struct kv_hostport *hp, struct kv_addresses *out,
		 struct kv_error *err);

#define BOOT_RESOLVE_AGAIN_NS 50000000ull

struct boot_conn;

/* A server, as a client dials it. */
struct boot_server {
	const struct sockaddr_storage *addr;
	socklen_t addr_len;
	const char *name; /* host of its address as it was written, a DNS name or an IP address: what its certificate
			     must name. Without certificates nobody looks */
};

/* boot_connect_await -- TCP connect and TLS handshake by the deadline. user_timeout_ms: see io_user_timeout. Errors:
 * -KV_ETIMEOUT, -KV_EPEERDOWN (refused, unreachable), -KV_EDENIED (TLS said no), with a sentence naming the address. */
int boot_connect_await(struct boot_context *ctx, const struct boot_server *server, unsigned user_timeout_ms,
		       uint64_t deadline_ns, struct boot_conn **out, struct kv_error *err);

/* boot_accept_await -- TLS handshake on an accepted socket, which it owns from now on, also on failure. */
int boot_accept_await(struct boot_context *ctx, int fd, const struct sockaddr_storage *peer, unsigned user_timeout_ms,
		      uint64_t deadline_ns, struct boot_conn **out, struct kv_error *err);

/* boot_send_await -- one message. 0, -KV_ETIMEOUT (the connection is broken then: part of a message may be out),
 * -KV_EPEERDOWN, -KV_EPROTO (TLS failed), -KV_EINVAL (cannot be encoded, or called outside a coroutine), -KV_ENOMEM. */
int boot_send_await(struct boot_conn *conn, const struct wire_ctrl_msg *msg, uint64_t deadline_ns);

/* boot_recv_await -- the next message; pointers in *out are valid until the next call. 0, -KV_ETIMEOUT (nothing lost:
 * call again), -KV_EPEERDOWN (closed or reset), -KV_EPROTO, -KV_EVERSION (a HELLO without a version in common: its
 * version fields are filled, and a REFUSE may still be sent), -KV_ENOMEM. After a code other than -KV_ETIMEOUT and
 * -KV_EVERSION the connection is of no more use. */
int boot_recv_await(struct boot_conn *conn, struct wire_ctrl_msg *out, uint64_t deadline_ns);

/* boot_limit -- a message that is longer than this, with its length, is refused with -KV_EPROTO before room is made for
 * it, from the next boot_recv_await on. At first it is KV_CTRL_MAX, and it is never more. */
void boot_limit(struct boot_conn *conn, unsigned bytes);

/* boot_interrupt -- a boot_recv_await that is under way returns -KV_ETIMEOUT at once, as at its deadline: nothing is
 * lost. (Or it returns the message that has come meanwhile.) Sending goes on, and so does the next boot_recv_await. On
 * the connection's loop. */
void boot_interrupt(struct boot_conn *conn);

/* boot_sound -- nothing is known that keeps the connection from being used on: no failure of a send or a receive, no
 * boot_shutdown. */
bool boot_sound(const struct boot_conn *conn);

/* boot_shutdown -- make reads and writes in progress return -KV_EPEERDOWN. The memory stays until boot_close, which no
 * other coroutine may be inside of. */
void boot_shutdown(struct boot_conn *conn);
void boot_close(struct boot_conn **conn);
const char *boot_peer_name(const struct boot_conn *conn); /* "127.0.0.1:7411", for messages */
const char *boot_peer_who(const struct boot_conn *conn);  /* who it has proved to be, for logs: 'PSK identity "a"',
							     'certificate  CN=b, DNS:c', "no credential" */
const char *boot_failure(const struct boot_conn *conn);   /* a sentence, with the peer's name, about the last send or
							     receive that failed other than by timeout; "" if none did */
bool boot_peer_local(const struct boot_conn *conn);       /* the peer's address is loopback */

/* ---- further sessions: who may open them (docs/reference/protocol.md 2.7) ---- */

struct boot_key;  /* an identity and its key: a client's */
struct boot_keys; /* those that a server knows */

/* boot_key_parse -- "identity:hex". boot_keys_load -- a file of such lines (nobody but its owner may read it). Errors:
 * -KV_EINVAL with the line, also for an identity that is there twice; -KV_EDENIED (the file's mode), -KV_ENOMEM,
 * -errno. Destroying wipes; NULL is accepted. Thread: any; afterwards read only. */
int boot_key_parse(const char *text, struct boot_key **out, struct kv_error *err);
void boot_key_destroy(struct boot_key **key);
int boot_keys_load(const char *path, struct boot_keys **out, struct kv_error *err);
void boot_keys_destroy(struct boot_keys **keys);

/* What both ends of a connection know of it besides: the server's nonce, and the token of the connection's own session.
 */
struct boot_challenge {
	uint8_t nonce[WIRE_NONCE_LEN], token[KV_TOKEN_LEN];
};

/* boot_prove -- fill identity and proof of a SESSION_OPEN whose id, client id and nonce are set. key NULL: the
 * connection's own secret. 0, -KV_EPROTO (TLS has no value for us) or -KV_ENOMEM. */
int boot_prove(struct boot_conn *conn, const struct boot_challenge *challenge, const struct boot_key *key,
	       struct wire_session_open *open);

/* boot_proof_check -- 0 or -KV_EDENIED: not for which part it is wrong, and in the same time. keys may be NULL: only
 * the connection's own secret counts. -KV_EPROTO, -KV_ENOMEM as above. */
int boot_proof_check(struct boot_conn *conn, const struct boot_challenge *challenge, const struct boot_keys *keys,
		     const struct wire_session_open *open);

/* ---- the keys of frames (docs/reference/protocol.md 3) ---- */

enum { BOOT_FRAME_SECRET = 32 }; /* bytes */

/* boot_frame_secret -- what the keys of an attachment are made of: of the connection's TLS (nothing, where there is
 * none) and of the WELCOME's token. Both ends get the same; another token gives another one. 0, -KV_EPROTO (TLS has no
 * value for us) or -KV_ENOMEM. On the connection's loop; the caller wipes it. */
int boot_frame_secret(struct boot_conn *conn, const uint8_t token[KV_TOKEN_LEN], uint8_t out[BOOT_FRAME_SECRET]);

/* boot_frame_keys -- the keys of the session at one shard, as this side (server, or client) uses them. 0 or -KV_ENOMEM.
 * Thread: any; the caller wipes them. */
int boot_frame_keys(const uint8_t secret[BOOT_FRAME_SECRET], uint32_t session, unsigned shard, bool server,
		    struct kv_seal_keys *out);

/* boot_frame_macs -- the same, ready for the seals of the links (kv_seal_init), and once per side: counters begin anew
 * with each. *out is all zero. 0 or -KV_ENOMEM. Thread: any; kv_macs_fini when they are not needed any more. */
int boot_frame_macs(const uint8_t secret[BOOT_FRAME_SECRET], uint32_t session, unsigned shard, bool server,
		    struct kv_macs *out);

/* What one side brings to the hello and the other compares. */
struct boot_identity {
	char provider[KV_NAME_MAX], fabric[KV_NAME_MAX];
	uint32_t eager_bytes;
};

/* boot_hello_check -- 0, or -KV_EVERSION with a sentence that names what differs on which side and how to make it equal
 * (provider, fabric "efa" against "efa-direct", eager size with the environment variable that sets it). */
int boot_hello_check(const struct boot_identity *ours, const char *our_side, const struct boot_identity *theirs,
		     const char *their_side, struct kv_error *err);

#endif
