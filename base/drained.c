/* SPDX-License-Identifier: Apache-2.0 */
/* drained.c -- the report of a drain in one sentence, for the server's log and kv-client. */
#include "base/drained.h"

#include <stdio.h>

#include "base/units.h"

static const struct {
	const char *name, *text;
} reasons[] = {
	[KV_LEFT_TIME] = {"time", "the time was over"},
	[KV_LEFT_FULL] = {"full", "the other servers have no room"},
	[KV_LEFT_UNREACHABLE] = {"unreachable", "no other server that could take them answers"},
	[KV_LEFT_ALONE] = {"alone", "the cluster has no other member that stays"},
	[KV_LEFT_OFF] = {"off", "--drain-mb is 0"},
	[KV_LEFT_TOO_BIG] = {"too_big", "they are larger than the other servers allow"},
	[KV_LEFT_DAMAGED] = {"damaged", "their bytes are damaged"},
	[KV_LEFT_REFUSED] = {"refused", "the other servers refused them: their keys were deleted"},
	[KV_LEFT_STUCK] = {"stuck", "a thread of the server did not answer"},
};

_Static_assert(sizeof(reasons) / sizeof(reasons[0]) == KV_LEFT_REASONS, "each reason has a text");

const char *kv_left_name(enum kv_left reason)
{
	return reasons[reason].name;
}

const char *kv_left_text(enum kv_left reason)
{
	return reasons[reason].text;
}

char *kv_drained_names(const struct kv_drained *d, char *buf, size_t cap)
{
	size_t at = 0;
	buf[0] = 0;
	for (unsigned i = 0; i < KV_LEFT_REASONS && at < cap; i++)
		if (d->left[i])
			at += (size_t)snprintf(buf + at, cap - at, "%s%s", at ? "," : "", reasons[i].name);
	return buf;
}

static size_t reasons_text(const struct kv_drained *d, char *buf, size_t cap, size_t at)
{
	unsigned kinds = 0, told = 0;
	for (unsigned i = 0; i < KV_LEFT_REASONS; i++)
		kinds += d->left[i] != 0;
	for (unsigned i = 0; i < KV_LEFT_REASONS && at < cap; i++) {
		if (!d->left[i])
			continue;
		at += (size_t)snprintf(buf + at, cap - at, "%s", told++ ? ", " : "");
		if (kinds > 1 && at < cap)
			at += (size_t)snprintf(buf + at, cap - at, "%llu since ", (unsigned long long)d->left[i]);
		if (at < cap)
			at += (size_t)snprintf(buf + at, cap - at, "%s", reasons[i].text);
	}
	return at;
}

char *kv_drained_text(const struct kv_drained *d, char *buf, size_t cap)
{
	uint64_t left = d->of - d->values;
	char bytes[32];
	size_t at;
	if (d->of == 0)
		at = (size_t)snprintf(buf, cap, "there was no value to push");
	else
		at = (size_t)snprintf(buf, cap, "%llu of %llu value%s, %s, %s at other servers",
				      (unsigned long long)d->values, (unsigned long long)d->of, kv_plural(d->of),
				      kv_size_format(d->bytes, bytes, sizeof(bytes)), d->of == 1 ? "is" : "are");
	if (left && at < cap)
		at += (size_t)snprintf(buf + at, cap - at, "; %llu %s not: ", (unsigned long long)left,
				       left == 1 ? "is" : "are");
	if (left && at < cap)
		at = reasons_text(d, buf, cap, at);
	if (d->gone && at < cap)
		snprintf(buf + at, cap - at, "; %llu %s deleted or expired during the drain",
			 (unsigned long long)d->gone, d->gone == 1 ? "was" : "were");
	return buf;
}

bool kv_drained_valid(const struct kv_drained *d)
{
	uint64_t left = d->of - d->values;
	if (d->values > d->of)
		return false;
	for (unsigned i = 0; i < KV_LEFT_REASONS; i++) {
		if (d->left[i] > left)
			return false;
		left -= d->left[i];
	}
	return left == 0;
}
