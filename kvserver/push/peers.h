/* SPDX-License-Identifier: Apache-2.0 */
/* peers.h -- a pool to the other members of the cluster, with this server's own keys. */
#ifndef KVRAIL_KVSERVER_PUSH_PEERS_H
#define KVRAIL_KVSERVER_PUSH_PEERS_H

#include "kvclient/kvclient.h"

struct kvs_server;

/* peers_open -- kvc_pool_open with `options`, after the server's provider, cluster, keys and certificates were filled
 * in. server_name: in the certificates of the others; NULL: the host of each one's address. Blocks. */
int peers_open(const struct kvs_server *server, const char *server_name, struct kvc_options *options,
	       struct kvc_pool **out, struct kv_error *err);

#endif
