/* SPDX-License-Identifier: Apache-2.0 */
/* where.h -- the addresses of a node's server. Private to kvclient/. On the client's loop. */
#ifndef KVRAIL_KVCLIENT_CONN_WHERE_H
#define KVRAIL_KVCLIENT_CONN_WHERE_H

#include "kvclient/core/client.h"

/* The result of a look-up, in dialling order. */
struct kc_where {
	struct kv_addresses to;
	char text[KV_WHERE_MAX];        /* the text looked up */
	uint8_t host[KV_ADDRESSES_MAX]; /* each address's HOST:PORT number in the text */
	unsigned pending;
};

/* kc_where_text -- "HOST:PORT+HOST:PORT", the view's, else the pool's table. Valid until a view changes them. */
const char *kc_where_text(const struct kc_node *n);

/* kc_where_look -- the addresses known now. 0: at least one; 1: none yet, a look-up runs; or the first host's error
 * with *err. */
int kc_where_look(struct kc_node *n, struct kc_where *out, struct kv_error *err);

/* kc_where_hash -- identifies an address, never 0. */
uint64_t kc_where_hash(const struct sockaddr_storage *address);

/* kc_where_dialled -- address i of w has a connection. kc_where_judge -- the attempt succeeded, or failed and the
 * next begins with the address after it. */
void kc_where_dialled(struct kc_node *n, const struct kc_where *w, unsigned i);
void kc_where_judge(struct kc_node *n, bool good);
#endif
