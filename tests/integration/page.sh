#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# page.sh -- pages of kv-bench in a browser: on a telephone and a screen, dark and light, nothing is cut off, too small, or asks for more than the page itself.
# What a page of a hostile result shows is in kvlab/test_kvlab.py.
. "$(dirname "$0")/lib.bash"
plan 7
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
[ -n "$browser" ] || skip_all 7 "chromium is not installed"
base=(--num-workers 8 --num-clients 2 --num-threads 1 --buffer-mb 16 --log-level error "${over[@]}")
run=("${base[@]}" --num-keys 200)
shown() { timeout 300 tests/integration/page.py "$browser" "$scratch" "$@"; }
reported() { # reported PAGE ARGS... -- kv-bench writes the page, and the browser shows all of it
	local page=$scratch/$1.html
	shift
	timeout -k 5 120 "$build/kv-bench" "$@" --report "$page" && shown "$page"
}
for i in $(seq 0 199); do echo "{\"timestamp\": $((i * 10)), \"input_length\": 1024, \"output_length\": 8, \"hash_ids\": [$((i % 7)), $((i % 7 + 10)), $((i + 100))]}"; done >"$scratch/trace.jsonl"

check "of a run: five charts" reported run "${run[@]}" --duration 1 --interval 100ms --mixed --breakdown --verify
check "of a mix" reported mix "${run[@]}" --mix 80:15:5 --repeat-runs 2
check "of a trace with events, which are named in the charts" reported trace "${base[@]}" --trace "$scratch/trace.jsonl" --trace-speed 1 --servers 2 --value-size 16KB --interval 100ms --event 'stop 2 at 900ms' --event 'cont 2 at 1100ms'
check "they are" grep -q 'stop 2</text>' "$scratch/trace.html"
check "of a sweep: a heat map" reported sweep sweep "${run[@]}" -w 1,2,4 -c 1 -v 4KB,64KB --num-keys 20
mkfifo "$scratch/port"
targets=
for _ in 1 2; do
	python3 tests/bench/fake_server.py memcached none >"$scratch/port" &
	pids+=("$!")
	read -r -t 30 port <"$scratch/port"
	targets+=${targets:+,}memcached://127.0.0.1:$port,memcached://localhost:$port
done
check "of four targets side by side, with long names" reported versus versus --targets "$targets" --num-workers 2 --num-clients 1 --num-keys 20 --value-size 4KB --duration 50ms --rounds 1
cat >"$scratch/bad.html" <<'P'
<!doctype html><html><head><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"></head>
<body style="background:#fff"><p style="width:2000px;font-size:8px">wide</p><script>document.title = "run"</script><svg viewBox="0 0 100 20" width="400"><text x="90" y="15">outside</text></svg></body></html>
P
bad() { # what is to be found is found
	local out
	out=$(shown "$scratch/bad.html")
	[ $? -eq 1 ] || return 1
	echo "$out"
	grep -q 'wider than 390' <<<"$out" && grep -q 'less than 10 px' <<<"$out" && grep -q 'CONSOLE' <<<"$out" && grep -q "text is cut off: outside" <<<"$out" && grep -q 'look alike' <<<"$out"
}
check "a page that is too wide, too small, of one colour, or with a script is found" bad
finish
