#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-docs.sh -- checks that what the documents name exists; speaks TAP. check-docs.py checks files, functions and
# links of all documents, check-events.py the events of the log.
#
# docs/internals/ownership.md and reliability.md are checked more closely, in what stands in backticks:
#   `file: function, function`   the file (of the tree, or below tests/) must have these functions, or tests of a
#                                table; `calls_of_*` means one that begins so
#   `file`                       must be there
#   `name_with_underscore`       must be a word of the sources
# Run it from the root of the tree, or with another root as the only argument.
set -u
cd "${1:-.}" || exit 2
words=$(mktemp) || exit 2
trap 'rm -f "$words"' EXIT
find base host probe loop wire bootstrap local engine store kvclient kvserver kvbench kvcli kvdoctor tests scripts Makefile \
	-type f -regextype posix-extended -regex '.*(\.([chS]|sh|py|patch|def|mk)|/?Makefile)' \
	-exec grep -ohE '[A-Za-z_][A-Za-z0-9_]*' {} + 2>/dev/null | sort -u >"$words"

functions() { # FILE NAMES: prints those that are missing
	local name
	tr ',' '\n' <<<"$2" | while read -r name; do
		[ -z "$name" ] || [ "$name" = ... ] || grep -Eq "(^|[^A-Za-z0-9_])${name//\*/[a-z0-9_]*}[(,)]" "$1" ||
			echo "$1 has no function $name"
	done
}

missing() { # DOC: prints what it names and what does not exist
	local span file name
	tr '\n' ' ' <"$1" | tr -s ' ' | grep -o '`[^`]*`' | tr -d '`' | sort -u | while IFS= read -r span; do
		if [[ $span =~ ^([a-z]+/[a-z0-9_/]+\.(c|h|sh|py))(: (.*))?$ ]]; then
			file=${BASH_REMATCH[1]} name=${BASH_REMATCH[4]}
			[ -f "$file" ] || file=tests/$file
			if [ -f "$file" ]; then functions "$file" "$name"; else echo "there is no ${file#tests/}"; fi
		elif [[ $span =~ ^[a-z0-9]+_[a-z0-9_*,\ ]*$ ]]; then
			tr ',' '\n' <<<"$span" | while read -r name; do
				grep -Eqx "${name//\*/[A-Za-z0-9_]*}" "$words" || echo "there is no $name in the sources"
			done
		fi
	done
}

n=0 fail=0
echo 1..4
for doc in docs/internals/ownership.md docs/internals/reliability.md; do
	n=$((n + 1))
	bad=$(missing "$doc")
	if [ -s "$doc" ] && [ -z "$bad" ]; then
		echo "ok $n - what $doc names exists"
	else
		echo "not ok $n - what $doc names exists"
		printf '%s\n' "${bad:-there is no $doc}" | sed 's/^/# /'
		fail=1
	fi
done
if ! python3 -c '' 2>/dev/null; then
	echo "ok 3 # SKIP there is no python3 to read the documents with"
	echo "ok 4 # SKIP there is no python3 to read the documents with"
else
	bad=$(python3 scripts/check-docs.py 2>&1)
	if [ -z "$bad" ]; then
		echo "ok 3 - files, functions and links that documents name exist"
	else
		echo "not ok 3 - files, functions and links that documents name exist"
		printf '%s\n' "$bad" | sed 's/^/# /'
		fail=1
	fi
	bad=$(python3 scripts/check-events.py 2>&1)
	if [ -z "$bad" ]; then
		echo "ok 4 - docs/reference/events.md has the events of the sources, with their fields"
	else
		echo "not ok 4 - docs/reference/events.md has the events of the sources, with their fields"
		printf '%s\n' "$bad" | sed 's/^/# /'
		fail=1
	fi
fi
exit $fail
