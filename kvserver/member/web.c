/* SPDX-License-Identifier: Apache-2.0 */
/* web.c -- see web.h. An answer is bounded by BODY_MAX, a line by LINE_BYTES_MAX.
 *
 * libcurl's callbacks only copy bytes. Lines and ends are delivered outside of them, where calls may be cancelled and
 * begun. An ended call stays in the list until no delivery can meet it. No proxy of the environment, no redirect. */
#include "kvserver/member/web.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { BODY_MAX = 16 << 20, LINE_BYTES_MAX = 4 << 20, WAIT_MS_MAX = 1000 };

struct web_call {
	struct web_call *next;
	struct web *web;
	CURL *easy;
	struct curl_slist *headers;
	char *in;
	size_t len, room;
	struct web_request r; /* its strings are not ours */
	char error[CURL_ERROR_SIZE];
	uint64_t heard_ns;
	bool dead, over, ended; /* over: too many bytes came */
	CURLcode result;
};

struct web {
	CURLM *multi;
	struct web_call *calls;
};

static void global_init(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

struct web *web_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct web *w = calloc(1, sizeof(*w));
	pthread_once(&once, global_init);
	if (w)
		w->multi = curl_multi_init();
	if (w && w->multi)
		return w;
	free(w);
	return NULL;
}

static size_t on_bytes(char *data, size_t size, size_t n, void *arg)
{
	struct web_call *c = arg;
	size_t bytes = size * n, most = c->r.on_line ? LINE_BYTES_MAX : BODY_MAX;
	c->heard_ns = kv_now();
	if (c->dead)
		return bytes;
	if (c->len + bytes + 1 > c->room) {
		size_t room = KV_MAX(c->room * 2, c->len + bytes + 1);
		char *in = c->len + bytes < most ? realloc(c->in, room) : NULL;
		if (!in) {
			c->over = true;
			return 0;
		}
		c->in = in;
		c->room = room;
	}
	memcpy(c->in + c->len, data, bytes);
	c->len += bytes;
	c->in[c->len] = '\0';
	return bytes;
}

static void call_free(struct web_call *c)
{
	if (c->easy)
		curl_easy_cleanup(c->easy);
	curl_slist_free_all(c->headers);
	if (c->in)
		explicit_bzero(c->in, c->len); /* it may be a token */
	free(c->in);
	free(c);
}

static bool headers_make(struct web_call *c, const struct web_request *r)
{
	struct curl_slist *more = curl_slist_append(NULL, r->body ? "Content-Type: application/json" : "Accept: */*");
	for (unsigned i = 0; more && i <= KV_COUNT(r->header); i++) {
		c->headers = more;
		if (i == KV_COUNT(r->header) || !r->header[i])
			return true;
		more = curl_slist_append(c->headers, r->header[i]);
	}
	return false;
}

static bool options_set(struct web_call *c, const struct web_request *r)
{
	const long limit_ms = (long)(r->limit_ns / 1000000) + 1;
	CURL *e = c->easy;
	bool good = curl_easy_setopt(e, CURLOPT_URL, r->url) == CURLE_OK;
	good = good && curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->headers) == CURLE_OK;
	good = good && curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK;
	good = good && curl_easy_setopt(e, CURLOPT_WRITEDATA, c) == CURLE_OK;
	good = good && curl_easy_setopt(e, CURLOPT_PRIVATE, c) == CURLE_OK;
	good = good && curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->error) == CURLE_OK;
	good = good && curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
	good = good && curl_easy_setopt(e, CURLOPT_PROXY, "") == CURLE_OK;
	/* With HTTP/2 calls would share the watch's connection, and hang with it. */
	good = good && curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK;
	good = good && curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK;
	good = good && curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, limit_ms) == CURLE_OK;
	good = good && curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, r->on_line ? 0L : limit_ms) == CURLE_OK;
	good = good && (!r->body || curl_easy_setopt(e, CURLOPT_COPYPOSTFIELDS, r->body) == CURLE_OK);
	good = good && (!r->ca || curl_easy_setopt(e, CURLOPT_CAINFO, r->ca) == CURLE_OK);
	good = good && (!r->cert || curl_easy_setopt(e, CURLOPT_SSLCERT, r->cert) == CURLE_OK);
	good = good && (!r->key || curl_easy_setopt(e, CURLOPT_SSLKEY, r->key) == CURLE_OK);
