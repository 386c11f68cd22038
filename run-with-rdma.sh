#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run-with-rdma.sh [--provider P] COMMAND [ARGS...]
#   Runs a command with the machine's RDMA fabric set up.
#
# COMMAND is kv-bench, kv-server, kv-client or kv-doctor (or bench, server,
# client, doctor), or any other program. COMMAND check installs what the tests
# need, make included, and runs `make check`.
#   --provider P   efa, efa-direct, verbs, tcp, tcp-native or shm: KVRail's
#                  programs use this provider or fail. Without it they choose.
#   -h, --help     print this text
# The script finds EFA and InfiniBand/RoCE devices, lets one libfabric be loaded
# (the AWS EFA installer's, if it is there), and raises the limits of locked
# memory and open files as far as it may. For KVRail's programs it also installs
# what is missing, and builds. Of the environment it sets
#   LD_LIBRARY_PATH: the EFA installer's libraries stand before what is there;
#   FI_EFA_FORK_SAFE, IPATH_NO_BACKTRACE, unless they are set already
#   (docs/internals/providers.md)
# and it heeds
#   KVRAIL_NO_INSTALL=1   install nothing; say what is missing
#   KVRAIL_NO_BUILD=1     build nothing; take the programs as they are
set -u

# A directory of PATH may hold a link to this script: the tree is where the script itself lies.
self=$(readlink -f "${BASH_SOURCE[0]}") || exit 3
root=$(dirname "$self")
efa_root=${KVRAIL_EFA_ROOT:-/opt/amazon/efa}
sys_infiniband=${KVRAIL_SYS_INFINIBAND:-/sys/class/infiniband}
provider=
notes=()

say() { printf 'run-with-rdma: %s\n' "$*" >&2; }
note() { notes+=("$*"); } # said before the program runs
usage() { sed -n '3,23s/^# \{0,1\}//p' "$self"; }

# ---- what is asked for ----

while [ $# -gt 0 ]; do
	case $1 in
	--provider)
		[ $# -ge 2 ] || {
			say "--provider needs a name: efa, efa-direct, verbs, tcp, tcp-native or shm"
			exit 2
		}
		provider=$2
		shift 2
		;;
	--provider=*)
		provider=${1#*=}
		shift
		;;
	-h | --help)
		usage
		exit 0
		;;
	--)
		shift
		break
		;;
	-*)
		say "there is no option '$1'; options of the command come after the command (try --help)"
		exit 2
		;;
	*) break ;;
	esac
done
if [ $# -eq 0 ]; then
	usage >&2
	exit 2
fi
case $provider in
'' | auto | efa | efa-direct | verbs | tcp | tcp-native | net | shm) ;;
*)
	say "there is no provider '$provider': use efa, efa-direct, verbs, tcp, tcp-native or shm"
	exit 2
	;;
esac
name=$1
shift
case $name in
bench | server | client | doctor) name=kv-$name ;;
esac
case $name in
kv-bench | kv-server | kv-client | kv-doctor) ours=1 ;;
*) ours=0 ;;
esac

# A --provider among the program's own options overrides one before its name.
given=
if [ "$ours" = 1 ]; then
	want_value=0
	for arg in "$@"; do
		if [ "$want_value" = 1 ]; then
			given=$arg want_value=0
			continue
		fi
		case $arg in
		--) break ;;
		--provider | -p) want_value=1 ;;
		--provider=*) given=${arg#*=} ;;
		-p?*) given=${arg#-p} ;;
		esac
	done
	if [ -n "$given" ]; then
		provider=$given
	elif [ -n "$provider" ] && [ "$want_value" = 0 ]; then
		# A sub-command stands before its options.
		if [ "${1:-}" = capacity ]; then
			shift
			set -- capacity --provider "$provider" "$@"
		else
			set -- --provider "$provider" "$@"
		fi
	fi
fi

if [ "$name" = check ] && [ -n "$provider" ]; then
	say "check has no --provider: use make check-providers PROVIDERS=$provider"
	exit 2
fi
if [ "$name" = check ] && [ ! -f "$root/Makefile" ]; then
	say "check needs the source tree; there is no Makefile in $root"
	exit 2
fi

# ---- what is here ----

efa_devices=() verbs_devices=()
for device in "$sys_infiniband"/*; do
	[ -e "$device" ] || continue
	vendor=
	[ -r "$device/device/vendor" ] && read -r vendor <"$device/device/vendor"
	if [ "$vendor" = 0x1d0f ]; then
		efa_devices+=("${device##*/}")
	else
		verbs_devices+=("${device##*/}")
	fi
