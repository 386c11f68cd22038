/* SPDX-License-Identifier: Apache-2.0 */
/* rival.h -- redis and memcached as kv-bench versus and tests/bench/kvreplay talk to them: a connection, commands, how
 * answers begin. Trouble ends the process with a sentence: each that uses this is made for one run. */
#ifndef KVRAIL_KVBENCH_VERSUS_RIVAL_H
#define KVRAIL_KVBENCH_VERSUS_RIVAL_H

#include "kvbench/load/workload.h"

enum {
	RIVAL_HEAD_BYTES = 512, /* of a command without its value, and of an answer's first line */
	RIVAL_GRACE_S = 10
};

enum { RIVAL_REDIS, RIVAL_MEMCACHED, RIVAL_PROGRAM };

struct rival {
	int protocol;
	const char *address;
};

/* rival_program -- the name at the beginning of sentences. */
extern const char *rival_program;
_Noreturn void rival_die(const char *what, const char *why);
_Noreturn void rival_die_errno(const char *what);
_Noreturn void rival_die_peer(const char *what); /* the same of a connection: its end has no other words than recv's */

/* rival_connect -- a connected socket, with bounds of RIVAL_GRACE_S for receiving and sending where it blocks. */
int rival_connect(const struct rival *rival);

/* rival_put_head -- the bytes before a value (after it: "\r\n"). Returns its bytes. */
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

/* rival_delete -- the command that removes a value; its answer is one line. Returns its bytes. */
int rival_delete(int protocol, const struct bench_key *key, char out[RIVAL_HEAD_BYTES]);

/* rival_send, rival_line -- send all of it; the next line of an answer, without its end. For a blocking connection,
 * outside of measurements. */
void rival_send(int fd, const void *data, size_t len);
void rival_line(int fd, char out[RIVAL_HEAD_BYTES]);

/* A server's figures of its process. */
struct rival_facts {
	char version[64];        /* "": nothing */
	int64_t threads;         /* for data; -1: nothing */
	double user_s, system_s; /* CPU time so far; below 0: nothing */
	int pid;                 /* on this machine; 0: it does not say, or runs elsewhere */
};
void rival_facts_get(const struct rival *rival, struct rival_facts *out);

/* rival_cpu_seconds -- CPU time of the server's process so far, by its own count; below 0: it reports none. */
double rival_cpu_seconds(const struct rival *rival);

#endif
