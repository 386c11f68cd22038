/* SPDX-License-Identifier: Apache-2.0 */
/* push.h -- before a server ends, push its values to the next servers of its keys. */
#ifndef KVRAIL_KVSERVER_PUSH_PUSH_H
#define KVRAIL_KVSERVER_PUSH_PUSH_H

#include "base/base.h"

struct kvs_server;

struct push_options {
	struct kvs_server *server;
	const struct kv_member *self; /* as clients find it in the view */
	const struct kv_view *view;
	uint64_t bytes_s; /* rate limit; above 0 */
	uint64_t until_ns;
	const char *server_name; /* in the certificates of the others; NULL: the host of each one's address */
};

/* push_run -- push all values of the server, the most likely ones to be read again first, to the present members, until
 * the deadline or until nobody takes any. Clients are served during it. Blocks the calling thread, none of the
 * server's. *out: the outcome. 0, or a code with *err: nothing could be pushed. */
int push_run(const struct push_options *options, struct kv_drained *out, struct kv_error *err);

/* push_none -- push nothing, for this reason, but count the values. Blocks, as above. */
void push_none(struct kvs_server *server, enum kv_left why, struct kv_drained *out);

#endif
