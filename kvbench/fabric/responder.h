/* SPDX-License-Identifier: Apache-2.0 */
/* responder.h -- the other end of a pair: this program again, as a child. */
#ifndef KVRAIL_KVBENCH_FABRIC_RESPONDER_H
#define KVRAIL_KVBENCH_FABRIC_RESPONDER_H

#include <sys/types.h>

#include "kvbench/fabric/fabric.h"

/* Its first arguments, in front of the number of its socket. */
#define FABRIC_RESPONDER "--responder"

struct fabric_ask {
	char magic[8];
	uint64_t size_max, span; /* fabric_options */
};
#define FABRIC_MAGIC "kvfab/1"

/* fabric_responder_spawn -- start one that inherits this socket, which stays the caller's. */
int fabric_responder_spawn(const struct fabric_options *options, int fd, pid_t *out_pid, struct kv_error *err);

/* fabric_responder_main -- be one, until the other side closes the socket. The exit status. */
int fabric_responder_main(struct fabric_options *options, int fd);

#endif
