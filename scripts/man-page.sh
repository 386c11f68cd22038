#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# man-page.sh PROGRAM [BUILD] -- prints the man page of a program, made of its --help and --version. `make install`
# installs it.
#   scripts/man-page.sh kv-server build/release | man -l -
set -euo pipefail
program=$1 build=${2:-build/release}
case $program in
kv-server) about='keeps blocks of KV cache in memory and moves them over libfabric' ;;
kv-client) about='reads and writes values of a kv-server by hand' ;;
kv-bench) about='measures GET and PUT against a kv-server, and how close to the wire they come' ;;
kv-doctor) about='reports the resources of a machine for KVRail, and what is missing' ;;
*) echo "man-page.sh: there is no program $program" >&2 && exit 2 ;;
esac
# Each option's text is one line, since troff breaks lines itself.
help() {
	local how=("$@" --help)
	[ "$program$*" != kv-bench ] || how=(help all)
	ARGP_HELP_FMT=rmargin=2000 "$build/$program" "${how[@]}"
}

# Groups of options become italic headings, and options tagged paragraphs. The text before the first group keeps its
# lines.
troff() { # LEVEL (SH or SS)
	sed 's/\\/\\e/g; s/-/\\-/g' | awk -v level="$1" '
		# Where lines are kept, those of a table begin further left, so that they have room in 80 columns; troff
		# breaks prose, which --help has in one line.
		function line(text,    table) {
			table = set && text ~ /^ /
			if (table != left) { print table ? ".in 3n" : ".in"; left = table }
			if (text ~ /^[.\x27]/) text = "\\&" text
			if (set && !table && length(text) > 72) text = ".fi\n" text "\n.nf"
			print text
		}
		/^Usage: / { sub(/^Usage: +/, ""); usage = usage $0 "\n"; next }
		!begun && /^ +or: / { sub(/^ +or: +/, ""); usage = usage $0 "\n"; next }
		!begun {
			printf ".%s SYNOPSIS\n.nf\n%s", level == "SH" ? "SH" : "PP\n.SS", usage
			printf ".fi\n.%s DESCRIPTION\n.nf\n", level
			begun = set = 1
		}
		/^ +\\-/ {
			if (set) { print ".fi"; set = 0 }
			if (!options) { print "." level " OPTIONS"; options = 1 }
			sub(/^ +/, "")
			text = ""
			if (match($0, /   */) && $0 !~ /^\\-.,  +\\-\\-/) {
				text = substr($0, RSTART + RLENGTH)
				$0 = substr($0, 1, RSTART - 1)
			}
			gsub(/,  +/, ", ")
			print ".TP"; print ".B " $0
			if (text != "") line(text)
			open = text == ""
			next
		}
		/^$/ { blank = 1; open = 0; if (set) print ""; next }
		blank && /^ ?[A-Z][^.]*:?$/ && length($0) < 60 {
			if (!options && set) { print ".fi"; set = 0 }
			if (!options) { print "." level " OPTIONS"; options = 1 }
			sub(/^ /, ""); sub(/:$/, "")
			print ".PP\n.I " $0
			blank = 0
			next
		}
		open { sub(/^ +/, ""); line($0); open = 0; next }
		{ if (blank && !set) print ".PP"; blank = 0; line($0) }
		END { if (set) print ".fi" }' |
		# A heading begins a paragraph by itself.
		awk '/^\.PP$/ { held = 1; next }
			{ if (held && !/^\.(SH|SS|TP)/ && last !~ /^\.(SH|SS)/) print ".PP"; held = 0; print; last = $0 }'
}

version=$("$build/$program" --version)
printf '.\\" SPDX-License-Identifier: Apache-2.0\n'
printf '.\\" Made of the output of %s --help by scripts/man-page.sh; do not edit.\n' "$program"
printf '.TH %s 1 "" "%s" "KVRail"\n' "${program^^}" "KVRail ${version##* }"
printf '.SH NAME\n%s \\- %s\n' "${program//-/\\-}" "$about"
help | troff SH
if [ "$program" = kv-bench ]; then
	for command in capacity compare fabric hits models plot scale sweep versus; do
		printf '.SH "KV\\-BENCH %s"\n' "${command^^}"
		help "$command" | troff SS
	done
fi
printf '.SH SEE ALSO\n'
for other in kv-server kv-client kv-bench kv-doctor; do
	[ "$other" = "$program" ] || printf '.BR %s (1),\n' "${other//-/\\-}"
done
printf '.BR kvclient (3)\n'
