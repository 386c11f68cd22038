# SPDX-License-Identifier: Apache-2.0
# man-api.awk -- the manual of the library in section 3, made of the comments of its headers:
#
#   awk -v dir=DIR -v version=0.1.0 -f scripts/man-api.awk base/codes.h kvclient/kvclient.h
#   awk -v list=1 -f scripts/man-api.awk base/codes.h kvclient/kvclient.h     # the names of the pages alone
#
# kvclient.3 has the comment at the head, the rules of all calls and the codes; kvclient_PAGE.3 has a group of calls
# with their types; each function has a page of its name, which leads to its group's. POSIX awk, as mawk.
#
# What it knows of the headers: comments at the left margin; "/* ---- title ----" begins a section; "name -- text" or
# any other comment before a prototype, struct or enum is about that; one with an empty line behind it is about what
# follows. In a comment "  -KV_X  text" is an item, deeper lines continue it, "  Text" begins a paragraph. A function
# without a comment belongs to what stands above it. page_of says where sections and names go; a section that it does
# not know gets a page of its own.

function page_of(title, name) {
	if (name ~ /stat/) return "info"
	if (title ~ /ten calls|coroutines/ && name ~ /kvc_(pool_|run|spawn)/) return "pool"
	if (title ~ /ten calls|coroutines/ && name ~ /kvc_(register|unregister|borrow)/) return "memory"
	if (title !~ /queue/ && name ~ /batch|kvc_(item|span|layout|arrival)/) return "batches"
	if (title ~ /runs on/) return "info"
	if (title ~ /calls|coroutines/) return "calls"
	if (title ~ /queue/) return "queues"
	if (title ~ /session/) return "sessions"
	if (title ~ /memory/) return "memory"
	if (title == "" || title ~ /pool/) return "pool"
	gsub(/[^a-z ]/, "", title); sub(/^((the|a|an|what|how|of) )+/, "", title); sub(/ .*/, "", title)
	return title
}

function about_of(page) {
	if (page == "pool") return "open and close a pool, and run workers in it"
	if (page == "memory") return "register memory with a pool of KVRail, and borrow of its buffers"
	if (page == "calls") return "get, put and otherwise use single values of KVRail"
	if (page == "batches") return "get and put many values of KVRail at once"
	if (page == "sessions") return "logical clients that share the connections of a pool of KVRail"
	if (page == "queues") return "submit calls to KVRail now, and reap their completions later"
	if (page == "info") return "what a pool of KVRail runs on, and how it and its servers do"
	if (page == "namespaces") return "clear and list the namespaces of KVRail's servers"
	if (page == "events") return "follow what KVRail's servers store and remove"
	return "a part of the library of KVRail"
}

# ---- troff ----

function escaped(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); return text }
function line(text) {
	text = escaped(text)
	if (text ~ /^[.\047]/) text = "\\&" text
	put(text)
}
# A paragraph begins when text comes: an empty one is bad troff.
function put(text) {
	if (wanted) print ".PP" > out
	print text > out
	fresh = wanted = 0
}
function paragraph() { wanted = !fresh }
function heading(kind, text) { print "." kind " " escaped(text) > out; fresh = 1; wanted = 0 }
function tagged(text) { print ".TP\n.B \"" escaped(text) "\"" > out; fresh = wanted = 0 }
function labelled(text) { # the words that each contract has are bold
	text = escaped(text)
	gsub(/(^|  ?)(Parks|Blocks|Thread|Owner|Errors|Deadlines|Threads|Memory):/, "\\fB&\\fP", text)
	if (text ~ /^[.\047]/) text = "\\&" text
	put(text)
}

