#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tier_members.sh -- NVMe tiers in a cluster: which restarts and absences they survive (docs/internals/reliability.md), and what is deleted at other
# servers in the meantime does not come back from them.
. "$(dirname "$0")/lib.bash"
plan 20
port=$(free_ports 4)
members=(--members "list:a=127.0.0.1:$port,b=127.0.0.1:$((port + 1))")
common=(--memory-mb 8 --worker-threads 2 --landing-mb 8 --log-level info)
client() { limited "$build/kv-client" --server "127.0.0.1:$port" --server "127.0.0.1:$((port + 1))" "${over[@]}" "$@"; }
declare -A pid
start_a() { # start_a LOG -- log files have a name each
	start_server "$1" --listen-addr "127.0.0.1:$port" --node-id a "${members[@]}" "${common[@]}" --tier "$scratch/a.img:128M" --tier-segment 1M && pid[a]=$server_pid
}
start_b() { # start_b LOG [TIER]
	start_server "$1" --listen-addr "127.0.0.1:$((port + 1))" --node-id b "${members[@]}" "${common[@]}" ${2:+--tier "$2" --tier-segment 1M} && pid[b]=$server_pid
}
kill_of() { # kill_of LETTER...
	local letter
	for letter in "$@"; do
		kill -KILL "${pid[$letter]}"
		wait "${pid[$letter]}" 2>/dev/null
	done
}
all() { # all COMMAND FROM TO [MORE...] -- for each of these keys
	local i
	for ((i = $2; i < $3; i++)); do echo "$1 key-$i ${*:4}"; done | client
}
there() { all exists "$1" "$2" 2>/dev/null | grep -c '^[12] key-'; } # there FROM TO -- counts the keys that exist
some() { echo "of $1 to $2 there are $(there "$1" "$2")"; [ "$(there "$1" "$2")" -gt "$3" ]; }
nothing_there() { [ "$(there "$1" "$2")" -eq 0 ]; }
judged() { grep -q "$2" "$scratch/$1.err"; } # judged LOG TEXT
stays_away() { # stays_away FROM TO
	local i
	for ((i = 0; i < 4; i++)); do nothing_there "$1" "$2" || return 1; sleep 1; done
}
head -c 100000 /dev/urandom >"$scratch/value"

start_b b-1 "$scratch/b.img:128M" || exit 1
start_a a-1 || exit 1
filled() { # at the pace of a busy device
	local i
	for ((i = 0; i < 400; i += 20)); do
		all put $i $((i + 20)) -f "$scratch/value" || return 1
		sleep 0.3
	done
	some 0 400 200
}
check "values go to two servers with tiers" filled
tier_has() { limited "$build/kv-client" --server "127.0.0.1:$1" stat --all | awk '$1 == "tier_records" { ok = $2 > 60 } END { exit !ok }'; }
both_have() { tier_has "$port" && tier_has "$((port + 1))"; }
check "both have some on their tiers" soon both_have

# One was away, and the others served.
sleep 6 # the record of service is written every 5 s
kill_of a
all delete 0 50 >"$scratch/deleted" 2>&1
start_a a-2 || exit 1
check "a server that returns asks the other one" soon judged a-2 "the values are visible again, without the deleted ones"
check "it keeps its tier" some 50 400 150
check "but what was deleted while it was away stays deleted" stays_away 0 50

# All are killed, one after the other, and start again, one long before the other.
kill_of a
all delete 50 100 >"$scratch/deleted" 2>&1
kill_of b
start_a a-3 || exit 1
check "a server waits for another one that does not answer" soon judged a-3 "not all members of the cluster have reported"
check "until then its values are hidden" nothing_there 100 400
start_b b-2 "$scratch/b.img:128M" || exit 1
sleep 3
check "the other one remembers what it was told before its restart" soon judged a-3 "the values are visible again, without the deleted ones"
check "it has its tier as well" soon judged b-2 "the values are visible again, without the deleted ones"
check "the values of both are there" some 100 400 100
check "but what was deleted stays deleted" stays_away 0 100

# Nobody knows what was deleted: the other one has no tier, and was restarted.
kill_of a b
start_b b-3 || exit 1
start_a a-4 || exit 1
check "without a memory of deletions the tier is dropped" soon judged a-4 "the hidden values are dropped"
check "nothing comes back" stays_away 0 400
again() { all put 0 50 -f "$scratch/value" && [ "$(there 0 50)" -eq 50 ]; }
check "both take values again" again
kill_of a b

# ---- with etcd ----
# Their leases end with them: for a while each sees the other one leave, or not come.
names=("with etcd values go to both" "both have some on their tiers there" "all restart at once, and etcd has their old leases: both keep their tiers" "what was deleted stays deleted"
	"all restart after their leases have ended, one later than the other: both keep their tiers" "and what was deleted stays deleted")
if ! type etcd >/dev/null 2>&1; then
	for name in "${names[@]}"; do skip "$name" "etcd is not installed"; done
	finish
fi
url=http://127.0.0.1:$((port + 2)) peer=http://127.0.0.1:$((port + 3))
etcd --name one --data-dir "$scratch/etcd" --listen-client-urls "$url" --advertise-client-urls "$url" --listen-peer-urls "$peer" \
	--initial-advertise-peer-urls "$peer" --initial-cluster "one=$peer" --logger zap --log-level error --unsafe-no-fsync >/dev/null 2>"$scratch/etcd.err" &
pids+=("$!")
members=(--members "etcd:$url/kvrail/tier" --lease-sec 2 --joining-sec 1)
rm -f "$scratch"/[ab].img
together() { # together NUMBER [PAUSE] -- both start, without waiting for each other
	local number=$1 later
	start_a "a-$number" || return 1
	later=${2:-0}
	sleep "$later"
	start_b "b-$number" "$scratch/b.img:128M"
}
keeps() { judged "$1" "the values are visible again, without the deleted ones" && ! judged "$1" "are dropped"; }
both_keep() { soon keeps "a-$1" && soon keeps "b-$1" && some 100 400 100; }
together 10 || exit 1
check "${names[0]}" soon filled
check "${names[1]}" soon both_have
sleep 6 # the record of service
all delete 0 50 >"$scratch/deleted" 2>&1
kill_of a b
check "${names[2]}" eval 'together 11 && both_keep 11'
check "${names[3]}" stays_away 0 50
all delete 50 100 >"$scratch/deleted" 2>&1
sleep 6
kill_of a b
sleep 4
check "${names[4]}" eval 'together 12 8 && both_keep 12'
check "${names[5]}" stays_away 0 100
finish
