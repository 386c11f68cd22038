/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h -- what the paths of --http-addr answer. */
#ifndef KVRAIL_KVSERVER_HTTP_PAGES_H
#define KVRAIL_KVSERVER_HTTP_PAGES_H

#include <stddef.h>

#include "kvserver/kvserver.h"

struct membership_now;

/* What pages are made of. server: NULL before it runs. */
struct page_source {
	struct kvs_server *server;
	struct kvs_info info;
	const struct membership_now *cluster; /* NULL: without --members */
	bool draining;
	unsigned long long requests, cut; /* of this port: answered; connections that were cut */
};

struct page {
	unsigned status; /* of HTTP */
	const char *type;
	char *body; /* malloc'ed; NULL: there was no memory */
	size_t len;
};

/* page_make -- the answer for a path. Reads what shards have published, and asks no loop but by kvs_server_silence_ns.
 * One thread. */
void page_make(const struct page_source *from, const char *path, struct page *out);

/* metrics_write -- /metrics. Returns the length of the page, as snprintf does. */
size_t metrics_write(const struct page_source *from, char *buf, size_t cap);

#endif
