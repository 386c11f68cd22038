/* SPDX-License-Identifier: Apache-2.0 */
/* _batch.c -- batches: a submission's items, keys and exports, in one reusable piece of memory.
 *
 * Keys are copied into it (up to 128 bytes each), so the caller may change or free them. Values are not copied: the
 * export of each buffer is held until the completion was taken, or the client is closed. */
#include "_native.h"

#include <stdlib.h>

enum {
	CAPACITY_MIN = 16,
	CAPACITY_KEPT = 1024, /* a larger batch is freed after use */
	SPARE_MAX = 8,
};

static struct batch *batch_new(uint32_t n)
{
	uint32_t capacity = CAPACITY_MIN;
	size_t head = (sizeof(struct batch) + 15) / 16 * 16;
	struct batch *b;
	char *at;
	while (capacity < n)
		capacity *= 2;
	b = malloc(head + capacity * (sizeof(*b->items) + sizeof(*b->views) + sizeof(*b->slots)));
	if (!b)
		return NULL;
	at = (char *)b + head;
	*b = (struct batch){.capacity = capacity};
	b->items = (struct kvc_item *)at;
	b->slots = (unsigned char(*)[KVC_KEY_MAX])(at + capacity * (sizeof(*b->items) + sizeof(*b->views)));
	return b;
}

struct batch *batch_take(struct client_object *self, uint32_t n)
{
	struct batch **link = &self->spare, *b;
	while (*link && (*link)->capacity < n)
		link = &(*link)->next;
	b = *link;
	if (b) {
		*link = b->next;
		self->num_spare--;
	} else {
		b = batch_new(n);
		if (!b) {
			PyErr_NoMemory();
			return NULL;
		}
	}
	b->next = b->prev = NULL;
	b->n = n;
	b->num_views = 0;
	b->views = (Py_buffer *)(b->items + b->capacity);
	b->views_room = b->capacity;
	b->lent = NULL;
	b->held = b->over = b->nameless = b->memory_only = false;
	return b;
}

void batch_views_release(struct batch *b)
{
	while (b->num_views > 0) {
		Py_buffer view = b->views[--b->num_views];
		PyBuffer_Release(&view);
	}
}

/* What few batches have. */
static void extra_free(struct batch *b)
{
	free(b->own_views);
	free(b->layouts);
	free(b->arrivals);
	free(b->part_ends);
	b->own_views = NULL;
	b->layouts = NULL;
	b->arrivals = NULL;
	b->part_ends = NULL;
	b->num_spans = b->num_parts = 0;
	if (b->spans_room <= CAPACITY_KEPT)
		return;
	free(b->spans);
	b->spans = NULL;
	b->spans_room = 0;
}

void batch_free(struct batch *b)
{
	extra_free(b);
	free(b->spans);
	free(b);
}

void batch_give(struct client_object *self, struct batch *b)
{
	batch_views_release(b);
	extra_free(b);
	views_forget(b);
	if (b->held) {
		b->over = true;
	} else if (b->capacity <= CAPACITY_KEPT && self->num_spare < SPARE_MAX) {
		b->next = self->spare;
		self->spare = b;
		self->num_spare++;
	} else {
		batch_free(b);
	}
}

static void chain_free(struct batch **first)
{
	while (*first) {
		struct batch *b = *first;
		*first = b->next;
		batch_views_release(b);
		views_forget(b);
		batch_free(b);
	}
}

void batches_free(struct client_object *self)
{
	chain_free(&self->out);
	chain_free(&self->done);
	chain_free(&self->spare);
}
