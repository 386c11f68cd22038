/* SPDX-License-Identifier: Apache-2.0 */
/* push.h -- before a server goes, what was hit lately is put to the servers that have its keys then. */
#ifndef KVRAIL_KVSERVER_PUSH_PUSH_H
#define KVRAIL_KVSERVER_PUSH_PUSH_H

#include "base/base.h"

struct kvs_server;

struct push_options {
	struct kvs_server *server;    /* it runs, and announces that it drains */
	const struct kv_member *self; /* as clients find it in the view */
	const struct kv_view *view;   /* the members at first */
	uint64_t bytes_s;             /* at most; above 0 */
	uint64_t until_ns;            /* of kv_clock_monotonic: by then it is over */
	const char *psk, *psk_file, *cert_file, *key_file, *ca_file, *crl_file; /* as the server's own; or NULL */
	const char *server_name; /* in the certificates of the others; NULL: the host of each one's address */
	const char *cluster;     /* of this server, or NULL */
	const struct kv_log *log;
};

struct push_result {
	uint64_t blocks, bytes, failed;
	bool all;   /* nothing that was hit lately is left */
	bool alone; /* something is, but no other member answers, or those that do take nothing */
};

/* push_run -- put the blocks, the hottest first, until all of them were, or the time is over, to whoever are the
 * members then. Clients are served meanwhile. Blocks: the calling thread, which is none of the server's. 0, or a code
 * with *err: nothing could be put, and *out is zero. */
int push_run(const struct push_options *options, struct push_result *out, struct kv_error *err);

#endif
