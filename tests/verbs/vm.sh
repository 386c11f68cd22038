#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# vm.sh -- run a command on a machine with RDMA devices: a virtual one, with Debian's kernel and Soft-RoCE, on this host's files.
#
# usage: vm.sh [OPTION...] COMMAND [ARG...]
#   --root DIR      change into this root of the host in the guest (a debootstrap tree); without it the guest's root is the host's
#   --chdir DIR     where the command starts, as the guest sees it; without it the folder of this repository, or / with --root
#   --out DIR       a folder of the host that the guest may write to: /tmp/out there
#   --timeout S     seconds that the command may take (default 300; then its exit status is 124)
#   --cpus N        default 2
#   --devices N     RoCE devices rxe0 (10.9.0.1), rxe1 (10.9.1.1), ... on one network (default 2)
#   --memory MB     default 4096; taken from the host as the guest touches it
#   --numa          two NUMA nodes, each with half of the CPUs and of the memory
#   --accel WHICH   auto (default: KVM if a guest really runs on it, else TCG), kvm or tcg. TCG emulates: ten times slower, and times mean nothing
#   --console FILE  keep what the guest's kernel said
# In the guest: root, no network but that of the devices, no limit on locked memory; the host's files read-only with fresh /tmp, /var/tmp, /run and /dev/shm in memory. Standard output, error output and the exit status are the command's.
# Exit status 125: the guest broke (panic, or it hung), and the end of what its kernel said is shown. 77: something is missing here, one sentence says what.
set -u
self=$(readlink -f "$0")
tree=$(readlink -f "$(dirname "$self")/../..")

say() { printf 'verbs: %s\n' "$*" >&2; }
missing() {
	say "$*"
	exit 77
}
usage() {
	sed -n '5,18s/^# \{0,1\}//p' "$self"
	exit "$1"
}

root= chdir= out= limit=300 cpus=2 devices=2 memory=4096 accel=${KVRAIL_VERBS_ACCEL:-auto} console= numa=
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) usage 0 ;;
	--numa)
		numa=1
		shift
		;;
	--root | --chdir | --out | --timeout | --cpus | --devices | --memory | --accel | --console)
		[ $# -ge 2 ] || usage 2 >&2
		case $1 in
		--root) root=$(readlink -e "$2") || missing "there is no root $2" ;;
		--chdir) chdir=$2 ;;
		--out) out=$(readlink -e "$2") || missing "there is no folder $2" ;;
		--timeout) limit=$2 ;;
		--cpus) cpus=$2 ;;
		--devices) devices=$2 ;;
		--memory) memory=$2 ;;
		--accel) accel=$2 ;;
		--console) console=$2 ;;
		esac
		shift 2
		;;
	--)
		shift
		break
		;;
	-*)
		say "there is no option $1"
		usage 2 >&2
		;;
	*) break ;;
	esac
done
[ $# -gt 0 ] || usage 2 >&2
[ "$root" != / ] || root=
[[ $limit =~ ^[0-9]+$ && $cpus =~ ^[0-9]+$ && $memory =~ ^[0-9]+$ && $devices =~ ^[0-9]+$ ]] || {
	say "--timeout, --cpus, --devices and --memory are whole numbers"
	exit 2
}
case $accel in
auto | kvm | tcg) ;;
*)
	say "--accel is auto, kvm or tcg, not $accel"
	exit 2
	;;
esac
[ "$(uname -m)" = x86_64 ] || missing "the guest is an x86_64 machine and this host is $(uname -m)"
for tool in qemu-system-x86_64 busybox cpio rdma setpriv timeout; do
	command -v $tool >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null || missing "$tool is not installed (scripts/install-deps.sh verbs installs it)"
done
guest=$("$tree/tests/verbs/kernel.sh") || exit 77

