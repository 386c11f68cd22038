/* SPDX-License-Identifier: Apache-2.0 */
/* status.c -- tables: statuses and their -KV_E* codes, and the statistics of STAT.
 *
 * Each status has one error, and maps back to itself. Errors without a row become the status with the same meaning for
 * a client (second table), all others WIRE_FABRIC. Only 0 is WIRE_OK. */
#include <errno.h>

#include "wire/wire.h"

/* By status: its error, and the name of its counter. */
static const struct {
	int error;
	const char *answered;
} statuses[] = {
	[WIRE_OK] = {0, "answered_ok"},
	[WIRE_NOTFOUND] = {-KV_ENOTFOUND, "answered_not_found"},
	[WIRE_EXISTS_OTHER] = {-KV_EEXIST, "answered_exists_other"},
	[WIRE_BUSY] = {-KV_EBUSY, "answered_busy"},
	[WIRE_CORRUPT] = {-KV_ECORRUPT, "answered_corrupt"},
	[WIRE_DENIED] = {-KV_EDENIED, "answered_denied"},
	[WIRE_TOOBIG] = {-KV_ETOOBIG, "answered_toobig"},
	[WIRE_INVALID] = {-KV_EINVAL, "answered_invalid"},
	[WIRE_NOMEM] = {-KV_ENOMEM, "answered_nomem"},
	[WIRE_TIMEOUT] = {-KV_ETIMEOUT, "answered_timeout"},
	[WIRE_CANCELED] = {-KV_ECANCELED, "answered_canceled"},
	[WIRE_STALE] = {-KV_ESTALE, "answered_stale"},
	[WIRE_MISMATCH] = {-KV_EVERSION, "answered_mismatch"},
	[WIRE_FULL] = {-KV_EFULL, "answered_full"},
	[WIRE_NOTSUP] = {-KV_ENOTSUP, "answered_notsup"},
	[WIRE_FABRIC] = {-KV_EPROVIDER, "answered_fabric"},
	[WIRE_CLOSING] = {-KV_ELEFT, "answered_closing"},
	[WIRE_DELETED] = {-KV_EDELETED, "answered_deleted"},
};

_Static_assert(KV_COUNT(statuses) == WIRE_STATUS_MAX, "every status has an error");

static const struct {
	int error;
	int32_t status;
} also[] = {
	{-ENOMEM, WIRE_NOMEM},       {-KV_ELIMIT, WIRE_NOMEM}, /* a limit of the server's machine: no room now */
	{-KV_EPROTO, WIRE_INVALID},                            /* the request is senseless */
	{-KV_ECLOSED, WIRE_CLOSING}, {-KV_ERESET, WIRE_BUSY},  /* the endpoint was rebuilt: try again */
};

int wire_status_error(int32_t status)
{
	if (status < 0 || status >= WIRE_STATUS_MAX)
		return -KV_EPROTO;
	return statuses[status].error;
}

int32_t wire_error_status(int error)
{
	for (int32_t i = 0; i < WIRE_STATUS_MAX; i++) {
		if (statuses[i].error == error)
			return i;
	}
	for (size_t i = 0; i < KV_COUNT(also); i++) {
		if (also[i].error == error)
			return also[i].status;
	}
	return WIRE_FABRIC;
}

#define STAT(id, name, group, unit, kind) [WIRE_STAT_##id] = {name, group, unit, WIRE_STAT_##kind},
#define RANGE(id, n)
static const struct wire_stat_info stats[] = {
#include "wire/stat.def"
};

static const char *const rails[][8] = {
	{"rail_0_bytes", "rail_1_bytes", "rail_2_bytes", "rail_3_bytes", "rail_4_bytes", "rail_5_bytes", "rail_6_bytes",
	 "rail_7_bytes"},
	{"rail_0_errors", "rail_1_errors", "rail_2_errors", "rail_3_errors", "rail_4_errors", "rail_5_errors",
	 "rail_6_errors", "rail_7_errors"},
};

_Static_assert(WIRE_STAT_STATUS + WIRE_STATUS_MAX <= WIRE_STAT_STATUS_LAST + 1, "every status has a counter");

struct wire_stat_info wire_stat_info(uint32_t id)
{
	uint32_t status = id - WIRE_STAT_STATUS, bytes = id - WIRE_STAT_RAIL_BYTES, errors = id - WIRE_STAT_RAIL_ERRORS;
	if (status < WIRE_STATUS_MAX)
		return (struct wire_stat_info){statuses[status].answered, "answers", "", WIRE_STAT_COUNTER};
	if (bytes < KV_COUNT(rails[0]))
		return (struct wire_stat_info){rails[0][bytes], "fabric", "bytes", WIRE_STAT_COUNTER};
	if (errors < KV_COUNT(rails[1]))
		return (struct wire_stat_info){rails[1][errors], "fabric", "", WIRE_STAT_COUNTER};
	return id < KV_COUNT(stats) ? stats[id] : (struct wire_stat_info){0};
}

const char *wire_stat_name(uint32_t id)
{
	return wire_stat_info(id).name;
}
