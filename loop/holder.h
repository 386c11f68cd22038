/* SPDX-License-Identifier: Apache-2.0 */
/* holder.h -- what has a TCP address of this machine that we could not bind. Private to loop/. */
#ifndef KVRAIL_LOOP_HOLDER_H
#define KVRAIL_LOOP_HOLDER_H

#include <sys/socket.h>

enum holder {
	HOLDER_UNSEEN,   /* the kernel's tables do not show it: bound, neither listening nor connected; or the tables
			    cannot be read */
	HOLDER_LINGERS,  /* a connection that is over (TIME_WAIT) */
	HOLDER_CONNECTS, /* a connection */
	HOLDER_LISTENS
};

/* holder_find -- look for the holder in /proc/net/tcp and tcp6, in the network namespace of this process: a line per
 * connection of the machine, so for failures only. Does not park; reads files of the kernel, which block nowhere. */
enum holder holder_find(const struct sockaddr_storage *addr);

#endif
