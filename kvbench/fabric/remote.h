/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h -- kv-bench fabric between two machines. */
#ifndef KVRAIL_KVBENCH_FABRIC_REMOTE_H
#define KVRAIL_KVBENCH_FABRIC_REMOTE_H

#include "kvbench/fabric/fabric.h"

/* fabric_dial -- connect to options->connect, and prove to each other that both have the key. Returns 0 with a
 * connected socket. Thread: main. */
int fabric_dial(const struct fabric_options *options, int *out_fd, struct kv_error *err);

/* fabric_listen_main -- start a responder for each connection that proves it has the key, until a signal comes. The
 * exit status. */
int fabric_listen_main(const struct fabric_options *options);

#endif
