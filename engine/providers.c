/* SPDX-License-Identifier: Apache-2.0 */
/* providers.c -- the providers usable here: asks each known provider for its devices, under the lock of opening
 * (te_devices_find). */
#include <stdio.h>
#include <stdlib.h>

#include "engine/budget.h"
#include "engine/inside.h"

unsigned te_providers(struct te_provider *out, unsigned max)
{
	unsigned n = 0;
	struct fab_device *devices = calloc(KV_RAILS_MAX, sizeof(*devices));
	for (; devices && n < max && fab_provider_at(n, &out[n]); n++) {
		struct te_provider *p = &out[n];
		const struct te_options options = {.provider = p->name};
		struct kv_error err = {0};
		int rc = te_devices_find(&options, devices, &p->devices, NULL, &err);
		if (rc == 0)
			fab_devices_free(devices, p->devices);
		else
			snprintf(p->why, sizeof(p->why), "%.159s", err.text);
	}
	free(devices);
	return n;
}
