#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# python.sh -- the Python package of this build: its tests (python/tests), with the checks of Python's development mode, every warning an error. `make check`
# runs those of the client, of the documents and of errors.
. "$(dirname "$0")/lib.bash"
why=$(python/headers.py 2>&1 >/dev/null) || skip_all 1 "${why:-there is no python3}"
[ -e "$build/python/kvrail/_native.abi3.so" ] || skip_all 1 "the extension was not built: make python"
stale=$(find python/kvrail "$build/libkvrail.a" -type f ! -path '*/__pycache__/*' -newer "$build/python/kvrail/_native.abi3.so")
[ -z "$stale" ] || { echo "Bail out! the extension is older than ${stale%%$'\n'*}: make python"; exit 1; }
[ "${MODE:-release}" != tsan ] || skip_all 1 "python3 is not made with ThreadSanitizer"
export KVRAIL_KV_SERVER=$build/kv-server KVRAIL_TREE=$PWD PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1
# python3 does not load what the sanitizer needs first, and does not free all that it has.
if [ "${MODE:-release}" = asan ]; then
	export LD_PRELOAD="$(${CC:-gcc} -print-file-name=libasan.so)" ASAN_OPTIONS="detect_leaks=0:$ASAN_OPTIONS" PYTHONMALLOC=malloc
	development=()
else
	development=(-X dev)
fi
! short || set -- 'test_client*' 'test_docs*' 'test_errors*'
exec python3 "${development[@]}" -W error python/tests/run.py "$@"