# The text of a comment: lines that "\n" parts.
function prose(text, head,    lines, n, i, s, tag, items, label) {
	n = split(text, lines, "\n")
	items = 0
	for (i = 1; i <= n; i++) {
		s = lines[i]
		if (s ~ /^ *$/) { paragraph(); items = 0; continue }
		if (s ~ /^  [^ ]/ && (s ~ /^  [^ ]+  +[^ ]/ || s ~ /^  -/)) {
			sub(/^ +/, "", s)
			tag = s
			if (match(s, /   */)) { tag = substr(s, 1, RSTART - 1); s = substr(s, RSTART + RLENGTH) } else s = ""
			tagged(tag)
			if (s != "") line(s); else if (lines[i + 1] !~ /^   +[^ ]/) line("see above")
			items = 1
			continue
		}
		if (items && s ~ /^   +[^ ]/) { sub(/^ +/, "", s); line(s); continue }
		if (items || s ~ /^  [^ ]/ || s ~ /^(Parks|Blocks|Thread|Owner|Errors|Returns|With)[: ]/) paragraph()
		items = 0
		sub(/^ +/, "", s)
		if (head && match(s, /^(fork\(\)|[A-Z][a-z]+( [a-z]+)?)\. /)) {
			label = substr(s, 1, RLENGTH - 2)
			s = substr(s, RLENGTH + 1)
			heading("SS", label)
		}
		labelled(s)
	}
}

# A prototype, with its parameters broken so that a line has 72 columns.
function prototype(text,    words, n, i, at) {
	sub(/^KVC_API /, "", text); gsub(/[ \t\n]+/, " ", text)
	n = split(text, words, ", ")
	at = words[1]
	for (i = 2; i <= n; i++) {
		if (length(at) + length(words[i]) > 70) { print ".B \"" escaped(at ",") "\"" > out; at = "    " words[i] }
		else at = at ", " words[i]
	}
	print ".B \"" escaped(at) "\"" > out
	print ".br" > out
}

