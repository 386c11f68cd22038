/* SPDX-License-Identifier: Apache-2.0 */
/* port_holder.h -- the holder of a TCP address that could not be bound. Private to loop/. */
#ifndef KVRAIL_LOOP_PORT_HOLDER_H
#define KVRAIL_LOOP_PORT_HOLDER_H

#include <sys/socket.h>

enum holder {
	HOLDER_UNSEEN,   /* not in the kernel's tables: bound only; or the tables cannot be read */
	HOLDER_LINGERS,  /* an ended connection (TIME_WAIT) */
	HOLDER_CONNECTS, /* a connection */
	HOLDER_LISTENS
};

/* holder_find -- search /proc/net/tcp and tcp6 of this network namespace, a line per connection: only after failures.
 * Does not park. */
enum holder holder_find(const struct sockaddr_storage *addr);

#endif
