/* SPDX-License-Identifier: Apache-2.0 */
/* state.c -- a server's state, read or awaited by any thread, and the error that stopped it. `lock` covers state, error
 * and addr only; no loop waits for it longer than a copy takes. */
#include "kvserver/server/private.h"

#include "kvserver/server/server.h"

void state_set(struct kvs_server *s, enum kvs_state state)
{
	pthread_mutex_lock(&s->lock);
	if (state > s->life.state)
		s->life.state = state;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

enum kvs_state kvs_server_state(struct kvs_server *s, struct kv_error *err)
{
	enum kvs_state state;
	pthread_mutex_lock(&s->lock);
	state = s->life.state;
	if (err)
		*err = s->life.error;
	pthread_mutex_unlock(&s->lock);
	return state;
}

void state_fail(struct kvs_server *s, const struct kv_error *err)
{
	pthread_mutex_lock(&s->lock);
	s->life.error = *err;
	pthread_mutex_unlock(&s->lock);
}

enum kvs_state state_wait(struct kvs_server *s, enum kvs_state least)
{
	enum kvs_state state;
	pthread_mutex_lock(&s->lock);
	while (s->life.state < least)
		pthread_cond_wait(&s->changed, &s->lock);
	state = s->life.state;
	pthread_mutex_unlock(&s->lock);
	return state;
}
