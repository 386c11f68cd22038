/* SPDX-License-Identifier: Apache-2.0 */
/* notes.h -- the servers found for partitions, shared by clients. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_NOTES_H
#define KVRAIL_KVCLIENT_CORE_NOTES_H

#include <pthread.h>

#include "kvclient/core/placement.h"

/* The shared notes of a pool. Any thread. */
struct kvc_notes_home {
	pthread_mutex_t lock;
	struct kv_list all;
};

void kvc_notes_home_init(struct kvc_notes_home *h);
void kvc_notes_home_fini(struct kvc_notes_home *h);

/* kvc_notes_share -- use the notes of an equal placement of this home, else offer its own. True: shared another's.
 * Without memory or notes nothing changes. Before the first look-up. */
bool kvc_notes_share(struct kvc_place *p, struct kvc_notes_home *h);

/* kvc_notes_hold -- add a user (kvc_notes_drop). */
struct kvc_notes *kvc_notes_hold(struct kvc_notes *t);

#endif
