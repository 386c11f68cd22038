#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deps.sh -- scripts/install-deps.sh on systems that are made up: package managers that write down what they are asked for, and install nothing.
. "$(dirname "$0")/lib.bash"
plan 34
script=$PWD/scripts/install-deps.sh
tools=$scratch/tools
mkdir "$tools"
for tool in bash cat env grep install mktemp rm sed sleep tail; do
	ln -s "$(type -P $tool)" "$tools/$tool"
done

# stub NAME <script -- a program of the made-up system.
stub() {
	{ echo "#!$(type -P bash)" && cat; } >"$system/$1"
	chmod +x "$system/$1"
}
# system ID MANAGER -- a new system: /etc/os-release, a package manager, and packages in $system/installed. $system/asked: what the manager was told.
system() {
	system=$scratch/system.$1.$tap_n
	mkdir "$system"
	printf 'NAME="made up"\nID="%s"\n' "$1" >"$system/os-release"
	: >"$system/installed"
	: >"$system/asked"
	echo 'echo 0' | stub id
	stub "$2" <<<"echo \"\$*\" >>$system/asked; [ ! -e $system/fails ] || [ \$1 != install ] || { echo 'no such package'; exit 1; }"
	if [ "$2" = apt-get ]; then
		stub dpkg-query <<<"grep -qx \"\${@: -1}\" $system/installed && echo 'install ok installed'"
	else
		stub rpm <<<"grep -qx \"\${@: -1}\" $system/installed"
	fi
}
deps() { PATH=$system:$tools KVRAIL_POLICY_RC=$system/policy-rc.d KVRAIL_OS_RELEASE=$system/os-release KVRAIL_EFA_ROOT=${efa:-/nowhere} "$script" "$@"; }
no_install() { KVRAIL_NO_INSTALL=1 deps "$@"; }
with_efa() { efa=$scratch/efa deps "$@"; }
asked() { # asked WORD... -- the manager was told to install each of them
	local word
	for word in "$@"; do
		grep -qE "^install .* $word( |\$)" "$system/asked" || {
			echo "not asked for $word:"
			cat "$system/asked"
			return 1
		}
	done
}
not_asked() { ! asked "$1" >/dev/null; }
libraries=(gcc make pkgconf-pkg-config rdma-core-devel liburing-devel openssl-devel xxhash-devel jansson-devel libedit-devel libmicrohttpd-devel libcurl-devel zeromq-devel zlib-devel python3)

system amzn dnf
check "Amazon Linux, to run it" deps run
check "asks dnf for the libraries" asked "${libraries[@]}" libfabric-devel
system amzn dnf
check "KVRAIL_NO_INSTALL=1 fails" status 1 no_install test
check "and says what is missing, and the command" says 'missing: .*cmocka-devel.*KVRAIL_NO_INSTALL=1 forbids.*as root run: dnf install -y gcc' no_install test
check "and tells of the EFA installer" says 'AWS EFA installer' no_install run
check "and installs nothing" test ! -s "$system/asked"
check "its tests" deps test
check "need cmocka, openssl, patch, python3 with its headers and ip" asked libcmocka-devel openssl patch python3 python3-devel iproute
check "its benchmark" deps bench
check "needs redis6, which is its name there" asked redis6 memcached python3
check "check-verbs is not possible there" says 'neither qemu nor busybox.*Debian' deps verbs
check "clang" deps clang
check "is clang" asked clang libcmocka-devel
mkdir -p "$scratch/efa/lib64/pkgconfig"
touch "$scratch/efa/lib64/libfabric.so" "$scratch/efa/lib64/pkgconfig/libfabric.pc"
system amzn dnf
check "with the EFA installer's libfabric" with_efa run
check "the distribution's is left out" not_asked libfabric-devel
printf '%s\n' "${libraries[@]}" >"$system/installed"
: >"$system/asked"
check "with everything there nothing is done" eval 'with_efa run && [ ! -s "$system/asked" ]'
echo 'case "$1 ${2-}" in "--modversion liburing") echo 2.0 ;; "--modversion "*) echo 9.9 ;; "--atleast-version=2.3 liburing") exit 1 ;; esac' | stub pkg-config
check "a library that is too old is named, with what is needed" says 'too old: liburing 2.0 \(needed: 2.3 or newer\)\.' with_efa run
check "and that is a failure" status 1 with_efa run
system fedora dnf
check "Fedora has redis, and qemu" eval 'deps bench && asked redis && deps verbs && asked qemu-kvm busybox'
system debian apt-get
echo "echo \"\$*\" >>$system/asked; [ ! -x $system/policy-rc.d ] || cp $system/policy-rc.d $system/policy.seen" | stub apt-get
ln -sf "$(type -P cp)" "$tools/cp"
check "what the long suites try it with" eval 'deps more && asked etcd-server prometheus chromium redis-server memcached librsvg2-bin python3-jsonschema'
check "no service of it is started" eval '[ "$(bash "$system/policy.seen"; echo $?)" = 101 ] && [ ! -e "$system/policy-rc.d" ]'
system debian apt-get
echo "echo \"\$*\" >>$system/asked; [ \$1 = update ] || { [ \$# = 4 ] && [ \$4 != chromium ]; }" | stub apt-get
check "what cannot be had is named" says 'tests that need them are skipped: chromium$' deps more
check "and the others are installed" eval 'grep -qx "install -y --no-install-recommends etcd-server" "$system/asked"'
system debian apt-get
check "KVRAIL_NO_INSTALL=1 holds for these, too" eval 'status 1 no_install more && [ ! -s "$system/asked" ]'
system amzn dnf
check "Amazon Linux has other names, and is told so" says 'on Debian and Ubuntu alone' deps more
system debian apt-get
check "Debian's tests" eval 'deps test && asked build-essential libfabric-dev libcmocka-dev iproute2'
touch "$system/fails"
check "a package that cannot be had: the lists are read again, and it is tried again" eval '! deps test && [ "$(grep -c ^update "$system/asked")" = 1 ] && [ "$(grep -c ^install "$system/asked")" = 3 ]'
check "and what the manager said is shown" says 'no such package' deps test
# A machine without make: what is asked for comes with the installation.
system debian apt-get
for tool in dirname readlink nproc mv; do
	[ -e "$tools/$tool" ] || ln -s "$(type -P $tool)" "$tools/$tool"
