/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h -- what the paths of --http-addr answer. */
#ifndef KVRAIL_KVSERVER_HTTP_PAGES_H
#define KVRAIL_KVSERVER_HTTP_PAGES_H

#include <stddef.h>

#include "kvserver/kvserver.h"

struct membership_now;
struct published;

/* What pages are made of. server: NULL before it runs. published: of each of its shards. A shard itself is not read:
 * its thread writes to the lines around whatever a page could want of it. */
struct page_source {
	struct kvs_server *server;
	struct kvs_info info;
	const struct published *published[KV_SHARDS_MAX];
	unsigned shards;
	const struct membership_now *cluster;      /* NULL: without --members */
	bool draining;                             /* it says goodbye */
	unsigned long long requests, cut, wakeups; /* of this port: answered; connections cut; turns of its thread */
};

struct page {
	unsigned status; /* of HTTP */
	const char *type;
	char *body; /* malloc'ed; NULL: there was no memory */
	size_t len;
};

/* page_source_serve -- the server runs: its pages are shown. The thread that created it. */
void page_source_serve(struct page_source *from, struct kvs_server *server);

/* page_make -- the answer for a path. Reads what shards have published, and asks no loop but by kvs_server_silence_ns.
 * One thread. */
void page_make(const struct page_source *from, const char *path, struct page *out);

/* page_ready -- whether clients may come; else *why is a sentence without its end. */
bool page_ready(const struct page_source *from, const char **why);

/* metrics_write -- /metrics. Returns the length of the page, as snprintf does. */
size_t metrics_write(const struct page_source *from, char *buf, size_t cap);

#endif
