#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# vllm.sh -- vLLM itself, its Python files without kernels, on kvrail.vllm: the tier alone, and below the whole manager of
# tiers, with real bytes. vllm_tier.py has the tests. Its wheels are for GPUs and large; the source package has 47 MB.
. "$(dirname "$0")/lib.bash"

# Neither kernels nor the Rust front end are built, also where there is a compiler for it.
made_vllm() {
	mkdir -p "$venv/none" && ln -sf /bin/false "$venv/none/rustc" && ln -sf /bin/false "$venv/none/cargo" &&
		PATH=$venv/none:$PATH VLLM_TARGET_DEVICE=empty VLLM_VERSION_OVERRIDE=0.33.0 \
			"$python" -m pip install --quiet --no-deps --no-build-isolation --no-binary vllm vllm==0.33.0
}

plan 1
venv vllm tests/engines/vllm.txt || skip_all 1 "$why"
check "vllm: the package kvrail can be installed" our_package
[ "$tap_failed" = 1 ] || timeout -k 10 400 "$python" -W ignore tests/engines/vllm_tier.py 2>&1 </dev/null || tap_failed=1
finish
