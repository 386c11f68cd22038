/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.h -- the thread that reads files of keys, certificates and revocation lists again while the server runs. */
#ifndef KVRAIL_KVSERVER_CONTROL_KEEPER_H
#define KVRAIL_KVSERVER_CONTROL_KEEPER_H

#include "bootstrap/bootstrap.h"

struct kvs_server;
struct keeper;

/* keeper_start -- if the server has such files, start a thread that reads them when it is asked, and looks at the CRL
 * file once a second. The control loop uses what was read for connections from then on; that loop exists, and may begin
 * to turn later. *out is NULL if there are no such files. -KV_ENOMEM, or what pthread_create says, with *err. */
int keeper_start(struct kvs_server *server, struct keeper **out, struct kv_error *err);

/* keeper_ask -- read all files again, soon; the log tells what came of it. Any thread; never blocks for a file. False:
 * there is none. */
bool keeper_ask(struct keeper *keeper);

/* keeper_end -- nothing comes to the control loop any more; that loop must still exist. A thread that is stuck in a
 * file system is left there after KEEPER_PATIENCE_NS, with memory of its own. *keeper becomes NULL; NULL is accepted.
 */
void keeper_end(struct keeper **keeper);

/* keeper_rounds -- how often files were read again with success; and how often without. Any thread. */
void keeper_rounds(struct keeper *keeper, unsigned *out_taken, unsigned *out_failed);

#endif
