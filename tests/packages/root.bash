# SPDX-License-Identifier: Apache-2.0
# root.bash -- bare roots of Debian or Ubuntu for the tests of packages and images: made by debootstrap, from this machine's mirror. Sourced after lib.bash.
# They need root, debootstrap and the mirror; where something is missing, no test can be made, and the reason is said.
mounted=()

no_tests() {
	echo "1..0 # SKIP $*"
	exit 0
}

# root_make SUITE FOLDER
root_make() {
	local mirror
	[ "$(id -u)" -eq 0 ] || no_tests "a root folder is made by root only"
	command -v debootstrap >/dev/null || no_tests "debootstrap is not installed"
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m 1 -E '/(debian|ubuntu)/?$')
	debootstrap --variant=minbase "$1" "$2" ${mirror:+"$mirror"} >"$scratch/debootstrap.log" 2>&1 ||
		no_tests "debootstrap cannot make a root: $(tail -n 1 "$scratch/debootstrap.log")"
}

# root_ready FOLDER -- what programs in it expect, and apt's settings of this machine. Nothing of this machine is mounted that could be removed with the scratch
# folder: the devices are those that debootstrap makes.
root_ready() {
	mounted+=("$1")
	mount -t proc proc "$1/proc" && mkdir -p "$1/dev/shm" && mount -t tmpfs tmpfs "$1/dev/shm"
	cp /etc/resolv.conf "$1/etc/" 2>/dev/null
	cp -a /etc/apt/apt.conf.d "$1/etc/apt/" 2>/dev/null
}

undo() {
	local at
	for at in "${mounted[@]}"; do
		umount -l "$at/proc" "$at/dev/shm"
	done
	cleanup
}
trap undo EXIT

# within FOLDER COMMAND...
clean=(env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin)
within() { chroot "$1" "${clean[@]}" "${@:2}"; }
