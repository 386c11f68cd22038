/* SPDX-License-Identifier: Apache-2.0 */
/* view.c -- the view of a cluster: a sorted array of members, touched by its owner's thread only. The digest covers a
 * fixed layout, so padding and byte order do not matter. It is a chain: SHA-256 of the digest so far and the next
 * member. */
#include "base/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/digest.h"

enum { MEMBER_BYTES = 16 + sizeof(struct kv_member) };

const char *kv_member_state_name(enum kv_member_state state)
{
	switch (state) {
	case KV_MEMBER_JOINING:
		return "joining";
	case KV_MEMBER_UP:
		return "up";
	case KV_MEMBER_DRAINING:
		return "draining";
	}
	return "?";
}

static bool plain(const char *s, size_t size)
{
	size_t len = strnlen(s, size);
	for (size_t i = 0; i < len; i++)
		if (s[i] <= ' ' || s[i] > '~')
			return false;
	return len < size;
}

int kv_member_check(const struct kv_member *m, struct kv_error *err)
{
	int rc;
	if (!plain(m->node_id, sizeof(m->node_id)) || !plain(m->address, sizeof(m->address)) ||
	    !plain(m->zone, sizeof(m->zone)))
		return kv_fail(err, -KV_EINVAL,
			       "a member's node id, address and zone have printable "
			       "characters without spaces only, and end in time");
	rc = kv_node_id_check(m->node_id, err);
	if (rc < 0)
		return rc;
	rc = kv_where_parse(m->address, NULL, err);
	if (rc < 0)
		return kv_fail_more(err, "member %s", m->node_id);
	if (m->weight == 0 || m->weight > KV_WEIGHT_MAX)
		return kv_fail(err, -KV_EINVAL, "member %s: the weight is %u, not 1 to %d", m->node_id, m->weight,
			       KV_WEIGHT_MAX);
	if (m->state < KV_MEMBER_JOINING || m->state > KV_MEMBER_DRAINING)
		return kv_fail(err, -KV_EINVAL, "member %s: there is no state %d", m->node_id, (int)m->state);
	return 0;
}

static uint32_t place_of(const struct kv_view *v, const char *node_id)
{
	uint32_t low = 0, high = v->count;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (strcmp(v->member[mid].node_id, node_id) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int room_make(struct kv_view *v)
{
	uint32_t room = v->room ? KV_MIN(2 * v->room, (uint32_t)KV_VIEW_MAX) : 8;
	struct kv_member *m;
	if (v->count < v->room)
		return 0;
	m = realloc(v->member, room * sizeof(*m));
	if (!m)
		return -KV_ENOMEM;
	v->member = m;
	v->room = room;
	return 0;
}

int kv_view_add(struct kv_view *v, const struct kv_member *m)
{
	uint32_t at;
	int rc = kv_member_check(m, NULL);
	if (rc < 0)
		return rc;
	at = place_of(v, m->node_id);
	if (at < v->count && strcmp(v->member[at].node_id, m->node_id) == 0)
		return -KV_EEXIST;
	if (v->count == KV_VIEW_MAX)
		return -KV_ELIMIT;
	rc = room_make(v);
	if (rc < 0)
		return rc;
	memmove(&v->member[at + 1], &v->member[at], (v->count - at) * sizeof(*m));
	v->member[at] = *m;
	v->count++;
	return 0;
}

const struct kv_member *kv_view_find(const struct kv_view *v, const char *node_id)
{
	uint32_t at = place_of(v, node_id);
	return at < v->count && strcmp(v->member[at].node_id, node_id) == 0 ? &v->member[at] : NULL;
}

int kv_view_copy(const struct kv_view *v, struct kv_view *out)
{
	struct kv_view copy = {.source = v->source, .epoch = v->epoch, .count = v->count, .room = v->count};
	*out = (struct kv_view){0};
	if (v->count) {
		copy.member = malloc(v->count * sizeof(*copy.member));
		if (!copy.member)
			return -KV_ENOMEM;
		memcpy(copy.member, v->member, v->count * sizeof(*copy.member));
	}
	*out = copy;
	return 0;
}

void kv_view_fini(struct kv_view *v)
{
	free(v->member);
	*v = (struct kv_view){0};
}

static bool member_same(const struct kv_member *a, const struct kv_member *b)
{
	return strcmp(a->node_id, b->node_id) == 0 && strcmp(a->address, b->address) == 0 &&
	       strcmp(a->zone, b->zone) == 0 && a->incarnation == b->incarnation && a->weight == b->weight &&
	       a->state == b->state;
}

bool kv_view_same(const struct kv_view *a, const struct kv_view *b)
{
	for (uint32_t i = 0; i < a->count && i < b->count; i++)
		if (!member_same(&a->member[i], &b->member[i]))
			return false;
	return a->count == b->count;
}

/* A member as bytes, strings with final zeros: no two look alike. Returns how many. */
static size_t member_bytes(const struct kv_member *m, uint8_t out[MEMBER_BYTES])
{
	const char *const text[] = {m->node_id, m->address, m->zone};
	size_t len = 16;
	kv_put64(out, m->incarnation);
	kv_put32(out + 8, m->weight);
	kv_put32(out + 12, (uint32_t)m->state);
	for (unsigned i = 0; i < KV_COUNT(text); i++) {
		size_t n = strlen(text[i]) + 1;
		memcpy(out + len, text[i], n);
		len += n;
	}
	return len;
}

kv_u128 kv_view_digest(const struct kv_view *v)
{
	uint8_t bytes[KV_DIGEST + MEMBER_BYTES] = {0};
	for (uint32_t i = 0; i < v->count; i++) {
		size_t len = KV_DIGEST + member_bytes(&v->member[i], bytes + KV_DIGEST);
		if (kv_digest(bytes, len, bytes) < 0)
			return 0;
	}
	return (kv_u128)kv_get64(bytes + 8) << 64 | kv_get64(bytes);
}
