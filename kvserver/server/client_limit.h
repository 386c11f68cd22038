/* SPDX-License-Identifier: Apache-2.0 */
/* client_limit.h -- how many clients fit the limit of open files. */
#ifndef KVRAIL_KVSERVER_SERVER_CLIENT_LIMIT_H
#define KVRAIL_KVSERVER_SERVER_CLIENT_LIMIT_H

#include "engine/engine.h"

struct client_limit;
struct kvs_server;

/* client_limit_plan -- with the engines open: fill server->clients.limit, and log if --max-clients does not fit. 0,
 * -KV_ENOMEM or an error of te_budget. client_limit_divide -- its arithmetic: compute clients, more and wanted from the
 * other fields. */
int client_limit_plan(struct kvs_server *server, const struct te_options *engine, struct kv_error *err);
void client_limit_divide(struct client_limit *files, unsigned clients_wanted);

#endif
