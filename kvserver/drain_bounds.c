/* SPDX-License-Identifier: Apache-2.0 */
/* drain_bounds.c -- the drain's bounds, shared by the main thread, which drains, and the control loop, where clients
 * ask.
 *
 * The time counts from a client's question, or a signal. From then on the bounds are final: a second client gets the
 * remaining time, and a reload of the options changes nothing. */
#include "kvserver/drain_bounds.h"

void drain_init(struct drain *d, uint64_t time_ns, uint64_t bytes_s, const struct kv_log *log)
{
	*d = (struct drain){.main = pthread_self(), .log = log, .bounds = {.time_ns = time_ns, .bytes_s = bytes_s}};
	pthread_mutex_init(&d->lock, NULL);
}

void drain_defaults(struct drain *d, uint64_t time_ns, uint64_t bytes_s)
{
	pthread_mutex_lock(&d->lock);
	if (!d->begun)
		d->bounds = (struct drain_bounds){.time_ns = time_ns, .bytes_s = bytes_s};
	pthread_mutex_unlock(&d->lock);
}

/* With the lock. */
static bool begin(struct drain *d)
{
	if (d->begun)
		return false;
	d->begun = true;
	d->bounds.begun_ns = kv_now();
	return true;
}

/* With the lock. */
static uint64_t left_ns(const struct drain *d)
{
	uint64_t over_ns = kv_now() - d->bounds.begun_ns;
	return d->bounds.time_ns > over_ns ? d->bounds.time_ns - over_ns : 1;
}

uint64_t drain_ask(void *drain, const struct kvs_drain *bounds, const char *client)
{
	struct drain *d = drain;
	char time[32];
	uint64_t left;
	bool first;
	pthread_mutex_lock(&d->lock);
	first = begin(d);
	if (first && bounds->time_ns)
		d->bounds.time_ns = bounds->time_ns;
	if (first && bounds->bytes_s)
		d->bounds.bytes_s = bounds->bytes_s;
	left = left_ns(d);
	pthread_mutex_unlock(&d->lock);
	/* Clients may ask without end: log the first. */
	kv_event(d->log, first ? KV_LOG_INFO : KV_LOG_DEBUG,
		 KV_EVENT("drain_asked", KV_FIELD("client", client), KV_NUMBER("left_ms", left / 1000000)),
		 "client %s asks for a drain, %s %s", client,
		 first ? "which begins and takes at most" : "which has begun and takes at most another",
		 kv_duration_format(left, time, sizeof(time)));
	if (first)
		pthread_kill(d->main, DRAIN_SIGNAL);
	return left;
}

void drain_begin(struct drain *d, struct drain_bounds *out)
{
	pthread_mutex_lock(&d->lock);
	begin(d);
	*out = d->bounds;
	pthread_mutex_unlock(&d->lock);
}

uint64_t drain_left_ns(struct drain *d)
{
	uint64_t left;
	pthread_mutex_lock(&d->lock);
	left = left_ns(d);
	pthread_mutex_unlock(&d->lock);
	return left;
}
