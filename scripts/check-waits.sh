#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-waits.sh -- finds functions of kvclient/ that park in a way of which kvc_cancel, kvc_queue_close and the end of a
# pool do not know (kvclient/core/waits.c); speaks TAP. Run it from the root of the tree, or with another root as the
# only argument.
set -u
export LC_ALL=C
cd "${1:-.}" || exit 2

# Every function that parks by itself, and why that holds up no call. What is not named here waits by kc_wait_queue_await
# or kc_wait_time_await.
excused() {
	cat <<'END'
kvclient/call/batch.c: parts_await              each part of the batch ends in time
kvclient/transfer/call.c: grace_await               the grace itself
kvclient/transfer/call.c: kc_call_wait_await       a request: the client's requests are looked through
kvclient/copies/copy.c: rest_await                no call: the coroutine of repairs
kvclient/transfer/memory.c: own_close_await         1 ms, within the deadline and the grace: memory is unregistered when the pool closes, too
kvclient/transfer/memory.c: servers_await           the question to each server ends in time
kvclient/conn/connect.c: address_await          no call: the coroutine of a node
kvclient/conn/connect.c: addresses_await        no call: the coroutine of a node
kvclient/conn/connect.c: cluster_await          no call: the coroutine of a node
kvclient/conn/connect.c: kc_conn_close_await   no call: the coroutine of a node
kvclient/conn/connect.c: view_await             no call: the coroutine of a node
kvclient/conn/health.c: park_await              no call: the coroutine of a node
kvclient/conn/deletes_owed.c: answers_await            no call: the coroutine of a node
kvclient/conn/serve.c: backoff_await            no call: the coroutine of a node
kvclient/conn/serve.c: rest_await               no call: the coroutine of a node
kvclient/core/client.c: kc_main_await          a provider's call on the thread's own stack: it returns
kvclient/core/waits.c: kc_wait_queue_await     in the client's list of waits
kvclient/logical/node_sessions.c: step_await    no call: the coroutine that opens sessions
kvclient/pool/client.c: closer                  no call: the end of the client
kvclient/request/requests.c: flusher           no call: sends frames
kvclient/pool/client.c: nodes_part_await        no call: the end of the client
kvclient/pool/workers.c: part_wait_await        kvc_run: until the workers have returned
kvclient/pool/workers.c: worker_main            before the workers begin
kvclient/request/admission.c: room_wait_await   room: kc_room_stop, kc_room_close
kvclient/request/fence.c: kc_client_fenced_await memory of a caller, which a slow endpoint may still write to
END
}

parks() { # functions with a bare wait, as "file: function"
	awk 'FNR == 1 { f = "" }
		/^[a-z].*[a-z_0-9]\(/ && !/;$/ { f = $0; sub(/__attribute__\(\([a-z]*\)\) /, "", f); sub(/\(.*/, "", f); sub(/.*[ *]/, "", f) }
		/^\t.*(co_park_await|co_sleep_await|co_queue_wait_await)\(/ { print FILENAME ": " f }' \
		kvclient/*/*.c | sort -u
}

echo "1..2"
fail=0
result() { # result N NAME FINDINGS
	if [ -z "$3" ]; then
		echo "ok $1 - $2"
	else
		echo "not ok $1 - $2"
		printf '%s\n' "$3" | sed 's/^/# /'
		fail=1
	fi
}
known=$(excused | sed 's/^\([^ ]* [^ ]*\).*/\1/' | sort)
result 1 "calls wait in ways that a cancel knows" "$(comm -23 <(parks) <(printf '%s\n' "$known"))"
result 2 "no excuse is left over" "$(comm -13 <(parks) <(printf '%s\n' "$known"))"
exit $fail
