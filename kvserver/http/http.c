/* SPDX-License-Identifier: Apache-2.0 */
/* http.c -- the port of --http-addr, by libmicrohttpd, on a thread of its own.
 *
 * The thread waits for the listening socket and for libmicrohttpd's epoll descriptor. It reads published counters only,
 * and waits for no loop. Sockets are accepted here: with CONNECTIONS_MAX open, the oldest is cut for the next one,
 * where libmicrohttpd would stop accepting.
 *
 * The main thread sets `server` once, when the server runs; http_stop joins the thread before the server is freed. With
 * TLS the certificate is reread by a new daemon on the same socket; if that fails, the former one stays. */
#include "kvserver/http/http.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvserver/http/pages.h"
#include "kvserver/member/membership.h"

enum {
	CONNECTIONS_MAX = 32, /* half of the descriptors kept free by the server (KV_FILES_RESERVE) */
	CONNECTION_BYTES = 8192,
	BACKLOG = 128,
	ACCEPTS_PER_TURN = 64,
	TURN_MS = 500,
	NICE = 10,
	PEM_MAX = 1 << 20
};

#define CONNECTION_NS   5000000000ull
#define ACCEPT_PAUSE_NS 100000000ull

struct place {
	struct MHD_Connection *connection; /* NULL: free */
	int fd;
	uint64_t since_ns;
};

struct http {
	struct http_options opt;
	bool tls;
	int listen_fd, wake_fd;
	struct sockaddr_storage addr;
	pthread_t thread;
	/* the thread's */
	struct MHD_Daemon *daemon;
	struct place place[CONNECTIONS_MAX];
	unsigned places;
	uint64_t accept_ns; /* no accept before this time */
	struct page_source source;
	/* shared */
	_Atomic(struct kvs_server *) server;
	_Atomic(struct membership *) membership;
	_Atomic bool stop, draining, reload;
	struct page_source served; /* written before `server` */
};

/* ---- requests ---- */

static enum MHD_Result answer(struct http *h, struct MHD_Connection *c, struct page *page, const char *allow)
{
	static char sorry[] = "there is no memory for the page\n";
	struct MHD_Response *r;
	enum MHD_Result rc = MHD_NO;
	if (!page->body)
		*page = (struct page){.status = 503, .type = "text/plain", .body = NULL, .len = sizeof(sorry) - 1};
	r = MHD_create_response_from_buffer(page->len, page->body ? page->body : sorry,
					    page->body ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	if (!r) {
		free(page->body);
		return MHD_NO;
	}
	if (MHD_add_response_header(r, "Content-Type", page->type) == MHD_YES &&
	    MHD_add_response_header(r, "Connection", "close") == MHD_YES &&
	    MHD_add_response_header(r, "Cache-Control", "no-store") == MHD_YES &&
	    (!allow || MHD_add_response_header(r, "Allow", allow) == MHD_YES))
		rc = MHD_queue_response(c, page->status, r);
	MHD_destroy_response(r);
	h->source.requests++;
	return rc;
}

static void source_update(struct http *h)
{
	struct page_source before = h->source;
	if (!h->source.server && atomic_load(&h->server)) {
		h->source = h->served;
		h->source.requests = before.requests;
		h->source.cut = before.cut;
		h->source.wakeups = before.wakeups;
	}
	h->source.draining = atomic_load(&h->draining);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url, const char *method,
				  const char *version, const char *upload, size_t *upload_bytes, void **state)
{
	struct http *h = arg;
	struct membership *m = atomic_load(&h->membership);
	struct membership_now cluster = {0};
	enum MHD_Result rc;
	struct page page;
	(void)version;
	(void)upload;
	(void)upload_bytes;
	(void)state;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		char *text = strdup("this port answers GET and HEAD only\n");
		page = (struct page){405, "text/plain; charset=utf-8", text, text ? strlen(text) : 0};
		return answer(h, c, &page, "GET, HEAD");
	}
	source_update(h);
	h->source.cluster = m && membership_read(m, &cluster) == 0 ? &cluster : NULL;
	page_make(&h->source, url, &page);
	h->source.cluster = NULL;
	rc = answer(h, c, &page, NULL);
	kv_view_fini(&cluster.view);
	return rc;
}

/* ---- connections ---- */

static void on_connection(void *arg, struct MHD_Connection *c, void **state, enum MHD_ConnectionNotificationCode code)
{
	struct http *h = arg;
	const union MHD_ConnectionInfo *fd;
	(void)state;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
		if (fd && h->places < CONNECTIONS_MAX)
			h->place[h->places++] = (struct place){c, fd->connect_fd, kv_now()};
		return;
	}
	for (unsigned i = 0; i < h->places; i++)
		if (h->place[i].connection == c) {
			memmove(&h->place[i], &h->place[i + 1], (--h->places - i) * sizeof(h->place[0]));
			break;
		}
}

