/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_pace.h -- congestion control of tcp connections over loopback. Any thread. */
#ifndef KVRAIL_ENGINE_FABRIC_PACE_H
#define KVRAIL_ENGINE_FABRIC_PACE_H

#include <stdbool.h>
#include <sys/socket.h>

/* pace_loopback -- whether an address is one of this host's loopback. */
bool pace_loopback(const struct sockaddr *address);

/* pace_off -- this socket, and those that it accepts, shall not pace; before it connects. 0 or an errno: it is refused,
 * and the default stays. */
int pace_off(int fd);

#endif