# The inside of a struct or enum: each field with its comment, which stands before it or behind it.
function fields(text,    lines, n, i, s, note, code, inside, first, last) {
	last = text ~ /^enum/ ? "," : ";"
	sub(/^[^{]*\{[ \t\n]*/, "", text); sub(/[ \t\n]*};[ \t\n]*$/, "", text)
	n = split(text, lines, "\n")
	note = code = ""; inside = 0
	for (i = 1; i <= n + 1; i++) {
		s = i <= n ? lines[i] : ""
		sub(/^[ \t]+/, "", s)
		if (inside) {
			if (s ~ /\*\//) { sub(/ *\*\/.*/, "", s); inside = 0 }
			sub(/^\* ?/, "", s)
			note = note "\n" s
			continue
		}
		# A field that is complete waits for a comment behind it, which stood on its line.
		if (code != "" && (i > n || substr(code, length(code)) == last)) {
			field(code, note); code = note = ""
		}
		if (s == "") continue
		if (match(s, /\/\*/)) {
			first = substr(s, RSTART + 2)
			s = substr(s, 1, RSTART - 1)
			sub(/^ /, "", first)
			if (first ~ /\*\//) sub(/ *\*\/.*/, "", first); else inside = 1
			note = note (note == "" ? "" : "\n") first
			sub(/[ \t]+$/, "", s)
		}
		if (s != "") code = code (code == "" ? "" : " ") s
	}
}
function field(code, note) {
	sub(/[;,]$/, "", code); gsub(/[ \t]+/, " ", code)
	tagged(code)
	if (note == "") { put("\\&"); return }
	sub(/^\n/, "", note)
	prose(note, 0)
}

# ---- reading ----

function block(kind, name, text, code) {
	n_blocks++
	b_kind[n_blocks] = kind; b_name[n_blocks] = name; b_text[n_blocks] = text; b_code[n_blocks] = code
	b_section[n_blocks] = section; b_page[n_blocks] = page_of(section, name)
}
function loose() { if (comment != "") block("text", "", comment, ""); comment = "" }

BEGIN { IN_FULL = "^kvc_[a-z_]+ in full[.] " }
FNR == 1 { codes = FILENAME ~ /codes\.h$/; at_head = !codes; comment = "" }
codes {
	if (match($0, /KV_E[A-Z]+ = [0-9]+/)) {
		s = substr($0, RSTART, RLENGTH); sub(/ =.*/, "", s)
		n_codes++; code_name[n_codes] = s
		s = $0; sub(/.*\/\* /, "", s); sub(/ *\*\/.*/, "", s); code_text[n_codes] = s
	}
	next
}
in_comment {
	s = $0
	if (s ~ /\*\/[ \t]*$/) { sub(/ *\*\/[ \t]*$/, "", s); in_comment = 0 }
	sub(/^ \*/, "", s); sub(/^ /, "", s)
	if (s ~ /^ *$/ && !in_comment) s = ""
	comment = comment "\n" s
}
!in_comment && in_code == "" && /^\/\* SPDX/ { next }
!in_comment && in_code == "" && /^\/\*/ {
	loose()
	s = $0; sub(/^\/\* ?/, "", s)
	if (s ~ /\*\//) sub(/ *\*\/.*/, "", s); else in_comment = 1
	comment = s
	ended = !in_comment
}
in_comment { next }
comment != "" && comment ~ /^---- / {
	s = comment; sub(/\n.*/, "", s); gsub(/^-+ | -+$/, "", s)
	section = s
	s = comment
	if (s ~ /\n/) { sub(/^[^\n]*\n/, "", s); intro[section] = s }
	comment = ""
	next
}
at_head && /^#ifndef/ { head = comment; comment = ""; at_head = 0; next }
/^#|^extern|^}$|^struct [a-z_]+;$/ { if (/^#/) comment = ""; next }
/^$/ { loose(); next }
in_code == "" && /^(KVC_API|struct|enum)/ { in_code = "1"; code = "" }
in_code != "" {
	if (code != "" && /^KVC_API/) {
		print "man-api.awk: " FILENAME ":" FNR ": what begins above does not end in }; or );" > "/dev/stderr"
		failed = 1
		exit 1
	}
	code = code (code == "" ? "" : "\n") $0
	if (code ~ /^KVC_API/ ? /;$/ : (/^};/ || /[^ \t].*};$/)) {
		in_code = ""
		if (code ~ /^KVC_API/) {
			s = code; gsub(/\n/, " ", s); sub(/\(.*/, "", s); sub(/.*[ *]/, "", s)
			if (comment == "" && n_blocks && b_kind[n_blocks] == "call" && b_section[n_blocks] == section &&
			    b_page[n_blocks] == page_of(section, s)) {
				b_name[n_blocks] = b_name[n_blocks] " " s
				b_code[n_blocks] = b_code[n_blocks] "\001" code
			} else {
				block("call", s, comment, code)
			}
			names[++n_names] = s; page_name[s] = page_of(section, s)
		} else {
			s = code; gsub(/\n/, " ", s); sub(/ ?\{.*/, "", s)
			block("type", s, comment, code)
		}
		comment = ""
	}
}

# ---- writing ----

function page_begin(name, about, names_of) {
	out = dir "/" name ".3"
	print ".\\\" SPDX-License-Identifier: Apache-2.0" > out
	print ".\\\" Made of the comments of kvclient.h by scripts/man-api.awk; do not edit." > out
	print ".TH " toupper(name) " 3 \"\" \"KVRail " version "\" KVRail" > out
	print ".SH NAME" > out
	print escaped(names_of) " \\- " escaped(about) > out
	print ".SH SYNOPSIS\n.nf\n.B #include <kvrail/kvclient.h>\n.PP" > out
}
function see_also(of,    i) {
	heading("SH", "SEE ALSO")
	if (of != "") print ".BR kvclient (3)," > out
	for (i = 1; i <= n_pages; i++)
		if (pages[i] != of) print ".BR kvclient_" pages[i] " (3)," > out
	print ".BR kv\\-client (1);\n.I guide/embedding.md\namong the installed documents" > out
}
function page_write(page,    i, j, n, of, calls, last) {
	of = ""
	for (i = 1; i <= n_names; i++) if (page_name[names[i]] == page) of = of (of == "" ? "" : ", ") names[i]
	page_begin("kvclient_" page, about_of(page), of)
	for (i = 1; i <= n_blocks; i++) {
		if (b_page[i] != page || b_kind[i] != "call") continue
		n = split(b_code[i], calls, "\001")
		for (j = 1; j <= n; j++) prototype(calls[j])
	}
	print ".fi" > out
	heading("SH", "DESCRIPTION")
	last = ""
	for (i = 1; i <= n_blocks; i++) {
		if (b_page[i] != page) continue
		if (b_section[i] != last && b_section[i] in intro) {
			if (last != "") heading("SS", toupper(substr(b_section[i], 1, 1)) substr(b_section[i], 2))
			prose(intro[b_section[i]], 0)
		}
		last = b_section[i]
		if (b_kind[i] == "text") {
			s = b_text[i]
			paragraph()
			if (match(s, IN_FULL)) { heading("SS", substr(s, 1, RLENGTH - 2)); s = substr(s, RLENGTH + 1) }
			prose(s, 0)
			continue
		}
		s = b_name[i]
		if (b_kind[i] == "call" && b_text[i] == "") { gsub(/ /, ", ", s); paragraph(); line("They are " s "."); continue }
		if (b_kind[i] == "call") { gsub(/ /, "(), ", s); s = s "()" }
		if (s == "enum") s = "Numbers"
		heading("SS", s)
		s = b_text[i]
		if (b_kind[i] == "call" && s ~ /^kvc_[a-z_, \n]* --/) {
			sub(/^[^-]*-- /, "", s)
			s = toupper(substr(s, 1, 1)) substr(s, 2)
		}
		if (s != "") prose(s, 0)
		if (b_kind[i] == "type") fields(b_code[i])
	}
	see_also(page)
	close(out)
}
function main_page(    i, j) {
	page_begin("kvclient", "client library of KVRail: get and put blocks of KV cache on kv-servers", "kvclient")
	print ".B cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs kvrail)\n.fi" > out
	heading("SH", "DESCRIPTION")
	s = head; sub(/^kvclient\.h -- /, "", s)
	prose(s, 1)
	prose(intro["rules of all calls"], 1)
	heading("SH", "FUNCTIONS")
	for (i = 1; i <= n_pages; i++) {
		print ".TP\n.BR kvclient_" pages[i] " (3)" > out; fresh = wanted = 0
		s = ""
		for (j = 1; j <= n_names; j++) if (page_name[names[j]] == pages[i]) s = s (s == "" ? "" : ", ") names[j]
		line(s)
	}
	heading("SH", "RETURN VALUE")
	line("0, a number (most often a length), or a negative code: one of those below, -errno, or one of libfabric's.")
	print ".BR kvc_strerror (3)\nnames it. Calls that take a\n.B struct kv_error" > out
	line("leave one sentence there: what failed, why, and the way out.")
	heading("SH", "ERRORS")
	for (i = 1; i <= n_codes; i++) { tagged("-" code_name[i]); line(code_text[i]) }
	heading("SH", "EXAMPLES")
	line("The programs in the folder examples of the installed documents.")
	see_also("")
	close(out)
}

END {
	if (failed) exit 1
	# A text, or an enum without a name, belongs to the page of the block behind it; "NAME in full." to its section's.
	for (i = n_blocks - 1; i > 0; i--)
		if ((b_kind[i] == "text" && b_text[i] !~ IN_FULL) || b_name[i] == "enum") b_page[i] = b_page[i + 1]
	for (i = 1; i <= n_blocks; i++)
		if (b_kind[i] == "call" && !(b_page[i] in seen)) { seen[b_page[i]]; pages[++n_pages] = b_page[i] }
	if (list) {
		print "kvclient"
		for (i = 1; i <= n_pages; i++) print "kvclient_" pages[i]
		for (i = 1; i <= n_names; i++) print names[i]
		exit
	}
	if (!n_names || !n_codes) { print "man-api.awk: no functions or codes found" > "/dev/stderr"; exit 1 }
	main_page()
	for (i = 1; i <= n_pages; i++) page_write(pages[i])
	for (i = 1; i <= n_names; i++) {
		out = dir "/" names[i] ".3"
		print ".so man3/kvclient_" page_name[names[i]] ".3" > out
		close(out)
	}
}
