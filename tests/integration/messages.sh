#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# messages.sh -- what programs say when something is wrong names the cause and the way out, once; and keys are made by kv-server itself.
. "$(dirname "$0")/lib.bash"
plan 32
key=$scratch/key
check "--make-psk makes a key" status 0 "$build/kv-server" --make-psk "$key"
check "for its owner alone" eval '[ "$(stat -c %a "$key")" = 600 ]'
check "a line of 32 random bytes, with a name of its own" grep -Eqx 'kvrail-[0-9a-f]{8}:[0-9a-f]{64}' "$key"
before=$(cat "$key")
check "it never overwrites one" status 3 "$build/kv-server" --make-psk "$key"
check "and says so" says 'never overwritten' "$build/kv-server" --make-psk "$key"
check "the old one is as it was" eval '[ "$(cat "$key")" = "$before" ]'
ln -s "$scratch/elsewhere" "$scratch/link"
check "nor through a link" eval 'status 3 "$build/kv-server" --make-psk "$scratch/link" && [ ! -e "$scratch/elsewhere" ]'
"$build/kv-server" --make-psk "$scratch/other" >/dev/null
check "another one is another" eval '! cmp -s "$key" "$scratch/other"'
full() { # a disk that is full: no file is left
	unshare -m bash -c 'mount -t tmpfs -o size=4k,nr_inodes=16 none "$1" && head -c 4096 /dev/zero >"$1/fill"; "$2" --make-psk "$1/key"; rc=$?; [ ! -e "$1/key" ] && [ $rc -eq 3 ]' x "$scratch/disk" "$build/kv-server"
}
mkdir "$scratch/disk"
if unshare -m true 2>/dev/null; then check "a full disk leaves no file" full; else skip "a full disk leaves no file" "no mount namespace here"; fi

