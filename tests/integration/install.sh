#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install.sh -- `make install` as a packager and as a user of the library see it: what is there, headers by themselves, names, foreign programs in C and C++
# against the shared and the static library, and that `make uninstall` leaves nothing.
. "$(dirname "$0")/lib.bash"
[ "${MODE:-release}" = release ] || { echo 1..1 && skip_all 1 "a library with a sanitizer or with counters is not installed"; }
command -v pkg-config >/dev/null || { echo 1..1 && skip_all 1 "pkg-config is not installed"; }
plan 34
prefix=$scratch/prefix
# B: what is tested is what was built; nothing is compiled here.
install_to() { env -u MAKEFLAGS -u MAKELEVEL make -s B="$(realpath --relative-to=. "$build")" MODE=release "$@"; }
pc() { PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config "$@"; }

check "make install below a prefix" install_to install PREFIX="$prefix"
there() {
	local f missing=0
	for f in bin/kv-{server,client,bench,doctor} lib/libkvrail.{so,so.0,a} lib/pkgconfig/kvrail.pc lib/cmake/kvrail/kvrailConfig{,Version}.cmake include/kvrail/{kvclient,codes}.h share/man/man1/kv-{server,client,bench,doctor}.1 \
		share/man/man3/kvclient.3 share/doc/kvrail/{README.md,LICENSE,docs/guide/embedding.md,docs/reference/options.md,examples/embed.c} share/bash-completion/completions/kv-{server,client,bench,doctor}; do
		[ -s "$prefix/$f" ] || { echo "$f is missing" && missing=1; }
	done
	return $missing
}
check "all of it is there" there
no_generic() { ! find "$prefix/include" -mindepth 1 -maxdepth 1 ! -name kvrail | grep .; }
check "headers have no name outside kvrail/" no_generic

# Each header alone, pedantically.
alone() { # COMPILER STANDARD SUFFIX
	local h
	for h in "$prefix"/include/kvrail/*.h; do
		printf '#include <kvrail/%s>\n' "${h##*/}" >"$scratch/alone.$3"
		"$1" -std="$2" -Wall -Wextra -Wshadow -Wconversion -Werror -pedantic $(pc --cflags kvrail) -fsyntax-only "$scratch/alone.$3" || return 1
	done
}
check "each header compiles by itself as C11" alone "${CC:-gcc}" c11 c
if command -v g++ >/dev/null; then check "and as C++17" alone g++ c++17 cc; else skip "and as C++17" "g++ is not installed"; fi

