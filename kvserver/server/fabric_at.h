/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_at.h -- the address of this machine for the fabric, and why. */
#ifndef KVRAIL_KVSERVER_SERVER_FABRIC_AT_H
#define KVRAIL_KVSERVER_SERVER_FABRIC_AT_H

#include "base/base.h"

struct fabric_at {
	struct sockaddr_storage addr; /* for te_options.local: port 0; family 0: the provider chooses */
	char device[KV_NAME_MAX];     /* of the first rail, once the shards are made: "eth0 10.0.0.5" */
	const char *why;              /* "by --advertise" */
	char others[256];             /* several equal candidates: "eth0 10.0.0.5, eth1 10.1.0.5"; else "" */
};

/* fabric_at_choose -- the address for a server that listens on `listen`. advertise: its public addresses
 * (kv_where_parse), or NULL; nic: the devices named by the user, or NULL. May wait for a resolver. */
void fabric_at_choose(const struct sockaddr_storage *listen, const char *advertise, const char *nic,
		      struct fabric_at *out);

#endif