start_server locked --psk-file "$key" || exit 1
# How long a client may take to connect is no subject here. Beside others (run-tests.sh) this test has what they leave of
# the processors: a client under ThreadSanitizer then takes not 0.1 s, but many.
in_time=(--timeout 20 "${over[@]}")
client() { timeout -k 5 60 "$build/kv-client" --server "$server" "${in_time[@]}" "$@"; }
check "the key that was made opens a server" status 0 client --psk-file "$key" ping
check "a client without a key is told which options it lacks" says "$server: .*--psk-file; or .*--cert, --key and --ca" client ping
check "an address is said once" says "^kv-client: server 127.0.0.1:1: connection refused" "$build/kv-client" --server 127.0.0.1:1 --timeout 2 ping
options_named() { # a message or document names `PROGRAM --OPTION`: the program has it
	local program option text
	for topic in $("$build/kv-bench" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do "$build/kv-bench" help "$topic"; done >"$scratch/kv-bench" 2>&1
	grep -rhoE 'kv-(server|bench|client|doctor) --[a-z-]+' --include='*.[ch]' --include='*.py' --include='*.md' base host bootstrap engine store local kvclient \
		kvserver kvbench kvcli kvdoctor kvlab python/kvrail docs README.md | sort -u >"$scratch/named"
	[ "$(wc -l <"$scratch/named")" -gt 20 ] || return 1
	while read -r program option; do
		if [ "$program" = kv-bench ]; then text=$(cat "$scratch/kv-bench"); else text=$("$build/$program" --help); fi
		grep -Eq -- "$option([^a-z-]|\$)" <<<"$text" || { echo "$program has no $option"; return 1; }
	done <"$scratch/named"
}
check "options that messages and documents name exist" options_named
check "also where the server has a name" says "^kv-client: server b=127.0.0.1:1: connection refused" "$build/kv-client" --server b=127.0.0.1:1 --timeout 2 ping
check "port 0 of a server is refused" says "'127.0.0.1:0': port 0 is no server's" "$build/kv-client" --server b=127.0.0.1:0 ping
hinted() { local text; text=$("$build/kv-$1" --bogus 2>&1) || [ "$text" = "kv-$1: unknown option --bogus (try --help)" ] || { echo "$text"; return 1; }; }
check "the hint at --help is given once" eval 'hinted server && hinted client && hinted bench && hinted doctor'
check "a key that is missing is told" says "there is no key 'nobody'" client --psk-file "$key" get nobody
stamped() { grep -Eq '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z READY kv-server ready on 127' "$scratch/locked.out" && ! grep -qvE '^[0-9]{4}-[0-9]{2}-' "$scratch/locked.out"; }
check "ready lines have the time, as all lines of the log" stamped
check "a port that is taken is named" says "$server" "$build/kv-server" --listen-addr "$server" --memory-mb 8
check "an address of another machine is named" says '192\.0\.2\.250.*must be one of this machine' "$build/kv-server" --listen-addr 192.0.2.250:7411 --insecure --memory-mb 8
slow() { head -c 30000000 /dev/urandom >"$scratch/big" && client --psk-file "$key" --slow-ms 1 put "$1" -f "$scratch/big"; }
long=a-key-of-forty-eight-bytes-is-shown-whole-0123456
check "slow lines show 48 bytes of a key" says "key '$(printf %.48s "$long")'" slow "$(printf %.48s "$long")"
# One of two servers is gone: the other stands in.
first=$server
start_server second --psk-file "$key" || exit 1
both() { timeout -k 5 60 "$build/kv-client" --server "$first" --server "$server" "${in_time[@]}" --psk-file "$key" "$@"; }
stop_server "$server_pid"
stood_in() { local i; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do both put "spread-$i" x || return 1; done; }
check "of two servers the one that is there takes all keys" stood_in
check "--psk-file's help says how a key is made" says 'make-psk' "$build/kv-server" --help
check "docs/guide/security.md too" grep -q 'kv-server --make-psk' docs/guide/security.md
(umask 077 && echo >"$scratch/empty")
check "a file without a key says how to make one" says 'make-psk' "$build/kv-server" --psk-file "$scratch/empty" --listen-addr 127.0.0.1:0
check "a server that is too small names its options" says '--memory-mb.*--worker-threads' "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 1 --worker-threads 2
start_server bare --log-level info --worker-threads 1 || exit 1
check "one thread is a thread" eval 'grep -q ", 1 thread x 1 rail, " "$scratch/bare.out" && ! grep -E "[^0-9=]1 (threads|rails|parts)" "$scratch/bare.out"'
unheard() { timeout -k 5 60 "$build/kv-client" --server "$server" --server b=127.0.0.1:1 "${in_time[@]}" --all stat; }
check "a server that was never heard is no time ago" eval 'unheard | tr -s "[:space:]" " " | grep -q "never heard," && ! unheard | tr -s "[:space:]" " " | grep -q "never ago"'
client --psk-file "$key" ping >/dev/null 2>&1 || true
check "a server without a key says why it let in no client with one" grep -q 'not admitted: its first message is not a HELLO; does it have a key' "$scratch/bare.err"
# A terminal that was stopped with Ctrl-S, or a pager. Both outputs are full before it starts.
unread() {
	timeout -k 5 60 python3 - "$scratch/unread.ready" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 8 --worker-threads 1 "${over[@]}" --ready-fd 3 <<'P'
import os, signal, subprocess, sys
r, w = os.pipe()
os.set_blocking(w, False)
try:
    while os.write(w, bytes(4096)):
        pass
except BlockingIOError:
    os.set_blocking(w, True)
ready = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.dup2(ready, 3)
server = subprocess.Popen(sys.argv[2:], stdout=w, stderr=w, pass_fds=[3])
while os.path.getsize(sys.argv[1]) == 0:
    assert server.poll() is None
server.send_signal(signal.SIGTERM)
sys.exit(server.wait())
P
}
check "a server whose outputs nobody reads is ready, and ends at SIGTERM" unread
check "SIGTERM ends it" stop_server "$server_pid"
check "and its last line says so" eval 'tail -n 1 "$scratch/bare.err" | grep -q "stopped"'
finish
