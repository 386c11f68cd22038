/* SPDX-License-Identifier: Apache-2.0 */
/* conn.h -- a connection as proof.c and frame_keys.c see it. Private to bootstrap/. */
#ifndef KVRAIL_BOOTSTRAP_CONN_H
#define KVRAIL_BOOTSTRAP_CONN_H

#include "bootstrap/bootstrap.h"

/* conn_export -- see boot_stream_ops.export; -KV_ENOTSUP without TLS. */
int conn_export(struct boot_conn *conn, const char *label, uint8_t *out, size_t len);

#endif
