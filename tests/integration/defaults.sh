#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# defaults.sh -- a process that embeds the client library and a kv-server, each with its defaults: nothing in the environment, and kvc_program_setup called or not.
. "$(dirname "$0")/lib.bash"
plan 5
for name in $(compgen -e | grep -E '^(FI_|KVRAIL_ENV$)'); do unset "$name"; done
embedder=$build/tests/integration/embedder
went='^[0-9]+ values went there and back over'
embed() { timeout -k 5 240 "$embedder" "$@"; }

start_server plain || exit 1
plain=$server
check "an embedder without setup reaches a default server, GET and PUT of all sizes" says "$went" embed "$plain" "$provider"
check "an embedder with setup reaches it, too" says "$went" embed "$plain" "$provider" setup

if [[ $provider = tcp && $("$embedder" "$plain" tcp setup 2>&1) = *ofi_rxm* ]]; then
	other() { FI_OFI_RXM_BUFFER_SIZE=4096 embed "$plain" tcp; }
	check "another size of rxm's buffers is refused, and the variable named" says 'eager size.*FI_OFI_RXM_BUFFER_SIZE' other
	export FI_OFI_RXM_BUFFER_SIZE=4096
	start_server small || exit 1
	check "the smaller size on both sides works, without setup" says "$went eager size 4096|eager size 4096" embed "$server" tcp
	check "and with setup" says 'eager size 4096' embed "$server" tcp setup
else
	for what in "another size of rxm's buffers is refused" "the smaller size on both sides" "and with setup"; do skip "$what" "the provider is not rxm's"; done
fi
finish
