/* SPDX-License-Identifier: Apache-2.0 */
/* sockaddr.h -- the parts of a socket address used by a server. */
#ifndef KVRAIL_KVSERVER_SERVER_SOCKADDR_H
#define KVRAIL_KVSERVER_SERVER_SOCKADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

uint16_t address_port(const struct sockaddr_storage *a); /* 0 for a family without one */
void address_set_port(struct sockaddr_storage *a, uint16_t port);
bool address_is_any(const struct sockaddr_storage *a); /* 0.0.0.0 or :: */

#endif
