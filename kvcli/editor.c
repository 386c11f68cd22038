/* SPDX-License-Identifier: Apache-2.0 */
/* editor.c -- libedit, with every byte kept.
 *
 * libedit edits wide characters of the locale, and drops bytes that are none. So the editor always runs in a UTF-8
 * locale (of this thread alone), and reads characters from us. A byte outside of UTF-8 characters becomes one of 128
 * unassigned code points, and the byte again when the line is complete. So do characters that libedit would treat as
 * commands (C1 controls), and those 128 code points themselves, which makes the mapping reversible. */
#include "kvcli/editor.h"

#include <editline/readline.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wctype.h>

#include "base/base.h"
#include "kvcli/command.h"

/* Byte b (0x80 to 0xff) is the code point BYTE_BASE + b, four bytes in UTF-8. */
enum { BYTE_BASE = 0xE0F00, BYTE_LEN = 4 };

static struct {
	uint8_t raw[4];
	unsigned have;
} held;

static wint_t of_byte(uint8_t byte)
{
	return byte < 0x80 ? byte : BYTE_BASE + (wint_t)byte;
}

/* Characters that the editor inserts unchanged: no C1 control, no soft hyphen, none that represents a byte. */
static bool is_plain(uint32_t c)
{
	return c < 0x80 || (c >= 0x100 ? c < BYTE_BASE + 0x80 || c > BYTE_BASE + 0xFF : iswprint(c) != 0);
}

/* The editor's character for the beginning of p, which has `have` bytes. *out_used: its bytes; 0: another byte is
 * needed, unless these are the last ones. */
static wint_t first_of(const uint8_t *p, size_t have, bool last, unsigned *out_used)
{
	uint32_t c = 0;
	int len = kv_utf8_take(p, have, &c);
	if (len > 0 && is_plain(c)) {
		*out_used = (unsigned)len;
		return c;
	}
	*out_used = len < 0 && !last ? 0 : 1;
	return of_byte(p[0]);
}

/* Read one more byte. False: the end of input. After a signal redraw the line: the program was stopped, or the window
 * resized. */
static bool byte_read(FILE *in)
{
	for (;;) {
		ssize_t n = read(fileno(in), held.raw + held.have, 1);
		if (n == 1) {
			held.have++;
			return true;
		}
		if (n == 0 || errno != EINTR)
			return false;
		rl_forced_update_display();
	}
}

/* libedit's source of characters. */
static int character_read(FILE *in)
{
	unsigned used = 0;
	wint_t c = 0;
	bool more = held.have > 0 || byte_read(in);
	if (!more)
		return -1;
	while ((c = first_of(held.raw, held.have, !more, &used)), used == 0)
		more = byte_read(in);
	held.have -= used;
	memmove(held.raw, held.raw + used, held.have);
	return (int)c;
}

char *editor_encode(const char *bytes)
{
	size_t len = strlen(bytes);
	char *line = malloc(len * BYTE_LEN + 1), *to = line;
	for (size_t at = 0; line && at < len;) {
		const uint8_t *p = (const uint8_t *)bytes + at;
		unsigned used;
		wint_t c = first_of(p, len - at, true, &used);
		if (c >= BYTE_BASE + 0x80 && c <= BYTE_BASE + 0xFF) {
			*to++ = (char)0xF3;
			*to++ = (char)0xA0;
			*to++ = (char)(0x80 | (c >> 6 & 0x3F));
			*to++ = (char)(0x80 | (c & 0x3F));
		} else {
			memcpy(to, p, used);
			to += used;
		}
		at += used;
	}
	if (line)
		*to = 0;
	return line;
}

void editor_decode(char *line)
{
	uint8_t *to = (uint8_t *)line;
	for (const uint8_t *p = to; *p;) {
		bool byte = p[0] == 0xF3 && p[1] == 0xA0 && (p[2] == 0xBE || p[2] == 0xBF);
		*to++ = byte ? (uint8_t)(p[2] << 6 | (p[3] & 0x3F)) : *p;
		p += byte ? BYTE_LEN : 1;
	}
	*to = 0;
}

/* ---- completion: commands as the first word and after help, files after -f and -o; keys cannot be listed ---- */

static char *command_next(const char *text, int again)
{
	static unsigned at;
	const char *name;
	at = again ? at : 0;
	while ((name = command_name(at))) {
		at++;
		if (strncmp(name, text, strlen(text)) == 0)
			return strdup(name);
	}
	return NULL;
}

static bool follows(const char *line, int start, const char *word)
{
	size_t len = strlen(word);
	while (start > 0 && line[start - 1] == ' ')
		start--;
	return (size_t)start >= len && strncmp(line + start - len, word, len) == 0 &&
	       ((size_t)start == len || line[(size_t)start - len - 1] == ' ');
}

static char **complete(const char *text, int start, int end)
{
	bool first = strspn(rl_line_buffer, " ") >= (size_t)start;
	(void)end;
	rl_attempted_completion_over = !follows(rl_line_buffer, start, "-f") && !follows(rl_line_buffer, start, "-o");
	return first || follows(rl_line_buffer, start, "help") ? rl_completion_matches(text, command_next) : NULL;
}

/* ---- */

bool editor_begin(void)
{
	static const char *const names[] = {"C.UTF-8", "C.utf8", "en_US.UTF-8", ""};
	locale_t locale = (locale_t)0;
	for (unsigned i = 0; i < KV_COUNT(names) && !locale; i++) {
		locale = newlocale(LC_CTYPE_MASK, names[i], (locale_t)0);
		if (locale && strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") != 0) {
			freelocale(locale);
			locale = (locale_t)0;
		}
	}
	if (!locale)
		return false;
	uselocale(locale); /* until the program ends */
	rl_getc_function = character_read;
	rl_attempted_completion_function = complete;
	return true;
}

char *editor_line(const char *prompt)
{
	char *line = readline(prompt);
	if (line && *line)
		add_history(line);
	if (line)
		editor_decode(line);
	return line;
}

void editor_remember(const char *line)
{
	char *encoded = editor_encode(line);
	if (encoded)
		add_history(encoded);
	free(encoded);
}
