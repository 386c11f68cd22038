#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples.sh -- each program of examples/ is compiled against the installed package, as its reader would, and runs: at a server, without one, and without
# an argument.
. "$(dirname "$0")/lib.bash"
examples=(examples/*.c examples/*.cc)
count=$((4 * ${#examples[@]} + 2))
[ "${MODE:-release}" = release ] || { echo "1..$count" && skip_all $count "a library with a sanitizer or with counters is not installed"; }
command -v pkg-config >/dev/null || { echo "1..$count" && skip_all $count "pkg-config is not installed"; }
plan $count
prefix=$scratch/prefix
installed() { env -u MAKEFLAGS -u MAKELEVEL make -s B="$(realpath --relative-to=. "$build")" MODE=release install PREFIX="$prefix"; }
check "make install below a prefix" installed
start_server examples || exit 1
pc() { PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config "$@"; }
has() { command -v "$1" >/dev/null; }
made() { # made EXAMPLE PROGRAM -- from the installed copy, with every warning
	local source=$prefix/share/doc/kvrail/$1 with=("${CC:-gcc}" -std=gnu11)
	[[ $1 != *.cc ]] || with=(g++ -std=c++17)
	# shellcheck disable=SC2046
	"${with[@]}" -Wall -Wextra -Werror $(pc --cflags kvrail) "$source" -o "$2" $(pc --libs kvrail) -Wl,-rpath,"$prefix/lib" $(grep -oE 'Link with [^.]*' "$source" | grep -oE -- '-l[a-z]+')
}
no_server() { # status 1 and a sentence, on a port where nobody listens
	"$@" "127.0.0.1:$(free_ports 1)" >"$scratch/none" 2>&1
	[ $? -eq "$want" ] && [ -s "$scratch/none" ] || { cat "$scratch/none"; return 1; }
}
for e in "${examples[@]}"; do
	name=$(basename "${e%.*}") program=$scratch/$(basename "${e%.*}")
	why=
	[[ $e != *.cc ]] || has g++ || why="g++ is not installed"
	! grep -q liburing.h "$e" || "${CC:-gcc}" -E "$e" $(pc --cflags kvrail) >/dev/null 2>&1 || why="liburing's header is not installed"
	if [ -n "$why" ]; then
		for what in "$e compiles" "$name runs" "$name without a server" "$name without arguments"; do skip "$what" "$why"; done
		continue
	fi
	check "$e compiles against the installed package" made "$e" "$program"
	if [ "$name" = uring ] && limited "$program" "$server" 2>&1 | grep -q 'no io_uring here'; then
		skip "$name runs" "io_uring is forbidden here"
	else
		check "$name runs" limited "$program" "$server"
	fi
	want=1
	[ "$name" != blocking ] || want=0 # it computes instead
	check "$name without a server: status $want, and it says why" no_server limited "$program"
	if [ "$name" = embed ]; then skip "$name without arguments" "it has a default"; else check "$name without arguments: status 2" status 2 "$program"; fi
done
brief() { [ "$(wc -l <examples/raii.cc)" -le 60 ]; }
check "C++ needs no more than 60 lines" brief
finish
