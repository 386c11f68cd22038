/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_at.h -- the address of this machine that the fabric uses, and why. */
#ifndef KVRAIL_KVSERVER_CONTROL_FABRIC_AT_H
#define KVRAIL_KVSERVER_CONTROL_FABRIC_AT_H

#include "base/base.h"

struct fabric_at {
	struct sockaddr_storage addr; /* for te_options.local: port 0; family 0: the provider chooses */
	char device[KV_NAME_MAX];     /* of the first rail, once the shards are made: "eth0 10.0.0.5" */
	const char *why;              /* "by --advertise" */
	char others[256]; /* several addresses, and nothing decides among them: "eth0 10.0.0.5, eth1 10.1.0.5"; else ""
			   */
};

/* fabric_at_choose -- the address for a server that listens on `listen`. advertise: addresses under which it is reached
 * (kv_where_parse), or NULL; nic: the devices that its user named, or NULL. May wait for a resolver. */
void fabric_at_choose(const struct sockaddr_storage *listen, const char *advertise, const char *nic,
		      struct fabric_at *out);

#endif
