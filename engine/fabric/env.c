/* SPDX-License-Identifier: Apache-2.0 */
/* env.c -- environment variables of libfabric's providers, read as the providers read them. */
#include "engine/fabric/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { RXM_EAGER_DEFAULT = 16384 };

bool fab_env_is_on(const char *name)
{
	static const char *const yes[] = {"1", "on", "t", "true", "y", "yes"};
	const char *text = getenv(name);
	for (size_t i = 0; text && i < KV_COUNT(yes); i++)
		if (strcasecmp(text, yes[i]) == 0)
			return true;
	return false;
}

uint64_t fab_env_number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	uint64_t value;
	return text && kv_u64_parse(text, &value) == 0 && value > 0 && value < UINT32_MAX ? value : otherwise;
}

uint32_t fab_eager_bytes(const struct fab_quirk *quirk)
{
	const char *text = getenv("FI_OFI_RXM_BUFFER_SIZE");
	size_t value;
	if (!quirk->rxm)
		return 0;
	return text && sscanf(text, "%zu", &value) == 1 && value > 0 && value < UINT32_MAX ? (uint32_t)value
											   : RXM_EAGER_DEFAULT;
}