/* Cut the oldest connection, the first in the list: the daemon sees its end, and frees its place. */
static void oldest_cut(struct http *h)
{
	unsigned before = h->places;
	shutdown(h->place[0].fd, SHUT_RDWR);
	h->source.cut++;
	MHD_run(h->daemon);
	if (h->places == before) /* not at once (TLS): in the next turn; until then it is the youngest */
		MHD_run(h->daemon);
}

static void slow_cut(struct http *h, uint64_t now)
{
	while (h->places && now - h->place[0].since_ns > CONNECTION_NS) {
		unsigned before = h->places;
		oldest_cut(h);
		if (h->places == before)
			break;
	}
}

static void accept_failed(struct http *h, int error)
{
	if (error == EAGAIN || error == EINTR || error == ECONNABORTED)
		return;
	h->accept_ns = kv_now() + ACCEPT_PAUSE_NS;
	if (h->places)
		oldest_cut(h);
}

static void accept_all(struct http *h)
{
	for (unsigned i = 0; i < ACCEPTS_PER_TURN; i++) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);
		int fd = accept4(h->listen_fd, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0) {
			accept_failed(h, errno);
			return;
		}
		if (h->places == CONNECTIONS_MAX)
			oldest_cut(h);
		if (h->places == CONNECTIONS_MAX) {
			close(fd);
			continue;
		}
		MHD_add_connection(h->daemon, fd, (struct sockaddr *)&peer, len); /* closes it on failure */
		MHD_run(h->daemon);
	}
}

/* ---- the daemon ---- */

static int pem_read(const char *option, const char *path, char **out, struct kv_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0; /* opening a FIFO would block */
	ssize_t n = -1;
	char *text = NULL;
	if (fd < 0)
		return kv_fail(err, -KV_EINVAL, "%s %s cannot be read: %s", option, path, kv_strerror(-errno));
	text = malloc(PEM_MAX + 1);
	if (text)
		n = read(fd, text, PEM_MAX);
	if (n <= 0)
		rc = kv_fail(err, text ? -KV_EINVAL : -KV_ENOMEM, "%s %s cannot be read, or is empty", option, path);
	close(fd);
	if (rc) {
		free(text);
		return rc;
	}
	text[n] = '\0';
	*out = text;
	return 0;
}

