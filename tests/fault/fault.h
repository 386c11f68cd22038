/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h -- numbered fault points: calls of fallible functions from KVRail's objects, found by the linker (--wrap) and
 * failed on demand.
 *
 * A point is a call site. Nothing in the product knows of it: for each function of points.def the linker puts a stub
 * between caller and callee. In a phase that is recorded the stub notes who called; in a phase that is armed it lets
 * one call of one site fail. The board lies in shared memory, so that the runner sees what happened in the child that
 * it forked, however that child ended. */
#ifndef KVRAIL_TESTS_FAULT_FAULT_H
#define KVRAIL_TESTS_FAULT_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { FAULT_SITES_MAX = 4096, EOPENSSL = -1 };

/* A way for a function to fail: a row of points.def. */
struct fault_way {
	const char *function;
	long value;
	int error; /* errno; 0: none; EOPENSSL: in OpenSSL's queue */
	unsigned times;
	unsigned error_arg;
	const char *shown; /* the row's value as it is written there */
};
extern const struct fault_way fault_ways[];
extern const unsigned fault_ways_count;

struct fault_site {
	_Atomic(uintptr_t) caller; /* return address; 0: free */
	const char *function;
	_Atomic unsigned hits, order;
};

/* What runner and child share. */
struct fault_board {
	_Atomic bool on;             /* inside the phase */
	bool recording;              /* note the sites; nothing fails */
	uintptr_t caller;            /* armed: calls from here ... */
	const struct fault_way *way; /* ... fail this way ... */
	unsigned nth;                /* ... from this one on */
	_Atomic unsigned hits, fired, sites;
	const char *_Atomic step;    /* of the scenario, for the report of a hang */
	unsigned fds[2], threads[2]; /* at the end of the recording run; [1]: of the server, where that is a process of
					its own */
	uint64_t begun_ns;           /* of the child */
	uint64_t failed_ns,
		waited_ns; /* when the first thing was wrong, and how long threads had waited for a processor by then */
	bool wrong;        /* the scenario found something */
	int sockets_left;  /* at the end nothing was left but so many sockets; -1: something else was */
	struct fault_site site[FAULT_SITES_MAX];
};

extern struct fault_board *fault_board;

void fault_begin(void); /* the phase */
void fault_end(void);

/* fault_lasts -- a point that fails several times in a row has begun to, and has not done. */
bool fault_lasts(void);

/* Bytes mapped by KVRail's objects and not unmapped. */
int64_t fault_mapped_bytes(void);

/* Descriptions of fabrics (struct fi_info) that KVRail's objects were given and have not freed. */
int64_t fault_infos(void);

/* fault_note_machine -- something is wrong: note on the board how long this process' threads were kept waiting for a
 * processor. */
void fault_note_machine(void);

/* The socket of the last connection that was made. */
int fault_last_connection(void);

/* fault_parts -- engines that are opened from now on register memory in parts of so many bytes; 0: as they like. */
void fault_parts(uint64_t bytes);

/* fault_kill_endpoint -- the next fab_poll on the thread of this name reports a dead endpoint. */
void fault_kill_endpoint(const char *thread);

#endif
