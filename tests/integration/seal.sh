#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# seal.sh -- sealed values from outside: a planted pattern is in no packet of lo, in no memory and no core of the server,
# over the fabric and on one host, and in no tier; keys are made, changed and refused.
. "$(dirname "$0")/lib.bash"
if short; then plan 34; else plan 36; fi
umask 077
pattern=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
for ((i = 0; i < 4000; i++)); do printf '%s' "$pattern"; done >"$scratch/value" # 256,000 bytes
printf 'short %s' "$pattern" >"$scratch/short"
client() { timeout -k 5 60 "$build/kv-client" --server "$server" --timeout 10 "$@"; }
round() { # round KEY FILE OPTION... -- put a file, and read it back
	local key=$1 file=$2
	shift 2
	client "$@" put "$key" -f "$file" && client "$@" get "$key" -o "$scratch/got" && cmp "$file" "$scratch/got"
}

check "kv-client make-seal-key makes keys, without a server" status 0 "$build/kv-client" make-seal-key "$scratch/keys"
check "readable by their owner alone" eval '[ "$(stat -c %a "$scratch/keys")" = 600 ]'
check "and never overwrites them" says 'never overwritten' "$build/kv-client" make-seal-key "$scratch/keys"
"$build/kv-client" make-seal-key "$scratch/new" >/dev/null
cp "$scratch/keys" "$scratch/open" && chmod 644 "$scratch/open"
grep -v '^names' "$scratch/keys" >"$scratch/nameless"
{ grep -v '^names' "$scratch/new"; cat "$scratch/keys"; } >"$scratch/both"

