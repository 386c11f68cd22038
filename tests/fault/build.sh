#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh -- build/asan/tests/fault/sweep, until the Makefile has a rule for it.
set -eu
cd "${KVRAIL_ROOT:-$(dirname "$0")/../..}"
layers="base loop ring wire bootstrap engine fab kvclient kvserver"
objects="" archives="" wraps=""
for f in fault fabric_ops scenario sweep; do objects="$objects build/asan/tests/fault/$f.c.o"; done
for l in $layers; do archives="$archives build/asan/lib$l.a"; done
for w in $(cat tests/fault/wrap.txt); do wraps="$wraps -Wl,--wrap=$w"; done
make --no-print-directory -j2 MODE=asan $archives $objects
${CC:-gcc} -pthread -fsanitize=address,undefined -o build/asan/tests/fault/sweep $objects $wraps -Wl,--start-group $archives -Wl,--end-group \
	-Wl,--as-needed $(pkg-config --libs libfabric liburing openssl libxxhash) -ldl -lm
