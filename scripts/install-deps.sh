#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install-deps.sh [run|test|more|clang|format|bench|verbs|deb]
#   Installs what KVRail needs to build and run (run), and what these need on top:
#   its tests (test, the default), what the long suites try KVRail with (more:
#   etcd, Prometheus, Chromium, redis, memcached and others; where one cannot be
#   had its tests are skipped), `make check-clang` (clang), `make format`
#   (format), `make bench` (bench: redis, memcached), `make check-verbs` (verbs: a
#   virtual machine), `make deb` (deb). Services that come with more or bench are
#   not started: tests start their own.
#
# The script installs only what is missing, and says what. Without root it uses
# sudo, if there is one. At the end it compares the versions of the libraries
# with those that KVRail needs.
# KVRAIL_NO_INSTALL=1: if something is missing, print the command that would
# install it, and fail.
# If the AWS EFA installer's libfabric is there (/opt/amazon/efa), the script does
# not install the distribution's: a process must load exactly one.
set -u

what=${1:-test}
efa_root=${KVRAIL_EFA_ROOT:-/opt/amazon/efa}
os_release=${KVRAIL_OS_RELEASE:-/etc/os-release}

say() { printf 'install-deps: %s\n' "$*" >&2; }
die() {
	say "$*"
	exit 1
}

case $what in
run | test | more | clang | format | bench | verbs | deb) ;;
-h | --help)
	sed -n '3,19s/^# \{0,1\}//p' "$0"
	exit 0
	;;
*)
	say "there is no set '$what': use run, test, more, clang, format, bench, verbs or deb"
	exit 2
	;;
esac

has_efa_libfabric() {
	local dir
	for dir in "$efa_root"/lib64 "$efa_root"/lib; do
		[ -e "$dir/libfabric.so" ] && [ -e "$dir/pkgconfig/libfabric.pc" ] && return 0
	done
	return 1
}

# Sets: packages, manager, and the functions is_installed, install.
plan_debian() {
	manager=apt-get
	packages=(build-essential pkg-config libibverbs-dev liburing-dev libssl-dev libxxhash-dev libjansson-dev libedit-dev libmicrohttpd-dev
		libcurl4-openssl-dev libzmq3-dev zlib1g-dev python3)
	has_efa_libfabric || packages+=(libfabric-dev)
	case $what in test | clang) packages+=(libcmocka-dev openssl patch python3-dev iproute2 curl) ;; esac
	[ "$what" != more ] || packages+=(etcd-server prometheus chromium librsvg2-bin fonts-dejavu-core redis-server memcached python3
		python3-jsonschema python3-seccomp cmake groff-base valgrind systemd)
	[ "$what" != clang ] || packages+=(clang)
	[ "$what" != format ] || packages+=(clang-format-19)
	[ "$what" != bench ] || packages+=(redis-server memcached)
	[ "$what" != verbs ] || packages+=(libcmocka-dev qemu-system-x86 busybox-static cpio xz-utils iproute2 ibverbs-utils)
	[ "$what" != deb ] || packages+=(debhelper dh-sequence-installsysusers dh-python python3-dev python3-setuptools lintian debootstrap)
	is_installed() {
		dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q 'ok installed$' && return 0
		# A package that provides the name counts, too: pkgconf for pkg-config, debhelper for one of its sequences.
		dpkg-query -W -f '${Status}, ${Provides}\n' | grep '^install ok installed' | grep -q -E ", $1( |,|\$)"
	}
	command=(apt-get install -y --no-install-recommends)
	refresh=(apt-get update -q)
	export DEBIAN_FRONTEND=noninteractive
}

plan_redhat() {
	manager=$1
	packages=(gcc make pkgconf-pkg-config rdma-core-devel liburing-devel openssl-devel xxhash-devel jansson-devel
		libedit-devel libmicrohttpd-devel libcurl-devel zeromq-devel zlib-devel python3)
	has_efa_libfabric || packages+=(libfabric-devel)
	[ "$what" != more ] || die "what the long suites try KVRail with is known by its names on Debian and Ubuntu alone; here their" \
		"tests are skipped where a program is missing"
	[ "$what" != deb ] || die "make deb makes packages for Debian and Ubuntu, on Debian and Ubuntu"
	case $what in test | clang) packages+=(libcmocka-devel openssl patch python3-devel iproute) ;; esac
	[ "$what" != clang ] || packages+=(clang)
	[ "$what" != format ] ||
		die "clang-format 19 is a package of Debian and Ubuntu; on other systems pip has it:" \
			"pip install 'clang-format==19.*'"
	# Amazon Linux 2023, by its own list of packages, has redis6 (redis6-server) and neither redis, nor qemu, nor busybox.
	if grep -qsE '^ID="?amzn"?$' "$os_release"; then
		[ "$what" != bench ] || packages+=(redis6 memcached)
		[ "$what" != verbs ] ||
			die "Amazon Linux has neither qemu nor busybox, nor a package of a kernel with Soft-RoCE: run" \
				"check-verbs on Debian or Ubuntu"
	else
		[ "$what" != bench ] || packages+=(redis memcached)
		[ "$what" != verbs ] || packages+=(libcmocka-devel qemu-kvm busybox cpio xz iproute libibverbs-utils)
	fi
	is_installed() { rpm -q --whatprovides "$1" >/dev/null 2>&1; }
	command=("$manager" install -y)
	refresh=("$manager" makecache -q)
}

