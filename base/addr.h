/* SPDX-License-Identifier: Apache-2.0 */
/* addr.h -- "host:port" of a server, and an entry of a list of servers. */
#ifndef KVRAIL_BASE_ADDR_H
#define KVRAIL_BASE_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/limits.h"

/* The default port is below 32768: ports from there on are given to outgoing connections
 * (net.ipv4.ip_local_port_range), and one of those may have it when a server starts. */
enum { KV_HOST_MAX = 256, KV_PORT_DEFAULT = 7411 };
#define KV_SERVER_DEFAULT "127.0.0.1:7411"

struct kv_hostport {
	char host[KV_HOST_MAX]; /* a name or an address, without brackets */
	uint16_t port;
};

/* kv_hostport_parse -- "host", "host:port", "[v6]:port", "http://host:port/" (the scheme is dropped). Port 0 is
 * allowed: a listener lets the kernel choose. Returns 0 or -KV_EINVAL with *err. */
int kv_hostport_parse(const char *text, struct kv_hostport *out, struct kv_error *err);

/* kv_hostport_format -- "host:port" or "[v6]:port". Returns buf. */
char *kv_hostport_format(const struct kv_hostport *hp, char *buf, size_t cap);

enum { KV_ADDRESSES_MAX = 8 };

/* The addresses of a host, with its port, in the order in which they are to be tried. */
struct kv_addresses {
	unsigned count;
	socklen_t len[KV_ADDRESSES_MAX];
	struct sockaddr_storage addr[KV_ADDRESSES_MAX];
};

/* kv_hostport_numeric -- the addresses of one that needs no look-up: an address, or localhost (127.0.0.1, then ::1).
 * False: it is a name. Does not block. */
bool kv_hostport_numeric(const struct kv_hostport *hp, struct kv_addresses *out);

/* kv_hostport_look_up -- all addresses, IPv4 before IPv6, else as the system sorts them; at most KV_ADDRESSES_MAX.
 * getaddrinfo: blocks for up to some tens of seconds, so not on a loop that serves. Returns 0 or -KV_EINVAL with *err;
 * any thread. */
int kv_hostport_look_up(const struct kv_hostport *hp, struct kv_addresses *out, struct kv_error *err);

/* kv_hostport_resolve -- the first of them, for a listener. Returns 0 or -KV_EINVAL with *err. */
int kv_hostport_resolve(const struct kv_hostport *hp, struct sockaddr_storage *out, socklen_t *out_len,
			struct kv_error *err);

/* An entry of a list of servers: NAME=HOST:PORT, or HOST:PORT alone. */
struct kv_server_entry {
	char id[KV_HOST_MAX + 16]; /* by which keys are placed: NAME; without one HOST:PORT, the host as it is written
				      and the port in figures */
	bool named;
	struct kv_hostport at;
	char text[KV_NAME_MAX + KV_HOST_MAX + 16]; /* for messages: "NAME=HOST:PORT" or "HOST:PORT" */
};

/* kv_server_entry_parse -- 0 or -KV_EINVAL with *err. Port 0, which only a listener may ask for, is refused. */
int kv_server_entry_parse(const char *text, struct kv_server_entry *out, struct kv_error *err);

/* kv_node_id_check -- whether this may be a server's node id, and a NAME: 1 to 63 printable characters without space,
 * '=' and
 * ','. 0 or -KV_EINVAL with *err. */
int kv_node_id_check(const char *id, struct kv_error *err);

/* kv_sockaddr_format -- "127.0.0.1:7411". Returns buf. */
char *kv_sockaddr_format(const struct sockaddr_storage *sa, char *buf, size_t cap);

/* kv_sockaddr_is_loopback -- 127.0.0.0/8, ::1, or ::ffff:127.0.0.0/104. */
bool kv_sockaddr_is_loopback(const struct sockaddr_storage *sa);

/* kv_sockaddr_source -- who shares a share with whom: one number for an IPv4 address (mapped or not), or for the
 * network (64 bits) of an IPv6 one. 0: neither. */
uint64_t kv_sockaddr_source(const struct sockaddr_storage *address);

#endif
