/* SPDX-License-Identifier: Apache-2.0 */
/* event.c -- the fields behind a line, as text and JSON. Values are printable ASCII, so a peer's text forges no line or
 * field. The room suffices for the longest fields: nothing is cut inside an escape. */
#include "base/event.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/printable.h"

/* Per field: a name, and a text of at most 4 bytes per byte, each maybe with a backslash. */
_Static_assert(KV_EVENT_CAP >= (KV_FIELDS_MAX + 1) * (2 * KV_FIELD_TEXT_MAX + 64),
	       "the room of an event is enough for the longest fields");

struct out {
	char *buf;
	size_t len;
};

static void out_text(struct out *o, const char *text)
{
	size_t n = KV_MIN(strlen(text), (size_t)KV_EVENT_CAP - 1 - o->len);
	memcpy(o->buf + o->len, text, n);
	o->len += n;
	o->buf[o->len] = '\0';
}

static void out_number(struct out *o, uint64_t number)
{
	char text[24];
	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	out_text(o, text);
}

/* Whether text reads as one word. */
static bool is_word(const char *text)
{
	static const char more[] = "-_.:/@[]+,%";
	for (const char *t = text; *t; t++)
		if (!((*t >= 'a' && *t <= 'z') || (*t >= 'A' && *t <= 'Z') || (*t >= '0' && *t <= '9') ||
		      strchr(more, *t)))
			return false;
	return *text != '\0';
}

static void out_quoted(struct out *o, const char *text)
{
	char one[3] = "";
	out_text(o, "\"");
	for (; *text; text++) {
		snprintf(one, sizeof(one), *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
		out_text(o, one);
	}
	out_text(o, "\"");
}

char *kv_event_text(const struct kv_event *event, char *buf)
{
	struct out o = {.buf = buf};
	char text[KV_FIELD_TEXT_MAX];
	buf[0] = '\0';
	if (!event)
		return buf;
	out_text(&o, " | event=");
	out_text(&o, event->name);
	for (unsigned i = 0; i < event->count; i++) {
		const struct kv_field *f = &event->field[i];
		out_text(&o, " ");
		out_text(&o, f->name);
		out_text(&o, "=");
		if (!f->text)
			out_number(&o, f->number);
		else if (is_word(kv_printable(f->text, false, text, sizeof(text))))
			out_text(&o, text);
		else
			out_quoted(&o, text);
	}
	return buf;
}

static void out_json(struct out *o, const char *name, const char *text)
{
	char printable[KV_FIELD_TEXT_MAX], json[2 * KV_FIELD_TEXT_MAX];
	out_text(o, ",\"");
	out_text(o, name);
	out_text(o, "\":\"");
	out_text(o, kv_json_text(kv_printable(text, false, printable, sizeof(printable)), json, sizeof(json)));
	out_text(o, "\"");
}

char *kv_event_json(const struct kv_event *event, char *buf)
{
	struct out o = {.buf = buf};
	buf[0] = '\0';
	if (!event)
		return buf;
	out_json(&o, "event", event->name);
	for (unsigned i = 0; i < event->count; i++) {
		const struct kv_field *f = &event->field[i];
		if (f->text) {
			out_json(&o, f->name, f->text);
			continue;
		}
		out_text(&o, ",\"");
		out_text(&o, f->name);
		out_text(&o, "\":");
		out_number(&o, f->number);
	}
	return buf;
}
