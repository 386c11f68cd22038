/* SPDX-License-Identifier: Apache-2.0 */
/* member.c -- see member.h. Lists have some dozens of members, a thousand at most: a sorted array will do. */
#include "kvserver/member/member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const state_names[] = {"joining", "up", "draining"};

const char *source_state_name(enum source_state state)
{
	static const char *const names[] = {"starting", "ok", "unreachable"};

	return names[state];
}

const char *member_state_name(enum member_state state)
{
	return state_names[state];
}

bool member_state_parse(const char *name, enum member_state *out)
{
	for (unsigned i = 0; i < KV_COUNT(state_names); i++)
		if (strcmp(name, state_names[i]) == 0) {
			*out = (enum member_state)i;
			return true;
		}
	return false;
}

/* ---- text ---- */

static int zone_take(const char *value, struct member *m, struct kv_error *err)
{
	if (!value[0] || kv_node_id_check(value, NULL))
		return kv_fail(err, -KV_EINVAL,
			       "zone=%.100s: it must have 1 to %d characters, without spaces, '=' and ','", value,
			       KV_NAME_MAX - 1);
	snprintf(m->zone, sizeof(m->zone), "%s", value);
	return 0;
}

static int attribute_take(char *text, struct member *m, struct kv_error *err)
{
	char *value = strchr(text, '=');
	uint64_t number;

	if (!value)
		return kv_fail(err, -KV_EINVAL, "'%.100s' is neither weight=N, nor zone=NAME, nor state=STATE", text);
	*value++ = '\0';
	if (strcmp(text, "weight") == 0) {
		if (kv_u64_parse(value, &number) || number < 1 || number > MEMBER_WEIGHT_MAX)
			return kv_fail(err, -KV_EINVAL, "weight=%.100s: it is a number from 1 to %d", value,
				       MEMBER_WEIGHT_MAX);
		m->weight = (uint32_t)number;
		return 0;
	}
	if (strcmp(text, "zone") == 0)
		return zone_take(value, m, err);
	if (strcmp(text, "state") == 0)
		return member_state_parse(value, &m->state) ? 0
							    : kv_fail(err, -KV_EINVAL,
								      "state=%.100s: it is joining, up or draining",
								      value);
	return kv_fail(err, -KV_EINVAL, "'%.100s' is neither weight, nor zone, nor state", text);
}

int member_parse(const char *text, struct member *out, struct kv_error *err)
{
	char copy[KV_NAME_MAX * 4 + KV_HOST_MAX + 64], *rest = copy, *part;
	struct member m = {.weight = MEMBER_WEIGHT_DEFAULT, .state = MEMBER_UP};
	struct kv_server_entry entry;
	int rc;

	if (strlen(text) >= sizeof(copy))
		return kv_fail(err, -KV_EINVAL, "'%.100s...' is longer than a member can be", text);
	snprintf(copy, sizeof(copy), "%s", text);
	part = strsep(&rest, ";");
	rc = kv_server_entry_parse(part, &entry, err);
	if (rc)
		return rc;
	if (strlen(entry.id) >= sizeof(m.id))
		return kv_fail(err, -KV_EINVAL, "'%.100s': the host is too long to be a name, too; give NAME=HOST:PORT",
			       text);
	memcpy(m.id, entry.id, strlen(entry.id) + 1);
	kv_hostport_format(&entry.at, m.address, sizeof(m.address));
	while (rc == 0 && (part = strsep(&rest, ";")) != NULL)
		rc = attribute_take(part, &m, err);
	if (rc)
		return kv_fail_more(err, "member %s", m.id);
	*out = m;
	return 0;
}

/* ---- lists ---- */

/* The place of id, or of the one behind it. */
static unsigned place_of(const struct members *list, const char *id, bool *out_found)
{
	unsigned low = 0, high = list->count;

	while (low < high) {
		unsigned middle = (low + high) / 2;
		int order = strcmp(list->item[middle].id, id);
		if (order == 0) {
			*out_found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*out_found = false;
	return low;
}

static int room_make(struct members *list)
{
	unsigned room = list->room ? list->room * 2 : 16;
	struct member *item;

	if (list->count < list->room)
		return 0;
	if (list->count >= MEMBERS_MAX)
		return -KV_ELIMIT;
	item = realloc(list->item, room * sizeof(*item));
	if (!item)
		return -KV_ENOMEM;
	list->item = item;
	list->room = room;
	return 0;
}

int members_add(struct members *list, const struct member *m)
{
	bool found;
	unsigned at = place_of(list, m->id, &found);
	int rc = found ? -KV_EEXIST : room_make(list);

	if (rc)
		return rc;
	memmove(&list->item[at + 1], &list->item[at], (list->count - at) * sizeof(*m));
	list->item[at] = *m;
	list->count++;
	return 0;
}

int members_put(struct members *list, const struct member *m)
{
	struct member *there = members_find(list, m->id);

	if (!there)
		return members_add(list, m);
	*there = *m;
	return 0;
}

void members_remove(struct members *list, const char *id)
{
	bool found;
	unsigned at = place_of(list, id, &found);

	if (found)
		memmove(&list->item[at], &list->item[at + 1], (--list->count - at) * sizeof(list->item[0]));
}

struct member *members_find(const struct members *list, const char *id)
{
	bool found;
	unsigned at = place_of(list, id, &found);

	return found ? &list->item[at] : NULL;
}

struct member *members_by_address(const struct members *list, const char *address)
{
	for (unsigned i = 0; i < list->count; i++)
		if (strcmp(list->item[i].address, address) == 0)
			return &list->item[i];
	return NULL;
}

int members_copy(const struct members *from, struct members *out)
{
	struct member *item = calloc(KV_MAX(from->count, 1u), sizeof(*item));

	if (!item)
		return -KV_ENOMEM;
	if (from->count)
		memcpy(item, from->item, from->count * sizeof(*item));
	free(out->item);
	*out = (struct members){.item = item, .count = from->count, .room = KV_MAX(from->count, 1u)};
	return 0;
}

static bool same(const struct member *a, const struct member *b)
{
	return strcmp(a->id, b->id) == 0 && strcmp(a->address, b->address) == 0 && strcmp(a->zone, b->zone) == 0 &&
	       a->incarnation == b->incarnation && a->weight == b->weight && a->state == b->state;
}

bool members_equal(const struct members *a, const struct members *b)
{
	bool equal = a->count == b->count;

	for (unsigned i = 0; i < a->count && equal; i++)
		equal = same(&a->item[i], &b->item[i]);
	return equal;
}

unsigned members_lost(const struct members *before, const struct members *after)
{
	unsigned lost = 0;

	for (unsigned i = 0; i < before->count; i++)
		lost += members_find(after, before->item[i].id) == NULL;
	return lost;
}

void members_fini(struct members *list)
{
	free(list->item);
	*list = (struct members){0};
}
