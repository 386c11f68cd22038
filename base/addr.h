/* SPDX-License-Identifier: Apache-2.0 */
/* addr.h -- parse, format and resolve a server's "host:port", and entries of server lists. */
#ifndef KVRAIL_BASE_ADDR_H
#define KVRAIL_BASE_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/limits.h"

/* The default port is below 32768: the kernel gives higher ones to outgoing connections (net.ipv4.ip_local_port_range).
 */
enum { KV_HOST_MAX = 256, KV_PORT_DEFAULT = 7411 };
#define KV_SERVER_DEFAULT "127.0.0.1:7411"

struct kv_hostport {
	char host[KV_HOST_MAX];
	uint16_t port;
};

/* kv_hostport_parse -- read "host", "host:port", "[v6]:port" or "http://host:port/". Port 0 is allowed. 0 or -KV_EINVAL
 * with *err. */
int kv_hostport_parse(const char *text, struct kv_hostport *out, struct kv_error *err);

/* kv_hostport_format -- write "host:port" or "[v6]:port". Returns buf. */
char *kv_hostport_format(const struct kv_hostport *hp, char *buf, size_t cap);

/* The addresses of one server, tried in order: "HOST:PORT+HOST:PORT". */
enum { KV_WHERE_ADDRESSES = 4, KV_WHERE_MAX = KV_HOST_MAX + 16 /* with the final 0 */ };

/* kv_where_parse -- read such a text, and write it with ports in figures to out (KV_WHERE_MAX bytes, or NULL). 0 or
 * -KV_EINVAL with *err: an unreadable, repeated or link-local address, port 0, too many, or too long. */
int kv_where_parse(const char *text, char *out, struct kv_error *err);

/* kv_where_at -- address i. False: none. */
bool kv_where_at(const char *where, unsigned i, struct kv_hostport *out);

/* kv_where_has -- whether `one`, as kv_hostport_format writes it, is in the text. kv_where_shares -- whether two texts
 * share an address. kv_where_add -- append `one` if it is new; false: no room, nothing changed. kv_where_sort -- IPv4,
 * then IPv6, then names, each in order of text: for unordered sources. */
bool kv_where_has(const char *where, const char *one);
bool kv_where_shares(const char *a, const char *b);
bool kv_where_add(char where[KV_WHERE_MAX], const char *one);
void kv_where_sort(char where[KV_WHERE_MAX]);

enum { KV_ADDRESSES_MAX = 8 };

/* The addresses of a host with its port, in order of use. */
struct kv_addresses {
	unsigned count;
	socklen_t len[KV_ADDRESSES_MAX];
	struct sockaddr_storage addr[KV_ADDRESSES_MAX];
};

/* kv_hostport_numeric -- fill *out without a look-up: an address, or localhost (127.0.0.1, then ::1). False: a name.
 * Does not block. */
bool kv_hostport_numeric(const struct kv_hostport *hp, struct kv_addresses *out);

/* kv_hostport_look_up -- at most KV_ADDRESSES_MAX addresses of a host, IPv4 first. Blocks, maybe for tens of seconds. 0
 * or -KV_EINVAL with *err. Thread: any. */
int kv_hostport_look_up(const struct kv_hostport *hp, struct kv_addresses *out, struct kv_error *err);

/* kv_hostport_resolve -- the first of them, for a listener. Blocks as well. 0 or -KV_EINVAL with *err. */
int kv_hostport_resolve(const struct kv_hostport *hp, struct sockaddr_storage *out, socklen_t *out_len,
			struct kv_error *err);

/* An entry: NAME=HOST:PORT, NAME=HOST:PORT+HOST:PORT, or HOST:PORT. */
struct kv_server_entry {
	char id[KV_HOST_MAX + 16]; /* places keys: NAME, or HOST:PORT as written with the port in figures */
	bool named;
	struct kv_hostport at;                 /* its first address */
	char where[KV_WHERE_MAX];              /* all of them */
	char text[KV_NAME_MAX + KV_WHERE_MAX]; /* for messages: "NAME=HOST:PORT" or "HOST:PORT" */
};

/* kv_server_entry_parse -- read one entry. 0 or -KV_EINVAL with *err. Refuses port 0, and several addresses without a
 * NAME. */
int kv_server_entry_parse(const char *text, struct kv_server_entry *out, struct kv_error *err);

/* kv_node_id_check -- whether id may be a node id or NAME: 1 to 63 printable characters without space, '=' and ','. 0
 * or -KV_EINVAL with *err. */
int kv_node_id_check(const char *id, struct kv_error *err);

/* kv_sockaddr_format -- "127.0.0.1:7411", also for [::ffff:127.0.0.1]. Returns buf. */
char *kv_sockaddr_format(const struct sockaddr_storage *sa, char *buf, size_t cap);

/* kv_sockaddr_route -- this machine's address towards another one, with port 0. Sends nothing. False: no route or
 * descriptor; *out is zeroed. */
bool kv_sockaddr_route(const struct sockaddr_storage *to, socklen_t len, struct sockaddr_storage *out);

/* kv_sockaddr_is_ours -- whether this machine has the address. True without a descriptor. */
bool kv_sockaddr_is_ours(const struct sockaddr_storage *sa);

/* kv_sockaddr_is_link_local -- in fe80::/10. */
bool kv_sockaddr_is_link_local(const struct sockaddr_storage *sa);

/* kv_sockaddr_is_loopback -- in 127.0.0.0/8, ::1, or ::ffff:127.0.0.0/104. */
bool kv_sockaddr_is_loopback(const struct sockaddr_storage *sa);

/* kv_sockaddr_source -- the number of a source, for fair shares: an IPv4 address (mapped or not), or a 64-bit network
 * of IPv6. 0: other families. */
uint64_t kv_sockaddr_source(const struct sockaddr_storage *address);

#endif