done
echo "echo \"make \$*\" >>$system/asked" | stub make.later
stub apt-get <<<"echo \"\$*\" >>$system/asked; [ \$1 != install ] || mv $system/make.later $system/make"
run_check() { PATH=$system:$tools KVRAIL_OS_RELEASE=$system/os-release KVRAIL_EFA_ROOT=/nowhere "$PWD/run-with-rdma.sh" "$@"; }
refused() { KVRAIL_NO_INSTALL=1 status 3 run_check check && [ ! -e "$system/make" ]; }
check "run-with-rdma.sh check, where nothing may be installed, says what is missing" refused
made() { run_check check V=1 && asked build-essential libcmocka-dev && grep -qxF "make -C $PWD --no-print-directory check V=1" "$system/asked"; }
check "run-with-rdma.sh check installs make and runs make check" made
# The first command says its steps, and on a terminal how far it is.
system debian apt-get
rm -f "$system/make"
for tool in head sort stty; do [ -e "$tools/$tool" ] || ln -s "$(type -P $tool)" "$tools/$tool"; done
ln -s "$build/kv-client" "$tools/kv-client" # where the tree has no release build
stub apt-get <<<'[ $1 != install ] || printf "%s\n" "Reading package lists..." "Get:1 http://mirror.example a 1.0" "Get:2 http://mirror.example b 1.0" "Unpacking a (1.0) ..." "Setting up a (1.0) ..." "Setting up b (1.0) ..."'
stub make <<<'case "$*" in *" -q "*) exit 1 ;; *" -n "*) printf "%s\n" "echo \"  CC    a.o\"" "cc a.c" "echo \"  CC    b.o\"" "echo \"  LINK  c\"" ;; *) printf "%s\n" "  CC    x/a.o" "  CC    x/b.o" "  LINK  x/c"; [ ! -e '"$system"'/broken ] || { echo "no such header" >&2; exit 2; } ;; esac'
first_command() { run_check kv-client --version; }
steps() { first_command >"$scratch/steps" 2>&1; for text in 'step 1 of 2: packages' 'installing with apt-get: build-essential' 'fetching packages' 'unpacking packages' 'setting up packages' 'step 2 of 2: building 3 objects' 'built' 'running .*kv-client' '^kv-client [0-9]'; do grep -q "$text" "$scratch/steps" || { echo "no '$text' in:"; cat "$scratch/steps"; return 1; }; done; ! grep -q $'[\r\033]' "$scratch/steps"; }
check "run-with-rdma.sh kv-client says each step, in plain lines" steps
on_terminal() { # what is shown on a terminal
	PATH=$system:$PATH:$build TERM=xterm KVRAIL_OS_RELEASE=$system/os-release KVRAIL_EFA_ROOT=/nowhere KVRAIL_POLICY_RC=$system/policy-rc.d PYTHONPATH=tests/integration python3 -c '
import os, sys
from terminal import Terminal
t = Terminal(sys.argv[1:], {k: os.environ[k] for k in ("TERM", "KVRAIL_OS_RELEASE", "KVRAIL_EFA_ROOT", "KVRAIL_POLICY_RC")})
assert t.end() == 0, t.out
text = t.out.decode()
for part in ("1 of 3: a.o", "2 of 3: b.o", "3 of 3: c", "Setting up b (1.0) ..."):
    assert part in text, text
assert "\r\033[K" in text, text' "$PWD/run-with-rdma.sh" kv-client --version
}
check_terminal "and on a terminal the count of objects" on_terminal
broken() { : >"$system/broken"; status 3 first_command && says 'no such header' first_command && ! says ': built$' first_command >/dev/null; }
check "a build that fails says why" broken
check "and takes no provider" status 2 run_check --provider tcp check
finish
