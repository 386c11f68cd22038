/* SPDX-License-Identifier: Apache-2.0 */
/* rival.h -- redis and memcached as kvload and kvreplay talk to them: options, a connection, what a PUT begins with and
 * is answered by. Trouble ends the program with a sentence. */
#ifndef KVRAIL_TESTS_BENCH_RIVAL_H
#define KVRAIL_TESTS_BENCH_RIVAL_H

#include "base/base.h"
#include "kvbench/load/workload.h"

enum {
	RIVAL_HEAD_BYTES = 512, /* of a command without its value, and of an answer's first line */
	RIVAL_GRACE_S = 10      /* a connection that says nothing for so long is dead */
};

enum { RIVAL_REDIS, RIVAL_MEMCACHED };
extern const char *const rival_protocols[];

struct rival {
	int protocol;
	const char *address;
};

/* Rows of an option table. of: the struct that has a `struct rival rival`. */
#define RIVAL_ROWS(of)                                                                                                 \
	{.name = "protocol",                                                                                           \
	 .letter = 'p',                                                                                                \
	 .type = KV_OPT_CHOICE,                                                                                        \
	 .offset = offsetof(of, rival.protocol),                                                                       \
	 .metavar = "NAME",                                                                                            \
	 .def = "redis",                                                                                               \
	 .choices = rival_protocols,                                                                                   \
	 .help = "redis (RESP) or memcached (text)."},                                                                 \
		{.name = "address",                                                                                    \
		 .letter = 'a',                                                                                        \
		 .type = KV_OPT_STRING,                                                                                \
		 .offset = offsetof(of, rival.address),                                                                \
		 .metavar = "HOST:PORT",                                                                               \
		 .def = "127.0.0.1:6379",                                                                              \
		 .help = "Where the server listens; with a slash: a unix socket."}

/* rival_program -- what sentences begin with. */
extern const char *rival_program;
_Noreturn void rival_die(const char *what, const char *why);
_Noreturn void rival_die_errno(const char *what);

/* rival_connect -- a connected socket, with bounds of RIVAL_GRACE_S for receiving and sending where it blocks. */
int rival_connect(const struct rival *rival);

/* rival_put_head -- what goes out before a value (after it: "\r\n"). Returns its bytes. */
int rival_put_head(int protocol, const struct bench_key *key, uint64_t size, char out[RIVAL_HEAD_BYTES]);

/* rival_get -- the command for a value. Returns its bytes. */
int rival_get(int protocol, const struct bench_key *key, char out[RIVAL_HEAD_BYTES]);

/* rival_stored_text -- how the server says that a value was stored. */
const char *rival_stored_text(int protocol);

/* rival_tail -- the bytes of an answer behind the value. */
size_t rival_tail(int protocol);

/* rival_value_header -- an answer's first line, without its end. Returns the length of the value that follows, or -1:
 * there is none under this key. */
int64_t rival_value_header(int protocol, const char *line);

#endif
