/* SPDX-License-Identifier: Apache-2.0 */
/* http.h -- metrics, health and counters of a kv-server over HTTP: kv-server --http-addr. */
#ifndef KVRAIL_KVSERVER_HTTP_HTTP_H
#define KVRAIL_KVSERVER_HTTP_HTTP_H

#include "kvserver/kvserver.h"

struct http;
struct membership;

/* Strings and the log must live as long as the thing. */
struct http_options {
	const char *addr;                 /* "HOST:PORT"; port 0 picks one */
	bool insecure;                    /* without TLS beyond loopback */
	const char *cert_file, *key_file; /* PEM, or NULL. Beyond loopback, without insecure, TLS with them */
	const struct kv_log *log;
};

/* http_start -- listen, and answer on a thread of its own: alive, not ready. 0 or a code with *err: -KV_EINVAL what the
 * options name cannot be used, or other machines could read without TLS; -KV_ENOMEM; -errno. */
int http_start(const struct http_options *options, struct http **out, struct kv_error *err);

/* http_serve -- the server runs: its pages are shown, and it is ready; with --members once that has a view. It must
 * live until http_stop. http_drain -- it is ready no longer, and everything else goes on. The thread that created the
 * server. */
void http_serve(struct http *h, struct kvs_server *server);
void http_drain(struct http *h);

/* http_membership -- show what --members knows, too; it must live until http_stop. The same thread. */
void http_membership(struct http *h, struct membership *m);

/* http_reload -- read certificate and key again, if TLS is spoken; the log tells what came of it. Thread: any. */
void http_reload(struct http *h);

/* http_url -- write "http://127.0.0.1:9411" into buf, and return it. */
char *http_url(const struct http *h, char *buf, size_t cap);

/* http_stop -- cut the connections, end the thread, free all. *h becomes NULL; NULL is accepted. */
void http_stop(struct http **h);

#endif
