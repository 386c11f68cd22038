/* SPDX-License-Identifier: Apache-2.0 */
/* publish_at.c -- reads ADDRESS[,replay=ADDRESS][,topic=TEXT][,namespace=NAME][,format=map|array][,connect] of --events
 * zmq:... */
#include <string.h>

#include "kvserver/events/publish.h"

static bool is_address(const char *text)
{
	return (strncmp(text, "tcp://", 6) == 0 && strchr(text + 6, ':')) ||
	       (strncmp(text, "ipc://", 6) == 0 && text[6]);
}

static int address_take(const char *name, const char *text, char out[PUBLISH_ADDRESS_MAX], struct kv_error *err)
{
	if (!is_address(text) || strlen(text) >= PUBLISH_ADDRESS_MAX)
		return kv_fail(err, -KV_EINVAL, "--events zmq: %s '%.100s' is not tcp://HOST:PORT or ipc://PATH", name,
			       text);
	memcpy(out, text, strlen(text) + 1);
	return 0;
}

static int word_take(char *word, struct publish_at *out, struct kv_error *err)
{
	if (strncmp(word, "replay=", 7) == 0)
		return address_take("replay", word + 7, out->replay, err);
	if (strncmp(word, "topic=", 6) == 0 && strlen(word + 6) < PUBLISH_TOPIC_MAX)
		memcpy(out->topic, word + 6, strlen(word + 6) + 1);
	else if (strncmp(word, "namespace=", 10) == 0 && kv_space_check(word + 10, strlen(word + 10)))
		memcpy(out->space, word + 10, strlen(word + 10) + 1);
	else if (strcmp(word, "format=map") == 0)
		out->format = PUBLISH_MAP;
	else if (strcmp(word, "format=array") == 0)
		out->format = PUBLISH_ARRAY;
	else if (strcmp(word, "connect") == 0)
		out->connect = true;
	else
		return kv_fail(err, -KV_EINVAL,
			       "--events zmq: '%.100s' is none of replay=ADDRESS, topic=TEXT (of at most %d bytes), "
			       "namespace=NAME (of at most %d), format=map, format=array and connect",
			       word, PUBLISH_TOPIC_MAX - 1, KV_SPACE_MAX);
	return 0;
}

int publish_at_parse(const char *text, struct publish_at *out, struct kv_error *err)
{
	char copy[2 * PUBLISH_ADDRESS_MAX + PUBLISH_TOPIC_MAX + 64], *rest = copy, *word;
	int rc;
	*out = (struct publish_at){0};
	if (strlen(text) >= sizeof(copy))
		return kv_fail(err, -KV_EINVAL, "--events zmq: more than %zu bytes", sizeof(copy) - 1);
	memcpy(copy, text, strlen(text) + 1);
	rc = address_take("the address", strsep(&rest, ","), out->address, err);
	while (rc == 0 && (word = strsep(&rest, ",")) != NULL)
		rc = word_take(word, out, err);
	return rc;
}
