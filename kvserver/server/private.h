/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- the functions of server/ for each other. */
#ifndef KVRAIL_KVSERVER_SERVER_PRIVATE_H
#define KVRAIL_KVSERVER_SERVER_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/base.h"
#include "engine/engine.h"
#include "kvserver/kvserver.h"

struct client_limit;
struct kvs_server;

/* ---- settings.c ---- */

/* settings_fill -- fill in the defaults. */
void settings_fill(struct kvs_options *o);

/* settings_check -- whether each number is within its bounds. settings_fit -- whether the memory is enough for the
 * shards and available on this machine. 0 or a code with *err. */
int settings_check(const struct kvs_options *o, struct kv_error *err);
int settings_fit(const struct kvs_options *o, struct kv_error *err);

/* ---- listen.c ---- */

/* listen_is_open -- whether other machines may connect without a key or a certificate. After listen_prepare. */
bool listen_is_open(const struct kvs_server *s);

/* listen_prepare -- resolve the address, and read the keys and certificates. Fills node_id, addr, fabric_at, boot and
 * session_keys; the socket comes later (start_stop.c). 0 or a code with *err. */
int listen_prepare(struct kvs_server *s, struct kv_error *err);

/* ---- loops.c ---- */

/* loops_make -- the control loop and one for each shard, or those of the caller; lowers clients_max and handshakes_max
 * to the number of coroutines. 0 or a code with *err. loops_free -- also after a failure; without running threads. */
int loops_make(struct kvs_server *s, struct kv_error *err);
void loops_free(struct kvs_server *s);

/* threads_start -- one for each loop. 0 or a code with *err, with some running. threads_join -- stop the loops, and
 * wait for the running threads. */
int threads_start(struct kvs_server *s, struct kv_error *err);
void threads_join(struct kvs_server *s);

/* ---- shards.c ---- */

/* shards_make -- create them on their loops, not turning yet, and compute the number of clients within the limit of
 * open files. Fills shard, identity, files, and the options that follow from them. 0 or a code with *err. */
int shards_make(struct kvs_server *s, struct kv_error *err);

/* shards_prefault -- make the pages of the shards' memory in the background, if the options ask for it; failures are
 * logged. Thread: any, once; kv_prefault_stop(&s->prefault) before the shards are destroyed. */
void shards_prefault(struct kvs_server *s);

/* ---- client_limit.c ---- */

/* client_limit_plan -- with the engines open: fill server->clients.limit, and log if --max-clients does not fit. 0,
 * -KV_ENOMEM or an error of te_budget. client_limit_divide -- its arithmetic: compute clients, more and wanted from the
 * other fields. */
int client_limit_plan(struct kvs_server *server, const struct te_options *engine, struct kv_error *err);
void client_limit_divide(struct client_limit *limit, unsigned clients_wanted);

/* ---- works.c ---- */

/* works_run -- call run for `count` items of `bytes` each, at most KV_SHARDS_MAX, in a thread for each; where none can
 * be made, in this one. Returns when all are done. */
void works_run(void *(*run)(void *item), void *items, size_t bytes, unsigned count);

/* ---- start_stop.c ---- */

/* start_stop_begin -- start the coroutine that starts and ends the server; it reports by state and error. Control loop
 * only. */
void start_stop_begin(void *server);

/* ---- state.c ---- */

/* state_set -- set this state, unless it is an earlier one. */
void state_set(struct kvs_server *s, enum kvs_state state);

/* state_fail -- why the server stops, for kvs_server_state. */
void state_fail(struct kvs_server *s, const struct kv_error *err);

/* state_wait -- block until the state is at least this; returns it. For servers with threads of their own. */
enum kvs_state state_wait(struct kvs_server *s, enum kvs_state least);

/* ---- sockaddr.c ---- */

uint16_t address_port(const struct sockaddr_storage *a); /* 0 for a family without one */
void address_set_port(struct sockaddr_storage *a, uint16_t port);
bool address_is_any(const struct sockaddr_storage *a); /* 0.0.0.0 or :: */

#endif
