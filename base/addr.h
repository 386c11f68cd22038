/* SPDX-License-Identifier: Apache-2.0 */
/* addr.h -- parse, format and resolve the "host:port" of a server, and an entry of a list of servers. */
#ifndef KVRAIL_BASE_ADDR_H
#define KVRAIL_BASE_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/limits.h"

/* The default port is below 32768. The kernel gives ports from there on to outgoing connections
 * (net.ipv4.ip_local_port_range), and one of them could hold the port when a server starts. */
enum { KV_HOST_MAX = 256, KV_PORT_DEFAULT = 7411 };
#define KV_SERVER_DEFAULT "127.0.0.1:7411"

struct kv_hostport {
	char host[KV_HOST_MAX]; /* a name or an address, without brackets */
	uint16_t port;
};

/* kv_hostport_parse -- read "host", "host:port", "[v6]:port" or "http://host:port/" (the scheme is dropped). Port 0 is
 * allowed: a listener lets the kernel choose. Returns 0 or -KV_EINVAL with *err. */
int kv_hostport_parse(const char *text, struct kv_hostport *out, struct kv_error *err);

/* kv_hostport_format -- write "host:port" or "[v6]:port". Returns buf. */
char *kv_hostport_format(const struct kv_hostport *hp, char *buf, size_t cap);

/* The addresses of one server, for clients that try them in turn: "HOST:PORT+HOST:PORT", the first one first. */
enum { KV_WHERE_ADDRESSES = 4, KV_WHERE_MAX = KV_HOST_MAX + 16 /* bytes of the text, with the final 0 */ };

/* kv_where_parse -- read such a text, and write it with each port in figures to out, of KV_WHERE_MAX bytes; out may be
 * NULL. Returns 0 or -KV_EINVAL with *err: an address cannot be read, has port 0 or stands there twice, there are more
 * than KV_WHERE_ADDRESSES, the text is too long, or an address is link-local: that one names another machine on each
 * interface, and the fabric does not carry the interface. */
int kv_where_parse(const char *text, char *out, struct kv_error *err);

/* kv_where_at -- address i of such a text. False: it has no such address. */
bool kv_where_at(const char *where, unsigned i, struct kv_hostport *out);

/* kv_where_has -- whether `one`, a HOST:PORT as kv_hostport_format writes it, is in the text. kv_where_shares --
 * whether two texts have an address in common. kv_where_add -- append `one`, unless it is there. False: there is no
 * room for it, and the text stays as it is. kv_where_sort -- IPv4 addresses first, then IPv6, then names, each in the
 * order of their text: for those who learn the addresses without an order. */
bool kv_where_has(const char *where, const char *one);
bool kv_where_shares(const char *a, const char *b);
bool kv_where_add(char where[KV_WHERE_MAX], const char *one);
void kv_where_sort(char where[KV_WHERE_MAX]);

enum { KV_ADDRESSES_MAX = 8 };

/* The addresses of a host, with its port, in the order in which to try them. */
struct kv_addresses {
	unsigned count;
	socklen_t len[KV_ADDRESSES_MAX];
	struct sockaddr_storage addr[KV_ADDRESSES_MAX];
};

/* kv_hostport_numeric -- fill *out if the host needs no look-up: it is an address, or localhost (127.0.0.1, then ::1).
 * Returns false for a name. Does not block. */
bool kv_hostport_numeric(const struct kv_hostport *hp, struct kv_addresses *out);

/* kv_hostport_look_up -- all addresses of a host, KV_ADDRESSES_MAX at most: IPv4 before IPv6, otherwise as the system
 * sorts them. Calls getaddrinfo, which may block for tens of seconds, so never call this on a loop that serves. Returns
 * 0 or -KV_EINVAL with *err. Thread: any. */
int kv_hostport_look_up(const struct kv_hostport *hp, struct kv_addresses *out, struct kv_error *err);

/* kv_hostport_resolve -- the first of these addresses, for a listener. Blocks likewise. Returns 0 or -KV_EINVAL with
 * *err. */
int kv_hostport_resolve(const struct kv_hostport *hp, struct sockaddr_storage *out, socklen_t *out_len,
			struct kv_error *err);

/* An entry of a list of servers: NAME=HOST:PORT, NAME=HOST:PORT+HOST:PORT, or HOST:PORT alone. */
struct kv_server_entry {
	char id[KV_HOST_MAX + 16]; /* keys are placed by it: NAME, or else HOST:PORT with the host as written and the
				      port in figures */
	bool named;
	struct kv_hostport at;                 /* its first address */
	char where[KV_WHERE_MAX];              /* all of them */
	char text[KV_NAME_MAX + KV_WHERE_MAX]; /* for messages: "NAME=HOST:PORT" or "HOST:PORT" */
};

/* kv_server_entry_parse -- read one entry. Returns 0 or -KV_EINVAL with *err. Port 0, which only a listener may ask
 * for, is refused, and so are several addresses without a NAME. */
int kv_server_entry_parse(const char *text, struct kv_server_entry *out, struct kv_error *err);

/* kv_node_id_check -- check that id may be a server's node id, or the NAME of an entry: 1 to 63 printable characters
 * without space, '=' and ','. Returns 0 or -KV_EINVAL with *err. */
int kv_node_id_check(const char *id, struct kv_error *err);

/* kv_sockaddr_format -- write "127.0.0.1:7411"; the same for [::ffff:127.0.0.1], as a listener of both families has it.
 * Returns buf. */
char *kv_sockaddr_format(const struct sockaddr_storage *sa, char *buf, size_t cap);

/* kv_sockaddr_route -- the address of this machine that the kernel would use towards another one; its port is 0. Sends
 * nothing. False: there is no route, or no descriptor; *out is zeroed then. */
bool kv_sockaddr_route(const struct sockaddr_storage *to, socklen_t len, struct sockaddr_storage *out);

/* kv_sockaddr_is_ours -- whether this machine has the address now, whatever its port: an interface does, or a whole
 * network of addresses is local (127.0.0.0/8). Without a descriptor to ask with it is taken to have it. */
bool kv_sockaddr_is_ours(const struct sockaddr_storage *sa);

/* kv_sockaddr_is_link_local -- whether the address is in fe80::/10: it needs an interface to mean anything. */
bool kv_sockaddr_is_link_local(const struct sockaddr_storage *sa);

/* kv_sockaddr_is_loopback -- whether the address is in 127.0.0.0/8, is ::1, or is in ::ffff:127.0.0.0/104. */
bool kv_sockaddr_is_loopback(const struct sockaddr_storage *sa);

/* kv_sockaddr_source -- the number under which an address takes its share of a server. One IPv4 address (mapped or not)
 * is one source; so is one 64-bit network of IPv6. Returns 0 for any other family. */
uint64_t kv_sockaddr_source(const struct sockaddr_storage *address);

#endif
