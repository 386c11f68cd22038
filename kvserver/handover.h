/* SPDX-License-Identifier: Apache-2.0 */
/* handover.h -- a kv-server takes the place of a running one, over a Unix socket beside the file of --keep. */
#ifndef KVRAIL_KVSERVER_HANDOVER_H
#define KVRAIL_KVSERVER_HANDOVER_H

#include <pthread.h>
#include <signal.h>

#include "bootstrap/bootstrap.h"
#include "kvserver/kvserver.h"

/* Sent to the main thread: another process is ready to take this server's place. */
#define HANDOVER_SIGNAL (SIGRTMIN + 2)

/* ---- the running server ---- */

struct handover;

/* handover_open -- listen at FILE.sock of options->keep, for a successor of the running server. options and security
 * stay until handover_close, which may follow the end of the server. 0, or a code with *err. handover_close -- end; a
 * successor that waits starts as if this process had died. NULL is accepted. Both: the main thread. */
int handover_open(const struct kvs_options *options, const struct boot_security *security, struct kvs_server *server,
		  struct handover **out, struct kv_error *err);
void handover_close(struct handover **h);

/* handover_finish -- after HANDOVER_SIGNAL, once the server has ended and its index is written: let the successor
 * serve. True: it does. False: it has ended, and this process should serve again. Blocks until one is known. */
bool handover_finish(struct handover *h);

/* ---- the successor ---- */

/* handover_take -- ask the running server for its memory. 0: *out_kept, and *out_fd is the connection; -KV_ENOTFOUND:
 * no server is there; or a code with *err: it refuses, or has other options. */
int handover_take(const struct kvs_options *options, const struct boot_security *security, struct kvs_kept **out_kept,
		  int *out_fd, struct kv_error *err);

/* handover_await -- this server is made: let the other one end, and wait. True: it has ended in order. False: it died;
 * the values may be lost. handover_serving -- this server serves; closes the connection. */
bool handover_await(int fd);
void handover_serving(int *fd);

#endif
