/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h -- find, measure and print UTF-8 without a locale. Thread: any. */
#ifndef KVRAIL_BASE_UTF8_H
#define KVRAIL_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* kv_utf8_take -- the character at p, of `have` >= 1 bytes. Returns its length, 1 to 4, with *out; 0: none begins so;
 * -1: bytes are missing. */
int kv_utf8_take(const uint8_t *p, size_t have, uint32_t *out);

/* kv_utf8_columns -- columns of the text: wide characters two, combining ones none, stray bytes one. */
unsigned kv_utf8_columns(const char *text);

/* kv_utf8_clip -- cut the text to the columns, in place, with "..." where there is room. */
void kv_utf8_clip(char *text, unsigned columns);

/* kv_utf8_print -- print bytes harmlessly: control characters and invalid UTF-8 as \xNN. `lines`: \n and \t stay. */
void kv_utf8_print(FILE *out, const void *data, size_t len, bool lines);

/* kv_utf8_text -- the same into buf, cut. Returns buf. */
char *kv_utf8_text(const void *data, size_t len, char *buf, size_t cap);

#endif
