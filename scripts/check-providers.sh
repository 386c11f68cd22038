#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-providers.sh -- the tests that go over a fabric, once for each of the providers of $PROVIDERS.
#
# usage: PROVIDERS="tcp-native shm" check-providers.sh [-l LOGDIR] PROGRAM...
# A provider that this libfabric or machine lacks is skipped with the sentence that says so. KVRAIL_BUILD: where the programs are.
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
	# There is no server: what is said is either that, or that the provider is not here.
	why=$("$build/kv-client" --provider "$provider" --server 127.0.0.1:1 --timeout 1 ping 2>&1 | grep -m 1 "provider $provider is not here")
	if [ -n "$why" ]; then
		echo "skip $provider: $why"
		echo "0 passed, 0 failed, 1 skipped"
		continue
	fi
	echo "== $provider"
	programs=("$@")
	if [ "$provider" = shm ]; then
		# There both ends are of one thread and break off while the other sends, and shm follows the pointers of a closed peer in the same process.
		echo "skip tests/kvserver over shm: they close one of two ends in one process, which shm does not survive"
		programs=()
		for program in "$@"; do
			[[ $program == */kvserver/* ]] || programs+=("$program")
		done
	fi
	KVRAIL_TEST_PROVIDER=$provider scripts/run-tests.sh -t "${TEST_LIMIT:-300}" -l "$logs/$provider" "${programs[@]}" || failed=1
done
exit $failed
