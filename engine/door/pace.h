/* SPDX-License-Identifier: Apache-2.0 */
/* pace.h -- congestion control of tcp connections over loopback. Any thread. */
#ifndef KVRAIL_ENGINE_DOOR_PACE_H
#define KVRAIL_ENGINE_DOOR_PACE_H

#include <stdbool.h>
#include <sys/socket.h>

bool pace_loopback(const struct sockaddr *address);

/* pace_off -- disable pacing for this socket and those it accepts; before it connects. 0 or an errno: refused, the
 * default stays. */
int pace_off(int fd);

#endif
