/* SPDX-License-Identifier: Apache-2.0 */
/* notes.h -- the servers found for partitions, shared by clients. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_NOTES_H
#define KVRAIL_KVCLIENT_CORE_NOTES_H

#include <pthread.h>

#include "kvclient/core/placement.h"

/* The shared notes of a pool. Any thread. */
struct kc_notes_home {
	pthread_mutex_t lock;
	struct kv_list all;
};

void kc_notes_home_init(struct kc_notes_home *h);
void kc_notes_home_fini(struct kc_notes_home *h);

/* kc_notes_share -- use the notes of an equal placement of this home, else offer its own. True: shared another's.
 * Without memory or notes nothing changes. Before the first look-up. */
bool kc_notes_share(struct kc_place *p, struct kc_notes_home *h);

/* kc_notes_hold -- add a user (kc_notes_drop). */
struct kc_notes *kc_notes_hold(struct kc_notes *t);

#endif
