/* SPDX-License-Identifier: Apache-2.0 */
/* where.h -- the addresses of a node's server. Private to kvclient/. On the client's loop. */
#ifndef KVRAIL_KVCLIENT_CONN_WHERE_H
#define KVRAIL_KVCLIENT_CONN_WHERE_H

#include "kvclient/core/client.h"

/* What a look-up found, in the order in which to dial. */
struct kvc_where {
	struct kv_addresses to;
	char text[KV_WHERE_MAX];        /* what was looked up */
	uint8_t host[KV_ADDRESSES_MAX]; /* number of the HOST:PORT in the text that each address is of */
	unsigned pending;               /* hosts that are still being looked up */
};

/* kvc_where_text -- the addresses of the node's server, "HOST:PORT+HOST:PORT": those of the view, else those of the
 * pool's table. Valid until a view changes them. */
const char *kvc_where_text(const struct kvc_node *n);

/* kvc_where_look -- fill *out with what is known now. 0: there is an address; 1: there is none yet, and a name is being
 * looked up; or an error with *err, that of the first host. */
int kvc_where_look(struct kvc_node *n, struct kvc_where *out, struct kv_error *err);

/* kvc_where_hash -- the number by which an address is remembered, never 0. */
uint64_t kvc_where_hash(const struct sockaddr_storage *address);

/* kvc_where_dialled -- address i of w has a connection. kvc_where_judge -- the attempt over it succeeded, and the next
 * one begins with the same address; or it failed, and begins with the next one. */
void kvc_where_dialled(struct kvc_node *n, const struct kvc_where *w, unsigned i);
void kvc_where_judge(struct kvc_node *n, bool good);
#endif
