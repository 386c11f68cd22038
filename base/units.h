/* SPDX-License-Identifier: Apache-2.0 */
/* units.h -- sizes and durations as people write them. Sizes are binary: 64KB = 64KiB = 64K = 65536. */
#ifndef KVRAIL_BASE_UNITS_H
#define KVRAIL_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* kv_size_parse -- read "4096", "64KB", "64k", "1MiB", "2G" or "1.5M". Returns 0, or -KV_EINVAL (no size, negative,
 * overflow). */
int kv_size_parse(const char *text, uint64_t *out_bytes);

/* kv_size_format -- write "64 KiB", "1.5 MiB" or "17 B" into buf (16 bytes are enough). Returns buf. */
char *kv_size_format(uint64_t bytes, char *buf, size_t cap);

/* kv_duration_parse -- read "5", "5s", "250ms", "10us" or "2m"; a bare number is in seconds. Returns 0 or -KV_EINVAL.
 */
int kv_duration_parse(const char *text, uint64_t *out_ns);

/* kv_duration_format -- write "1.23 ms", "45.6 us", "999 ns" or "12.3 s". Returns buf (16 bytes are enough). */
char *kv_duration_format(uint64_t ns, char *buf, size_t cap);

/* kv_rate_format -- write bytes per second as "1.23 GB/s" (decimal, as networks count). Returns buf. */
char *kv_rate_format(double bytes_per_s, char *buf, size_t cap);

/* kv_count_format -- write "1,234,567" (28 bytes are enough). Returns buf. */
char *kv_count_format(uint64_t n, char *buf, size_t cap);

/* kv_count_of -- write "1 client" or "1,234 clients" (64 bytes are enough for a noun of 32). Returns buf. */
char *kv_count_of(uint64_t n, const char *noun, char *buf, size_t cap);

/* kv_plural -- what a noun takes behind this number: "" behind 1, else "s". */
const char *kv_plural(uint64_t n);

/* kv_version_number -- "2.3.4" as the number 2003004, so that versions can be compared; 0 for what is no version.
 * kv_version_format -- such a number as "2.3.4" (16 bytes are enough for what is below 10,000 each). Returns buf. */
uint64_t kv_version_number(const char *text);
char *kv_version_format(uint64_t number, char *buf, size_t cap);

/* kv_u64_parse -- read a whole number, decimal or 0x, with nothing behind it. Returns 0 or -KV_EINVAL. */
int kv_u64_parse(const char *text, uint64_t *out);

#endif