#if LIBCURL_VERSION_NUM >= 0x075500
	good = good && curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
	/* A hanging look-up must not delay the end of a call. */
	good = good && curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK;
#endif
	return good;
}

struct web_call *web_send(struct web *w, const struct web_request *r)
{
	struct web_call *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->web = w;
	c->heard_ns = kv_now();
	c->r = *r;
	c->r.url = c->r.body = NULL;
	c->easy = curl_easy_init();
	if (!c->easy || !headers_make(c, r) || !options_set(c, r) ||
	    curl_multi_add_handle(w->multi, c->easy) != CURLM_OK) {
		call_free(c);
		return NULL;
	}
	c->next = w->calls;
	w->calls = c;
	return c;
}

void web_cancel(struct web_call **call)
{
	if (*call)
		(*call)->dead = true;
	*call = NULL;
}

/* ---- delivery ---- */

static long status_of(const struct web_call *c)
{
	long status = 0;
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

static void lines_deliver(struct web_call *c)
{
	size_t at = 0;
	char *end;
	if (!c->r.on_line || c->len == 0 || status_of(c) != 200)
		return;
	while (!c->dead && (end = memchr(c->in + at, '\n', c->len - at)) != NULL) {
		size_t len = (size_t)(end - c->in) - at;
		*end = '\0';
		if (len)
			c->r.on_line(c->r.arg, c->in + at, len);
		at += len + 1;
	}
	memmove(c->in, c->in + at, c->len - at + 1);
	c->len -= at;
}

static void end_deliver(struct web_call *c)
{
	struct web_answer answer = {.status = status_of(c), .body = c->in ? c->in : "", .len = c->len};
	if (c->over)
		answer.error = "the answer is too large";
	else if (c->result != CURLE_OK)
		answer.error = c->error[0] ? c->error : curl_easy_strerror(c->result);
	c->dead = true;
	c->r.on_done(c->r.arg, &answer);
}

static void silence_check(struct web_call *c, uint64_t now)
{
	static const struct web_answer silent = {.error = "it has been silent for too long", .body = ""};
	if (!c->r.on_line || c->dead || c->ended || now - c->heard_ns < c->r.silence_ns)
		return;
	c->dead = true;
	c->r.on_done(c->r.arg, &silent);
}

static void dead_free(struct web *w)
{
	for (struct web_call **at = &w->calls; *at;) {
		struct web_call *c = *at;
		if (!c->dead) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		curl_multi_remove_handle(w->multi, c->easy);
		call_free(c);
	}
}

/* New calls are inserted before the first one: this walk does not meet them. True: a call has ended. */
static bool deliver(struct web *w)
{
	struct CURLMsg *message;
	bool any = false;
	int left;
	while ((message = curl_multi_info_read(w->multi, &left)) != NULL) {
		struct web_call *c = NULL;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&c);
		c->ended = any = true;
		c->result = message->data.result;
	}
	for (struct web_call *c = w->calls; c; c = c->next) {
		if (!c->dead)
			lines_deliver(c);
		if (!c->dead && c->ended)
			end_deliver(c);
		silence_check(c, kv_now());
	}
	dead_free(w);
	return any;
}

void web_run(struct web *w, uint64_t wait_ns)
{
	int running, wait_ms = (int)KV_MIN(wait_ns / 1000000 + (wait_ns % 1000000 != 0), (uint64_t)WAIT_MS_MAX);
	dead_free(w);
	curl_multi_perform(w->multi, &running);
	if (deliver(w))
		return; /* its caller wants to continue */
	curl_multi_poll(w->multi, NULL, 0, wait_ms, NULL);
	curl_multi_perform(w->multi, &running);
	deliver(w);
}

void web_wake(struct web *w)
{
	curl_multi_wakeup(w->multi);
}

void web_close(struct web **web)
{
	struct web *w = *web;
	if (!w)
		return;
	*web = NULL;
	for (struct web_call *c = w->calls; c; c = c->next)
		c->dead = true;
	dead_free(w);
	curl_multi_cleanup(w->multi);
	free(w);
}
