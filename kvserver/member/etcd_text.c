/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_text.c -- see etcd_text.h.
 *
 * Keys and values are base64, 64-bit numbers are text, and 0 or false is omitted. A member is the key PREFIX/NODE-ID
 * with the value {"address":"h:p+h:p","incarnation":"16 hex digits","state":"up","weight":1,"zone":"z"}. A key with
 * another '/' behind the prefix belongs to another cluster: PREFIX/PROD/NODE-ID. The content is not trusted: invalid
 * members are left out. */
#include "kvserver/member/etcd_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvserver/member/private.h"
#include "kvserver/member/text.h"

enum { KEY_MAX = 512, KEY_TEXT_MAX = KEY_MAX * 2, VALUE_MAX = 1024, VALUE_TEXT_MAX = VALUE_MAX * 2 };

static char *dumped(json_t *object)
{
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	json_decref(object);
	return text;
}

char *etcd_auth_text(const char *user, const char *password)
{
	return dumped(json_pack("{s:s,s:s}", "name", user, "password", password));
}

char *etcd_grant_text(uint64_t seconds)
{
	char number[24];
	snprintf(number, sizeof(number), "%" PRIu64, seconds);
	return dumped(json_pack("{s:s}", "TTL", number));
}

char *etcd_lease_text(const char *lease)
{
	return dumped(json_pack("{s:s}", "ID", lease));
}

char *etcd_put_text(const char *prefix, const struct kv_member *m, const char *lease)
{
	char key[KEY_MAX], key64[KEY_TEXT_MAX], value64[VALUE_TEXT_MAX], incarnation[20], *value, *text = NULL;
	snprintf(key, sizeof(key), "%s%s", prefix, m->node_id);
	snprintf(incarnation, sizeof(incarnation), "%016" PRIx64, m->incarnation);
	value = dumped(json_pack("{s:s,s:s,s:s,s:i,s:s}", "address", m->address, "incarnation", incarnation, "state",
				 kv_member_state_name(m->state), "weight", (int)m->weight, "zone", m->zone));
	if (value && base64_write(key, strlen(key), key64, sizeof(key64)) &&
	    base64_write(value, strlen(value), value64, sizeof(value64)))
		text = dumped(json_pack("{s:s,s:s,s:s}", "key", key64, "value", value64, "lease", lease));
	free(value);
	return text;
}

/* All keys that begin with prefix: up to its last '/' plus one. */
static bool range_make(const char *prefix, char key64[KEY_TEXT_MAX], char end64[KEY_TEXT_MAX])
{
	char end[KEY_MAX];
	size_t len = (size_t)snprintf(end, sizeof(end), "%s", prefix);
	end[len - 1]++;
	return base64_write(prefix, len, key64, KEY_TEXT_MAX) && base64_write(end, len, end64, KEY_TEXT_MAX);
}

char *etcd_range_text(const char *prefix)
{
	char key[KEY_TEXT_MAX], end[KEY_TEXT_MAX];
	return range_make(prefix, key, end) ? dumped(json_pack("{s:s,s:s}", "key", key, "range_end", end)) : NULL;
}

char *etcd_watch_text(const char *prefix, uint64_t from)
{
	char key[KEY_TEXT_MAX], end[KEY_TEXT_MAX], number[24];
	snprintf(number, sizeof(number), "%" PRIu64, from);
	if (!range_make(prefix, key, end))
		return NULL;
	return dumped(json_pack("{s:{s:s,s:s,s:s,s:b,s:b}}", "create_request", "key", key, "range_end", end,
				"start_revision", number, "fragment", 1, "progress_notify", 1));
}

/* The key has a '/' behind the prefix: it can be no member's. */
static void mark_key(const char *prefix, char key[KEY_MAX])
{
	snprintf(key, KEY_MAX, "%s/incarnation", prefix);
}

char *etcd_mark_text(const char *prefix, const char *mark)
{
	char key[KEY_MAX], key64[KEY_TEXT_MAX], value64[KEY_TEXT_MAX];
	mark_key(prefix, key);
	if (!base64_write(key, strlen(key), key64, sizeof(key64)) ||
	    !base64_write(mark, strlen(mark), value64, sizeof(value64)))
		return NULL;
	return dumped(json_pack("{s:[{s:s,s:s,s:s,s:s}],s:[{s:{s:s,s:s}}]}", "compare", "key", key64, "target",
				"CREATE", "result", "EQUAL", "create_revision", "0", "success", "request_put", "key",
				key64, "value", value64));
}

bool etcd_mark_read(const json_t *kv, const char *prefix, char mark[ETCD_MARK_LEN + 1])
{
	char key[KEY_MAX], wanted[KEY_MAX], value[2 * ETCD_MARK_LEN];
	size_t len;
	mark[0] = '\0';
	mark_key(prefix, wanted);
	if (!base64_read(text_string(kv, "key"), key, sizeof(key), &len) || strcmp(key, wanted) != 0)
		return false;
	if (base64_read(text_string(kv, "value"), value, sizeof(value), &len) && len == ETCD_MARK_LEN &&
	    strspn(value, "0123456789abcdef") == len)
		memcpy(mark, value, ETCD_MARK_LEN + 1);
	return true;
}

bool etcd_id_read(const json_t *kv, const char *prefix, char id[KV_NAME_MAX])
{
	char key[KEY_MAX];
	size_t len, before = strlen(prefix);
	if (!base64_read(text_string(kv, "key"), key, sizeof(key), &len) || strlen(key) != len ||
	    strncmp(key, prefix, before) != 0 || strchr(key + before, '/') || kv_node_id_check(key + before, NULL))
		return false;
	snprintf(id, KV_NAME_MAX, "%s", key + before);
	return true;
}

static bool value_read(const json_t *value, struct kv_member *m)
{
	const char *address = text_string(value, "address"), *zone = text_string(value, "zone");
	uint64_t weight = text_u64(value, "weight");
	if (kv_where_parse(address, m->address, NULL) || strlen(zone) >= sizeof(m->zone) || weight > KV_WEIGHT_MAX ||
	    !member_state_parse(text_string(value, "state"), &m->state))
		return false;
	snprintf(m->zone, sizeof(m->zone), "%s", zone);
	m->weight = weight ? (uint32_t)weight : KV_WEIGHT_DEFAULT;
	m->incarnation = strtoull(text_string(value, "incarnation"), NULL, 16);
	return true;
}

bool etcd_member_read(const json_t *kv, const char *prefix, struct kv_member *out)
{
	struct kv_member m = {0};
	char text[VALUE_MAX];
	json_t *value = NULL;
	size_t len;
	bool good =
		etcd_id_read(kv, prefix, m.node_id) && base64_read(text_string(kv, "value"), text, sizeof(text), &len);
	if (good)
		value = json_loadb(text, len, 0, NULL);
	good = value && value_read(value, &m) && kv_member_check(&m, NULL) == 0;
	json_decref(value);
	if (good)
		*out = m;
	return good;
}

uint64_t etcd_revision(const json_t *answer)
{
	return text_u64(json_object_get(answer, "header"), "revision");
}

const char *etcd_error(const json_t *answer)
{
	const json_t *error = json_object_get(answer, "error");
	if (json_is_object(error))
		return text_string(error, "message");
	return text_string(answer, "message")[0] ? text_string(answer, "message") : text_string(answer, "error");
}

bool etcd_error_is_auth(const char *words)
{
	return strstr(words, "invalid auth token") || strstr(words, "user name is empty") ||
	       strstr(words, "revision of auth store is old") || strstr(words, "nauthenticated");
}
