/* SPDX-License-Identifier: Apache-2.0 */
/* status.c -- the two tables of names and numbers: statuses against -KV_E*, and the counters of STAT.
 *
 * A status has exactly one error, so that status -> error -> status gives the status back. Errors are many more than
 * statuses: those without a row of their own become the status that tells the client the same thing (the second table),
 * and all others WIRE_FABRIC, since they are errno or libfabric codes from below. Nothing becomes WIRE_OK but 0. */
#include <errno.h>

#include "wire/wire.h"

static const int errors[] = {
	[WIRE_OK] = 0,
	[WIRE_NOTFOUND] = -KV_ENOTFOUND,
	[WIRE_EXISTS_OTHER] = -KV_EEXIST,
	[WIRE_BUSY] = -KV_EBUSY,
	[WIRE_CORRUPT] = -KV_ECORRUPT,
	[WIRE_DENIED] = -KV_EDENIED,
	[WIRE_TOOBIG] = -KV_ETOOBIG,
	[WIRE_INVALID] = -KV_EINVAL,
	[WIRE_NOMEM] = -KV_ENOMEM,
	[WIRE_TIMEOUT] = -KV_ETIMEOUT,
	[WIRE_CANCELED] = -KV_ECANCELED,
	[WIRE_STALE] = -KV_ESTALE,
	[WIRE_MISMATCH] = -KV_EVERSION,
	[WIRE_FULL] = -KV_EFULL,
	[WIRE_NOTSUP] = -KV_ENOTSUP,
	[WIRE_FABRIC] = -KV_EPROVIDER,
	[WIRE_CLOSING] = -KV_EPEERDOWN,
};

_Static_assert(KV_COUNT(errors) == WIRE_STATUS_MAX, "every status has an error");

static const struct {
	int error;
	int32_t status;
} also[] = {
	{-ENOMEM, WIRE_NOMEM},
	{-KV_ELIMIT, WIRE_NOMEM},   /* a limit of the server's machine is short: there is no room, for now */
	{-KV_EPROTO, WIRE_INVALID}, /* what the client sent makes no sense */
	{-KV_ECLOSED, WIRE_CLOSING},
	{-KV_ERESET, WIRE_BUSY}, /* the endpoint was rebuilt under the request: try again */
};

int wire_status_error(int32_t status)
{
	if (status < 0 || status >= WIRE_STATUS_MAX)
		return -KV_EPROTO;
	return errors[status];
}

int32_t wire_error_status(int error)
{
	for (int32_t i = 0; i < WIRE_STATUS_MAX; i++) {
		if (errors[i] == error)
			return i;
	}
	for (size_t i = 0; i < KV_COUNT(also); i++) {
		if (also[i].error == error)
			return also[i].status;
	}
	return WIRE_FABRIC;
}

static const char *const stat_names[] = {
	[WIRE_STAT_BLOCKS] = "blocks",
	[WIRE_STAT_BYTES_USED] = "bytes_used",
	[WIRE_STAT_BYTES_LIMIT] = "bytes_limit",
	[WIRE_STAT_SESSIONS] = "sessions",
	[WIRE_STAT_GETS] = "gets",
	[WIRE_STAT_HITS] = "hits",
	[WIRE_STAT_MISSES] = "misses",
	[WIRE_STAT_PUTS] = "puts",
	[WIRE_STAT_PUT_DUPLICATES] = "put_duplicates",
	[WIRE_STAT_PUT_CONFLICTS] = "put_conflicts",
	[WIRE_STAT_DELETES] = "deletes",
	[WIRE_STAT_EXISTS] = "exists",
	[WIRE_STAT_TOUCHES] = "touches",
	[WIRE_STAT_PINS] = "pins",
	[WIRE_STAT_EVICTIONS] = "evictions",
	[WIRE_STAT_EXPIRED] = "expired",
	[WIRE_STAT_BYTES_READ] = "bytes_read",
	[WIRE_STAT_BYTES_WRITTEN] = "bytes_written",
	[WIRE_STAT_CORRUPT] = "corrupt",
	[WIRE_STAT_CANCELS] = "cancels",
	[WIRE_STAT_EXPIRED_REQUESTS] = "expired_requests",
	[WIRE_STAT_DUPLICATE_REQUESTS] = "duplicate_requests",
	[WIRE_STAT_BAD_TOKEN] = "bad_token",
	[WIRE_STAT_BAD_FRAMES] = "bad_frames",
	[WIRE_STAT_UNKNOWN_SESSION] = "unknown_session",
	[WIRE_STAT_OVER_CREDIT] = "over_credit",
	[WIRE_STAT_EAGAIN] = "eagain",
	[WIRE_STAT_QUARANTINED_BYTES] = "quarantined_bytes",
	[WIRE_STAT_INFLIGHT] = "inflight",
	[WIRE_STAT_FENCES] = "fences",
	[WIRE_STAT_NOMEM] = "nomem",
	[WIRE_STAT_PINNED_BYTES] = "pinned_bytes",
	[WIRE_STAT_STAGED_BYTES] = "staged_bytes",
	[WIRE_STAT_STAGES_EXPIRED] = "stages_expired",
	[WIRE_STAT_INVALID_REQUESTS] = "invalid_requests",
	[WIRE_STAT_DROPPED_REPLIES] = "dropped_replies",
	[WIRE_STAT_STRAY_IMMEDIATES] = "stray_immediates",
	[WIRE_STAT_LOST_WRITES] = "lost_writes",
	[WIRE_STAT_CORRUPT_DROPPED] = "corrupt_dropped",
	[WIRE_STAT_ENDING_SESSIONS] = "ending_sessions",
	[WIRE_STAT_HANDSHAKES] = "handshakes",
	[WIRE_STAT_HANDSHAKES_NOW] = "handshakes_now",
	[WIRE_STAT_HANDSHAKES_CUT] = "handshakes_cut",
	[WIRE_STAT_HANDSHAKES_TIMED_OUT] = "handshakes_timed_out",
	[WIRE_STAT_HANDSHAKES_DELAYED] = "handshakes_delayed",
	[WIRE_STAT_HANDSHAKES_REFUSED] = "handshakes_refused",
	[WIRE_STAT_BAD_CONTROL] = "bad_control",
	[WIRE_STAT_SILENT_CLIENTS] = "silent_clients",
};

_Static_assert(KV_COUNT(stat_names) == WIRE_STAT_END, "every counter has a name");

const char *wire_stat_name(uint32_t id)
{
	return id < KV_COUNT(stat_names) ? stat_names[id] : NULL;
}
