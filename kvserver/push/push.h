/* SPDX-License-Identifier: Apache-2.0 */
/* push.h -- before a server ends, its values are put to the servers that have its keys then. */
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

/* push_run -- put all values of the server, those first that are the most likely to be asked for again, to the servers
 * that are members then, until the time is over or nobody takes any. Clients are served meanwhile. Blocks: the calling
 * thread, which is none of the server's. *out: what came of it. 0, or a code with *err: nothing could be put. */
int push_run(const struct push_options *options, struct kv_drained *out, struct kv_error *err);

/* push_none -- nothing is put, for this reason: count the values. Blocks, as above. */
void push_none(struct kvs_server *server, enum kv_left why, struct kv_drained *out);

#endif
