/* SPDX-License-Identifier: Apache-2.0 */
/* files.h -- how many clients the limit of open files has room for. */
#ifndef KVRAIL_KVSERVER_CONTROL_FILES_H
#define KVRAIL_KVSERVER_CONTROL_FILES_H

#include "engine/engine.h"

struct files;
struct kvs_server;

/* files_plan -- once the engines are open: fill server->files, and say so when not all of --max-clients fit. 0,
 * -KV_ENOMEM or an error of te_budget. files_divide -- the arithmetic of it: clients and wanted, of the other fields.
 */
int files_plan(struct kvs_server *server, const struct te_options *engine, struct kv_error *err);
void files_divide(struct files *files, unsigned clients_wanted);

#endif
