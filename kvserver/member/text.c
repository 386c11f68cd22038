/* SPDX-License-Identifier: Apache-2.0 */
/* text.c -- see text.h. */
#include "kvserver/member/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int text_file_line(const char *path, char *buf, size_t cap, struct kv_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, cap - 1);
	int saved = errno;
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return kv_fail(err, -saved, "%s cannot be read: %s", path, kv_strerror(-saved));
	buf[n] = '\0';
	buf[strcspn(buf, "\r\n")] = '\0';
	if (!buf[0] || (size_t)n == cap - 1)
		return kv_fail(err, -KV_EINVAL, "%s %s", path, buf[0] ? "is too long" : "is empty");
	return 0;
}

bool text_utf8(const char *text)
{
	json_t *value = json_string(text);
	json_decref(value);
	return value != NULL;
}

json_t *text_json(const char *text, size_t len)
{
	size_t values = 0;
	for (size_t i = 0; i < len; i++) /* those within strings count as well */
		values += text[i] == ',' || text[i] == '[' || text[i] == '{';
	return values < TEXT_VALUES_MAX ? json_loadb(text, len, 0, NULL) : NULL;
}

uint64_t text_u64(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	uint64_t number = 0;
	if (json_is_integer(value))
		return json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;
	if (json_is_string(value) && kv_u64_parse(json_string_value(value), &number))
		number = 0;
	return number;
}

const char *text_string(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}
