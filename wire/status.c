/* SPDX-License-Identifier: Apache-2.0 */
/* status.c -- tables: statuses and their -KV_E* codes, and the statistics of STAT.
 *
 * Each status has one error, and maps back to itself. Errors without a row become the status with the same meaning for
 * a client (second table), all others WIRE_FABRIC. Only 0 is WIRE_OK. */
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
	[WIRE_CLOSING] = -KV_ELEFT,
	[WIRE_DELETED] = -KV_EDELETED,
};

_Static_assert(KV_COUNT(errors) == WIRE_STATUS_MAX, "every status has an error");

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

/* clang-format off */
static const struct wire_stat_info stats[] = {
	[WIRE_STAT_BLOCKS] = {"blocks", "memory", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_BYTES_USED] = {"bytes_used", "memory", "bytes", WIRE_STAT_GAUGE},
	[WIRE_STAT_BYTES_LIMIT] = {"bytes_limit", "memory", "bytes", WIRE_STAT_GAUGE},
	[WIRE_STAT_SESSIONS] = {"sessions", "peers", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_GETS] = {"gets", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_HITS] = {"hits", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_MISSES] = {"misses", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_PUTS] = {"puts", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_PUT_DUPLICATES] = {"put_duplicates", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_PUT_CONFLICTS] = {"put_conflicts", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_DELETES] = {"deletes", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_EXISTS] = {"exists", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_TOUCHES] = {"touches", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_PINS] = {"pins", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_EVICTIONS] = {"evictions", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_EXPIRED] = {"expired", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_BYTES_READ] = {"bytes_read", "requests", "bytes", WIRE_STAT_COUNTER},
	[WIRE_STAT_BYTES_WRITTEN] = {"bytes_written", "requests", "bytes", WIRE_STAT_COUNTER},
	[WIRE_STAT_CORRUPT] = {"corrupt", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_CANCELS] = {"cancels", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_EXPIRED_REQUESTS] = {"expired_requests", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_DUPLICATE_REQUESTS] = {"duplicate_requests", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_BAD_TAG] = {"bad_tag", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_BAD_FRAMES] = {"bad_frames", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_UNKNOWN_SESSION] = {"unknown_session", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_OVER_CREDIT] = {"over_credit", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_EAGAIN] = {"eagain", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_QUARANTINED_BYTES] = {"quarantined_bytes", "memory", "bytes", WIRE_STAT_GAUGE},
	[WIRE_STAT_INFLIGHT] = {"inflight", "fabric", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_FENCES] = {"fences", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_NOMEM] = {"nomem", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_PINNED_BYTES] = {"pinned_bytes", "memory", "bytes", WIRE_STAT_GAUGE},
	[WIRE_STAT_STAGED_BYTES] = {"staged_bytes", "memory", "bytes", WIRE_STAT_GAUGE},
	[WIRE_STAT_STAGES_EXPIRED] = {"stages_expired", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_INVALID_REQUESTS] = {"invalid_requests", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_DROPPED_REPLIES] = {"dropped_replies", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STRAY_IMMEDIATES] = {"stray_immediates", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_LOST_WRITES] = {"lost_writes", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_CORRUPT_DROPPED] = {"corrupt_dropped", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_ENDING_SESSIONS] = {"ending_sessions", "peers", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_HANDSHAKES] = {"handshakes", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_HANDSHAKES_NOW] = {"handshakes_now", "peers", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_HANDSHAKES_CUT] = {"handshakes_cut", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_HANDSHAKES_TIMED_OUT] = {"handshakes_timed_out", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_HANDSHAKES_DELAYED] = {"handshakes_delayed", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_HANDSHAKES_REFUSED] = {"handshakes_refused", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_BAD_CONTROL] = {"bad_control", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_SILENT_CLIENTS] = {"silent_clients", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_REPLIES] = {"replies", "time", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_POST_NS] = {"post_ns", "time", "ns", WIRE_STAT_COUNTER},
	[WIRE_STAT_POST_MAX_NS] = {"post_max_ns", "time", "ns", WIRE_STAT_MAXIMUM},
	[WIRE_STAT_SERVE_NS] = {"serve_ns", "time", "ns", WIRE_STAT_COUNTER},
	[WIRE_STAT_SERVE_MAX_NS] = {"serve_max_ns", "time", "ns", WIRE_STAT_MAXIMUM},
	[WIRE_STAT_SLOW] = {"slow", "time", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_ACTIVE] = {"active", "requests", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_STAGES] = {"stages", "requests", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_HASHING] = {"hashing", "requests", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_HELD] = {"held", "fabric", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_QUEUED] = {"queued", "fabric", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_MSG_EXHAUSTED] = {"msg_exhausted", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_FAILED_OPS] = {"failed_ops", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_REBUILD_FAILURES] = {"rebuild_failures", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_SENDS] = {"sends", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_WRITES] = {"writes", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_READS] = {"reads", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_TURNS] = {"turns", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_OK] = {"answered_ok", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_NOTFOUND] = {"answered_not_found", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_EXISTS_OTHER] = {"answered_exists_other", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_BUSY] = {"answered_busy", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_CORRUPT] = {"answered_corrupt", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_DENIED] = {"answered_denied", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_TOOBIG] = {"answered_toobig", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_INVALID] = {"answered_invalid", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_NOMEM] = {"answered_nomem", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_TIMEOUT] = {"answered_timeout", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_CANCELED] = {"answered_canceled", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_STALE] = {"answered_stale", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_MISMATCH] = {"answered_mismatch", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_FULL] = {"answered_full", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_NOTSUP] = {"answered_notsup", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_FABRIC] = {"answered_fabric", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_CLOSING] = {"answered_closing", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_STATUS + WIRE_DELETED] = {"answered_deleted", "answers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_FURTHER_SESSIONS] = {"further_sessions", "peers", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_SESSIONS_OPENED] = {"sessions_opened", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_SESSIONS_REFUSED] = {"sessions_refused", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_LEASES] = {"leases", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_LEASES_NOW] = {"leases_now", "requests", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_LEASED_BYTES] = {"leased_bytes", "memory", "bytes", WIRE_STAT_GAUGE},
	[WIRE_STAT_LEASES_EXPIRED] = {"leases_expired", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_LEASES_REFUSED] = {"leases_refused", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_BAD_RELEASES] = {"bad_releases", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAILS_UP] = {"rails_up", "fabric", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_RAILS_OUT] = {"rails_out", "fabric", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_RAIL_FAILURES] = {"rail_failures", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_FAILED_PEER] = {"failed_peer", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_BYTES + 0] = {"rail_0_bytes", "fabric", "bytes", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_BYTES + 1] = {"rail_1_bytes", "fabric", "bytes", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_BYTES + 2] = {"rail_2_bytes", "fabric", "bytes", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_BYTES + 3] = {"rail_3_bytes", "fabric", "bytes", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_BYTES + 4] = {"rail_4_bytes", "fabric", "bytes", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_BYTES + 5] = {"rail_5_bytes", "fabric", "bytes", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_BYTES + 6] = {"rail_6_bytes", "fabric", "bytes", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_BYTES + 7] = {"rail_7_bytes", "fabric", "bytes", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_ERRORS + 0] = {"rail_0_errors", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_ERRORS + 1] = {"rail_1_errors", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_ERRORS + 2] = {"rail_2_errors", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_ERRORS + 3] = {"rail_3_errors", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_ERRORS + 4] = {"rail_4_errors", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_ERRORS + 5] = {"rail_5_errors", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_ERRORS + 6] = {"rail_6_errors", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_RAIL_ERRORS + 7] = {"rail_7_errors", "fabric", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_DOOR_LET_IN] = {"door_let_in", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_DOOR_STRANGERS] = {"door_strangers", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_DOOR_CLAIMS] = {"door_claims", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_DOOR_TWICE] = {"door_twice", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_DOOR_SILENT] = {"door_silent", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_DOOR_FULL] = {"door_full", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_DOOR_ALIENS] = {"door_aliens", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_REPLAYED_FRAMES] = {"replayed_frames", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_UNPROVEN_REQUESTS] = {"unproven_requests", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_BAD_PROOFS] = {"bad_proofs", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_ACCEPTS_FAILED] = {"accepts_failed", "peers", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_HEARTBEAT_LATE_MAX_NS] = {"heartbeat_late_max_ns", "time", "ns", WIRE_STAT_MAXIMUM},
	[WIRE_STAT_ROOMS] = {"rooms", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_BLOCKS_MAX] = {"blocks_max", "memory", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_PUTS_LANDED] = {"puts_landed", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_LANDING_BYTES] = {"landing_bytes", "memory", "bytes", WIRE_STAT_GAUGE},
	[WIRE_STAT_PREFAULT_LEFT] = {"prefault_left_bytes", "memory", "bytes", WIRE_STAT_GAUGE},
	[WIRE_STAT_PUSHED] = {"pushed", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_PUSHED_BYTES] = {"pushed_bytes", "memory", "bytes", WIRE_STAT_COUNTER},
	[WIRE_STAT_PUSH_FAILED] = {"push_failed", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_EVICTED_RETURNED] = {"evicted_returned", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_EVICTED_RETURNED_HALF] = {"evicted_returned_half", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_EVICTED_RETURNED_QUARTER] = {"evicted_returned_quarter", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_VERSION] = {"version", "server", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_UPTIME_NS] = {"uptime_ns", "server", "ns", WIRE_STAT_GAUGE},
	[WIRE_STAT_HOT_GETS] = {"hot_gets", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_TOMBS] = {"tombs", "memory", "", WIRE_STAT_GAUGE},
	[WIRE_STAT_TOMBS_DROPPED] = {"tombs_dropped", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_COPIES_REFUSED] = {"copies_refused", "requests", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_DOUBTS] = {"doubts", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_DOUBT_DROPPED] = {"doubt_dropped", "memory", "", WIRE_STAT_COUNTER},
	[WIRE_STAT_COPIES_REPLACED] = {"copies_replaced", "requests", "", WIRE_STAT_COUNTER},
};
/* clang-format on */

_Static_assert(KV_COUNT(stats) <= WIRE_STAT_END, "no name without a number");
_Static_assert(WIRE_STAT_STATUS + WIRE_STATUS_MAX <= WIRE_STAT_STATUS_LAST + 1, "every status has a counter");

struct wire_stat_info wire_stat_info(uint32_t id)
{
	return id < KV_COUNT(stats) ? stats[id] : (struct wire_stat_info){0};
}

const char *wire_stat_name(uint32_t id)
{
	return wire_stat_info(id).name;
}
