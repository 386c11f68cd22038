/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h -- the table of operations of a server. */
#ifndef KVRAIL_KVSERVER_OPS_OPS_H
#define KVRAIL_KVSERVER_OPS_OPS_H

#include "kvserver/shard/shard.h"

/* kvs_ops -- the table, for shard_options.ops. */
extern const struct shard_ops kvs_ops;

#endif
