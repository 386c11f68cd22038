#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# epoll.sh -- the fault sweep once more where io_uring is forbidden: what loop/ring_*.c calls fails there, on epoll.
cd "$(dirname "$0")/../.." || exit 2
export KVRAIL_FAULT_ONLY=loop/ring_ KVRAIL_FAULT_ONCE=1
exec tests/integration/no_uring.py "${KVRAIL_BUILD:-build/asan}/tests/fault/sweep"
