/* SPDX-License-Identifier: Apache-2.0 */
/* member.c -- see member.h. Views have some dozens of members, a thousand at most, so searches are linear. */
#include "kvserver/member/member.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

const char *source_state_name(enum source_state state)
{
	static const char *const names[] = {"starting", "ok", "unreachable"};
	return names[state];
}

bool member_state_parse(const char *name, enum kv_member_state *out)
{
	for (enum kv_member_state s = KV_MEMBER_JOINING; s <= KV_MEMBER_DRAINING; s++)
		if (strcmp(name, kv_member_state_name(s)) == 0) {
			*out = s;
			return true;
		}
	return false;
}

/* ---- text ---- */

static int zone_take(const char *value, struct kv_member *m, struct kv_error *err)
{
	if (!value[0] || kv_node_id_check(value, NULL))
		return kv_fail(err, -KV_EINVAL,
			       "zone=%.100s: it must have 1 to %d characters of ASCII, without spaces, '=' and ','",
			       value, KV_NAME_MAX - 1);
	snprintf(m->zone, sizeof(m->zone), "%s", value);
	return 0;
}

static int attribute_take(char *text, struct kv_member *m, struct kv_error *err)
{
	char *value = strchr(text, '=');
	uint64_t number;
	if (!value)
		return kv_fail(err, -KV_EINVAL, "'%.100s' is neither weight=N, nor zone=NAME, nor state=STATE", text);
	*value++ = '\0';
	if (strcmp(text, "weight") == 0) {
		if (kv_u64_parse(value, &number) || number < 1 || number > KV_WEIGHT_MAX)
			return kv_fail(err, -KV_EINVAL, "weight=%.100s: it is a number from 1 to %d", value,
				       KV_WEIGHT_MAX);
		m->weight = (uint32_t)number;
		return 0;
	}
	if (strcmp(text, "zone") == 0)
		return zone_take(value, m, err);
	if (strcmp(text, "state") == 0)
		return member_state_parse(value, &m->state)
			       ? 0
			       : kv_fail(err, -KV_EINVAL, "state=%.100s: it is joining, up or draining", value);
	return kv_fail(err, -KV_EINVAL, "'%.100s' is neither weight, nor zone, nor state", text);
}

int member_parse(const char *text, struct kv_member *out, struct kv_error *err)
{
	char copy[KV_NAME_MAX * 4 + KV_HOST_MAX + 64], *rest = copy, *part;
	struct kv_member m = {.weight = KV_WEIGHT_DEFAULT, .state = KV_MEMBER_UP};
	struct kv_server_entry entry;
	int rc;
	if (strlen(text) >= sizeof(copy))
		return kv_fail(err, -KV_EINVAL, "'%.100s...' is longer than a member can be", text);
	snprintf(copy, sizeof(copy), "%s", text);
	part = strsep(&rest, ";");
	rc = kv_server_entry_parse(part, &entry, err);
	if (rc)
		return rc;
	if (strlen(entry.id) >= sizeof(m.node_id))
		return kv_fail(err, -KV_EINVAL, "'%.100s': the host is too long for a name; give NAME=HOST:PORT", text);
	memcpy(m.node_id, entry.id, strlen(entry.id) + 1);
	memcpy(m.address, entry.where, sizeof(m.address));
	while (rc == 0 && (part = strsep(&rest, ";")) != NULL)
		rc = attribute_take(part, &m, err);
	if (rc)
		return kv_fail_more(err, "member %s", m.node_id);
	*out = m;
	return 0;
}

/* ---- views ---- */

int members_put(struct kv_view *view, const struct kv_member *m)
{
	int rc = kv_member_check(m, NULL);
	if (rc)
		return rc;
	for (unsigned i = 0; i < view->count; i++)
		if (strcmp(view->member[i].node_id, m->node_id) == 0) {
			view->member[i] = *m;
			return 0;
		}
	return kv_view_add(view, m);
}

void members_remove(struct kv_view *view, const char *node_id)
{
	const struct kv_member *m = kv_view_find(view, node_id);
	size_t at = m ? (size_t)(m - view->member) : 0;
	if (m)
		memmove(&view->member[at], &view->member[at + 1], (--view->count - at) * sizeof(*m));
}

const struct kv_member *members_by_address(const struct kv_view *view, const char *address)
{
	for (unsigned i = 0; i < view->count; i++)
		if (kv_where_shares(view->member[i].address, address))
			return &view->member[i];
	return NULL;
}

int members_copy(const struct kv_view *from, struct kv_view *out)
{
	struct kv_view copy;
	int rc = kv_view_copy(from, &copy);
	if (rc)
		return rc;
	kv_view_fini(out);
	*out = copy;
	return 0;
}

unsigned members_lost(const struct kv_view *before, const struct kv_view *after)
{
	unsigned lost = 0;
	for (unsigned i = 0; i < before->count; i++)
		lost += kv_view_find(after, before->member[i].node_id) == NULL;
	return lost;
}

uint64_t members_source(const char *cluster, const char *kind, const char *name)
{
	uint64_t seed = cluster ? kv_hash_key(cluster, strlen(cluster), 0) : 0;
	return kv_hash_key(name, strlen(name), kv_hash_key(kind, strlen(kind), seed));
}

uint64_t members_now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}
