/* SPDX-License-Identifier: Apache-2.0 */
/* post.h -- work from other threads. Internal to loop/. */
#ifndef KVRAIL_LOOP_POST_H
#define KVRAIL_LOOP_POST_H

#include <stdatomic.h>

#include "base/base.h"

struct post_cell {
	_Atomic size_t turn; /* position: free for it; position + 1: filled; else not yet its turn */
	void (*fn)(void *arg);
	void *arg;
};

struct post_queue {
	struct post_cell *cells;
	size_t mask;
	_Alignas(KV_CACHELINE) _Atomic size_t tail;  /* producers */
	_Alignas(KV_CACHELINE) atomic_bool sleeping; /* the consumer sleeps or is about to: ring the bell */
	_Alignas(KV_CACHELINE) size_t head;          /* the consumer */
};

int post_init(struct post_queue *q, uint32_t depth); /* a power of two. 0, -KV_EINVAL or -KV_ENOMEM */
void post_fini(struct post_queue *q);

int post_put(struct post_queue *q, void (*fn)(void *arg), void *arg); /* 0 or -KV_EBUSY; any thread */
int post_run(struct post_queue *q, int max);                          /* run at most max; how many ran; consumer */

/* post_bell_needed -- after publishing work: whether to wake the consumer, once per sleep. Any thread. */
bool post_bell_needed(struct post_queue *q);

/* post_sleep -- the consumer announces a sleep. false: there is work. After true, call post_awake. */
bool post_sleep(struct post_queue *q);
void post_awake(struct post_queue *q);

#endif
