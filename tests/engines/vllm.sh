#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# vllm.sh -- vLLM itself, its Python files without kernels, on kvrail.vllm: the tier alone, and below the whole manager of
# tiers, with real bytes. vllm_tier.py has the tests. Its wheels are for GPUs and large; the source package has 47 MB.
# vllm_obj.py has those of vLLM's own tier of objects, on NIXL's wheel with our plug-in as its back end OBJ.
. "$(dirname "$0")/lib.bash"

# Neither kernels nor the Rust front end are built, also where there is a compiler for it.
made_vllm() {
	mkdir -p "$venv/none" && ln -sf /bin/false "$venv/none/rustc" && ln -sf /bin/false "$venv/none/cargo" &&
		PATH=$venv/none:$PATH VLLM_TARGET_DEVICE=empty VLLM_VERSION_OVERRIDE=0.33.0 \
			"$python" -m pip install --quiet --no-deps --no-build-isolation --no-binary vllm vllm==0.33.0
}

# obj -- NIXL has no other plug-ins there.
obj() {
	NIXL_PLUGIN_DIR=$build/nixl/api1 NIXL_LOG_LEVEL=${NIXL_LOG_LEVEL:-FATAL} timeout -k 10 400 \
		"$python" -W ignore tests/engines/vllm_obj.py 2>&1 </dev/null || tap_failed=1
}

plan 2
venv vllm tests/engines/vllm.txt || skip_all 2 "$why"
check "vllm: the package kvrail can be installed" our_package
[ "$tap_failed" = 1 ] || timeout -k 10 400 "$python" -W ignore tests/engines/vllm_tier.py 2>&1 </dev/null || tap_failed=1
if command -v "${CXX:-g++}" >/dev/null; then
	check "vllm's obj tier: the plug-in of NIXL can be built" \
		make --no-print-directory MODE="$(basename "$build" -clang)" nixl NIXL=
	[ ! -e "$build/nixl/api1/libplugin_OBJ.so" ] || obj
else
	skip "vllm's obj tier" "there is no C++ compiler (Debian: apt-get install g++)"
fi
finish
