/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_stand_in.c -- what both stand-ins for engine/fabric/fabric.h (tests/engine/fake, tests/sim) do alike: they
 * guard no process, have no doorkeeper, count nothing that is posted, and sort the same few errors. */
#include <errno.h>

#include "base/base.h"
#include "engine/fabric/fabric.h"
#include "tests/fabric_stand_in.h"

void fab_fork(bool hold)
{
	(void)hold;
}

void fab_devices_free(struct fab_device *devices, unsigned count)
{
	(void)devices, (void)count;
}

void fab_posted(struct fab *fab, uint32_t operations)
{
	(void)fab, (void)operations;
}

enum fab_error_class fab_error_class(int status)
{
	switch (-status) {
	case ECONNABORTED:
	case ECANCELED:
	case ENOTCONN:
		return FAB_ERR_PEER;
	case STAND_IN_ENDPOINT_ERROR:
	case KV_EPROVIDER:
		return FAB_ERR_ENDPOINT;
	default:
		return FAB_ERR_OP;
	}
}

void fab_door_counts(const struct fab *fab, struct fab_door_counts *out)
{
	(void)fab;
	*out = (struct fab_door_counts){0};
}
