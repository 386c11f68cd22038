/* SPDX-License-Identifier: Apache-2.0 */
/* list.h -- intrusive circular doubly linked list; it owns nothing. A node in no list points to itself, so kv_list_del
 * is harmless. */
#ifndef KVRAIL_BASE_LIST_H
#define KVRAIL_BASE_LIST_H

#include <stdbool.h>

#include "base/bytes.h"

struct kv_list {
	struct kv_list *prev, *next;
};

static inline void kv_list_init(struct kv_list *l)
{
	l->prev = l->next = l;
}

static inline bool kv_list_empty(const struct kv_list *l)
{
	return l->next == l;
}

static inline void kv_list_add_tail(struct kv_list *l, struct kv_list *node)
{
	node->prev = l->prev;
	node->next = l;
	l->prev->next = node;
	l->prev = node;
}

static inline void kv_list_add_head(struct kv_list *l, struct kv_list *node)
{
	node->next = l->next;
	node->prev = l;
	l->next->prev = node;
	l->next = node;
}

static inline void kv_list_del(struct kv_list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	node->prev = node->next = node;
}

/* kv_list_pop -- unlink the first node, or NULL. */
static inline struct kv_list *kv_list_pop(struct kv_list *l)
{
	struct kv_list *n = l->next;
	if (n == l)
		return NULL;
	kv_list_del(n);
	return n;
}

/* kv_list_splice_tail -- move all nodes of src to the end of dst. */
static inline void kv_list_splice_tail(struct kv_list *dst, struct kv_list *src)
{
	if (kv_list_empty(src))
		return;
	src->next->prev = dst->prev;
	dst->prev->next = src->next;
	src->prev->next = dst;
	dst->prev = src->prev;
	kv_list_init(src);
}

#define KV_LIST_ENTRY(n, type, member) KV_CONTAINER(n, type, member)

/* In the body of KV_LIST_EACH do not unlink the node; in KV_LIST_EACH_SAFE only this node. */
#define KV_LIST_EACH(n, l) for (struct kv_list *n = (l)->next; n != (l); n = n->next)
#define KV_LIST_EACH_SAFE(n, l)                                                                                        \
	for (struct kv_list *n = (l)->next, *n##_next = n->next; n != (l); n = n##_next, n##_next = n->next)

#endif