# What everything on lo carries, in a file; nothing where the machine forbids it.
sniff() { # sniff FILE
	python3 - "$1" <<'PY' &
import os, signal, socket, sys
try:
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    s.bind(("lo", 0))
except OSError:
    sys.exit(0)
signal.signal(signal.SIGTERM, lambda *_: s.setblocking(False))  # what has arrived is still taken
out = open(sys.argv[1] + ".part", "wb", 1 << 20)
os.rename(sys.argv[1] + ".part", sys.argv[1])
try:
    while True:
        out.write(s.recv(1 << 17))
except BlockingIOError:
    out.close()
PY
	sniffer=$!
	pids+=("$sniffer")
	for ((i = 0; i < 50; i++)); do [ ! -e "$1" ] && kill -0 "$sniffer" 2>/dev/null && sleep 0.1; done
	[ -e "$1" ]
}
sniffed() { # sniffed FILE -- whether the pattern was seen
	kill "$sniffer" 2>/dev/null
	wait "$sniffer" 2>/dev/null
	grep -qF "$pattern" "$1"
}
# Whether the server's memory, its arena included, has the pattern. Of anonymous memory the pages that exist are read:
# most of the stacks of coroutines were never used.
remembers() {
	python3 - "$server_pid" "$pattern" <<'PY'
import re, sys
want = sys.argv[2].encode()
def parts(maps, pagemap):
    for line in maps:
        where, mode, _, _, inode = line.split()[:5]
        at, end = (int(x, 16) for x in where.split("-"))
        if not mode.startswith("rw") or end - at > 1 << 40:  # or a sanitizer's shadow memory
            continue
        if inode != "0":
            yield at, end
            continue
        pagemap.seek(at // 4096 * 8)
        for run in re.finditer(rb"[\x40-\xff]+", pagemap.read((end - at) // 4096 * 8)[7::8], re.DOTALL):
            yield at + run.start() * 4096, at + run.end() * 4096
def has(memory, at, end):
    while at < end:
        try:
            memory.seek(at)
            if want in memory.read(min(end - at, (1 << 20) + len(want))):
                return True
        except OSError:
            pass
        at += 1 << 20
    return False
with open("/proc/%s/maps" % sys.argv[1]) as maps, open("/proc/%s/pagemap" % sys.argv[1], "rb") as pagemap:
    with open("/proc/%s/mem" % sys.argv[1], "rb", 0) as memory:
        sys.exit(not any(has(memory, *part) for part in parts(maps, pagemap)))
PY
}

for local in off auto; do
	start_server "seal-$local" --memory-mb 64 || exit 1
	seal=(--local "$local" --seal-key-file "$scratch/keys")
	if sniff "$scratch/lo-$local"; then
		check "values come back ($local)" round sealed "$scratch/value" "${seal[@]}"
		check "short ones as well ($local)" round sealed-short "$scratch/short" "${seal[@]}" --seal-names
		check "no packet of lo has a sealed value ($local)" eval '! sniffed "$scratch/lo-$local"'
	else
		check "values come back ($local)" round sealed "$scratch/value" "${seal[@]}"
		check "short ones as well ($local)" round sealed-short "$scratch/short" "${seal[@]}" --seal-names
		skip "no packet of lo has a sealed value ($local)" "this machine does not let us read packets"
	fi
	if [ -r "/proc/$server_pid/mem" ] && head -c 0 "/proc/$server_pid/mem" 2>/dev/null; then
		check "the server's memory has none ($local)" eval '! remembers'
		client put clear -f "$scratch/short" >/dev/null
		check "the search finds a value in clear ($local)" remembers
	else
		skip "the server's memory has none ($local)" "this machine does not let us read it"
		skip "the search finds a value in clear ($local)" "this machine does not let us read it"
	fi
	check "a name that is sealed is not there in clear ($local)" status 1 client "${seal[@]}" get sealed-short
	check "another key opens nothing ($local)" says 'checksum|corrupt|match' client --local "$local" --seal-key-file "$scratch/new" get sealed
	check "a new key above the old one opens both ($local)" eval 'client --local "$local" --seal-key-file "$scratch/both" get sealed -o "$scratch/got" && cmp "$scratch/value" "$scratch/got"'
	check "and seals with the new one ($local)" eval 'round fresh "$scratch/value" --local "$local" --seal-key-file "$scratch/both" && status 3 client --local "$local" --seal-key-file "$scratch/keys" get fresh'
	check "without keys there is ciphertext ($local)" eval 'client --local "$local" get sealed -o "$scratch/got" && ! grep -qF "$pattern" "$scratch/got" && [ "$(stat -c %s "$scratch/got")" = 256256 ]'
	check "the same bytes can be put again ($local)" status 0 client "${seal[@]}" put sealed -f "$scratch/value"
	stop_server "$server_pid"
done

# 60 values of 256,000 bytes in a memory of 8 MiB: most are on the tier alone.
stored() { # stored PREFIX OPTION...
	local i prefix=$1
	shift
	for ((i = 0; i < 60; i++)); do echo "put $prefix-$i -f $scratch/value"; done | client --local off "$@" >/dev/null
}
on_tier() { client stat --all | awk -v least="$1" '$1 == "tier_values" { n = $2 } END { print n; exit !(n >= least) }'; }
on_disk() { grep -aqF "$pattern" "$scratch/seal.tier"; }
start_server seal-tier --memory-mb 8 --worker-threads 1 --tier "$scratch/seal.tier:128M" --tier-segment 4M || exit 1
check "sealed values reach the tier" eval 'stored sealed --seal-key-file "$scratch/keys" && soon on_tier 20'
check "the tier's file has none in clear" eval '! on_disk'
check "and gives them back" eval 'client --local off --seal-key-file "$scratch/keys" get sealed-0 -o "$scratch/got" && cmp "$scratch/value" "$scratch/got"'
core() { gcore -o "$scratch/core" "$server_pid" >/dev/null 2>&1 && [ -s "$scratch/core.$server_pid" ]; }
cored() { core && grep -aqF "$pattern" "$scratch/core.$server_pid"; }
if short; then
	stored clear
elif [ "${MODE:-release}" != release ]; then
	skip "a core of the server has none" "a sanitizer's shadow memory is terabytes of a core"
	skip "with values in clear a core has one" "a sanitizer's shadow memory is terabytes of a core"
	stored clear
elif command -v gcore >/dev/null && core; then
	check "a core of the server has none" eval '! cored'
	check "with values in clear a core has one" eval 'stored clear && cored'
else
	skip "a core of the server has none" "gcore does not work here (Debian: apt-get install gdb)"
	skip "with values in clear a core has one" "gcore does not work here (Debian: apt-get install gdb)"
	stored clear
fi
check "and the tier's file has one" soon on_disk
stop_server "$server_pid"

start_server clear || exit 1
if sniff "$scratch/lo-clear"; then
	client --local off put seen -f "$scratch/value" >/dev/null
	check "the search finds packets with a value in clear" sniffed "$scratch/lo-clear"
else
	skip "the search finds packets with a value in clear" "this machine does not let us read packets"
fi
check "a file that others may read is refused" says 'chmod' client --seal-key-file "$scratch/open" ping
check "names need a key for names" says 'names:HEX' client --seal-key-file "$scratch/nameless" --seal-names ping
check "--seal-names needs --seal-key-file" says 'needs --seal-key-file' client --seal-names ping
check "kv-bench seals" eval '"$build/kv-bench" --num-workers 4 --num-clients 1 --num-keys 50 --value-size 65536 --repeat-reads 2 --verify --seal-key-file "$scratch/keys" >"$scratch/bench" 2>&1 && grep -q "and sealed values" <(tr -s "[:space:]" " " <"$scratch/bench")'
finish
