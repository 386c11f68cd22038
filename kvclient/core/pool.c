/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c -- the pool as all rooms use it: threads in blocking calls, and progress of opening and closing. */
#include "kvclient/core/pool.h"

#include <string.h>

int kc_pool_enter(struct kvc_pool *p)
{
	if (KV_UNLIKELY(kc_pool_alien(p)))
		return -KV_ECLOSED;
	atomic_fetch_add(&p->callers, 1);
	if (!atomic_load(&p->closing))
		return 0;
	atomic_fetch_sub(&p->callers, 1);
	return -KV_ECLOSED;
}

void kc_pool_leave(struct kvc_pool *p)
{
	atomic_fetch_sub(&p->callers, 1);
}

void kc_pool_tell_started(struct kvc_pool *p, int status, const struct kv_error *err)
{
	pthread_mutex_lock(&p->lock);
	p->progress.started++;
	if (status == 0)
		p->progress.opened++;
	if (status < 0 && p->progress.status == 0) {
		p->progress.status = status;
		p->progress.error = *err;
	}
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/* Without "server NAME: ". */
static const char *reason(const struct kv_error *err)
{
	const char *colon = strstr(err->text, ": ");
	return colon ? colon : err->text;
}

static void failure_keep(struct kc_attempts *of, int status, const struct kv_error *err)
{
	struct kv_error *at = of->failed++ == 0 ? &of->first : &of->other;
	if (at->code != 0 || (at == &of->other && strcmp(reason(err), reason(&of->first)) == 0))
		return;
	*at = *err;
	at->code = status;
}

void kc_pool_tell_attempt(struct kvc_pool *p, struct kc_attempts *of, int status, const struct kv_error *err)
{
	pthread_mutex_lock(&p->lock);
	p->progress.attempted++;
	if (status == 0 && of->up++ == 0)
		p->progress.up++;
	if (status < 0)
		failure_keep(of, status, err);
	if (status == -KV_EINVAL && p->progress.list_status == 0) {
		p->progress.list_status = status;
		p->progress.list_error = *err;
	}
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void kc_pool_tell_closed(struct kvc_pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->progress.closed++;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void kc_pool_tell_heard(struct kvc_pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->progress.posts--;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}
