/* SPDX-License-Identifier: Apache-2.0 */
/* works.c -- work on all shards at once, while no loop turns. */
#include <pthread.h>

#include "kvserver/server/private.h"

void works_run(void *(*run)(void *item), void *items, size_t bytes, unsigned count)
{
	pthread_t thread[KV_SHARDS_MAX];
	bool there[KV_SHARDS_MAX] = {false};
	uint8_t *at = items;
	KV_ASSERT(count <= KV_SHARDS_MAX);
	for (unsigned i = 1; i < count; i++)
		there[i] = pthread_create(&thread[i], NULL, run, at + i * bytes) == 0;
	for (unsigned i = 0; i < count; i++)
		if (!there[i])
			run(at + i * bytes);
	for (unsigned i = 0; i < count; i++)
		if (there[i])
			pthread_join(thread[i], NULL);
}
