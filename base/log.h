/* SPDX-License-Identifier: Apache-2.0 */
/* log.h -- leveled logging to a sink of the object's owner. There is no global logger: options have a `const struct
 * kv_log *`, which outlives the object; NULL: no log. The function that decides an error logs it, once; the hot path
 * never logs. */
#ifndef KVRAIL_BASE_LOG_H
#define KVRAIL_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/event.h"

enum kv_log_level { KV_LOG_OFF, KV_LOG_ERROR, KV_LOG_WARN, KV_LOG_INFO, KV_LOG_DEBUG, KV_LOG_TRACE };

struct kv_log {
	enum kv_log_level level; /* higher ones are not formatted */
	void (*write)(void *arg, enum kv_log_level level,
		      const char *line); /* one line without newline; several threads at once */
	void *arg;
	/* The same for events (event.h), with fields beside the line. NULL: `write` gets them in the line. */
	void (*event)(void *arg, enum kv_log_level level, const char *line, const struct kv_event *event);
};

/* kv_log -- format a line (1 KiB at most, control characters escaped) for log->write. Thread: any. */
void kv_log(const struct kv_log *log, enum kv_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* kv_event -- the same for an event: KV_EVENT("name", fields). Thread: any. */
void kv_event(const struct kv_log *log, enum kv_log_level level, const struct kv_event *event, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* kv_log_time -- the time in UTC, "2026-01-31T12:00:00.123Z". buf: KV_LOG_TIME_CAP bytes. Returns buf. */
enum { KV_LOG_TIME_CAP = 48 };
char *kv_log_time(char *buf);

/* Lines on stderr. JSON: {"ts":"...","level":"warn","component":"kv-server","msg":"..."}. journal: a priority, "<4>",
 * and in text neither time nor level. */
enum kv_log_format { KV_LOG_TEXT, KV_LOG_JSON };
struct kv_log_style {
	enum kv_log_format format;
	bool journal;
	const char *component; /* "kv-server" */
};

/* kv_log_style_from -- this process's style: the journal (JOURNAL_STREAM), and KVRAIL_LOG_FORMAT, "text" or "json". */
void kv_log_style_from(struct kv_log_style *out, const char *component);

/* kv_log_line -- write a line with its end into buf, of KV_LOG_LINE_CAP bytes or more. event: its fields follow, or
 * NULL. Returns the length. */
enum { KV_LOG_LINE_CAP = 6144 };
size_t kv_log_line(const struct kv_log_style *style, enum kv_log_level level, const char *line,
		   const struct kv_event *event, char *buf, size_t cap);

/* kv_log_stderr -- a sink for `write`: "2026-11-21T12:00:00.123Z WARN  line\n" in one write(2). arg: a struct
 * kv_log_style, or NULL for plain text. */
void kv_log_stderr(void *arg, enum kv_log_level level, const char *line);

/* kv_log_stderr_event -- the sink for `event`, with the same arg. */
void kv_log_stderr_event(void *arg, enum kv_log_level level, const char *line, const struct kv_event *event);

/* kv_log_stdout -- write a line with its end to standard output, waiting 20 ms at most. False: lost. Thread: any. */
bool kv_log_stdout(const char *line, size_t len);

/* kv_log_level_parse -- "off", "error", "warn", "info", "debug" or "trace". 0 or -KV_EINVAL. */
int kv_log_level_parse(const char *text, enum kv_log_level *out_level);
const char *kv_log_level_name(enum kv_log_level level);

/* kv_log_level_set, kv_log_level -- of a log in use. Thread: any. */
static inline void kv_log_level_set(struct kv_log *log, enum kv_log_level level)
{
	__atomic_store_n(&log->level, level, __ATOMIC_RELAXED);
}

static inline enum kv_log_level kv_log_level(const struct kv_log *log)
{
	return __atomic_load_n(&log->level, __ATOMIC_RELAXED);
}

static inline bool kv_log_on(const struct kv_log *log, enum kv_log_level level)
{
	return log && log->write && level <= kv_log_level(log);
}

#define kv_error_log(log, ...) kv_log(log, KV_LOG_ERROR, __VA_ARGS__)
#define kv_warn(log, ...)      kv_log(log, KV_LOG_WARN, __VA_ARGS__)
#define kv_info(log, ...)      kv_log(log, KV_LOG_INFO, __VA_ARGS__)
#define kv_debug(log, ...)                                                                                             \
	do {                                                                                                           \
		if (kv_log_on(log, KV_LOG_DEBUG))                                                                      \
			kv_log(log, KV_LOG_DEBUG, __VA_ARGS__);                                                        \
	} while (0)

#endif
