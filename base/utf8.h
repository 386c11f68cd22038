/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h -- characters of UTF-8 without a locale: find them, count their columns, print them safely. Thread: any. */
#ifndef KVRAIL_BASE_UTF8_H
#define KVRAIL_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* kv_utf8_take -- the character that the bytes at p begin with, of which there are `have`, at least one. Returns its
 * length, 1 to 4, with *out; 0: no character begins so; -1: it may be the beginning of one, but bytes are missing. */
int kv_utf8_take(const uint8_t *p, size_t have, uint32_t *out);

/* kv_utf8_columns -- how many columns of a terminal the text takes. A wide character takes two, a combining one none.
 * A byte that is no part of a character takes one. */
unsigned kv_utf8_columns(const char *text);

/* kv_utf8_clip -- end the text behind its last character that fits the columns. One that is cut ends in "..." where
 * there is room for more than that. In place. */
void kv_utf8_clip(char *text, unsigned columns);

/* kv_utf8_print -- print bytes so that they cannot drive a terminal: control characters, and bytes that are no UTF-8,
 * become \xNN. With `lines`, \n and \t stay as they are. */
void kv_utf8_print(FILE *out, const void *data, size_t len, bool lines);

/* kv_utf8_text -- the same into buf, of cap bytes. What has no room is cut. Returns buf. */
char *kv_utf8_text(const void *data, size_t len, char *buf, size_t cap);

#endif
