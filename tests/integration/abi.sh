#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# abi.sh -- the ABI of the library is the one that debian/libkvrail0.abi announces, for each compiler that is here; a header that is changed on purpose is
# told as what it is. Nothing of the build is needed: the program is made of the headers.
. "$(dirname "$0")/lib.bash"
plan 10
abi() { CC=${cc:-${CC:-cc}} scripts/abi.py "$@"; }
for cc in gcc clang; do
	if command -v $cc >/dev/null; then check "the ABI is the one announced ($cc)" abi --check; else skip "the ABI is the one announced ($cc)" "$cc is not installed"; fi
done
cc=

changed() { # changed SED -- $scratch has the headers, changed so; none of them is what it was
	mkdir -p "$scratch/kvclient" "$scratch/base" && cp base/codes.h "$scratch/base/" && sed -E "$1" kvclient/kvclient.h >"$scratch/kvclient/kvclient.h" &&
		! cmp -s kvclient/kvclient.h "$scratch/kvclient/kvclient.h"
}
tells() { # tells SED TEXT... -- status 1, with each text
	local text
	changed "$1" || { echo "nothing to change: $1"; return 1; }
	shift
	abi --check "$scratch/kvclient/kvclient.h" "$scratch/base/codes.h" >"$scratch/told" 2>&1 && { echo "it was not noticed"; return 1; }
	for text in "$@" 'make abi'; do
		grep -qE -- "$text" "$scratch/told" || { echo "no '$text' in:" && cat "$scratch/told"; return 1; }
	done
}
check "a field in the middle breaks programs; the fields behind it are named" tells 's/^\tconst char \*nic;/\tconst char *more;\n&/' \
	'^\+ .* const char \* more$' 'breaks: struct kvc_options: nic was [0-9]+ 8 .*, and is [0-9]+ 8'
at_the_end='/^struct kvc_options \{/,/^\};/ s/^\};/\tuint64_t more;\n};/'
check "one at the end of a struct with a size breaks none" tells "$at_the_end" 'struct kvc_options' '^\+ .* uint64_t more$' 'It breaks no program'
check "one at the end of a struct without a size does" tells '/^struct kvc_borrowed \{/,/^\};/ s/^\};/\tuint64_t more;\n};/' 'breaks: struct kvc_borrowed had [0-9]+ bytes, and has [0-9]+, and has no .size'
check "a number that changes does" tells 's/KVC_OPEN_WAIT = 8/KVC_OPEN_WAIT = 16/' 'breaks: enum kvc_flag: KVC_OPEN_WAIT was 8, and is 16'
check "so does a function that is gone, or of another type" tells 's/^KVC_API int kvc_queue_fd/KVC_API int kvc_queue_fd2/; s/^KVC_API int64_t kvc_get\(/KVC_API int kvc_get(/' \
	'breaks: kvc_queue_fd is gone' 'breaks: kvc_get has another type'
bits() { changed 's/^\tuint64_t ping_ns;.*/\tunsigned ping_ns : 3;/' && says "is a bit-field" abi --check "$scratch/kvclient/kvclient.h"; }
check "a bit-field, which has no place that C can tell, is refused" bits
quiet() { # other names of parameters, other comments
	changed 's/const struct kvc_call \*call/const struct kvc_call *how/g; s|/\* ---- memory ---- \*/|/* other words */|' && abi --check "$scratch/kvclient/kvclient.h" "$scratch/base/codes.h"
}
check "comments and names of parameters are no ABI" quiet
announced() { # `make abi` with a function more: both files have it, and nothing is left to tell
	changed 's/^KVC_API const char \*kvc_version\(void\);/&\nKVC_API int kvc_more(void);/' && cp debian/libkvrail0.{abi,symbols} "$scratch/" && cp -r scripts "$scratch/" &&
		export KVRAIL_ABI="$scratch/libkvrail0.abi" KVRAIL_SYMBOLS="$scratch/libkvrail0.symbols" && "$scratch/scripts/abi.py" --write 9.9 && "$scratch/scripts/abi.py" --check &&
		grep -qx ' kvc_more@Base 9.9' "$KVRAIL_SYMBOLS" && [ "$(diff debian/libkvrail0.symbols "$KVRAIL_SYMBOLS" | grep -c '^[<>]')" -eq 1 ]
	local rc=$?
	unset KVRAIL_ABI KVRAIL_SYMBOLS
	return $rc
}
check "make abi announces a function in both lists, and changes nothing else" announced
finish
