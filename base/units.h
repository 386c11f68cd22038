/* SPDX-License-Identifier: Apache-2.0 */
/* units.h -- sizes and durations as text. Sizes are binary: 64KB = 64KiB = 64K = 65536. */
#ifndef KVRAIL_BASE_UNITS_H
#define KVRAIL_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* kv_size_parse -- "4096", "64KB", "64k", "1MiB", "2G" or "1.5M". 0, or -KV_EINVAL. */
int kv_size_parse(const char *text, uint64_t *out_bytes);

/* kv_size_format -- "64 KiB", "1.5 MiB" or "17 B"; 16 bytes suffice. Returns buf. */
char *kv_size_format(uint64_t bytes, char *buf, size_t cap);

/* kv_duration_parse -- "5", "5s", "250ms", "10us" or "2m"; bare: seconds. 0 or -KV_EINVAL. */
int kv_duration_parse(const char *text, uint64_t *out_ns);

/* kv_duration_format -- "1.23 ms", "45.6 us", "999 ns" or "12.3 s"; 16 bytes suffice. Returns buf. */
char *kv_duration_format(uint64_t ns, char *buf, size_t cap);

/* kv_rate_format -- "1.23 GB/s", decimal. Returns buf. */
char *kv_rate_format(double bytes_per_s, char *buf, size_t cap);

/* kv_count_format -- "1,234,567"; 28 bytes suffice. Returns buf. */
char *kv_count_format(uint64_t n, char *buf, size_t cap);

/* kv_count_of -- "1 client" or "1,234 clients"; 64 bytes suffice for a noun of 32. Returns buf. */
char *kv_count_of(uint64_t n, const char *noun, char *buf, size_t cap);

/* kv_plural -- "" after 1, else "s". */
const char *kv_plural(uint64_t n);

/* kv_version_number -- "2.3.4" as 2003004, to compare versions; 0: no version. kv_version_format -- the inverse; 16
 * bytes suffice for parts below 10,000. Returns buf. */
uint64_t kv_version_number(const char *text);
char *kv_version_format(uint64_t number, char *buf, size_t cap);

/* kv_u64_parse -- a whole number, decimal or 0x, and nothing else. 0 or -KV_EINVAL. */
int kv_u64_parse(const char *text, uint64_t *out);

#endif
