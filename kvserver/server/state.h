/* SPDX-License-Identifier: Apache-2.0 */
/* state.h -- a server's state and the error that stopped it. Any thread. */
#ifndef KVRAIL_KVSERVER_SERVER_STATE_H
#define KVRAIL_KVSERVER_SERVER_STATE_H

#include "kvserver/kvserver.h"

/* state_set -- set this state, unless it is an earlier one. */
void state_set(struct kvs_server *s, enum kvs_state state);

/* state_fail -- why the server stops, for kvs_server_state. */
void state_fail(struct kvs_server *s, const struct kv_error *err);

/* state_wait -- block until the state is at least this; returns it. For servers with threads of their own. */
enum kvs_state state_wait(struct kvs_server *s, enum kvs_state least);

#endif
