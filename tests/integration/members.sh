#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# members.sh -- kv-server --members; see members.py. members.sh TEXT runs the tests whose name has TEXT in it.
. "$(dirname "$0")/lib.bash"
TMPDIR=$scratch KVRAIL_BUILD=$build python3 -B tests/integration/members.py "$@"
