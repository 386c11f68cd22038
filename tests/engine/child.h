/* SPDX-License-Identifier: Apache-2.0 */
/* child.h -- a peer in a process of its own: the test binary again, with a role. Started by posix_spawn, since forking
 * after libfabric was used is not safe. */
#ifndef KVRAIL_TESTS_ENGINE_CHILD_H
#define KVRAIL_TESTS_ENGINE_CHILD_H

#include "tests/engine/node.h"

#include <sys/types.h>

#define CHILD_AREA (64ull << 20)

/* What each side tells the other: one engine with one rail, one region in one part. */
struct child_hello {
	struct te_address address;
	uint64_t len, base, key;
	uint64_t chunk; /* what its engine writes at once: CHILD_AREA, or the most that the provider takes */
	uint8_t virt;
};

struct child {
	pid_t pid;
	int fd;
	struct child_hello hello; /* the child's */
	struct area remote;       /* ... as a remote for transfers; no local memory behind it */
	struct te_key key;
};

enum child_role {
	CHILD_SERVE, /* polls; its memory may be read and written */
	CHILD_WRITE  /* writes its whole memory to ours, again and again: the first time with 1 as the immediate of each
			chunk and  in the first and last four bytes of each, then with 2, ... */
};

/* Start a child that talks `provider` and knows `node` and its memory. */
void child_start(struct child *c, enum child_role role, const char *provider, struct node *node, struct area *area);
void child_signal(struct child *c, int sig); /* and wait until it is stopped, if it is SIGSTOP */
void child_end(struct child *c);             /* kill and reap */
struct te_peer *child_peer(struct child *c, struct node *node);

/* For main: whether this process is a child; it then ran to its end. */
bool child_main(int argc, char **argv);

#endif
