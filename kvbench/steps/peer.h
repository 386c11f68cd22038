/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h -- the other end of the connections with TLS, in a process of its own: it answers each question with a
 * message. */
#ifndef KVRAIL_KVBENCH_STEPS_PEER_H
#define KVRAIL_KVBENCH_STEPS_PEER_H

#include "kvbench/steps/steps.h"

enum { PEER_QUESTION = 64 };

#define PEER_SOCKET_S 10

/* peer_byte -- byte i of every message. */
static inline unsigned char peer_byte(uint64_t i)
{
	return (unsigned char)(i * 31 + (i >> 8) + 1);
}

/* peer_listen -- a socket on loopback for peer_main, and its port; or -errno. */
int peer_listen(uint16_t *out_port);

/* peer_main -- the process, forked from that of the step before this has threads. It ends with its parent. Returns the
 * exit status, if it cannot begin. */
int peer_main(const struct step_options *options, int listen_fd);

#endif
