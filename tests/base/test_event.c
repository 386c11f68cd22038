/* SPDX-License-Identifier: Apache-2.0 */
/* test_event.c -- events: every form of a line carries the same fields, and no text forges one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <jansson.h>

#include "base/base.h"

static char got[KV_LOG_LINE_CAP];
static unsigned lines;

static void take(void *arg, enum kv_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	snprintf(got, sizeof(got), "%s", line);
	lines++;
}

static void take_event(void *arg, enum kv_log_level level, const char *line, const struct kv_event *event)
{
	char fields[KV_EVENT_CAP];
	(void)arg;
	(void)level;
	snprintf(got, sizeof(got), "%s;%s", line, kv_event_json(event, fields));
	lines++;
}

static void a_sink_without_events_gets_the_fields_in_the_line(void **state)
{
	struct kv_log log = {.level = KV_LOG_INFO, .write = take};
	(void)state;
	lines = 0;
	kv_event(&log, KV_LOG_INFO, KV_EVENT("left", KV_FIELD("client", "10.0.0.1:5"), KV_NUMBER("n", 7)), "%s left",
		 "it");
	assert_string_equal(got, "it left | event=left client=10.0.0.1:5 n=7");
	kv_event(&log, KV_LOG_INFO, KV_EVENT("bare"), "bare");
	assert_string_equal(got, "bare | event=bare");
	kv_event(&log, KV_LOG_DEBUG, KV_EVENT("bare"), "not shown");
	kv_event(NULL, KV_LOG_ERROR, KV_EVENT("bare"), "not shown");
	assert_int_equal(lines, 2);
	log.event = take_event;
	kv_event(&log, KV_LOG_INFO, KV_EVENT("left", KV_FIELD("client", "a \"b\""), KV_NUMBER("n", UINT64_MAX)), "it");
	assert_string_equal(got, "it;,\"event\":\"left\",\"client\":\"a \\\"b\\\"\",\"n\":18446744073709551615");
}

static void a_value_forges_nothing(void **state)
{
	char buf[KV_EVENT_CAP];
	(void)state;
	kv_event_text(
		KV_EVENT("e", KV_FIELD("a", ""), KV_FIELD("b", "x y=\"1\" | event=z\n\\"), KV_FIELD("c", "[::1]:7")),
		buf);
	assert_string_equal(buf, " | event=e a=\"\" b=\"x y=\\\"1\\\" | event=z\\\\n\\\\\" c=[::1]:7");
	assert_string_equal(kv_event_text(NULL, buf), "");
	assert_string_equal(kv_event_json(NULL, buf), "");
}

/* What the fields of a line are, whatever the longest values do: as JSON they are an object still. */
static void the_longest_event_is_whole(void **state)
{
	struct kv_field field[KV_FIELDS_MAX];
	const struct kv_event event = {.name = "longest", .field = field, .count = KV_FIELDS_MAX};
	const struct kv_log_style json = {.format = KV_LOG_JSON, .component = "c"}, text = {.component = "c"};
	char value[4000], buf[KV_LOG_LINE_CAP], line[1024];
	json_t *object;
	(void)state;
	for (const char *fill = "\"\\\n\xff z"; *fill; fill++) {
		memset(value, *fill, sizeof(value) - 1);
		value[sizeof(value) - 1] = '\0';
		memset(line, *fill == '\n' || *fill == '\xff' ? 'x' : *fill, sizeof(line) - 1);
		line[sizeof(line) - 1] = '\0';
		for (unsigned i = 0; i < KV_FIELDS_MAX; i++)
			field[i] = (struct kv_field){.name = "a_name_as_long_as_names_are", .text = value};
		kv_log_line(&json, KV_LOG_INFO, line, &event, buf, sizeof(buf));
		object = json_loads(buf, 0, NULL);
		assert_non_null(object);
		assert_string_equal(json_string_value(json_object_get(object, "event")), "longest");
		assert_true(json_string_length(json_object_get(object, field[0].name)) < KV_FIELD_TEXT_MAX);
		json_decref(object);
		kv_log_line(&text, KV_LOG_INFO, line, &event, buf, sizeof(buf));
		assert_int_equal(buf[strlen(buf) - 1], '\n');
		assert_true(strstr(buf, "...") != NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sink_without_events_gets_the_fields_in_the_line),
		cmocka_unit_test(a_value_forges_nothing),
		cmocka_unit_test(the_longest_event_is_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
