/* SPDX-License-Identifier: Apache-2.0 */
/* notes.h -- the servers that partitions were found to belong to, as clients share them. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_NOTES_H
#define KVRAIL_KVCLIENT_CORE_NOTES_H

#include <pthread.h>

#include "kvclient/core/placement.h"

/* The notes that clients of a pool share. Any thread. */
struct kvc_notes_home {
	pthread_mutex_t lock;
	struct kv_list all;
};

void kvc_notes_home_init(struct kvc_notes_home *h);
void kvc_notes_home_fini(struct kvc_notes_home *h);

/* kvc_notes_share -- use the notes that another placement of this home has, if it places every key alike; else offer
 * those of this one to others. True: they are the other's. Without memory, or for a placement without notes, nothing
 * changes. Before the first look-up. */
bool kvc_notes_share(struct kvc_place *p, struct kvc_notes_home *h);

/* kvc_notes_hold -- one user more (kvc_notes_drop). */
struct kvc_notes *kvc_notes_hold(struct kvc_notes *t);

#endif
