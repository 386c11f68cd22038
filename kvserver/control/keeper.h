/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.h -- the thread that rereads key files, certificates and revocation lists while the server runs. */
#ifndef KVRAIL_KVSERVER_CONTROL_KEEPER_H
#define KVRAIL_KVSERVER_CONTROL_KEEPER_H

#include "bootstrap/bootstrap.h"

struct kvs_server;
struct keeper;

/* keeper_start -- if the server has such files, start a thread that reads them on request, and checks the CRL file once
 * a second. New connections use the result. The control loop exists, and may begin to turn later. *out is NULL without
 * such files. -KV_ENOMEM, or pthread_create's code, with *err. */
int keeper_start(struct kvs_server *server, struct keeper **out, struct kv_error *err);

/* keeper_ask -- reread all files soon; the log reports the result. Any thread; never blocks for a file. False: no
 * files. */
bool keeper_ask(struct keeper *keeper);

/* keeper_end -- nothing reaches the control loop any more; that loop must still exist. A thread stuck in a file system
 * is left behind after KEEPER_PATIENCE_NS, with its own memory. *keeper becomes NULL; NULL is accepted. */
void keeper_end(struct keeper **keeper);

/* keeper_rounds -- the number of successful and failed rereads. Any thread. */
void keeper_rounds(struct keeper *keeper, unsigned *out_taken, unsigned *out_failed);

#endif
