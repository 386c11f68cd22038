#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-providers.sh -- runs the tests that use a fabric, once for each provider of $PROVIDERS.
#
# usage: PROVIDERS="tcp-native shm" check-providers.sh [-l LOGDIR] PROGRAM...
# A provider that this libfabric or machine lacks is skipped, with kv-client's reason. KVRAIL_BUILD: the folder of the
# programs.
set -u
cd "$(dirname "$0")/.." || exit 2
build=${KVRAIL_BUILD:-build/release}
logs=$build/logs failed=0
while getopts l: o; do
	case $o in
	l) logs=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
for provider in $PROVIDERS; do
	# No server listens there, so kv-client says either that, or that the provider is not here.
	why=$("$build/kv-client" --provider "$provider" --server 127.0.0.1:1 --timeout 1 ping 2>&1 |
		grep -m 1 "provider $provider is not here")
	if [ -n "$why" ]; then
		echo "skip $provider: $why"
		echo "0 passed, 0 failed, 1 skipped"
		continue
	fi
	echo "== $provider"
	programs=("$@")
	if [ "$provider" = shm ]; then
		# In these tests one thread runs both ends and closes one while the other sends. Then shm follows pointers of
		# the closed peer, which lie in the same process.
		echo "skip tests/kvserver over shm: they close one of two ends in one process, which shm does not survive"
		programs=()
		for program in "$@"; do
			[[ $program == */kvserver/* ]] || programs+=("$program")
		done
	fi
	KVRAIL_TEST_PROVIDER=$provider scripts/run-tests.sh -t "${TEST_LIMIT:-300}" -l "$logs/$provider" "${programs[@]}" ||
		failed=1
done
exit $failed
