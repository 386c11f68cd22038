/* SPDX-License-Identifier: Apache-2.0 */
/* tenant.h -- kv-client tenants. */
#ifndef KVRAIL_KVCLI_TENANT_H
#define KVRAIL_KVCLI_TENANT_H

#include "kvcli/command.h"

/* tenants_run -- print the tenants of all servers, or with --json one object. CLI_OK; CLI_NOT_FOUND: some server does
 * not answer, or none has tenants; CLI_FAILED with *err. */
int tenants_run(struct cli *cli, const struct cli_line *line, struct kv_error *err);

#endif
