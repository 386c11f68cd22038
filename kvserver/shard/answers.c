/* SPDX-License-Identifier: Apache-2.0 */
/* answers.c -- the number of data writes made for each answered request of an attachment, for a late CANCEL.
 *
 * The numbers are kept in pages of 128 consecutive ids. A client has 64 pages (9 KiB) over all shards, or two for each
 * link where that is more. For a forgotten id the client fences. When all pages are in use, a link with its full share
 * (pages / links) reuses its oldest page; another takes the oldest of a link above its share, so a busy link takes no
 * memory from quiet ones.
 *
 * A number has 8 bits; more than 253 writes count as forgotten. An id not noted in its page is unknown, not 0: the page
 * may have been reused. */
#include "kvserver/shard/answers.h"

#include <stdlib.h>
#include <string.h>

enum { UNKNOWN = ANSWERS_POSTED + 1, REPLY_ONLY };

_Static_assert((int)REPLY_ONLY == UINT8_MAX, "a byte");

struct answers_page {
	uint64_t first; /* id / ANSWERS_IDS */
	uint32_t stamp; /* higher is later */
	uint8_t link;
	uint8_t posted[ANSWERS_IDS];
};

void answers_link_init(struct answers_link *l)
{
	memset(l->page, ANSWERS_NONE, sizeof(l->page));
	l->count = 0;
}

static unsigned pages_for(unsigned links, unsigned shards)
{
	return KV_MIN(links * ANSWERS_SPAN, KV_MAX(ANSWERS_PAGES / shards, links * ANSWERS_LINK));
}

size_t answers_bytes(unsigned links, unsigned shards)
{
	return pages_for(links, shards) * sizeof(struct answers_page);
}

int answers_init(struct answers *a, unsigned links, unsigned shards)
{
	*a = (struct answers){.page = malloc(answers_bytes(links, shards)), .pages = (uint8_t)pages_for(links, shards)};
	return a->page ? 0 : -KV_ENOMEM;
}

void answers_fini(struct answers *a)
{
	free(a->page);
	*a = (struct answers){0};
}

static struct answers_link *link_at(struct answers_link *l, unsigned from, unsigned to, size_t stride)
{
	return (struct answers_link *)((char *)l + ((ptrdiff_t)to - (ptrdiff_t)from) * (ptrdiff_t)stride);
}

/* The oldest page of `link`, or of all links above their share. There is always one. */
static unsigned page_oldest(const struct answers *a, struct answers_link *l, unsigned link, size_t stride,
			    unsigned share)
{
	bool own = l->count >= share;
	unsigned found = ANSWERS_NONE;
	for (unsigned i = 0; i < a->used; i++) {
		const struct answers_page *p = &a->page[i];
		if (own ? p->link != link : link_at(l, link, p->link, stride)->count <= share)
			continue;
		if (found == ANSWERS_NONE || (int32_t)(p->stamp - a->page[found].stamp) < 0)
			found = i;
	}
	return found;
}

static void page_give_up(struct answers *a, unsigned at, struct answers_link *l, unsigned link, size_t stride)
{
	const struct answers_page *p = &a->page[at];
	struct answers_link *its = link_at(l, link, p->link, stride);
	its->page[p->first % ANSWERS_SPAN] = ANSWERS_NONE;
	its->count--;
}

/* A page for these ids: that of the ids one window before, a free one, or one in use. ANSWERS_NONE: all candidates have
 * later ids of this link. */
static unsigned page_take(struct answers *a, struct answers_link *l, unsigned link, unsigned links, size_t stride,
			  uint64_t first)
{
	unsigned at = l->page[first % ANSWERS_SPAN];
	struct answers_page *p;
	if (at == ANSWERS_NONE && a->used < a->pages) {
		at = a->used++;
	} else {
		if (at == ANSWERS_NONE)
			at = page_oldest(a, l, link, stride, KV_MAX(a->pages / links, 1u));
		if (a->page[at].link == link && a->page[at].first > first)
			return ANSWERS_NONE;
		page_give_up(a, at, l, link, stride);
	}
	p = &a->page[at];
	p->first = first;
	p->link = (uint8_t)link;
	p->stamp = ++a->stamp;
	memset(p->posted, UNKNOWN, sizeof(p->posted));
	l->page[first % ANSWERS_SPAN] = (uint8_t)at;
	l->count++;
	return at;
}

void answers_note(struct answers *a, struct answers_link *l, unsigned link, unsigned links, size_t stride, uint64_t id,
		  uint32_t posted)
{
	uint64_t first = id / ANSWERS_IDS;
	unsigned at = l->page[first % ANSWERS_SPAN];
	if (KV_UNLIKELY(at == ANSWERS_NONE || a->page[at].first < first))
		at = page_take(a, l, link, links, stride, first);
	if (KV_UNLIKELY(at == ANSWERS_NONE || a->page[at].first != first))
		return; /* its page was reused, or it is below the window */
	a->page[at].posted[id % ANSWERS_IDS] =
		(uint8_t)(posted == UINT32_MAX ? REPLY_ONLY : KV_MIN(posted, (uint32_t)UNKNOWN));
}

int answers_look(const struct answers *a, const struct answers_link *l, unsigned link, uint64_t id,
		 uint32_t *out_posted)
{
	uint64_t first = id / ANSWERS_IDS;
	unsigned at = l->page[first % ANSWERS_SPAN];
	uint8_t posted;
	if (at == ANSWERS_NONE || a->page[at].first != first || a->page[at].link != link)
		return -KV_ESTALE;
	posted = a->page[at].posted[id % ANSWERS_IDS];
	if (posted == UNKNOWN)
		return -KV_ESTALE;
	*out_posted = posted == REPLY_ONLY ? UINT32_MAX : posted;
	return 0;
}
