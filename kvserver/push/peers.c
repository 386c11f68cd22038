/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c -- see peers.h. */
#include "kvserver/push/peers.h"

#include "kvserver/server/server.h"

int peers_open(const struct kvs_server *server, const char *server_name, struct kvc_options *options,
	       struct kvc_pool **out, struct kv_error *err)
{
	const struct kvs_options *o = &server->opt;
	struct kvs_info info;
	kvs_server_info(server, &info);
	options->provider = info.provider;
	options->psk = o->psk;
	options->psk_file = o->psk ? NULL : o->psk_file;
	options->cert_file = o->cert_file;
	options->key_file = o->key_file;
	options->ca_file = o->ca_file;
	options->crl_file = o->crl_file;
	options->server_name = server_name;
	options->cluster = o->cluster;
	options->num_clients = options->num_threads = 1;
	options->servers_max = KV_VIEW_MAX;
	options->settle_ns = 1;
	options->base_client_id = KV_CLUSTER_CLIENT;
	return kvc_pool_open(options, out, err);
}
