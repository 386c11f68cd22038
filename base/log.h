/* SPDX-License-Identifier: Apache-2.0 */
/* log.h -- leveled logging to a sink that the owner of an object chooses. There is no global logger: every options
 * struct has a `const struct kv_log *`, which must outlive the object; NULL logs nothing. The function that decides an
 * error logs it once; the hot path never logs. */
#ifndef KVRAIL_BASE_LOG_H
#define KVRAIL_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/event.h"

enum kv_log_level { KV_LOG_OFF, KV_LOG_ERROR, KV_LOG_WARN, KV_LOG_INFO, KV_LOG_DEBUG, KV_LOG_TRACE };

struct kv_log {
	enum kv_log_level level; /* lines above it are not formatted */
	void (*write)(void *arg, enum kv_log_level level,
		      const char *line); /* one line, no newline; any thread, several at once */
	void *arg;
	/* The same for lines that are events (event.h), with the event's fields beside the line; NULL: `write` gets
	 * them as a part of it. */
	void (*event)(void *arg, enum kv_log_level level, const char *line, const struct kv_event *event);
};

/* kv_log -- format one line (1 KiB at most, control characters of arguments escaped) and hand it to log->write. Thread:
 * any. */
void kv_log(const struct kv_log *log, enum kv_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* kv_event -- the same for an event: KV_EVENT("name", fields). What the sink, `event` or else `write`, gets is one
 * line. Thread: any. */
void kv_event(const struct kv_log *log, enum kv_log_level level, const struct kv_event *event, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* kv_log_time -- the present time as it begins a log line, in UTC: "2026-01-31T12:00:00.123Z". buf has KV_LOG_TIME_CAP
 * bytes. Returns buf. */
enum { KV_LOG_TIME_CAP = 48 };
char *kv_log_time(char *buf);

/* How lines look on stderr. JSON: {"ts":"...","level":"warn","component":"kv-server","msg":"..."}. journal: stderr is
 * the journal's (systemd), so each line begins with its priority, "<4>", and text has neither time nor level. */
enum kv_log_format { KV_LOG_TEXT, KV_LOG_JSON };
struct kv_log_style {
	enum kv_log_format format;
	bool journal;
	const char *component; /* "kv-server" */
};

/* kv_log_style_from -- the style of this process: whether stderr is the journal's (JOURNAL_STREAM), and the format that
 * the variable KVRAIL_LOG_FORMAT names, "text" or "json". Thread: while no other changes the environment. */
void kv_log_style_from(struct kv_log_style *out, const char *component);

/* kv_log_line -- write a line in a style, with its end, into buf. event: its fields come behind it; NULL: there are
 * none. What does not fit is cut from the message; buf has KV_LOG_LINE_CAP bytes at least. Returns its length. */
enum { KV_LOG_LINE_CAP = 6144 };
size_t kv_log_line(const struct kv_log_style *style, enum kv_log_level level, const char *line,
		   const struct kv_event *event, char *buf, size_t cap);

/* kv_log_stderr -- a sink for `write` above: writes "2026-11-21T12:00:00.123Z WARN  line\n" to stderr in one write(2).
 * arg: a struct kv_log_style, or NULL for plain text. */
void kv_log_stderr(void *arg, enum kv_log_level level, const char *line);

/* kv_log_stderr_event -- the sink for `event` beside it, with the same arg. */
void kv_log_stderr_event(void *arg, enum kv_log_level level, const char *line, const struct kv_event *event);

/* kv_log_stdout -- write a line, its end included, to standard output, whose reader is not waited for: 20 ms at most.
 * False: it is lost. Thread: any. */
bool kv_log_stdout(const char *line, size_t len);

/* kv_log_level_parse -- read "off", "error", "warn", "info", "debug" or "trace". Returns 0 or -KV_EINVAL. */
int kv_log_level_parse(const char *text, enum kv_log_level *out_level);
const char *kv_log_level_name(enum kv_log_level level);

/* kv_log_level_set, kv_log_level -- set and read the level of a log that is in use. Thread: any. */
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
