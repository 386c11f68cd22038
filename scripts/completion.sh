#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# completion.sh PROGRAM [BUILD] -- prints the bash completion of a program, made of its --help: options, commands, and
# else file names. `make install` installs it.
set -euo pipefail
program=$1 build=${2:-build/release}
words() {
	local how=("$@" --help)
	[ "$program$*" != kv-bench ] || how=(help all)
	ARGP_HELP_FMT=rmargin=2000 "$build/$program" "${how[@]}" | grep -E '^ +-' | sed 's/^ *//; s/   .*//' |
		grep -oE -- '--[a-z][a-z0-9-]*' | sort -u | tr '\n' ' '
}
# Not inside the text below, where a failure would go unnoticed.
options=$(words) commands= lines=
case $program in
kv-client)
	commands=$("$build/$program" --help | sed -n '/Commands:/,/^Without/s/^  \([a-z]*\) .*/\1/p' | sort -u | tr '\n' ' ')
	;;
kv-bench)
	for command in capacity compare fabric hits models plot scale sweep versus; do
		its=$(words "$command")
		commands+="$command "
		lines+="	[ \"\${COMP_WORDS[1]}\" = $command ] && words=\"$its\" commands="$'\n'
	done
	topics=$("$build/$program" help | sed -n '/^Options/,/^Commands/s/^  \([a-z]*\) .*/\1/p' | tr '\n' ' ')
	commands+="help "
	lines+="	[ \"\${COMP_WORDS[1]}\" = help ] && [ \"\$COMP_CWORD\" -eq 2 ] && COMPREPLY=(\$(compgen -W \"${topics}all\" -- \"\${COMP_WORDS[2]}\")) && return"$'\n'
	;;
esac
cat <<T
# SPDX-License-Identifier: Apache-2.0
# Made of the output of $program --help by scripts/completion.sh; do not edit.
_${program//-/_}() {
	local words="$options" commands="$commands"
${lines%$'\n'}
	case \${COMP_WORDS[COMP_CWORD]} in
	-*) COMPREPLY=(\$(compgen -W "\$words" -- "\${COMP_WORDS[COMP_CWORD]}")) ;;
	*) COMPREPLY=(\$([ "\$COMP_CWORD" -eq 1 ] && compgen -W "\$commands" -- "\${COMP_WORDS[COMP_CWORD]}")) ;;
	esac
}
complete -o default -F _${program//-/_} $program
T