scratch=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-vm.XXXXXX") || exit 125
qemu=
cleanup() {
	[ -z "$qemu" ] || kill -KILL "$qemu" 2>/dev/null
	rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

# A second archive behind the cached one: init, the command as a shell script, and what init has to know.
quoted() { printf " '%s'" "${@//\'/\'\\\'\'}"; } # for a shell that need not be bash
[ -n "$chdir" ] || { [ -n "$root" ] && chdir=/ || chdir=$tree; }
mkdir "$scratch/add"
cp "$tree/tests/verbs/init" "$scratch/add/init"
chmod 755 "$scratch/add/init"
{
	echo "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp TERM=dumb LANG=C${out:+ OUT=/tmp/out}"
	echo "cd$(quoted "$chdir") || exit 126"
	echo "exec$(quoted "$@")"
} >"$scratch/add/command"
{
	echo "tree=$(quoted "$tree")" | sed 's/= /=/'
	echo "root=$(quoted "$root")" | sed 's/= /=/'
	echo "limit=$limit devices=$devices share=${out:+1}"
} >"$scratch/add/settings"
(cd "$scratch/add" && printf 'init\ncommand\nsettings\n' | cpio -o -H newc --quiet | gzip -1) >"$scratch/add.gz"
cat "$guest/base.cpio.gz" "$scratch/add.gz" >"$scratch/initramfs"

# said WORD -- the rest of the status port's line that begins with WORD.
said() { sed -n "s/^$1 *//p" "$scratch/status" 2>/dev/null | head -n 1; }

nodes=()
[ -z "$numa" ] || nodes=(-object "memory-backend-ram,id=near,size=$((memory / 2))M" -object "memory-backend-ram,id=far,size=$((memory - memory / 2))M"
	-numa "node,nodeid=0,cpus=0-$((cpus / 2 - 1)),memdev=near" -numa "node,nodeid=1,cpus=$((cpus / 2))-$((cpus - 1)),memdev=far")

# boot ACCEL SECONDS -- run the guest; it has SECONDS to say that it booted. 0: it did, and it is over. 1: it did not.
boot() {
	local cpu=max how=tcg,thread=multi began=$SECONDS
	[ "$1" != kvm ] || cpu=host how=kvm
	: >"$scratch/status"
	mkfifo "$scratch/out" "$scratch/err"
	cat "$scratch/out" &
	local cat_out=$!
	cat "$scratch/err" >&2 &
	local cat_err=$!
	# setpriv: if this script is killed, so is the guest. no_timer_check: while it boots, a kernel counts ticks of its
	# timer, and panics where a loaded host let none through.
	setpriv --pdeathsig KILL qemu-system-x86_64 -accel "$how" -cpu "$cpu" -smp "$cpus" -m "$memory" "${nodes[@]}" -nodefaults -no-user-config -display none -no-reboot \
		-kernel "$guest/vmlinuz" -initrd "$scratch/initramfs" -append "console=ttyS0 quiet mitigations=off no_timer_check panic=-1 oops=panic" \
		-chardev "file,id=console,path=$scratch/console" -serial chardev:console \
		-device virtio-serial-pci \
		-chardev "file,id=status,path=$scratch/status" -device virtserialport,chardev=status,name=status \
		-chardev "file,id=out,path=$scratch/out" -device virtserialport,chardev=out,name=out \
		-chardev "file,id=err,path=$scratch/err" -device virtserialport,chardev=err,name=err \
		-virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
		${out:+-virtfs "local,path=$out,mount_tag=out,security_model=none,multidevs=remap"} \
		</dev/null >"$scratch/qemu.log" 2>&1 &
	qemu=$!
	while kill -0 "$qemu" 2>/dev/null; do
		if [ ! -s "$scratch/status" ] && [ $((SECONDS - began)) -ge "$2" ]; then
			break
		fi
		# The guest ends the command by itself; this is for a guest that hangs.
		[ $((SECONDS - began)) -lt $((limit + $2 + 30)) ] || break
		sleep 0.1
	done
	kill -KILL "$qemu" 2>/dev/null
	wait "$qemu" 2>/dev/null
	qemu=
	# A qemu that never opened the pipes leaves their readers waiting: opened and closed here, they end.
	: <>"$scratch/out" <>"$scratch/err"
	wait "$cat_out" "$cat_err"
	rm -f "$scratch/out" "$scratch/err"
	[ -s "$scratch/status" ]
}

# /dev/kvm may be there and run no guest (in a guest without nested virtualisation, or under a hypervisor that wants kernels of its own): what counts is
# that one boots. TCG takes 10 s for that, KVM 2.
kvm_here() { [ -w /dev/kvm ] && { grep -qwE -m 1 'vmx|svm' /proc/cpuinfo || [ -n "${KVRAIL_VERBS_TRY_KVM:-}" ]; }; }
booted=
if [ "$accel" = kvm ] || { [ "$accel" = auto ] && kvm_here; }; then
	if boot kvm 30; then
		booted=kvm
	elif [ "$accel" = auto ]; then
		say "/dev/kvm is here, but no guest boots on it: emulating (TCG)"
	fi
fi
[ -n "$booted" ] || [ "$accel" = kvm ] || { boot tcg 180 && booted=tcg; }
[ -z "$console" ] || cp "$scratch/console" "$console"

broke() {
	say "the guest $1; the end of what it said:"
	tail -n 40 "$scratch/console" "$scratch/qemu.log" >&2
	exit 125
}
[ -n "$booted" ] || broke "did not boot${accel:+ (--accel $accel)}"
[ -z "$(said failed)" ] || broke "could not be set up: $(said failed)"
[[ $(said exit) =~ ^[0-9]+$ ]] || broke "did not end as it should (${booted^^}, after $SECONDS s)"
exit "$(said exit)"
