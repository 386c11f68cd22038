/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.h -- the life of a server and a client in one process, in phases. */
#ifndef KVRAIL_TESTS_FAULT_SCENARIO_H
#define KVRAIL_TESTS_FAULT_SCENARIO_H

#include <stdbool.h>

enum phase {
	PHASE_START,        /* server and pool, until both run */
	PHASE_START_CERT,   /* the same with certificates instead of a key */
	PHASE_CALLS,        /* every call of the client once */
	PHASE_RECONNECT,    /* the control connection is cut; until calls succeed again */
	PHASE_RESET,        /* the client's endpoint dies, then the server's; until calls succeed again */
	PHASE_CLOSE,        /* the pool closes, then the server */
	PHASE_SERVER_FIRST, /* the server stops under an open pool, then the pool closes */
	PHASE_SESSIONS,     /* further sessions on the connection, with and without a key of their own, also across a
			       reconnect; memory in parts */
	PHASE_PULL, /* over shm, between two processes: start and calls of a client that reads from the server's memory
		     */
	PHASES
};

/* scenario_run -- all phases; the fault points are on during one of them. secrets: a folder with the server's key
 * (psk), its session-keys and what make-test-certs.sh makes. Returns 0, or 1 after saying what was wrong. Afterwards
 * nothing is left of it: the caller looks at descriptors, threads and memory. In PHASE_PULL it comes back in a second
 * process, too, whose status the first waits for. (libfabric's shm takes an endpoint of its own process for memory that
 * stays, also when it was closed: both sides in one process would crash there.) limit_s: after so long a process is
 * ended by SIGALRM. */
int scenario_run(enum phase phase, const char *secrets, unsigned limit_s);

/* Why a phase cannot be made here, or NULL. */
const char *scenario_missing(enum phase phase);

/* scenario_is_server -- of the two processes that scenario_run came back in, this is the server's. */
bool scenario_is_server(void);

#define SCENARIO_PSK         "fault:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SCENARIO_SESSION_KEY "logical:ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"

#endif
