/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c -- the address that a server listens on, and the keys and certificates for its clients. */
#include "kvserver/server/private.h"

#include <stdio.h>

#include "kvserver/server/fabric_at.h"
#include "kvserver/server/server.h"

bool listen_is_open(const struct kvs_server *s)
{
	return boot_context_mode(s->keys.boot) == BOOT_PLAIN && !kv_sockaddr_is_loopback(&s->at.addr);
}

/* A server reachable by other machines must authenticate its clients, unless its user decides otherwise. */
static int strangers_check(const struct kvs_server *s, struct kv_error *err)
{
	if (s->opt.insecure && boot_context_mode(s->keys.boot) != BOOT_PLAIN)
		kv_event(s->opt.log, KV_LOG_WARN, KV_EVENT("insecure_unneeded"),
			 "--insecure has no effect with a key or a certificate: remove it, or anybody could connect if "
			 "that option were lost (for /metrics without TLS there is --http-insecure)");
	if (!listen_is_open(s))
		return 0;
	if (s->opt.insecure) {
		kv_event(s->opt.log, KV_LOG_WARN, KV_EVENT("open_to_anyone", KV_FIELD("address", s->opt.listen_addr)),
			 "%s can be reached from other machines, and clients need neither a key nor a certificate: "
			 "anybody there can read and write (--insecure)",
			 s->opt.listen_addr);
		return 0;
	}
	return kv_fail(err, -KV_EINVAL,
		       "%s can be reached from other machines, and neither a pre-shared key nor certificates are set: "
		       "anybody there could read and write. Give --psk-file or --cert, --key and --ca; or listen on "
		       "127.0.0.1; or give --insecure if the network is trusted",
		       s->opt.listen_addr);
}

/* Messages of the protocol carry an address without an interface. */
static int scope_check(const struct kvs_server *s, struct kv_error *err)
{
	return kv_sockaddr_is_link_local(&s->at.addr)
		       ? kv_fail(err, -KV_EINVAL,
				 "%s is a link-local address, which means another machine on each interface: "
				 "listen on an address of the whole network, or on [::] with --advertise",
				 s->opt.listen_addr)
		       : 0;
}

/* The table of tenants, which needs proved identities. */
static int tenants_prepare(struct kvs_server *s, struct kv_error *err)
{
	const struct kvs_options *o = &s->opt;
	int rc;
	if (!o->tenants)
		return 0;
	if (boot_context_mode(s->keys.boot) == BOOT_PLAIN)
		return kv_fail(err, -KV_EINVAL,
			       "--tenants needs clients that prove who they are: give --psk-file, or --cert, --key and "
			       "--ca");
	rc = tenants_load(o->tenants, &s->keys.tenants, err);
	if (rc == 0)
		rc = tenants_fit(s->keys.tenants, o->memory_bytes, o->shards, err);
	if (rc == 0 && places_follow(&s->places, s->keys.tenants))
		rc = kv_fail(err, -KV_ENOMEM, "no memory for the tenants of %.200s", o->tenants);
	if (rc == 0)
		tenants_order(&s->tenant_orders, s->keys.tenants);
	return rc;
}

int listen_prepare(struct kvs_server *s, struct kv_error *err)
{
	const struct kvs_options *o = &s->opt;
	const struct boot_security security = {.psk_file = o->psk_file,
					       .psk = o->psk,
					       .cert_file = o->cert_file,
					       .key_file = o->key_file,
					       .ca_file = o->ca_file,
					       .crl_file = o->crl_file,
					       .crl_kept = !o->loops};
	struct kv_hostport hp;
	int rc = o->node_id ? kv_node_id_check(o->node_id, err) : 0;
	if (rc == 0 && o->cluster && o->cluster[0] && kv_node_id_check(o->cluster, NULL))
		rc = kv_fail(err, -KV_EINVAL,
			     "the cluster's name '%.100s' must have 1 to %d "
			     "characters of ASCII, without spaces, '=' and ','",
			     o->cluster, KV_NAME_MAX - 1);
	snprintf(s->node_id, sizeof(s->node_id), "%s", o->node_id ? o->node_id : "");
	if (rc == 0)
		rc = kv_hostport_parse(o->listen_addr, &hp, err);
	if (rc == 0)
		rc = kv_hostport_resolve(&hp, &s->at.addr, &s->at.addr_len, err);
	if (rc == 0)
		rc = scope_check(s, err);
	if (rc == 0)
		fabric_at_choose(&s->at.addr, o->advertise, o->nic, &s->at.fabric);
	if (rc == 0)
		rc = boot_context_create(&security, true, o->log, &s->keys.boot, err);
	if (rc == 0 && o->session_keys)
		rc = boot_keys_load(o->session_keys, &s->keys.of_sessions, err);
	if (rc == 0)
		rc = tenants_prepare(s, err);
	if (rc == 0)
		rc = strangers_check(s, err);
	return rc;
}
