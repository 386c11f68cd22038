/* SPDX-License-Identifier: Apache-2.0 */
/* key_reload.h -- the thread that rereads key files, certificates and revocation lists while the server runs. */
#ifndef KVRAIL_KVSERVER_SERVER_KEY_RELOAD_H
#define KVRAIL_KVSERVER_SERVER_KEY_RELOAD_H

#include "bootstrap/bootstrap.h"

struct kvs_server;
struct key_reload;

/* key_reload_start -- if the server has such files, start a thread that reads them on request, and checks the CRL file
 * once a second. New connections use the result. The control loop exists, and may begin to turn later. *out is NULL
 * without such files. -KV_ENOMEM, or pthread_create's code, with *err. */
int key_reload_start(struct kvs_server *server, struct key_reload **out, struct kv_error *err);

/* key_reload_ask -- reread all files soon; the log reports the result. Any thread; never blocks for a file. False: no
 * files. */
bool key_reload_ask(struct key_reload *keeper);

/* key_reload_end -- nothing reaches the control loop any more; that loop must still exist. A thread stuck in a file
 * system is left behind after KEY_RELOAD_PATIENCE_NS, with its own memory. *keeper becomes NULL; NULL is accepted. */
void key_reload_end(struct key_reload **keeper);

/* key_reload_rounds -- the number of successful and failed rereads. Any thread. */
void key_reload_rounds(struct key_reload *keeper, unsigned *out_taken, unsigned *out_failed);

#endif
