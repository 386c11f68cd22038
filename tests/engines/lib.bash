# SPDX-License-Identifier: Apache-2.0
# lib.bash -- what the tests of the engines share: a virtual environment of pinned packages, kept between runs, with the
# package kvrail of this tree in it. Source it, then call `venv NAME LIST`; it has all of tests/integration/lib.bash.
#
# An engine is NAME.sh, a TAP program of its own, and NAME.txt, its packages, each with its exact version. `NAME.sh
# environment` makes the environment and ends there: it takes minutes, which are not the tests'. Nothing of an
# engine is in this tree: packages and upstream's own tests come from the package index when the tests are run, into
# build/engines/. Without a network, or where a package cannot be had, the tests are skipped, and say which it was.
. "$(dirname "${BASH_SOURCE[0]}")/../integration/lib.bash"
engines=$PWD/build/engines only=${1:-}
export KVRAIL_KV_SERVER=$build/kv-server PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONHASHSEED=0

# digest FILE... -- a short hash of the files and of the Python they are for.
digest() { { python3 -c 'import sys; print(sys.version, sys.prefix)' && cat "$@"; } | sha256sum | cut -c 1-16; }

# venv NAME LIST -- the virtual environment of LIST, a file of pinned packages: sets $venv, and $python in it. It is made
# once for each content of LIST; older ones of the same name are removed. What the function `made_NAME` installs after
# the list, where there is one, is a part of it: its text is hashed, too. Returns 1 with the reason in $why.
venv() {
	venv_made "$@"
	local rc=$?
	[ "$only" != environment ] || exit 0
	return $rc
}
venv_made() {
	local name=$1 list=$2 text=$scratch/$1.made log=$engines/$1.log
	declare -f "made_$name" >"$text"
	venv=$engines/$name-$(digest "$list" "$text") python=$venv/bin/python
	[ -e "$venv/complete" ] && return 0
	mkdir -p "$engines" && rm -rf "$engines/$name"-*
	python3 -m venv "$venv" >"$log" 2>&1 || {
		why="python3 -m venv does not work here (Debian: apt-get install python3-venv); see build/engines/$name.log"
		return 1
	}
	"$python" -m pip install --quiet --no-deps -r "$list" >>"$log" 2>&1 || {
		why="its packages cannot be installed here: that needs the package index; see build/engines/$name.log"
		return 1
	}
	[ ! -s "$text" ] || (PATH=$venv/bin:$PATH && "made_$name") >>"$log" 2>&1 || {
		why="it cannot be built here; see build/engines/$name.log"
		return 1
	}
	touch "$venv/complete"
}

# our_package -- installs the package kvrail of this tree into $venv. setuptools and wheel must be in its list.
our_package() { "$python" -m pip install --quiet --no-deps --no-build-isolation ./python; }

# gist STATUS FILE -- what to know of the output of a program that failed, in less than 60 lines: what was raised, the last
# first; then the end of the output, without what LMCache prints when all is well. A copy of all of it stays in
# build/engines/.
gist() {
	local all
	all=$engines/failed-$(basename "$0" .sh)-$tap_n.log
	mkdir -p "$engines" && sed 's/\x1b\[[0-9;]*m//g' "$2" >"$all"
	awk -v status="$1" '
		/^[^ ]/ && traced { said[n++] = /^[A-Za-z_.]+$/ ? $0 ":" before : $0 }
		/^[^ ]/ { traced = 0 }
		/^Traceback \(most recent call last\)/ { traced = 1 }
		!/^ *[~^]+$/ { before = $0 }
		END {
			for (i = n - 1; i >= 0 && i >= n - 5; i--) print substr(said[i], 1, 300)
			print "exit status " status (status == 124 ? ": it did not end within its time" : "")
		}' "$all"
	echo "The end of what it printed (all of it is in ${all#"$PWD/"}):"
	grep -v -E ' LMCache INFO: |^(count|mean|min|max|p50|p99|Mode|RPC URL|Transfer mode|Interval \(s\)|Tokens / request): |^[-=]{6,}|"GET /healthcheck|^ *$' "$all" |
		cut -c 1-300 | tail -n 50
}
