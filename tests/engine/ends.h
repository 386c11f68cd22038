/* SPDX-License-Identifier: Apache-2.0 */
/* ends.h -- both ends of a channel (local/local.h) in one process. */
#ifndef KVRAIL_TESTS_ENGINE_ENDS_H
#define KVRAIL_TESTS_ENGINE_ENDS_H

#include <stddef.h>
#include <stdint.h>

#include "local/local.h"

struct ends {
	struct local_channel *server, *client;
	uint8_t *pages; /* the memory that both share, for a test that scribbles */
	size_t len;
};

/* Fails the test if there is no memory or no descriptor. */
void ends_open(struct ends *e);
void ends_close(struct ends *e);

#endif
