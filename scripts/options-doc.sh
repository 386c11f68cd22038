#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# options-doc.sh [BUILD] -- prints the page of all options: --help of each program in BUILD (build/release).
# `make options-page` writes it to build/MODE/docs/options.md, and `make install` installs it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
unset ARGP_HELP_FMT

help() { # TITLE COMMAND...
	local title=$1
	shift
	printf '\n## %s\n\n```\n' "$title"
	[ "$title" != kv-bench ] || set -- "$@" help all
	[ "$title" = kv-bench ] || set -- "$@" --help
	"$@" | sed 's/[[:space:]]*$//'
	printf '```\n'
}

cat <<'T'
# Options

The output of `--help` of each program.
T
help kv-server "$build/kv-server"
help kv-bench "$build/kv-bench"
for command in capacity compare fabric hits models plot scale sweep versus; do
	help "kv-bench $command" "$build/kv-bench" "$command"
done
help kv-client "$build/kv-client"
help kv-doctor "$build/kv-doctor"
help run-with-rdma.sh ./run-with-rdma.sh
