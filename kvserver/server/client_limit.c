/* SPDX-License-Identifier: Apache-2.0 */
/* client_limit.c -- how many clients fit the limit of open files.
 *
 *   open already + places of handshakes + clients * (1 + fabric connections of a client) + a reserve  <=  the limit
 *
 * Clients are those of --max-clients, and CLUSTER_PLACES besides. The engine's budget gives the fabric descriptors of a
 * client: the difference made by a second peer. The reserve (KV_FILES_RESERVE) is for temporary descriptors. */
#include <inttypes.h>
#include <stdlib.h>

#include "host/host.h"
#include "kvserver/server/private.h"
#include "kvserver/server/server.h"

enum { CLUSTER_SHARE = 8 /* with few places, one in this many is for CLUSTER_PLACES */ };

static int client_files(const struct te_options *engine, unsigned shards, uint64_t *out, struct kv_error *err)
{
	struct te_load load = {.engines = shards, .peers = 1};
	struct te_budget *budget = calloc(2, sizeof(*budget));
	int rc = budget ? 0 : kv_fail(err, -KV_ENOMEM, "no memory for a list of devices");
	for (unsigned i = 0; rc == 0 && i < 2; i++) {
		load.peers = i + 1;
		rc = te_budget(engine, &load, &budget[i], err);
	}
	if (rc == 0)
		*out = budget[1].process.files - budget[0].process.files;
	free(budget);
	return rc;
}

void client_limit_divide(struct client_limit *f, unsigned clients_wanted)
{
	uint64_t others = f->open + KV_FILES_LATER + f->handshakes + KV_FILES_RESERVE, each = 1 + f->client;
	uint64_t room = f->limit > others ? (f->limit - others) / each : 0;
	f->wanted = others - f->handshakes + HANDSHAKES_MAX + (clients_wanted + CLUSTER_PLACES) * each;
	if (f->limit >= KV_UNKNOWN)
		room = (uint64_t)clients_wanted + CLUSTER_PLACES;
	f->more = (unsigned)KV_MIN((uint64_t)CLUSTER_PLACES, room / CLUSTER_SHARE);
	f->clients = (unsigned)KV_MIN(KV_MAX(room - f->more, (uint64_t)1),
				      (uint64_t)clients_wanted); /* at least one: it learns which limit is too low */
	f->more = (unsigned)KV_MIN((uint64_t)CLUSTER_PLACES, room - KV_MIN(room, (uint64_t)f->clients));
}

/* Descriptors for local clients: those that the others leave, or a share. All are hardly ever used at once; a local
 * client that gets none uses the fabric. */
static uint64_t local_files(const struct client_limit *f)
{
	uint64_t others = f->open + KV_FILES_LATER + f->handshakes + KV_FILES_RESERVE;
	uint64_t room = f->limit > others ? f->limit - others : 0, used = (f->clients + f->more) * (1 + f->client);
	return KV_MAX(room / LOCAL_FILES_SHARE, room - KV_MIN(room, used));
}

int client_limit_plan(struct kvs_server *s, const struct te_options *engine, struct kv_error *err)
{
	struct client_limit *f = &s->clients.limit;
	struct kv_host host;
	int rc;
	f->clients = s->opt.max_clients;
	f->more = CLUSTER_PLACES;
	local_clients_plan(s, KV_UNKNOWN);
	if (s->opt.loops)
		return 0;
	kv_host_read("", &host);
	f->open = host.files_open < KV_UNKNOWN ? host.files_open : 0;
	f->limit = host.files_soft;
	f->handshakes = s->strangers.max;
	rc = client_files(engine, s->opt.shards, &f->client, err);
	if (rc)
		return rc;
	client_limit_divide(f, s->opt.max_clients);
	local_clients_plan(s, local_files(f));
	if (f->clients < s->opt.max_clients)
		kv_event(s->opt.log, f->clients < KVS_CLIENTS_DEFAULT ? KV_LOG_WARN : KV_LOG_INFO,
			 KV_EVENT("files_short", KV_NUMBER("limit", f->limit), KV_NUMBER("clients", f->clients),
				  KV_NUMBER("max_clients", s->opt.max_clients), KV_NUMBER("wanted", f->wanted)),
			 "the limit of %" PRIu64 " open files allows %u client%s at a time with connections of their "
			 "own (--max-clients %u), at %" PRIu64 " files each; for all of them: ulimit -n %" PRIu64,
			 f->limit, f->clients, f->clients == 1 ? "" : "s", s->opt.max_clients, 1 + f->client,
			 f->wanted);
	return 0;
}
