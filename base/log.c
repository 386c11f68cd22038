/* SPDX-License-Identifier: Apache-2.0 */
/* log.c -- build one line on the stack for the owner's sink.
 *
 * Invariant: the sink gets a line of printable ASCII (printable.h): escaping follows formatting. errno is kept. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/event.h"
#include "base/json.h"
#include "base/log_out.h"
#include "base/printable.h"
#include "base/units.h"

enum { LINE_CAP = 1024 };

static const char *const level_names[] = {"off", "error", "warn", "info", "debug", "trace"};
static const char *const level_tags[] = {"OFF  ", "ERROR", "WARN ", "INFO ", "DEBUG", "TRACE"};

/* For a sink without events. Out of line, to spare a coroutine's stack. */
__attribute__((noinline)) static void write_whole(const struct kv_log *log, enum kv_log_level level, const char *line,
						  const struct kv_event *event)
{
	char whole[LINE_CAP + KV_EVENT_CAP];
	size_t n = strlen(line);
	memcpy(whole, line, n);
	kv_event_text(event, whole + n);
	log->write(log->arg, level, whole);
}

/* Pass a line to the sink. */
static void sink(const struct kv_log *log, enum kv_log_level level, const char *line, const struct kv_event *event)
{
	if (!event)
		log->write(log->arg, level, line);
	else if (log->event)
		log->event(log->arg, level, line, event);
	else
		write_whole(log, level, line, event);
}

static void log_line(const struct kv_log *log, enum kv_log_level level, const struct kv_event *event, const char *fmt,
		     va_list ap) __attribute__((format(printf, 4, 0)));
static void log_line(const struct kv_log *log, enum kv_log_level level, const struct kv_event *event, const char *fmt,
		     va_list ap)
{
	if (!kv_log_on(log, level) || level == KV_LOG_OFF)
		return;
	int saved = errno;
	char text[LINE_CAP], line[LINE_CAP];
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	if (n >= 0) {
		kv_printable(text, (size_t)n >= sizeof(text), line, sizeof(line));
		sink(log, level, line, event);
	}
	errno = saved;
}

void kv_log(const struct kv_log *log, enum kv_log_level level, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	log_line(log, level, NULL, fmt, ap);
	va_end(ap);
}

void kv_event(const struct kv_log *log, enum kv_log_level level, const struct kv_event *event, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	log_line(log, level, event, fmt, ap);
	va_end(ap);
}

char *kv_log_time(char *buf)
{
	struct timespec now = {0};
	struct tm tm = {0};
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	size_t n = strftime(buf, KV_LOG_TIME_CAP, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + n, KV_LOG_TIME_CAP - n, ".%03ldZ", now.tv_nsec / 1000000);
	return buf;
}

/* JOURNAL_STREAM is "device:inode" of the journal's connection (systemd). */
static bool is_journal(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;
	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(fd, &st) == 0 &&
	       st.st_dev == device && st.st_ino == inode;
}

void kv_log_style_from(struct kv_log_style *out, const char *component)
{
	const char *format = getenv("KVRAIL_LOG_FORMAT");
	*out = (struct kv_log_style){.format = format && strcmp(format, "json") == 0 ? KV_LOG_JSON : KV_LOG_TEXT,
				     .journal = is_journal(STDERR_FILENO),
				     .component = component};
}

/* syslog's priorities. */
static int priority(enum kv_log_level level)
{
	static const int of[] = {6, 3, 4, 6, 7, 7};
	return (unsigned)level < KV_COUNT(of) ? of[level] : 6;
}

size_t kv_log_line(const struct kv_log_style *style, enum kv_log_level level, const char *line,
		   const struct kv_event *event, char *buf, size_t cap)
{
	bool journal = style && style->journal;
	char now[KV_LOG_TIME_CAP], text[2 * LINE_CAP], fields[KV_EVENT_CAP];
	size_t n = journal ? (size_t)snprintf(buf, cap, "<%d>", priority(level)) : 0;
	int len;
	if (style && style->format == KV_LOG_JSON)
		len = snprintf(buf + n, cap - n,
			       "{\"ts\":\"%s\",\"level\":\"%s\",\"component\":\"%s\",\"msg\":\"%s\"%s}\n",
			       kv_log_time(now), kv_log_level_name(level), style->component ? style->component : "",
			       kv_json_text(line, text, sizeof(text)), kv_event_json(event, fields));
	else if (journal)
		len = snprintf(buf + n, cap - n, "%.*s%s\n", LINE_CAP, line, kv_event_text(event, fields));
	else
		len = snprintf(buf + n, cap - n, "%s %s %.*s%s\n", kv_log_time(now),
			       (unsigned)level < KV_COUNT(level_tags) ? level_tags[level] : "?    ", LINE_CAP, line,
			       kv_event_text(event, fields));
	n = KV_MIN(n + (size_t)KV_MAX(len, 0), cap - 1);
	/* Also behind a line whose end did not fit. */
	buf[n - 1] = '\n';
	return n;
}

static _Atomic uint64_t lost; /* lines lost since the last report */

/* Reported before the next line. buf: that line's room. */
static void lost_tell(const struct kv_log_style *style, char buf[KV_LOG_LINE_CAP])
{
	uint64_t lines = atomic_load(&lost) ? atomic_exchange(&lost, 0) : 0;
	char text[96];
	if (lines == 0)
		return;
	snprintf(text, sizeof(text), "%llu line%s of the log %s lost: standard error took none",
		 (unsigned long long)lines, kv_plural(lines), lines == 1 ? "is" : "are");
	if (!kv_log_out(buf, kv_log_line(style, KV_LOG_WARN, text, KV_EVENT("log_lost", KV_NUMBER("lines", lines)), buf,
					 KV_LOG_LINE_CAP)))
		atomic_fetch_add(&lost, lines);
}

void kv_log_stderr_event(void *arg, enum kv_log_level level, const char *line, const struct kv_event *event)
{
	int saved = errno;
	char buf[KV_LOG_LINE_CAP];
	lost_tell(arg, buf);
	if (!kv_log_out(buf, kv_log_line(arg, level, line, event, buf, sizeof(buf))))
		atomic_fetch_add(&lost, 1);
	errno = saved;
}

void kv_log_stderr(void *arg, enum kv_log_level level, const char *line)
{
	kv_log_stderr_event(arg, level, line, NULL);
}

int kv_log_level_parse(const char *text, enum kv_log_level *out_level)
{
	for (size_t i = 0; text && i < KV_COUNT(level_names); i++) {
		if (strcmp(text, level_names[i]) == 0) {
			*out_level = (enum kv_log_level)i;
			return 0;
		}
	}
	return -KV_EINVAL;
}

const char *kv_log_level_name(enum kv_log_level level)
{
	return (unsigned)level < KV_COUNT(level_names) ? level_names[level] : "?";
}