# Libraries that are too old would fail to compile, or fail with words that name no cause. One that is missing is left
# to the package manager.
check_versions() {
	local row module need have old=()
	command -v pkg-config >/dev/null || return 0
	for row in "libfabric 1.17" "liburing 2.3" "openssl 3.0" "libxxhash 0.8"; do
		read -r module need <<<"$row"
		have=$(pkg-config --modversion "$module" 2>/dev/null) || continue
		pkg-config --atleast-version="$need" "$module" || old+=("$module $have (needed: $need or newer)")
	done
	[ ${#old[@]} -eq 0 ] && return 0
	printf -v row '%s, ' "${old[@]}"
	die "too old: ${row%, }. Take a newer release of this system, or build these yourself and put their .pc files" \
		"first in PKG_CONFIG_PATH"
}

if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
	plan_debian
elif command -v dnf >/dev/null; then
	plan_redhat dnf
elif command -v yum >/dev/null; then
	plan_redhat yum
else
	manager=none
	is_installed() { return 1; }
fi

# Without a known package manager, check whether a build would find everything.
if [ "$manager" = none ]; then
	missing=()
	for tool in cc make pkg-config; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	for module in libfabric libibverbs liburing openssl libxxhash jansson libedit libmicrohttpd libcurl zlib; do
		pkg-config --exists "$module" 2>/dev/null || missing+=("$module")
	done
	if [ ${#missing[@]} -eq 0 ]; then
		check_versions
		exit 0
	fi
	die "there is no apt-get, dnf or yum here: install these yourself, libraries with their headers: ${missing[*]}"
fi

missing=()
for package in "${packages[@]}"; do
	is_installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
	check_versions
	exit 0
fi

case " ${missing[*]} " in
*" libfabric-devel "*)
	say "on an EFA instance install libfabric with the AWS EFA installer rather than with $manager:" \
		"https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html"
	;;
esac
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if command -v sudo >/dev/null; then
		as_root=(sudo)
	else
		as_root=(none)
	fi
fi
shown="${command[*]} ${missing[*]}"
if [ "${KVRAIL_NO_INSTALL:-0}" = 1 ]; then
	die "missing: ${missing[*]}. KVRAIL_NO_INSTALL=1 forbids to install them; as root run: $shown"
fi
if [ "${as_root[0]:-}" = none ]; then
	die "missing: ${missing[*]}. This user is not root, and there is no sudo; as root run: $shown"
fi

# ${a[@]+...}: an empty array is unset to bash before 4.4.
root() { ${as_root[@]+"${as_root[@]}"} env ${DEBIAN_FRONTEND:+DEBIAN_FRONTEND="$DEBIAN_FRONTEND"} "$@"; }

# Debian starts a service when its package is installed, unless this file says that it must not be.
policy=${KVRAIL_POLICY_RC:-/usr/sbin/policy-rc.d} policy_is_ours=
services_keep() {
	case $manager:$what in apt-get:more | apt-get:bench) ;; *) return 0 ;; esac
	[ ! -e "$policy" ] || return 0
	printf '#!/bin/sh\nexit 101\n' | root install -m 755 /dev/stdin "$policy" && policy_is_ours=1
}
services_again() { [ -z "$policy_is_ours" ] || root rm -f "$policy"; }

# Whoever can have four of five programs has the tests of four.
one_by_one() {
	local package left=()
	say "installing them one by one"
	for package in "${missing[@]}"; do
		say "installing $package"
		manage "${command[@]}" "$package" || left+=("$package")
	done
	[ ${#left[@]} -gt 0 ] || exit 0
	die "these could not be installed, and tests that need them are skipped: ${left[*]}"
}

# manage COMMAND... -- runs the package manager. Its output goes to the log; of apt-get's lines those that begin a step
# are said, and on a terminal the newest is shown.
manage() {
	local line step='' new live='' columns=80
	if [ -t 2 ] && [ "${TERM:-dumb}" != dumb ]; then
		live=$(stty size <&2 2>/dev/null) && columns=${live#* }
		live=1
	fi
	root "$@" 2>&1 | while IFS= read -r line; do
		printf '%s\n' "$line" >>"$log"
		case $line in
		Get:* | Hit:*) new="fetching" ;;
		"Unpacking "*) new="unpacking" ;;
		"Setting up "*) new="setting up" ;;
		*) new=$step ;;
		esac
		[ -z "$live" ] || printf '\r\033[K' >&2
		[ "$new" = "$step" ] || say "$new packages"
		step=$new
		[ -z "$live" ] || printf '%.*s' "$((columns - 1))" "${line//[^ -~]/ }" >&2
	done
	line=${PIPESTATUS[0]}
	[ -z "$live" ] || printf '\r\033[K' >&2
	return "$line"
}

say "installing with $manager: ${missing[*]}"
log=$(mktemp) || die "no temporary file can be made"
trap 'rm -f "$log"; services_again' EXIT
services_keep
if ! manage "${command[@]}" "${missing[@]}"; then
	# On a fresh system package lists are missing or old, and a mirror may fail once: refresh, with one retry, and try
	# again.
	say "that failed; refreshing the package lists and trying once more"
	manage "${refresh[@]}" || { sleep 3 && manage "${refresh[@]}"; }
	say "installing again"
	if ! manage "${command[@]}" "${missing[@]}"; then
		tail -n 25 "$log" >&2
		[ "$what" != more ] || one_by_one
		die "the packages could not be installed (see above); as root run: $shown"
	fi
fi
say "done"
check_versions
