#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-format.sh [--fix] -- checks the layout of C files, with the clang-format that .clang-format names, and what that
# does not check: the width of C strings and of Markdown, and blank lines; speaks TAP.
#
# --fix lays out the C files (make format). In `make check` (KVRAIL_TEST_SHORT=1) the layout is checked of files that the
# last 20 commits, or no commit yet, changed. Another version of clang-format lays out some lines differently, so without
# the right one the check is skipped.
set -u
cd "$(dirname "$0")/.." || exit 2
version=$(sed -n 's/.*clang-format \([0-9]*\).*/\1/p' .clang-format | head -n 1)
tool=
for t in "clang-format-$version" clang-format; do
	"$t" --version 2>/dev/null | grep -q "version $version\." && tool=$t && break
done
kinds=('*.c' '*.h' 'nixl/*.cc' 'tests/nixl/*.cc')
sources() { git ls-files -z "${kinds[@]}"; }
laid_out() {
	if [ "${KVRAIL_TEST_SHORT:-0}" != 0 ] && git rev-parse -q --verify HEAD~20 >/dev/null; then
		git diff -z --name-only --diff-filter=d HEAD~20 -- "${kinds[@]}"
	else
		sources
	fi
}

if [ "${1:-}" = --fix ]; then
	[ -n "$tool" ] || {
		echo "check-format: clang-format $version is not here; scripts/install-deps.sh format installs it" >&2
		exit 1
	}
	sources | xargs -0 "$tool" -i --style=file
	exit
fi

fail=0
result() { # NUMBER NAME FINDINGS
	if [ -z "$3" ]; then
		echo "ok $1 - $2"
		return
	fi
	echo "not ok $1 - $2"
	printf '%s\n' "$3" | head -n 40 | sed 's/^/# /'
	fail=1
}
# A blank line that parts the first declarations of a function from its statements.
blank_after_declarations='
/^{$/ { top = 1; seen = 0; next }
/^}/ { top = 0 }
top && $0 == "" { if (seen) print FILENAME ":" FNR; top = 0; next }
top && /^\t(return|if|for|while|do|switch|goto|[A-Z_]+_EACH[A-Z_]*)[ (]|^\t[A-Za-z_][A-Za-z0-9_.>\[\]-]*(\(| *[-+|&*\/]?= |\+\+|--)|^\t[})]/ { top = 0 }
top { seen = 1 }'
sources_awk() { sources | LC_ALL=C.UTF-8 xargs -0 awk "$1"; }
echo 1..5
if ! git rev-parse --git-dir >/dev/null 2>&1; then
	echo "ok 1 # SKIP this is no git tree, so its files are not known"
elif [ -z "$tool" ]; then
	echo "ok 1 # SKIP clang-format $version is not here (scripts/install-deps.sh format)"
else
	result 1 "C files are laid out by clang-format $version (make format)" \
		"$(laid_out | xargs -0 -r "$tool" --dry-run --style=file 2>&1 | sed -n 's/: warning: code should be.*//p' | sort -u)"
fi
planted=$(printf 'int f(void)\n{\n\tint rc;\n\n\trc = g();\n}\n' | awk "$blank_after_declarations")
result 2 "no blank line parts a function's first declarations from its statements" "$(sources_awk "$blank_after_declarations")"
result 3 "a planted one is found" "$([ -n "$planted" ] || echo "it is not")"
result 4 "C is at most 120 columns wide" "$(sources | xargs -0 expand -t 8 | LC_ALL=C.UTF-8 awk 'length($0) > 120')"
result 5 "Markdown is at most 120 columns wide" "$(find . -name '*.md' -not -path './build/*' -not -path './.*' -print0 |
	LC_ALL=C.UTF-8 xargs -0 awk 'length($0) > 120 { print FILENAME ":" FNR ": " length($0) " columns" }')"
exit $fail
