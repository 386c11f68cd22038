/* SPDX-License-Identifier: Apache-2.0 */
/* recall.h -- deleted keys remembered by the other members of the cluster. */
#ifndef KVRAIL_KVSERVER_PUSH_RECALL_H
#define KVRAIL_KVSERVER_PUSH_RECALL_H

#include "base/base.h"

struct kvs_server;
struct recall;

struct recall_options {
	struct kvs_server *server; /* gets the result (kvs_server_recalled) */
	const char *node_id;       /* its own */
	const char *psk, *psk_file, *cert_file, *key_file, *ca_file, *crl_file; /* the server's own; or NULL */
	const char *server_name; /* in the certificates of the others; NULL: the host of each one's address */
	const char *cluster;     /* of this server, or NULL */
	const struct kv_log *log;
};

/* recall_create -- make it; the options' pointers outlive it. NULL: no memory. recall_destroy -- abandons a running
 * question within a second or so. Blocks. NULL is accepted. */
struct recall *recall_create(const struct recall_options *options);
void recall_destroy(struct recall **r);

/* recall_ask -- kvs_options.recall: ask all others of this view on a thread. 0, -KV_EBUSY: already asking; or a code.
 * Any thread. */
int recall_ask(void *recall, const struct kv_view *view, uint64_t since_ns);

#endif
