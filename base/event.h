/* SPDX-License-Identifier: Apache-2.0 */
/* event.h -- log lines for people and programs: a sentence, then a name and fields, which are stable across versions
 * (docs/reference/events.md, compared by scripts/check-events.py).
 *
 *   text, journal   ... INFO  client 10.0.0.2:40112 left | event=client_left client=10.0.0.2:40112 goodbye=yes
 *   JSON            {...,"msg":"client 10.0.0.2:40112 left","event":"client_left","client":"10.0.0.2:40112"}
 *   a host's sink   the text
 * Lines without an event are for people. */
#ifndef KVRAIL_BASE_EVENT_H
#define KVRAIL_BASE_EVENT_H

#include <stdint.h>

struct kv_field {
	const char *name;
	const char *text; /* NULL: the number */
	uint64_t number;
};

enum { KV_FIELDS_MAX = 10, KV_FIELD_TEXT_MAX = 120 /* bytes of a text; then it is cut */ };

struct kv_event {
	const char *name;
	const struct kv_field *field;
	unsigned count;
};

/* A field with text (not NULL), or with a number. */
#define KV_FIELD(name_, text_)    {.name = (name_), .text = (text_)}
#define KV_NUMBER(name_, number_) {.name = (name_), .number = (uint64_t)(number_)}

/* KV_EVENT("client_left", KV_FIELD("client", name), ...) -- an event for kv_event (log.h). */
#define KV_EVENT(name_, ...)                                                                                           \
	&(const struct kv_event)                                                                                       \
	{                                                                                                              \
		.name = (name_), .field = (const struct kv_field[]){__VA_ARGS__},                                      \
		.count = sizeof((const struct kv_field[]){__VA_ARGS__}) / sizeof(struct kv_field)                      \
	}

/* kv_event_text -- the fields as text, " | event=... name=value". Values with other characters than letters, digits and
 * -_.:/@[]+,% are quoted; inside, quotes and backslashes are escaped, unprintable bytes are \xNN. event NULL: "".
 * kv_event_json -- as JSON, ,"event":"...". Both return buf, of KV_EVENT_CAP bytes or more. */
enum { KV_EVENT_CAP = 3584 };
char *kv_event_text(const struct kv_event *event, char *buf);
char *kv_event_json(const struct kv_event *event, char *buf);

#endif