done
if [ ${#efa_devices[@]} -gt 0 ]; then
	fabric=efa why="EFA devices: ${efa_devices[*]}"
elif [ ${#verbs_devices[@]} -gt 0 ]; then
	fabric=verbs why="RDMA devices: ${verbs_devices[*]}"
else
	fabric=tcp why="no RDMA device in $sys_infiniband"
fi
case $provider in
efa*)
	[ ${#efa_devices[@]} -gt 0 ] ||
		note "provider $provider is asked for, but no EFA device is here: the program will refuse to start"
	;;
verbs)
	[ ${#verbs_devices[@]} -gt 0 ] ||
		note "provider verbs is asked for, but no InfiniBand or RoCE device is here: the program will" \
			"refuse to start"
	;;
esac

# ---- environment: only what must be set before a library is loaded ----

libfabric="the system's"
for dir in "$efa_root/lib64" "$efa_root/lib"; do
	[ -e "$dir/libfabric.so.1" ] || continue
	libfabric=$dir
	export LD_LIBRARY_PATH="$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
	export PKG_CONFIG_PATH="$dir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
	break
done
if [ "$fabric" = efa ]; then
	export FI_EFA_FORK_SAFE="${FI_EFA_FORK_SAFE-1}"
	[ "$libfabric" != "the system's" ] ||
		note "EFA devices are here, but no libfabric of the AWS EFA installer in $efa_root: the system's may be" \
			"too old"
fi
export IPATH_NO_BACKTRACE="${IPATH_NO_BACKTRACE-1}"

# ---- limits ----

ulimit -l unlimited 2>/dev/null || ulimit -S -l "$(ulimit -H -l)" 2>/dev/null
memlock=$(ulimit -S -l)
if [ "$memlock" != unlimited ]; then
	memlock="${memlock} KiB"
	[ "$fabric" = tcp ] ||
		note "memlock is limited to $memlock and cannot be raised here, so registering memory may fail: put" \
			"'* - memlock unlimited' into /etc/security/limits.d/90-kvrail.conf and log in again; for a service:" \
			"LimitMEMLOCK=infinity; for a container: --ulimit memlock=-1"
fi
# A million is enough. Some container runtimes allow 2^30, and there are programs that loop over all descriptors.
wanted=$(ulimit -H -n)
[ "$wanted" != unlimited ] && [ "$wanted" -le 1048576 ] || wanted=1048576
files=$(ulimit -S -n)
if [ "$files" != unlimited ] && [ "$files" -lt "$wanted" ]; then
	ulimit -S -n "$wanted" 2>/dev/null
	files=$(ulimit -S -n)
fi
if [ "$files" != unlimited ] && [ "$files" -lt 1024 ]; then
	note "only $files open files are allowed, and the limit cannot be raised here: put '* - nofile 65536' into" \
		"/etc/security/limits.d/90-kvrail.conf and log in again; for a service: LimitNOFILE=65536; for a" \
		"container: --ulimit nofile=65536:65536"
fi

# ---- the program ----

build_ours() {
	[ "${KVRAIL_NO_BUILD:-0}" != 1 ] && [ -f "$root/Makefile" ] || return 0
	# An up-to-date build needs neither compiler nor packages.
	if [ -x "$root/build/release/$name" ] &&
		{ ! command -v make >/dev/null || make -C "$root" -q MODE=release all >/dev/null 2>&1; }; then
		return 0
	fi
	say "step 1 of 2: packages that building needs"
	"$root/scripts/install-deps.sh" run || return 1
	build_shown
}

# make, and how far it is. Its lines "  CC FILE" and "  LINK FILE" are counted; a dry run says how many there will be.
build_shown() {
	local total done=0 line status live
	total=$(make -C "$root" -n MODE=release all 2>/dev/null | grep -cE '^echo +"  (CC|LINK) ')
	live=; [ -t 2 ] && [ "${TERM:-dumb}" != dumb ] && live=1
	say "step 2 of 2: building $total objects and programs (make MODE=release)"
	while IFS= read -r line; do
		case $line in
		"  CC "* | "  LINK "*)
			done=$((done + 1))
			[ -z "$live" ] || printf '\r\033[Krun-with-rdma: %d of %d: %s' "$done" "$total" "${line##*/}" >&2
			;;
		status=*) status=${line#status=} ;;
		esac
	done < <(
		make -C "$root" --no-print-directory -s -j"$(nproc 2>/dev/null || echo 2)" MODE=release all
		echo "status=$?"
	)
	[ -z "$live" ] || printf '\r\033[K' >&2
	[ "${status:-1}" = 0 ] && say "built"
}

# Packages come first: on a machine without make, make cannot say what is missing.
if [ "$name" = check ]; then
	say "step 1 of 2: packages that the tests need"
	"$root/scripts/install-deps.sh" test || {
		say "the tests cannot run: see above for what is missing"
		exit 3
	}
	say "step 2 of 2: make check, which builds and runs the tests"
	exec make -C "$root" --no-print-directory check "$@"
fi

program=$name
if [ "$ours" = 1 ]; then
	build_ours || {
		say "$name could not be built: see above"
		exit 3
	}
	if [ -x "$root/build/release/$name" ]; then
		program=$root/build/release/$name
	elif [ -x "$root/bin/$name" ]; then
		program=$root/bin/$name
	elif ! command -v "$name" >/dev/null; then
		say "$name is neither in $root/build/release nor in PATH: run 'make' in $root"
		exit 3
	fi
elif ! command -v "$name" >/dev/null; then
	say "there is no program '$name'"
	exit 127
fi

for text in ${notes[@]+"${notes[@]}"}; do
	say "note: $text"
done
say "fabric $fabric ($why), provider ${provider:-auto}, libfabric $libfabric, memlock $memlock, $files files;" \
	"running $program"
exec "$program" "$@"
