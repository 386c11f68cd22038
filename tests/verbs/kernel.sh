#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kernel.sh -- have Debian's kernel with Soft-RoCE (rdma_rxe) ready for vm.sh: fetched, unpacked, and an initramfs of its modules.
#
# usage: kernel.sh        prints the folder, in which there are `vmlinuz` and `base.cpio.gz`
# It installs nothing: `apt-get download` and dpkg-deb unpack the package below build/verbs, once; runs side by side wait for each other.
#   KVRAIL_VERBS_KERNEL=FOLDER   an unpacked kernel package (boot/, lib/modules/) instead of Debian's
#   KVRAIL_NO_INSTALL=1          fetch nothing: what is not there yet is missing
# Exit status: 0, or 77 with one sentence on stderr that says what is missing.
set -u
self=$(readlink -f "$0")
cd "$(dirname "$self")/../.." || exit 2
cache=build/verbs

missing() {
	printf 'verbs: %s\n' "$*" >&2
	exit 77
}

# What the guest needs. A '?' before a name: only where the kernel has it as a module (it may be built in, or gone).
modules=(virtio_pci virtio_console '?crc32_generic' '?crc32c_generic' '?libcrc32c' 9pnet_virtio 9p ib_uverbs rdma_ucm rdma_rxe veth bridge '?sch_netem')

# The newest kernel package that the real package linux-image-amd64 leads to.
package_name() { apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1; }

fetch() {
	local package folder=$1
	[ "${KVRAIL_NO_INSTALL:-0}" != 1 ] || missing "the kernel with Soft-RoCE is not in $cache yet, and KVRAIL_NO_INSTALL=1 forbids fetching it (apt-get download linux-image-amd64's package)"
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || missing "Debian's kernel is fetched with apt-get and dpkg-deb, which are not here (KVRAIL_VERBS_KERNEL names an unpacked one)"
	package=$(package_name)
	[ -n "$package" ] || missing "apt knows no linux-image-amd64 (run apt-get update, or let KVRAIL_VERBS_KERNEL name an unpacked kernel package)"
	rm -rf "$folder" && mkdir -p "$folder" || missing "$folder cannot be made"
	(cd "$folder" && timeout 300 apt-get download -q "$package" >apt.log 2>&1) || missing "$package cannot be fetched: $(grep -m 1 '^E:' "$folder/apt.log" || echo 'apt-get download failed')"
	dpkg-deb -x "$folder"/*.deb "$folder" || missing "$package cannot be unpacked below $folder"
	rm -f "$folder"/*.deb
}

# Where a module's file is, below $tree: modules are named with - and _ alike, and may be compressed.
module_file() { find "$tree" -name "${1//_/[-_]}.ko" -o -name "${1//_/[-_]}.ko.xz" | head -n 1; }

# add MODULE -- copy it and what it depends on to $stage/modules, in loading order: each name is prefixed by its turn.
add() {
	local name=${1#\?} file depends d
	case " $done_modules " in *" $name "*) return ;; esac
	done_modules="$done_modules $name"
	file=$(module_file "$name")
	if [ -z "$file" ]; then
		[ "$name" != "$1" ] || grep -qs "/${name//_/[-_]}\.ko" "$tree"/modules.builtin || missing "this kernel ($tree) has no module $name"
		return 0
	fi
	case $file in *.xz) xz -dc "$file" ;; *) cat "$file" ;; esac >"$stage/$name.ko" || missing "$file cannot be read"
	depends=$(tr '\0' '\n' <"$stage/$name.ko" | sed -n 's/^depends=//p' | head -n 1)
	for d in ${depends//,/ }; do
		add "$d"
	done
	turn=$((turn + 1))
	mv "$stage/$name.ko" "$stage/modules/$(printf '%03d' $turn)-$name.ko"
}

# build KERNEL OUT -- vmlinuz and base.cpio.gz of an unpacked kernel package, in OUT.
build() {
	local image
	image=$(find "$1/boot" -name 'vmlinuz-*' | sort -V | tail -n 1)
	tree=$1/lib/modules/${image##*/vmlinuz-}
	[ -r "$image" ] && [ -d "$tree" ] || missing "$1 is no unpacked kernel package: boot/vmlinuz-* or its lib/modules are not there"
	stage=$2/stage done_modules= turn=0
	mkdir -p "$stage"/{bin,modules,proc,sys,dev,lower,host}
	for m in "${modules[@]}"; do
		add "$m"
	done
	cp "$image" "$2/vmlinuz" && cp "$(command -v busybox)" "$stage/bin/busybox" || missing "the initramfs cannot be made in $2"
	(cd "$stage" && find . | cpio -o -H newc --quiet | gzip -1) >"$2/base.cpio.gz" || missing "cpio failed in $2"
	rm -rf "$stage"
}

for tool in busybox cpio find gzip xz flock; do
	command -v $tool >/dev/null || missing "$tool is not installed (scripts/install-deps.sh verbs installs it)"
done
mkdir -p "$cache" || missing "$cache cannot be made"
exec 9>"$cache/lock"
flock 9
kernel=${KVRAIL_VERBS_KERNEL:-$cache/kernel}
# What was made is kept for this list of modules, this kernel and this script.
ready=$cache/guest.$(printf '%s ' "$kernel" | cat - "$self" | cksum | cut -d ' ' -f 1)
if [ ! -e "$ready/base.cpio.gz" ]; then
	if [ ! -d "$kernel/boot" ]; then
		[ -z "${KVRAIL_VERBS_KERNEL:-}" ] || missing "KVRAIL_VERBS_KERNEL=$kernel: there is no boot/ in it"
		fetch "$cache/kernel.new"
		mv "$cache/kernel.new" "$kernel"
	fi
	rm -rf "$cache"/guest.*
	mkdir -p "$ready.new" && build "$kernel" "$ready.new" && mv "$ready.new" "$ready" || exit 77
fi
echo "$PWD/$ready"
