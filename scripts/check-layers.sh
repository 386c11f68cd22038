#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-layers.sh -- checks the direction of includes against the table of docs/internals/architecture.md; speaks TAP.
# Run it from the root of the tree, or with another root as the only argument.
set -u
cd "${1:-.}" || exit 2
fail=0 n=0
result() { # result NAME FINDINGS
	n=$((n + 1))
	if [ -z "$2" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		printf '%s\n' "$2" | sed 's/^/# /'
		fail=1
	fi
}

# The folders that a folder may include from, besides itself.
allowed() {
	case $1 in
	base) ;;
	host | probe | loop | wire) echo base ;;
	store) echo base host ;;
	local) echo base host loop ;;
	engine) echo base host local ;;
	bootstrap) echo base loop wire ;;
	kvclient) echo base host loop wire bootstrap local engine ;;
	kvserver) echo base host loop wire bootstrap local engine store kvclient ;;
	kvbench) echo base host probe loop kvclient engine store ;;
	kvcli) echo base host loop kvclient ;;
	kvdoctor) echo base host probe loop engine kvclient ;;
	esac
}

layers="base host probe loop wire bootstrap local engine store kvclient kvserver kvbench kvcli kvdoctor"
# of HEADER -- the product's files that include it, in any folder of a layer.
of() {
	# shellcheck disable=SC2086 # a list
	grep -rlE --include='*.[ch]' "#include <($1)" $layers 2>/dev/null
}

echo 1..25
for layer in $layers; do
	may=" $(allowed "$layer") "
	bad=$(grep -rnHE --include='*.[chS]' '^#include "' "$layer" 2>/dev/null | while IFS= read -r line; do
		file=${line%%:*}
		path=${line#*'#include "'}
		path=${path%%'"'*}
		to=${path%%/*}
		[ "$to" = "$layer" ] && continue
		case $may in
		*" $to "*) ;;
		*)
			[ "$file" = engine/attach.c ] && [ "$to" = loop ] && continue
			echo "$file includes $path"
			continue
			;;
		esac
		case $path in
		"$to/$to.h") ;;
		base/early.h) case $file in */main.c) ;; *) echo "$file includes $path: only a program's main.c may" ;; esac ;;
		kvclient/copy.h) [ "$layer" = kvserver ] || echo "$file includes $path: only kvserver may" ;;
		base/codes.h) [ "$file" = kvclient/kvclient.h ] || echo "$file includes $path: across folders only $to/$to.h" ;;
		*) echo "$file includes $path: across folders only $to/$to.h" ;;
		esac
	done)
	result "$layer includes only what it may" "$bad"
done
result "nixl includes only kvclient/kvclient.h" \
	"$(grep -rnHE '^#include "' nixl --include='*.cc' --include='*.h' 2>/dev/null |
		grep -vE '#include "(nixl/[a-z]+\.h|kvclient/kvclient\.h|backend/backend_plugin\.h)"')"
result "libfabric only in engine/fabric/ and engine/door/" \
	"$(of 'rdma/(fabric|fi_|providers)' | grep -vE '^engine/(fabric|door)/[a-z_]*\.[ch]$')"
result "libibverbs only in engine/fabric/ and kvbench/steps/verbs.c" \
	"$(of infiniband/ | grep -vE '^(engine/(fabric|door)/[a-z_]*|kvbench/steps/verbs)\.[ch]$')"
result "libmicrohttpd only in kvserver/http/http.c" "$(of microhttpd | grep -v '^kvserver/http/http\.c$')"
result "zlib only in kvbench/load/lines.c" "$(of zlib | grep -v '^kvbench/load/lines\.c$')"
result "libcurl only in kvserver/member/web.c" "$(of curl/ | grep -v '^kvserver/member/web\.c$')"
result "libzmq only in kvserver/events/zmq.c" "$(of 'zmq\.h>' | grep -v '^kvserver/events/zmq\.c$')"
result "liburing only in loop/ring_uring.c" "$(of liburing | grep -v '^loop/ring_uring\.c$')"
result "OpenSSL only in base/mac.c and digest.c, bootstrap/tls.c, trust.[ch], hmac.c, base64.c, kvclient/seal/crypt.c and kvbench/steps/secure.c" \
	"$(of openssl/ | grep -vE '^(base/(mac|digest|base64)\.c|bootstrap/((tls|trust|hmac)\.c|trust\.h)|kvclient/seal/crypt\.c|kvbench/steps/secure\.c)$')"
unlicensed() {
	git ls-files -z '*.c' '*.cc' '*.h' '*.S' '*.sh' Makefile '*.mk' 2>/dev/null |
		xargs -0r awk 'FNR == 1 { if (name && !seen) print name; name = FILENAME; seen = 0 }
			FNR <= 3 && /SPDX-License-Identifier: Apache-2.0/ { seen = 1 }
			END { if (name && !seen) print name }' 2>/dev/null
}
result "every source file has its licence line" "$(unlicensed)"
# A dump of a process, or what a slip of the shell made, is easily added with the rest.
slips() {
	git ls-files 2>/dev/null | grep -vE '^[A-Za-z0-9._/+-]+$' | sed 's/$/: an odd name/'
	git ls-files -z 2>/dev/null | xargs -0r stat -c '%s %n' 2>/dev/null |
		awk '$1 > 262144 { print $2 ": " $1 " bytes, more than 256 KiB" }'
}
result "no tracked file has an odd name or more than 256 KiB" "$(slips)"
exit $fail
