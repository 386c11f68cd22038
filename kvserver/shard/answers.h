/* SPDX-License-Identifier: Apache-2.0 */
/* answers.h -- the number of data writes made for each answered request of an attachment, for a late CANCEL. */
#ifndef KVRAIL_KVSERVER_SHARD_ANSWERS_H
#define KVRAIL_KVSERVER_SHARD_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum {
	ANSWERS_IDS = 128,                            /* consecutive ids per page */
	ANSWERS_SPAN = KV_WINDOW_WIDTH / ANSWERS_IDS, /* pages that cover the window of a link */
	ANSWERS_LINK = 2,                             /* minimum of each link: one is full, or the link is new */
	ANSWERS_PAGES = 64,   /* of a client's attachments at all shards, or as many as its links need */
	ANSWERS_POSTED = 253, /* largest number of data writes that can be reported */
	ANSWERS_NONE = 0xFF
};

_Static_assert((int)ANSWERS_PAGES < (int)ANSWERS_NONE && (int)KV_RAILS_MAX * ANSWERS_LINK < (int)ANSWERS_NONE,
	       "a page has a number");

/* Of a link; initially all ANSWERS_NONE. */
struct answers_link {
	uint8_t page[ANSWERS_SPAN]; /* by (id / ANSWERS_IDS) % ANSWERS_SPAN */
	uint8_t count;
};

struct answers_page;

/* Of an attachment. */
struct answers {
	struct answers_page *page;
	uint32_t stamp;
	uint8_t pages, used;
};

/* answers_init -- for an attachment with this many links to each of this many shards. 0 or -KV_ENOMEM. answers_fini --
 * valid for a zeroed one as well. */
int answers_init(struct answers *a, unsigned links, unsigned shards);
void answers_fini(struct answers *a);
void answers_link_init(struct answers_link *l);

/* answers_note -- record `posted` for a late CANCEL of this id. UINT32_MAX: only the reply speaks for the bytes. Other
 * numbers above ANSWERS_POSTED are forgotten. `link` is the index of l among `links`, which lie `stride` bytes apart.
 * Takes no memory. */
void answers_note(struct answers *a, struct answers_link *l, unsigned link, unsigned links, size_t stride, uint64_t id,
		  uint32_t posted);

/* answers_look -- 0 and *out_posted, or -KV_ESTALE: forgotten. */
int answers_look(const struct answers *a, const struct answers_link *l, unsigned link, uint64_t id,
		 uint32_t *out_posted);

size_t answers_bytes(unsigned links, unsigned shards); /* taken by answers_init */

#endif
