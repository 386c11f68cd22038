/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h -- the options of a server, filled in and checked. Any thread. */
#ifndef KVRAIL_KVSERVER_SERVER_SETTINGS_H
#define KVRAIL_KVSERVER_SERVER_SETTINGS_H

#include "kvserver/kvserver.h"

/* settings_fill -- fill in the defaults. */
void settings_fill(struct kvs_options *o);

/* settings_check -- whether each number is within its bounds. settings_fit -- whether the memory is enough for the
 * shards and available on this machine. 0 or a code with *err. */
int settings_check(const struct kvs_options *o, struct kv_error *err);
int settings_fit(const struct kvs_options *o, struct kv_error *err);

#endif
