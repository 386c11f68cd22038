#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel.sh -- the wheel that `make wheel` has made, in a virtual environment: its name, its tests, its types.
. "$(dirname "$0")/../../tests/integration/lib.bash"
python=${PYTHON:-python3}
venv=$scratch/venv
plan 11
wheel=$(ls build/kvrail-*-cp311-abi3-linux_*.whl)
check "there is one wheel, for the stable ABI of 3.11" test "$(wc -w <<<"$wheel")" = 1
tagged() { "$python" -m zipfile -e "$wheel" "$scratch/wheel" && grep -qx 'Tag: cp311-abi3-linux_[a-z0-9_]*' "$scratch"/wheel/*.dist-info/WHEEL; }
check "its tag says so, too" tagged
content() {
	(cd python && printf '%s\n' kvrail/*.py kvrail/*.pyi kvrail/py.typed kvrail/_native.abi3.so | sort) >"$scratch/want"
	(cd "$scratch/wheel" && find kvrail -type f | sort) >"$scratch/have"
	diff "$scratch/want" "$scratch/have"
}
check "it has the package's files and no others" content
linked() { ! "$python" -m zipfile -l "$wheel" | grep -E 'libfabric|libssl|liburing|\.[ch]$' && readelf -d "$venv"/lib/python3*/site-packages/kvrail/_native.abi3.so | grep 'NEEDED.*libfabric'; }
install() { "$python" -m venv --system-site-packages "$venv" && "$venv/bin/pip" install -q --no-deps --force-reinstall "$wheel"; }
check "it can be installed" install
check "libfabric is not in it, but linked to" linked
tests() { KVRAIL_KV_SERVER=$build/kv-server KVRAIL_TREE=$PWD "$venv/bin/python" -X dev -W error python/tests/run.py; }
# Without PATH and KVRAIL_KV_SERVER: the build of the tree that the package was installed from.
found() { (cd / && env -u KVRAIL_KV_SERVER PATH=/nowhere "$1/bin/python" -c 'import kvrail, sys; print(kvrail.server.find_binary()); sys.exit(kvrail.server.find_binary() != sys.argv[1])' "$PWD_TREE/build/release/kv-server"); }
PWD_TREE=$PWD
check "kvrail.Server finds the tree's build, of whose wheel it is" found "$venv"
from_folder() { "$python" -m venv --system-site-packages "$scratch/venv2" && KVRAIL_LIBRARY=tree "$scratch/venv2/bin/pip" install -q --no-deps ./python && found "$scratch/venv2"; }
check "also after pip install ./python" from_folder
check "its tests pass" tests
example() {
	KVRAIL_KV_SERVER=$build/kv-server KVRAIL_TREE=$PWD "$venv/bin/python" -X dev -c '
import subprocess, sys, kvrail
with kvrail.Server(memory_mb=64) as server:
    sys.exit(subprocess.run([sys.executable, "-X", "dev", "python/examples/paged.py", server.address]).returncode)'
}
if "$venv/bin/python" -c 'import numpy' 2>/dev/null || "$venv/bin/pip" install -q numpy >"$scratch/pip.out" 2>&1; then
	check "the example of a paged cache in numpy stores and loads" example
else
	skip "the example of a paged cache in numpy stores and loads" "numpy cannot be installed: $(tail -n 1 "$scratch/pip.out")"
fi
gil() { KVRAIL_KV_SERVER=$build/kv-server "$venv/bin/python" tests/bench/gil.py --rounds 20 | grep -c ' ns ' | grep -qx 10; }
check "tests/bench/gil.py measures" gil
if "$venv/bin/pip" install -q mypy==2.4.1 >"$scratch/pip.out" 2>&1; then
	check "mypy --strict finds nothing" "$venv/bin/mypy" --strict --config-file python/pyproject.toml python/kvrail python/kvrail_vllm_plugin.py
else
	skip "mypy --strict finds nothing" "mypy cannot be installed: $(tail -n 1 "$scratch/pip.out")"
fi
finish