# Names: what the headers declare, what the libraries have.
declared() { cat "$prefix"/include/kvrail/*.h >"$prefix/include/kvrail/.all.c" && "${CC:-gcc}" -E -P "$prefix/include/kvrail/.all.c" | tr '\n' ' ' | tr ';' '\n' | grep -v typedef | grep -oE '\bkvc?_[a-z_]+ ?\([^*]' | sed 's/ *(.//' | sort -u; }
shared_names() { nm -D --defined-only "$prefix/lib/libkvrail.so.0" | sed 's/.* //' | sort -u; }
static_names() { nm -g --defined-only "$prefix/lib/libkvrail.a" | sed -n 's/.* [A-Z] //p' | sort -u; }
declared >"$scratch/declared"
rm "$prefix/include/kvrail/.all.c"
some() { [ "$(wc -l <"$scratch/declared")" -gt 40 ]; }
check "the headers declare functions" some
same_shared() { diff "$scratch/declared" <(shared_names); }
check "the shared library exports what the headers declare, and nothing else" same_shared
same_static() { diff "$scratch/declared" <(static_names); }
check "and so does the static library" same_static
same_package() { diff <(sed -n 's/^ \(kvc_.*\)@Base .*/\1/p' debian/libkvrail0.symbols | sort -u) <(shared_names); }
check "debian/libkvrail0.symbols lists the same: a new name is announced there, with its version, and none is lost" same_package
cmake_finds() { # PREFIX
	printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(p C)' 'find_package(kvrail 0.1 REQUIRED)' 'add_executable(p embed.c)' 'target_link_libraries(p kvrail::kvrail)' >"$scratch/cmake/CMakeLists.txt"
	cp examples/embed.c "$scratch/cmake/" && cmake -S "$scratch/cmake" -B "$scratch/cmake/b" -DCMAKE_PREFIX_PATH="$1" && cmake --build "$scratch/cmake/b" && "$scratch/cmake/b/p" --help
	[ -x "$scratch/cmake/b/p" ]
}
mkdir -p "$scratch/cmake"
cmake_moved() {
	mv "$prefix" "$prefix.moved" && rm -r "$scratch/cmake/b"
	cmake_finds "$prefix.moved"
	local rc=$?
	mv "$prefix.moved" "$prefix"
	return $rc
}
if command -v cmake >/dev/null; then
	check "CMake finds the library" cmake_finds "$prefix"
	check "and where it was moved to" cmake_moved
else
	for what in "CMake finds the library" "and where it was moved to"; do skip "$what" "cmake is not installed"; done
fi
pc_true() { # each library that kvrail.pc names for the static one is needed, and no other is
	diff <(pc --static --libs kvrail | tr ' ' '\n' | sed -n 's/^-l//p' | grep -vx kvrail | sort -u) \
		<(readelf -d "$prefix/lib/libkvrail.so.0" | sed -n 's/.*NEEDED.*\[lib\(.*\)\.so.*/\1/p' | grep -vx c | sort -u)
}
check "kvrail.pc names what the library needs, and no more" pc_true
in_manual() { # each function that is exported has a page, or one that leads to a page of which it is a name; no page is of none
	local name page missing=0 at=$prefix/share/man/man3
	for name in $(shared_names); do
		page=$(sed -n 's/^\.so man3\///p' "$at/$name.3")
		sed -n '/^\.SH NAME/{n;p}' "$at/${page:-$name.3}" | grep -qw "$name" || { echo "$name" && missing=1; }
		grep -q "\"[a-z].*[ *]$name(" "$at/${page:-$name.3}" || { echo "$name has no prototype" && missing=1; }
	done
	for page in "$at"/*.3; do
		name=$(basename "$page" .3)
		[[ $name = kvclient* ]] || grep -qx "$name" "$scratch/declared" || { echo "$name is no function" && missing=1; }
	done
	return $missing
}
check "section 3 of the manual has every function" in_manual
every_field() { # each word of the structs and enums, too: what the generator does not understand it must not leave out
	local name missing=0
	sed -n 's/^\t\([0-9].* \)\?\([A-Za-z_0-9]*\)\( [0-9]*\)\?$/\2/p' debian/libkvrail0.abi | sort -u >"$scratch/words"
	[ "$(wc -l <"$scratch/words")" -gt 200 ] || return 1
	for name in $(grep -vx 'code\|text' "$scratch/words"); do
		cat "$prefix"/share/man/man3/kvclient*.3 | sed 's/\\-/-/g' | grep -qE "^\\.B .*\<$name\>" || { echo "$name" && missing=1; }
	done
	return $missing
}
check "and every field and number" every_field
manuals() { # without a warning, of any tool that is here; that a page has no date, and that one leads to another, is meant so
	local m bad=0
	cd "$prefix/share/man" || return 1
	for m in man?/*; do
		! command -v man >/dev/null || ! LC_ALL=C man --warnings -l "$m" 2>&1 >/dev/null | grep . || bad=1
		! command -v groff >/dev/null || ! groff -ww -man -Tutf8 "$m" 2>&1 >/dev/null | grep . || bad=1
		! command -v mandoc >/dev/null || ! mandoc -T lint -W warning "$m" | grep -vE 'missing date|\.so is fragile' | grep . || bad=1
	done
	cd "$OLDPWD" || return 1
	return $bad
}
if command -v man >/dev/null || command -v groff >/dev/null || command -v mandoc >/dev/null; then check "manual pages are good troff" manuals; else skip "manual pages are good troff" "man, groff and mandoc are not installed"; fi
fits() { # 80 columns, as terminals have
	local m
	for m in "$prefix"/share/man/man1/*.1 "$prefix"/share/man/man3/kvclient*.3; do
		MANWIDTH=80 LC_ALL=C man -l "$m" 2>/dev/null | col -bx | grep -E '.{81}' && echo "in $m" && return 1
	done
	return 0
}
if command -v man >/dev/null && command -v col >/dev/null; then check "and fit 80 columns" fits; else skip "and fit 80 columns" "man or col is not installed"; fi
complete_them() { local f; for f in "$prefix"/share/bash-completion/completions/*; do bash -n "$f" || return 1; done; }
check "completions are good bash" complete_them
# A program that cannot be run makes no page without options: the install fails.
broken() {
	mkdir -p "$scratch/broken" && printf '#!/bin/sh\nexit 1\n' >"$scratch/broken/kv-client" && chmod +x "$scratch/broken/kv-client"
	! scripts/man-page.sh kv-client "$scratch/broken" && ! scripts/completion.sh kv-client "$scratch/broken"
}
check "a program that cannot say its options makes neither page nor completion" broken
all_options() { # each long option of --help is among the words of its completion
	local words p option how missing=0
	for words in kv-server kv-bench "kv-bench capacity" "kv-bench fabric" "kv-bench hits" "kv-bench models" "kv-bench versus" kv-client kv-doctor; do
		p=${words%% *}
		how=--help
		[ "$words" != kv-bench ] || how='help all'
		for option in $("$prefix"/bin/$words $how | grep -E '^ +-' | grep -oE -- '--[a-z][a-z0-9-]*[a-z]' | sort -u); do
			bash -c '. "$1"; COMP_WORDS=($2 "$3") COMP_CWORD=$4; "_${5//-/_}"; case " ${COMPREPLY[*]} " in *" $3 "*) ;; *) exit 1 ;; esac' - \
				"$prefix/share/bash-completion/completions/$p" "$words" "$option" "$(wc -w <<<"$words")" "$p" || { echo "$words $option" && missing=1; }
		done
	done
	return $missing
}
check "every option is" all_options
completes() { bash -c '. "$1"; COMP_WORDS=(kv-server --listen) COMP_CWORD=1; _kv_server; [ "${COMPREPLY[*]}" = --listen-addr ]' - "$prefix/share/bash-completion/completions/kv-server"; }
check "an option is completed" completes

# Foreign programs. The second file of each has functions whose names the library has inside.
start_server foreign || exit 1
cat >"$scratch/names.c" <<'T'
extern int loop_run(void), co_spawn(void), kv_fail(void), te_open(void);
int loop_run(void) { return 1; }
int co_spawn(void) { return 2; }
int kv_fail(void) { return 3; }
int te_open(void) { return 4; }
T
foreign() { # NAME COMPILER... -- with flags of both files before the libraries in $libs
	local name=$1
	shift
	"$@" -Wall -Wextra -Werror -pedantic $(pc --cflags kvrail) "$source" -x none "$scratch/names.o" -o "$scratch/$name" $libs
}
runs() { LD_LIBRARY_PATH=$prefix/lib timeout -k 5 240 "$scratch/$1" "$server" "$provider"; }
not_shared() { ! readelf -d "$scratch/$1" | grep -q kvrail; }
"${CC:-gcc}" -c -o "$scratch/names.o" "$scratch/names.c"
source=tests/integration/embedder.c
libs=$(pc --libs kvrail)
check "a C program compiles against the shared library" foreign c_shared "${CC:-gcc}" -std=c11
check "and runs" says '^[0-9]+ values went there and back' runs c_shared
libs="-l:libkvrail.a $(pc --static --libs kvrail)"
check "and against the static one, with names of its own" foreign c_static "${CC:-gcc}" -std=c11 -L"$prefix/lib" -Wl,--as-needed
static_runs() { not_shared c_static && says '^[0-9]+ values went there and back' runs c_static; }
check "and runs" static_runs
if command -v g++ >/dev/null; then
	libs=$(pc --libs kvrail)
	check "a C++ program compiles against the shared library" foreign cc_shared g++ -std=c++17 -x c++
	libs="-l:libkvrail.a $(pc --static --libs kvrail)"
	cc_both() { foreign cc_static g++ -std=c++17 -L"$prefix/lib" -Wl,--as-needed -x c++ && says 'there and back' runs cc_shared && says 'there and back' runs cc_static; }
	check "and against the static one, and both run" cc_both
else
	for what in "a C++ program" "and against the static one"; do skip "$what" "g++ is not installed"; done
fi

# A host that loads the library with dlopen, and unloads it.
reload_made() { "${CC:-gcc}" -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror $(pc --cflags kvrail) -rdynamic -o "$scratch/reload" tests/integration/reload.c -ldl -pthread; }
check "a program that loads the library by itself compiles" reload_made
reload() { timeout -k 5 240 "$scratch/reload" "$prefix/lib/libkvrail.so.0" "$@"; }
check "the library is unloaded after the last pool was closed, and loaded again" says 'loaded 3 times, unloaded 3 times' reload "$server" "$provider" nodoor
check "with a doorkeeper it stays, and can be opened again" says 'loaded 3 times' reload "$server" "$provider"
check "it stays for a thread that looks up a name" says 'has ended without its pool' reload names

links_lead() { # each link of an installed document leads to an installed file
	local doc link dead=0
	while read -r doc; do
		while read -r link; do
			[ -e "$(dirname "$doc")/$link" ] || { echo "$doc: $link" && dead=1; }
		done < <(grep -oE '\]\([^)#]+' "$doc" | sed 's/^](//' | grep -vE '^[a-z]+:')
	done < <(find "$prefix/share/doc/kvrail" -name '*.md')
	[ $dead = 0 ] && grep -q '`deploy/systemd`' "$prefix/share/doc/kvrail/docs/guide/operating.md"
}
check "links of installed documents lead to what is installed" links_lead

gone() { # what is left below a folder
	local left
	left=$(find "$1" \( -type f -o -type l -o -name kvrail \) -print)
	[ -z "$left" ] || { echo "$left" && return 1; }
}
uninstalled() { install_to uninstall PREFIX="$prefix" && gone "$prefix"; }
check "make uninstall leaves nothing" uninstalled
packaged() {
	local root=$scratch/root
	install_to install DESTDIR="$root" PREFIX=/opt/kv LIBDIR=/opt/kv/lib64 && [ -s "$root/opt/kv/lib64/libkvrail.so.0" ] && [ -s "$root/opt/kv/bin/kv-server" ] &&
		grep -qx 'libdir=/opt/kv/lib64' "$root/opt/kv/lib64/pkgconfig/kvrail.pc" && ! grep -rqF "$root" "$root/opt/kv/lib64/pkgconfig" && [ ! -e "$root/opt/kv/lib" ] &&
		install_to uninstall DESTDIR="$root" PREFIX=/opt/kv LIBDIR=/opt/kv/lib64 && gone "$root"
}
check "DESTDIR and LIBDIR, there and back" packaged
misplaced() { # a PREFIX that is no place: nothing is written, and nothing removed
	local at target
	mkdir -p "$scratch/half/bin" && echo mine >"$scratch/half/kv-server" || return 1
	for at in "$scratch/half way" "$scratch/half:way" half/way; do
		for target in install uninstall; do
			install_to $target PREFIX="$at" 2>"$scratch/why" && return 1
			grep -q 'must be absolute paths' "$scratch/why" || { cat "$scratch/why"; return 1; }
		done
	done
	[ "$(find "$scratch/half" -type f)" = "$scratch/half/kv-server" ] && [ ! -e half ]
}
check "a PREFIX with a blank or a colon, or no absolute one, is refused" misplaced
finish
