/* SPDX-License-Identifier: Apache-2.0 */
/* listen.h -- the address of a server, and the keys of its clients. */
#ifndef KVRAIL_KVSERVER_SERVER_LISTEN_H
#define KVRAIL_KVSERVER_SERVER_LISTEN_H

#include "base/base.h"

struct kvs_server;

/* listen_is_open -- whether other machines may connect without a key or a certificate. After listen_prepare. */
bool listen_is_open(const struct kvs_server *s);

/* listen_prepare -- resolve the address, and read the keys and certificates. Fills node_id, addr, fabric_at, boot and
 * session_keys; the socket comes later (start_stop.c). 0 or a code with *err. */
int listen_prepare(struct kvs_server *s, struct kv_error *err);

#endif
