/* SPDX-License-Identifier: Apache-2.0 */
/* publish.h -- publishes a server's events in the format of vLLM and SGLang, over a transport (zmq.h). */
#ifndef KVRAIL_KVSERVER_EVENTS_PUBLISH_H
#define KVRAIL_KVSERVER_EVENTS_PUBLISH_H

#include "kvserver/events/events.h"

enum { PUBLISH_ADDRESS_MAX = 128, PUBLISH_TOPIC_MAX = 128 };

/* How an event is written. MAP: as vLLM from 0.24 on, and SGLang. ARRAY: as earlier ones. */
enum publish_format { PUBLISH_MAP, PUBLISH_ARRAY };

/* What --events zmq:... asks for. */
struct publish_at {
	char address[PUBLISH_ADDRESS_MAX], replay[PUBLISH_ADDRESS_MAX]; /* replay "": none */
	char topic[PUBLISH_TOPIC_MAX];
	char space[KV_SPACE_MAX + 1]; /* the namespace whose events are published */
	enum publish_format format;
	bool connect; /* to the address, where a subscriber listens, instead of listening there */
};

/* The sockets. The control loop calls, and no function blocks, but open and close. */
struct kvs_transport {
	/* open -- 0, or a code with *err. close -- what was not sent yet may wait for some 0.1 s. */
	int (*open)(const struct publish_at *at, void **out, struct kv_error *err);
	void (*close)(void *t);
	/* send -- to all subscribers; those that are too slow miss it. */
	void (*send)(void *t, uint64_t number, const void *payload, size_t len);
	/* asked -- a subscriber asks for the messages from *out_number on; false: nobody does. answer -- one of them to
	 * it; payload NULL: there are no more. 0; -EAGAIN: not now; another code: it has gone. */
	bool (*asked)(void *t, uint64_t *out_number);
	int (*answer)(void *t, uint64_t number, const void *payload, size_t len);
};

/* publish_at_parse -- read what follows --events zmq: 0, or -KV_EINVAL with *err. */
int publish_at_parse(const char *text, struct publish_at *out, struct kv_error *err);

/* publish_start -- begin to publish the events of a server; the sockets are opened first. Control loop. 0, or a code
 * with *err. publish_stop_await -- send what is there, and end. publish_free -- close the sockets; when no loop runs
 * any more. All are harmless where nothing is published. */
int publish_start(struct kvs_server *s, struct kv_error *err);
void publish_stop_await(struct kvs_server *s);
void publish_free(struct kvs_server *s);

/* publish_encode -- the payload for these events, at `time_s` of the wall clock, into buf[cap]. Returns its length, at
 * most PUBLISH_PAYLOAD_MAX; more than cap: it did not fit. */
size_t publish_encode(const struct wire_events *v, enum publish_format format, double time_s, uint8_t *buf, size_t cap);

/* Of an answer's WIRE_EVENTS_BYTES: the largest case is one-byte keys that alternate between stored and removed. */
enum { PUBLISH_PAYLOAD_MAX = 16 * WIRE_EVENTS_BYTES };

#endif