static void pem_free(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

static int daemon_start(struct http *h, struct MHD_Daemon **out, struct kv_error *err)
{
	const unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | (h->tls ? MHD_USE_TLS : 0);
	char *cert = NULL, *key = NULL;
	struct MHD_OptionItem tls[] = {{MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}};
	int rc = h->tls ? pem_read("--cert", h->opt.cert_file, &cert, err) : 0;
	if (rc == 0 && h->tls)
		rc = pem_read("--key", h->opt.key_file, &key, err);
	if (rc)
		goto out;
	if (h->tls) {
		tls[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, cert};
		tls[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, key};
	}
	*out = MHD_start_daemon(flags, 0, NULL, NULL, on_request, h, MHD_OPTION_CONNECTION_LIMIT,
				(unsigned)CONNECTIONS_MAX + 1, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				(size_t)CONNECTION_BYTES, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
				MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
	if (!*out)
		rc = kv_fail(err, -KV_EINVAL, "--http-addr %s: libmicrohttpd does not start%s", h->opt.addr,
			     h->tls ? " with this --cert and --key: are they a PEM certificate and its key, and was "
				      "libmicrohttpd built with TLS?"
				    : "");
out:
	pem_free(cert);
	pem_free(key);
	return rc;
}

static void daemon_anew(struct http *h)
{
	struct MHD_Daemon *fresh;
	struct kv_error err = {0};
	if (daemon_start(h, &fresh, &err)) {
		kv_event(h->opt.log, KV_LOG_WARN, KV_EVENT("http_keys_failed", KV_FIELD("reason", err.text)),
			 "%s; --http-addr keeps the former certificate", err.text);
		return;
	}
	MHD_stop_daemon(h->daemon);
	h->places = 0;
	h->daemon = fresh;
	kv_event(h->opt.log, KV_LOG_INFO, KV_EVENT("http_keys_read"), "--http-addr: the certificate was reread");
}

static int daemon_fd(struct http *h)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	return info ? info->epoll_fd : -1;
}

static void *http_run(void *arg)
{
	struct http *h = arg;
	uint64_t woken;
	pthread_setname_np(pthread_self(), "kv-http");
	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
	while (!atomic_load(&h->stop)) {
		struct pollfd fds[] = {{h->listen_fd, POLLIN, 0}, {h->wake_fd, POLLIN, 0}, {daemon_fd(h), POLLIN, 0}};
		MHD_UNSIGNED_LONG_LONG wanted;
		int wait = TURN_MS;

		if (kv_now() < h->accept_ns) {
			fds[0].fd = -1;
			wait = (int)(ACCEPT_PAUSE_NS / 1000000);
		}
		if (MHD_get_timeout(h->daemon, &wanted) == MHD_YES)
			wait = (int)KV_MIN(wanted, (MHD_UNSIGNED_LONG_LONG)wait);
		poll(fds, KV_COUNT(fds), wait);
		h->source.wakeups++;
		if (fds[1].revents && read(h->wake_fd, &woken, sizeof(woken)) < 0 && errno != EAGAIN)
			break;
		if (atomic_exchange(&h->reload, false) && h->tls)
			daemon_anew(h);
		MHD_run(h->daemon);
		if (fds[0].revents)
			accept_all(h);
		slow_cut(h, kv_now());
	}
	MHD_stop_daemon(h->daemon);
	return NULL;
}

/* ---- start and stop ---- */

static int address_take(struct http *h, socklen_t *len, struct kv_error *err)
{
	struct kv_hostport hp;
	int rc = kv_hostport_parse(h->opt.addr, &hp, err);
	bool open;
	if (rc == 0)
		rc = kv_hostport_resolve(&hp, &h->addr, len, err);
	if (rc)
		return kv_fail_more(err, "--http-addr %s", h->opt.addr);
	open = !kv_sockaddr_is_loopback(&h->addr) && !h->opt.insecure;
	h->tls = open && h->opt.cert_file && h->opt.key_file;
	if (open && !h->tls)
		return kv_fail(err, -KV_EINVAL,
			       "--http-addr %s can be reached from other machines, and there is no TLS: anybody there "
			       "could read this server's counters. Give --cert, --key and --ca; or listen on "
			       "127.0.0.1; or give --http-insecure if the network is trusted",
			       h->opt.addr);
	return 0;
}

static int listen_make(struct http *h, socklen_t len, struct kv_error *err)
{
	int one = 1;
	h->listen_fd = socket(h->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (h->listen_fd < 0)
		goto fail;
	setsockopt(h->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one,
		   sizeof(one)); /* otherwise the address stays in use for a while */
	if (bind(h->listen_fd, (struct sockaddr *)&h->addr, len) < 0 || listen(h->listen_fd, BACKLOG) < 0)
		goto fail;
	len = sizeof(h->addr);
	if (getsockname(h->listen_fd, (struct sockaddr *)&h->addr, &len) < 0)
		goto fail;
	h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->wake_fd >= 0)
		return 0;
fail:
	return kv_fail(err, -errno, "--http-addr %s: cannot listen: %s", h->opt.addr, kv_strerror(-errno));
}

static void http_free(struct http *h)
{
	if (h->listen_fd >= 0)
		close(h->listen_fd);
	if (h->wake_fd >= 0)
		close(h->wake_fd);
	free(h);
}

int http_start(const struct http_options *options, struct http **out, struct kv_error *err)
{
	struct http *h = calloc(1, sizeof(*h));
	socklen_t len = 0;
	int rc;
	if (!h)
		return kv_fail(err, -KV_ENOMEM, "no memory for --http-addr");
	h->opt = *options;
	h->listen_fd = h->wake_fd = -1;
	rc = address_take(h, &len, err);
	if (rc == 0)
		rc = listen_make(h, len, err);
	if (rc == 0)
		rc = daemon_start(h, &h->daemon, err);
	if (rc)
		goto out;
	rc = pthread_create(&h->thread, NULL, http_run, h);
	if (rc) {
		rc = kv_fail(err, -rc, "starting the thread of --http-addr: %s", kv_strerror(-rc));
		MHD_stop_daemon(h->daemon);
		goto out;
	}
	*out = h;
	return 0;
out:
	http_free(h);
	return rc;
}

void http_serve(struct http *h, struct kvs_server *server)
{
	page_source_serve(&h->served, server);
	atomic_store(&h->server, server);
}

void http_membership(struct http *h, struct membership *m)
{
	atomic_store(&h->membership, m);
}

void http_drain(struct http *h)
{
	atomic_store(&h->draining, true);
}

static void wake(struct http *h)
{
	const uint64_t one = 1;
	while (write(h->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void http_reload(struct http *h)
{
	atomic_store(&h->reload, true);
	wake(h);
}

char *http_url(const struct http *h, char *buf, size_t cap)
{
	char address[KV_HOST_MAX];
	snprintf(buf, cap, "%s://%s", h->tls ? "https" : "http",
		 kv_sockaddr_format(&h->addr, address, sizeof(address)));
	return buf;
}

void http_stop(struct http **http)
{
	struct http *h = *http;
	if (!h)
		return;
	*http = NULL;
	atomic_store(&h->stop, true);
	wake(h);
	pthread_join(h->thread, NULL);
	http_free(h);
}
