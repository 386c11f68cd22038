/* SPDX-License-Identifier: Apache-2.0 */
/* pair.h -- both ends of a channel in one process. */
#ifndef KVRAIL_TESTS_LOCAL_PAIR_H
#define KVRAIL_TESTS_LOCAL_PAIR_H

#include "tests/check.h"
#include "host/host.h"
#include "local/local.h"

struct pair {
	struct local_channel *server, *client;
};

/* pair_make -- make a channel and open it; must succeed. The server closes its copies of the client's descriptors. */
struct pair pair_make(void);
void pair_close(struct pair *p);

/* pair_fds -- copies of the descriptors of a channel, as a client receives them; the others are -1. */
struct local_shard pair_fds(const struct local_channel *server);

/* bell_rang -- whether a side's bell is readable now. */
bool bell_rang(const struct local_channel *ch);

/* open_files -- the number of open descriptors. */
unsigned open_files(void);

#endif
