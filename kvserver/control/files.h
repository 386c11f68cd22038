/* SPDX-License-Identifier: Apache-2.0 */
/* files.h -- how many clients fit the limit of open files. */
#ifndef KVRAIL_KVSERVER_CONTROL_FILES_H
#define KVRAIL_KVSERVER_CONTROL_FILES_H

#include "engine/engine.h"

struct files;
struct kvs_server;

/* files_plan -- with the engines open: fill server->files, and log if --max-clients does not fit. 0, -KV_ENOMEM or an
 * error of te_budget. files_divide -- its arithmetic: compute clients, more and wanted from the other fields. */
int files_plan(struct kvs_server *server, const struct te_options *engine, struct kv_error *err);
void files_divide(struct files *files, unsigned clients_wanted);

#endif
