/* SPDX-License-Identifier: Apache-2.0 */
/* web.h -- HTTP calls of one thread, by libcurl: whole answers, and endless answers line by line. All functions except
 * web_wake: the one thread. */
#ifndef KVRAIL_KVSERVER_MEMBER_WEB_H
#define KVRAIL_KVSERVER_MEMBER_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct web;
struct web_call;

struct web_answer {
	long status; /* of HTTP; 0: none came */
	const char *error;
	const char *body; /* ends with a 0 */
	size_t len;
};

struct web_request {
	const char *url, *body;      /* body NULL: GET. Else POST */
	const char *header[3];       /* "Authorization: x"; NULL: no more */
	const char *ca, *cert, *key; /* files, or NULL */
	uint64_t limit_ns;           /* for connecting and the answer; with on_line for connecting alone */
	uint64_t silence_ns;         /* with on_line: it ends with an error after this time without a byte */
	void (*on_line)(void *arg, const char *line, size_t len);    /* each line of an answer of status 200 */
	void (*on_done)(void *arg, const struct web_answer *answer); /* once, unless cancelled */
	void *arg;
};

/* web_open -- NULL: no memory. */
struct web *web_open(void);

/* web_send -- begin a call; strings are copied. NULL: no memory. *out is valid until on_done returns or web_cancel. */
struct web_call *web_send(struct web *w, const struct web_request *r);

/* web_cancel -- end a call without a callback, even from within on_line and on_done. *call becomes NULL, which is
 * accepted. */
void web_cancel(struct web_call **call);

/* web_run -- advance calls, run their callbacks, and wait for at most wait_ns or a web_wake. */
void web_run(struct web *w, uint64_t wait_ns);

/* web_wake -- end a wait. Thread: any. */
void web_wake(struct web *w);

/* web_close -- cancel all, free. NULL is accepted. */
void web_close(struct web **w);

#endif
