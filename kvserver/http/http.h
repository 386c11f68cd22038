/* SPDX-License-Identifier: Apache-2.0 */
/* http.h -- metrics, health and counters of a kv-server over HTTP: kv-server --http-addr. */
#ifndef KVRAIL_KVSERVER_HTTP_HTTP_H
#define KVRAIL_KVSERVER_HTTP_HTTP_H

#include "kvserver/kvserver.h"

struct http;
struct membership;

/* Strings and the log must outlive the port. */
struct http_options {
	const char *addr;                 /* "HOST:PORT"; port 0 picks one */
	bool insecure;                    /* without TLS beyond loopback */
	const char *cert_file, *key_file; /* PEM, or NULL. With them TLS is used beyond loopback, unless insecure */
	const struct kv_log *log;
};

/* http_start -- listen, and answer on a thread of its own: alive, not ready. 0 or a code with *err: -KV_EINVAL
 * (unusable options, or other machines could read without TLS), -KV_ENOMEM, -errno. */
int http_start(const struct http_options *options, struct http **out, struct kv_error *err);

/* http_serve -- the server runs: show its pages. It is ready; with --members once it has a view. It must live until
 * http_stop. http_drain -- it is not ready any more; everything else continues. Thread: the server's creator. */
void http_serve(struct http *h, struct kvs_server *server);
void http_drain(struct http *h);

/* http_membership -- show the state of --members as well; it must live until http_stop. The same thread. */
void http_membership(struct http *h, struct membership *m);

/* http_reload -- reread certificate and key, with TLS; the log reports the result. Thread: any. */
void http_reload(struct http *h);

/* http_url -- write "http://127.0.0.1:9411" into buf, and return it. */
char *http_url(const struct http *h, char *buf, size_t cap);

/* http_stop -- cut the connections, end the thread, free all. *h becomes NULL; NULL is accepted. */
void http_stop(struct http **h);

#endif
