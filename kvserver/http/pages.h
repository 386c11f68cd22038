/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h -- the answers of the paths of --http-addr. */
#ifndef KVRAIL_KVSERVER_HTTP_PAGES_H
#define KVRAIL_KVSERVER_HTTP_PAGES_H

#include <stddef.h>

#include "kvserver/kvserver.h"

struct membership_now;
struct published;

/* The sources of the pages. server: NULL before it runs. published: of each of its shards. Shards themselves are not
 * read: their threads write to neighbouring lines. */
struct page_source {
	struct kvs_server *server;
	struct kvs_info info;
	const struct published *published[KV_SHARDS_MAX];
	unsigned shards;
	const struct membership_now *cluster;      /* NULL: without --members */
	bool draining;                             /* a drain says goodbye */
	unsigned long long requests, cut, wakeups; /* of this port: answered; connections cut; turns of its thread */
};

struct page {
	unsigned status; /* of HTTP */
	const char *type;
	char *body; /* malloc'ed; NULL: no memory */
	size_t len;
};

/* page_source_serve -- the server runs: show its pages. Thread: the server's creator. */
void page_source_serve(struct page_source *from, struct kvs_server *server);

/* page_make -- the answer for a path. Reads published counters, and asks loops by kvs_server_silence_ns only. One
 * thread. */
void page_make(const struct page_source *from, const char *path, struct page *out);

/* page_ready -- whether clients may come; else *why is a sentence without its end. */
bool page_ready(const struct page_source *from, const char **why);

/* page_stat -- a statistic of all shards, as in kv-client stat. */
uint64_t page_stat(const struct page_source *from, uint32_t id);

/* metrics_write -- /metrics. Returns the length of the page, as snprintf does. */
size_t metrics_write(const struct page_source *from, char *buf, size_t cap);

#endif
