/* SPDX-License-Identifier: Apache-2.0 */
/* wrap.c -- text in 80 columns, counted in UTF-8 characters without colours. Lines break at the last blank that fits; a
 * long word (a path) stays whole. */
#include "base/wrap.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

enum { TEXT_CAP = 4096 };

static unsigned columns(const char *text, size_t len)
{
	unsigned n = 0;
	for (size_t i = 0; i < len; i++)
		if (text[i] == '\033')
			i += strcspn(text + i, "m");
		else
			n += ((unsigned char)text[i] & 0xC0) != 0x80;
	return n;
}

static size_t part(const char *word, size_t len, unsigned most)
{
	size_t n = 1;
	while (n < len && (((unsigned char)word[n] & 0xC0) == 0x80 || columns(word, n + 1) <= most))
		n++;
	return n;
}

/* split: break words wider than a line. */
static void wrap(FILE *out, unsigned limit, bool split, const char *head, unsigned indent, const char *word)
{
	unsigned at = columns(head, strlen(head)), left = indent ? indent : at;
	fputs(head, out);
	for (bool first = true; *word; first = false) {
		size_t len = strcspn(word, " ");
		if (split)
			len = part(word, len, limit > left ? limit - left : 1);
		unsigned wide = columns(word, len);
		if (!first && at + 1 + wide > limit) {
			fprintf(out, "\n%*s", (int)left, "");
			at = left;
		} else if (!first) {
			fputc(' ', out);
			at++;
		}
		fwrite(word, 1, len, out);
		at += wide;
		word += len + (word[len] == ' ');
	}
	fputc('\n', out);
}

void kv_wrap(FILE *out, const char *head, unsigned indent, const char *fmt, ...)
{
	char text[TEXT_CAP];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	wrap(out, KV_COLUMNS, false, head, indent, text);
}

void kv_wrap_in(FILE *out, unsigned limit, const char *head, unsigned indent, const char *fmt, ...)
{
	char text[TEXT_CAP];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	wrap(out, limit, true, head, indent, text);
}
