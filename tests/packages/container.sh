#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# container.sh -- the steps of deploy/container/Containerfile in bare roots, and the image's server at work as its user. No container engine is needed, and
# none is tried: this test knows the instructions that the file uses, and fails at another one. What is not shown: that an engine reads the file alike.
#
# It needs root, debootstrap and a mirror of packages, and takes some minutes; it says what is missing and skips.
. "$(dirname "$0")/../integration/lib.bash"
. tests/packages/root.bash
file=deploy/container/Containerfile
suite=$(sed -n 's/^ARG BASE=.*debian:\([a-z]*\)-slim$/\1/p' "$file")
base=$scratch/base
root_make "$suite" "$base"
plan 7

# The instructions, a line each: comments and line breaks are gone.
sed -e '/^ *#/d' "$file" | sed -e ':a' -e '/\\$/N; s/\\\n */ /; ta' | sed '/^ *$/d' >"$scratch/steps"
root= stage=none folder=/ user=0:0 entry=() arguments=()
declare -A stages
list_of() { python3 -c 'import json, sys; print("\n".join(json.loads(sys.argv[1])))' "$1"; }
copy() { # copy [--from=STAGE] SOURCE... TARGET
	local from=$PWD to
	[[ $1 != --from=* ]] || { from=${stages[${1#--from=}]} && shift; }
	to=${*: -1}
	[[ $to = /* ]] || to=$folder/$to
	mkdir -p "$root$to"
	if [ "$1" = . ]; then
		# What .dockerignore names stays behind.
		tar -C "$from" $(grep -v '^#' "$file.dockerignore" | sed 's|^|--exclude=./|') -cf - . | tar -C "$root$to" -xf -
	else
		for one in "${@:1:$#-1}"; do cp -a $from$one "$root$to/" || return 1; done
	fi
}
step() { # INSTRUCTION REST
	case $1 in
	FROM)
		stage=$(sed -n 's/.* AS //p' <<<"$2")
		stage=${stage:-last} root=$scratch/root-${stage:-last} folder=/ user=0:0
		stages[$stage]=$root
		[[ $2 = '${BASE}'* ]] && cp -a "$base" "$root" && root_ready "$root"
		;;
	ARG) [[ $2 = BASE=* ]] ;;
	RUN) within "$root" sh -c "cd $folder && $2" ;;
	WORKDIR) folder=$2 && mkdir -p "$root$2" ;;
	COPY) eval "copy $2" ;;
	USER) user=$2 ;;
	ENTRYPOINT) mapfile -t entry < <(list_of "$2") && [ ${#entry[@]} -gt 0 ] ;;
	CMD) mapfile -t arguments < <(list_of "$2") && [ ${#arguments[@]} -gt 0 ] ;;
	EXPOSE | STOPSIGNAL) [ -n "$2" ] ;;
	*) echo "this test does not know $1" && return 1 ;;
	esac
}
steps() { # all of them; the first that fails is named
	local what rest
	while read -r what rest <&4; do
		step "$what" "$rest" >"$scratch/step.out" 2>&1 4<&- || { echo "$what $rest" && tail -n 30 "$scratch/step.out" && return 1; }
	done 4<"$scratch/steps"
}
check "each step of the file can be taken" steps
as_user() { within "$root" "${become[@]}" "$@"; }
become=(setpriv --reuid "${user%:*}" --regid "${user#*:}" --clear-groups)
check "the user of the image is not root, and has a number" [ "$user" = 10001:10001 ]
check "and is the user of the package" within "$root" sh -c '[ "$(id -u kvrail):$(id -g kvrail)" = 10001:10001 ]'
check "kv-doctor runs as that user" as_user kv-doctor --version
check "its keys can be made and read by that user" within "$root" sh -c '[ "$(stat -c %U:%a /etc/kvrail)" = kvrail:700 ]'
served() { # the server as the image starts it, on another port; a client of the image at it
	local pid rc=1
	# (Not by a function: the process that is signalled must be the server.)
	chroot "$root" "${clean[@]}" "${become[@]}" "${entry[@]}" "${arguments[@]}" --memory-mb 64 --listen-addr 127.0.0.1:0 --local-socket /run/kvrail/local --ready-fd 3 3>"$scratch/served.ready" >"$scratch/served.out" 2>&1 &
	pid=$!
	pids+=("$pid")
	soon grep -q READY "$scratch/served.ready" && as_user kv-client --server "$(sed -n 's/^READY //p' "$scratch/served.ready")" ping && rc=0
	kill -TERM "$pid" && wait "$pid" || rc=1
	[ $rc -eq 0 ] || cat "$scratch/served.out"
	return $rc
}
check "it serves as that user, with a socket for clients of its host, and SIGTERM ends it with status 0" served
no_tools() { ! within "$root" sh -c 'command -v gcc || command -v make'; }
check "nothing of the build is in the image" no_tools
finish
