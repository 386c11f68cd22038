/* SPDX-License-Identifier: Apache-2.0 */
/* zmq.c -- events over ZeroMQ, as vLLM's publisher sends them.
 *
 * PUB: topic, number (8 bytes, big-endian), payload. A subscriber asks the ROUTER socket for older messages with an
 * empty part and the first number, and gets an empty part, number and payload for each; the last one has the number -1
 * and no payload. Every queue is bounded: a slow subscriber misses messages, and sees it by their numbers. */
#include "kvserver/events/zmq.h"

#include <stddef.h>

#include "kvserver/events/publish.h"

#ifndef KVRAIL_ZMQ

const struct kvs_transport *zmq_transport(void)
{
	return NULL;
}

#else

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum {
	QUEUE = 1000,      /* messages for a slow subscriber */
	MESSAGE_MAX = 512, /* bytes of a part that a stranger sends: a topic, or a number */
	PARTS_MAX = 256,   /* read at a time */
	LINGER_MS = 200,
	IDENTITY_MAX = 255,
	NUMBER_BYTES = 8
};

struct sockets {
	void *context, *pub, *router;
	char topic[PUBLISH_TOPIC_MAX];
	uint8_t asker[IDENTITY_MAX];
	size_t asker_len;
	bool rest; /* parts of a message that is no question are still to be read */
};

static int failed(const char *doing, const char *address, struct kv_error *err)
{
	int rc = zmq_errno();
	return kv_fail(err, rc > 0 && rc < ZMQ_HAUSNUMERO ? -rc : -KV_EINVAL, "--events zmq: %s %s: %s", doing, address,
		       zmq_strerror(rc));
}

static void transport_close(void *t)
{
	struct sockets *s = t;
	if (s->router)
		zmq_close(s->router);
	if (s->pub)
		zmq_close(s->pub);
	zmq_ctx_term(s->context);
	free(s);
}

static int socket_open(struct sockets *s, int type, const char *address, bool connects, void **out,
		       struct kv_error *err)
{
	const int queue = QUEUE, linger = LINGER_MS, on = 1;
	const int64_t largest = MESSAGE_MAX;
	*out = zmq_socket(s->context, type);
	if (!*out)
		return failed("a socket for", address, err);
	(void)zmq_setsockopt(*out, ZMQ_SNDHWM, &queue, sizeof(queue));
	(void)zmq_setsockopt(*out, ZMQ_RCVHWM, &queue, sizeof(queue));
	(void)zmq_setsockopt(*out, ZMQ_MAXMSGSIZE, &largest, sizeof(largest));
	(void)zmq_setsockopt(*out, ZMQ_LINGER, &linger, sizeof(linger));
	(void)zmq_setsockopt(*out, ZMQ_IPV6, &on, sizeof(on));
	if (type == ZMQ_ROUTER)
		(void)zmq_setsockopt(*out, ZMQ_ROUTER_MANDATORY, &on, sizeof(on));
	if (connects)
		return zmq_connect(*out, address) ? failed("connecting to", address, err) : 0;
	return zmq_bind(*out, address) ? failed("listening on", address, err) : 0;
}

static int transport_open(const struct publish_at *at, void **out, struct kv_error *err)
{
	struct sockets *s = calloc(1, sizeof(*s));
	int rc = -KV_ENOMEM;
	if (!s)
		return kv_fail(err, rc, "no memory for the sockets of events");
	s->context = zmq_ctx_new();
	if (!s->context) {
		free(s);
		return kv_fail(err, rc, "no memory for the sockets of events");
	}
	memcpy(s->topic, at->topic, sizeof(s->topic));
	rc = socket_open(s, ZMQ_PUB, at->address, at->connect, &s->pub, err);
	if (rc == 0 && at->replay[0])
		rc = socket_open(s, ZMQ_ROUTER, at->replay, false, &s->router, err);
	if (rc)
		transport_close(s);
	else
		*out = s;
	return rc;
}

static void number_put(uint8_t out[NUMBER_BYTES], uint64_t number)
{
	for (unsigned i = 0; i < NUMBER_BYTES; i++)
		out[i] = (uint8_t)(number >> (8 * (NUMBER_BYTES - 1 - i)));
}

static uint64_t number_get(const uint8_t in[NUMBER_BYTES])
{
	uint64_t number = 0;
	for (unsigned i = 0; i < NUMBER_BYTES; i++)
		number = number << 8 | in[i];
	return number;
}

static void transport_send(void *t, uint64_t number, const void *payload, size_t len)
{
	struct sockets *s = t;
	uint8_t bytes[NUMBER_BYTES];
	number_put(bytes, number);
	(void)zmq_send(s->pub, s->topic, strlen(s->topic), ZMQ_DONTWAIT | ZMQ_SNDMORE);
	(void)zmq_send(s->pub, bytes, sizeof(bytes), ZMQ_DONTWAIT | ZMQ_SNDMORE);
	(void)zmq_send(s->pub, payload, len, ZMQ_DONTWAIT);
}

/* Read a message of three parts. Returns their number; 0: there is none; more than 3: it is no question, and PARTS_MAX
 * of its parts are read at a time. */
static unsigned question_read(struct sockets *s, uint8_t number[NUMBER_BYTES], int len[3])
{
	unsigned parts;
	int more = 1;
	size_t size = sizeof(more);
	parts = s->rest ? 3 : 0;
	for (unsigned n = 0; more && n < PARTS_MAX; n++, parts++) {
		uint8_t rest[NUMBER_BYTES + 1];
		void *to = parts == 0 ? s->asker : rest;
		int bytes = zmq_recv(s->router, to, parts == 0 ? sizeof(s->asker) : sizeof(rest), ZMQ_DONTWAIT);
		if (bytes < 0)
			return 0;
		if (parts < 3)
			len[parts] = bytes;
		if (parts == 2 && bytes == NUMBER_BYTES)
			memcpy(number, rest, NUMBER_BYTES);
		if (zmq_getsockopt(s->router, ZMQ_RCVMORE, &more, &size))
			return 0;
	}
	s->rest = more;
	return parts;
}

static bool transport_asked(void *t, uint64_t *out_number)
{
	struct sockets *s = t;
	uint8_t number[NUMBER_BYTES];
	int len[3] = {0};
	if (!s->router || question_read(s, number, len) != 3 || len[1] != 0 || len[2] != NUMBER_BYTES)
		return false;
	s->asker_len = (size_t)KV_MIN(len[0], IDENTITY_MAX);
	*out_number = number_get(number);
	return true;
}

static int transport_answer(void *t, uint64_t number, const void *payload, size_t len)
{
	struct sockets *s = t;
	uint8_t bytes[NUMBER_BYTES];
	if (zmq_send(s->router, s->asker, s->asker_len, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
		return zmq_errno() == EAGAIN ? -EAGAIN : -KV_EPEERDOWN;
	number_put(bytes, number);
	(void)zmq_send(s->router, "", 0, ZMQ_DONTWAIT | ZMQ_SNDMORE);
	(void)zmq_send(s->router, bytes, sizeof(bytes), ZMQ_DONTWAIT | ZMQ_SNDMORE);
	(void)zmq_send(s->router, payload, len, ZMQ_DONTWAIT);
	return 0;
}

const struct kvs_transport *zmq_transport(void)
{
	static const struct kvs_transport transport = {.open = transport_open,
						       .close = transport_close,
						       .send = transport_send,
						       .asked = transport_asked,
						       .answer = transport_answer};
	return &transport;
}

#endif
