/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c -- levels, escaping, cutting, and the line that goes to stderr. */
#include "tests/check.h"

#include "base/log_out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

struct sink {
	unsigned lines;
	enum kv_log_level level;
	char last[4096];
};

static void sink_write(void *arg, enum kv_log_level level, const char *line)
{
	struct sink *s = arg;
	s->lines++;
	s->level = level;
	snprintf(s->last, sizeof(s->last), "%s", line);
	errno = EIO;
}

static void lines_above_the_level_are_dropped(void **state)
{
	(void)state;
	struct sink s = {0};
	struct kv_log log = {.level = KV_LOG_WARN, .write = sink_write, .arg = &s};
	kv_info(&log, "no");
	kv_debug(&log, "no");
	assert_int_equal(s.lines, 0);
	kv_warn(&log, "n=%d", 7);
	kv_error_log(&log, "e");
	assert_int_equal(s.lines, 2);
	assert_int_equal(s.level, KV_LOG_ERROR);
}

static void no_log_and_no_sink_are_silence(void **state)
{
	(void)state;
	struct kv_log log = {.level = KV_LOG_TRACE};
	kv_error_log(NULL, "x");
	kv_error_log(&log, "x");
	assert_false(kv_log_on(&log, KV_LOG_ERROR));
}

static void a_line_cannot_be_forged(void **state)
{
	(void)state;
	struct sink s = {0};
	struct kv_log log = {.level = KV_LOG_INFO, .write = sink_write, .arg = &s};
	kv_info(&log, "key '%s'", "a\nERROR \x1b[2J\x9b\t\x7f");
	assert_string_equal(s.last, "key 'a\\nERROR \\x1b[2J\\x9b\\t\\x7f'");
}

static void a_long_line_is_cut_and_says_so(void **state)
{
	(void)state;
	struct sink s = {0};
	struct kv_log log = {.level = KV_LOG_INFO, .write = sink_write, .arg = &s};
	char text[3000];
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	kv_info(&log, "%s", text);
	assert_int_equal(strlen(s.last), 1023);
	assert_string_equal(s.last + 1019, "x...");
	memset(text, '\n', 600); /* fits before escaping, not after */
	text[600] = '\0';
	kv_info(&log, "%s", text);
	assert_int_equal(strlen(s.last), 1023);
	assert_string_equal(s.last + 1018, "\\n...");
}

static void logging_keeps_errno(void **state)
{
	(void)state;
	struct sink s = {0};
	struct kv_log log = {.level = KV_LOG_INFO, .write = sink_write, .arg = &s};
	errno = EPIPE;
	kv_info(&log, "x");
	assert_int_equal(errno, EPIPE);
}

static void levels_parse_and_print(void **state)
{
	(void)state;
	for (int l = KV_LOG_OFF; l <= KV_LOG_TRACE; l++) {
		enum kv_log_level back = KV_LOG_OFF;
		assert_int_equal(kv_log_level_parse(kv_log_level_name((enum kv_log_level)l), &back), 0);
		assert_int_equal(back, l);
	}
	enum kv_log_level untouched = KV_LOG_DEBUG;
	assert_int_equal(kv_log_level_parse("loud", &untouched), -KV_EINVAL);
	assert_int_equal(kv_log_level_parse(NULL, &untouched), -KV_EINVAL);
	assert_int_equal(untouched, KV_LOG_DEBUG);
}

/* stderr_of -- the bytes that kv_log_stderr writes for a line. */
static size_t stderr_of(const char *line, char *buf, size_t cap)
{
	int fds[2], saved = dup(STDERR_FILENO);
	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	kv_log_stderr(NULL, KV_LOG_WARN, line);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(fds[1]);
	ssize_t n = read(fds[0], buf, cap);
	close(fds[0]);
	assert_true(n > 0);
	return (size_t)n;
}

static void stderr_gets_one_stamped_line(void **state)
{
	(void)state;
	char buf[2048];
	size_t n = stderr_of("hello", buf, sizeof(buf) - 1);
	int year, month, day, hour, minute, second, ms, end = 0;
	buf[n] = '\0';
	assert_int_equal(n, strlen("2026-11-21T12:00:00.123Z WARN  hello\n"));
	assert_int_equal(
		sscanf(buf, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &year, &month, &day, &hour, &minute, &second, &ms, &end),
		7);
	assert_string_equal(buf + end, " WARN  hello\n");
}

static void stderr_keeps_the_line_end_of_a_long_line(void **state)
{
	(void)state;
	char line[3000], buf[4096];
	memset(line, 'y', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	size_t n = stderr_of(line, buf, sizeof(buf));
	assert_true(n < 1200);
	assert_int_equal(buf[n - 1], '\n');
}

/* A pipe as standard error, until pipe_end. */
struct stderr_pipe {
	int read_fd, saved;
};

static void pipe_begin(struct stderr_pipe *p)
{
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	p->read_fd = fds[0];
	p->saved = dup(STDERR_FILENO);
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
}

static void pipe_end(struct stderr_pipe *p)
{
	dup2(p->saved, STDERR_FILENO);
	close(p->saved);
	close(p->read_fd);
}

/* What lies in the pipe, as text. */
static size_t pipe_read(const struct stderr_pipe *p, char *buf, size_t cap)
{
	size_t n = 0;
	ssize_t got;
	fcntl(p->read_fd, F_SETFL, O_NONBLOCK);
	while ((got = read(p->read_fd, buf + n, cap - 1 - n)) > 0)
		n += (size_t)got;
	buf[n] = '\0';
	return n;
}

static void a_reader_that_stands_still_is_not_waited_for(void **state)
{
	(void)state;
	enum { LINES = 5000 }; /* several times the pipe's room */
	struct stderr_pipe p;
	static char buf[1 << 20];
	char line[100], *told;
	unsigned long long lost = 0, got = 0;
	pipe_begin(&p);
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	for (unsigned i = 0; i < LINES; i++)
		kv_log_stderr(NULL, KV_LOG_INFO, line);
	size_t n = pipe_read(&p, buf, sizeof(buf));
	for (size_t i = 0; i < n; i++)
		got += buf[i] == '\n';
	kv_log_stderr(NULL, KV_LOG_INFO, "again");
	kv_log_stderr(NULL, KV_LOG_INFO, "and again");
	bool whole = n > 0 && buf[n - 1] == '\n';
	pipe_read(&p, buf, sizeof(buf));
	pipe_end(&p);
	assert_true(whole);
	told = strstr(buf, " | event=log_lost lines=");
	assert_non_null(told);
	assert_int_equal(sscanf(told, " | event=log_lost lines=%llu", &lost), 1);
	assert_int_equal(got + lost, LINES);
	told = strstr(told, " INFO  again\n");
	assert_non_null(told);
	assert_non_null(strstr(told, " INFO  and again\n"));
	assert_null(strstr(told, "log_lost"));
}

/* A terminal whose reader stands still takes a part of the last line, for which a write would wait. */
static void a_terminal_that_nobody_reads_is_not_waited_for(void **state)
{
	(void)state;
	struct stderr_pipe p;
	char line[1024], name[64], buf[1 << 16];
	for (size_t len = 20; len < sizeof(line); len += 67) {
		int fd;
		p.read_fd = posix_openpt(O_RDWR | O_NOCTTY);
		if (p.read_fd < 0 || grantpt(p.read_fd) || unlockpt(p.read_fd) ||
		    ptsname_r(p.read_fd, name, sizeof(name))) {
			print_message("there is no pseudo-terminal here\n");
			skip();
		}
		fd = open(name, O_RDWR | O_NOCTTY);
		assert_true(fd >= 0);
		p.saved = dup(STDERR_FILENO);
		dup2(fd, STDERR_FILENO);
		close(fd);
		memset(line, 'x', len);
		line[len - 1] = '\n';
		while (kv_log_out(line, len))
			;
		while (pipe_read(&p, buf, sizeof(buf)) > 0)
			;
		bool again = kv_log_out(line, len);
		pipe_end(&p);
		assert_true(again);
	}
}

static void a_reader_that_has_gone_ends_nobody(void **state)
{
	(void)state;
	struct stderr_pipe p;
	pipe_begin(&p);
	close(p.read_fd);
	kv_log_stderr(NULL, KV_LOG_INFO, "SIGPIPE would end this test");
	p.read_fd = open("/dev/null", O_RDONLY);
	pipe_end(&p);
}

/* What other processes do between poll and the write that follows it (test_log is linked with --wrap=poll). */
static void (*meanwhile)(void);
static int other_end; /* of standard error */

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	int got = __real_poll(fds, n, timeout);
	if (meanwhile)
		meanwhile();
	return got;
}

static void fill_pipe(void)
{
	static const char room[4096];
	int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK);
	assert_true(fd >= 0);
	while (write(fd, room, sizeof(room)) > 0)
		;
	close(fd);
}

static void fill_socket(void)
{
	static const char room[4096];
	while (send(STDERR_FILENO, room, sizeof(room), MSG_DONTWAIT) > 0)
		;
}

static void close_other_end(void)
{
	close(other_end);
}

/* A write that waited would do so for ever; SIGPIPE would end this test. */
static bool line_goes_out(void (*others)(void))
{
	bool gone;
	meanwhile = others;
	alarm(60);
	gone = kv_log_out("a line\n", 7);
	alarm(0);
	meanwhile = NULL;
	return gone;
}

static void another_process_fills_the_pipe_first(void **state)
{
	(void)state;
	struct stderr_pipe p;
	pipe_begin(&p);
	bool out = line_goes_out(fill_pipe);
	pipe_end(&p);
	assert_false(out);
}

static void another_process_fills_the_socket_first(void **state)
{
	(void)state;
	struct stderr_pipe p;
	int fds[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	p = (struct stderr_pipe){.read_fd = fds[0], .saved = dup(STDERR_FILENO)};
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	bool before = line_goes_out(NULL), out = line_goes_out(fill_socket);
	pipe_end(&p);
	assert_true(before);
	assert_false(out);
}

static void the_reader_goes_before_the_write(void **state)
{
	(void)state;
	struct stderr_pipe p;
	sigset_t pending;
	pipe_begin(&p);
	other_end = p.read_fd;
	bool out = line_goes_out(close_other_end);
	p.read_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	pipe_end(&p);
	assert_false(out);
	assert_int_equal(sigpending(&pending), 0);
	assert_false(sigismember(&pending, SIGPIPE));
}

/* A full disk, or a file that may not be longer, takes a part of a line; the next one begins anew. */
static void half_a_line_is_ended(void **state)
{
	(void)state;
	char path[] = "/tmp/kvrail-logXXXXXX", buf[512] = "";
	struct rlimit large, small;
	int fd = mkstemp(path), saved = dup(STDERR_FILENO);
	assert_true(fd >= 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &large), 0);
	small = (struct rlimit){.rlim_cur = 60, .rlim_max = large.rlim_max};
	unlink(path);
	dup2(fd, STDERR_FILENO);
	setrlimit(RLIMIT_FSIZE, &small);
	kv_log_stderr(NULL, KV_LOG_INFO, "a line of more bytes than the disk has room for");
	setrlimit(RLIMIT_FSIZE, &large);
	kv_log_stderr(NULL, KV_LOG_INFO, "the next one");
	dup2(saved, STDERR_FILENO);
	close(saved);
	assert_true(pread(fd, buf, sizeof(buf) - 1, 0) > 0);
	close(fd);
	assert_int_equal(buf[60], '\n');
	assert_non_null(strstr(buf + 60, "log_lost lines=1\n"));
	assert_non_null(strstr(buf + 60, " INFO  the next one\n"));
}

static void lines_have_a_style(void **state)
{
	(void)state;
	struct kv_log_style json = {.format = KV_LOG_JSON, .component = "c"};
	struct kv_log_style journal = {.journal = true}, both = {KV_LOG_JSON, true, "c"};
	char buf[KV_LOG_LINE_CAP], line[1024];
	const char *message;
	size_t n = kv_log_line(&json, KV_LOG_WARN, "a \"b\" \\x0a", KV_EVENT("e", KV_NUMBER("k", 1)), buf, sizeof(buf));
	assert_int_equal(n, strlen(buf));
	message = strstr(buf, ",\"level\"");
	assert_non_null(message);
	assert_string_equal(
		message,
		",\"level\":\"warn\",\"component\":\"c\",\"msg\":\"a \\\"b\\\" \\\\x0a\",\"event\":\"e\",\"k\":1}\n");
	assert_int_equal(strncmp(buf, "{\"ts\":\"20", 9), 0);
	kv_log_line(&journal, KV_LOG_ERROR, "text", NULL, buf, sizeof(buf));
	assert_string_equal(buf, "<3>text\n");
	kv_log_line(&both, KV_LOG_DEBUG, "text", NULL, buf, sizeof(buf));
	assert_int_equal(strncmp(buf, "<7>{\"ts\"", 8), 0);
	memset(line, '"', sizeof(line) - 1); /* the longest there is, each byte twice */
	line[sizeof(line) - 1] = '\0';
	n = kv_log_line(&both, KV_LOG_INFO, line, NULL, buf, sizeof(buf));
	assert_string_equal(buf + n - 3, "\"}\n");
}

static void the_environment_chooses_the_style(void **state)
{
	(void)state;
	struct kv_log_style style;
	setenv("KVRAIL_LOG_FORMAT", "json", 1);
	setenv("JOURNAL_STREAM", "1:2", 1);
	kv_log_style_from(&style, "x");
	assert_int_equal(style.format, KV_LOG_JSON);
	assert_false(style.journal);
	setenv("KVRAIL_LOG_FORMAT", "loud", 1);
	unsetenv("JOURNAL_STREAM");
	kv_log_style_from(&style, "x");
	assert_int_equal(style.format, KV_LOG_TEXT);
	unsetenv("KVRAIL_LOG_FORMAT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_above_the_level_are_dropped),
		cmocka_unit_test(no_log_and_no_sink_are_silence),
		cmocka_unit_test(a_line_cannot_be_forged),
		cmocka_unit_test(a_long_line_is_cut_and_says_so),
		cmocka_unit_test(logging_keeps_errno),
		cmocka_unit_test(levels_parse_and_print),
		cmocka_unit_test(stderr_gets_one_stamped_line),
		cmocka_unit_test(stderr_keeps_the_line_end_of_a_long_line),
		cmocka_unit_test(a_reader_that_stands_still_is_not_waited_for),
		cmocka_unit_test(a_terminal_that_nobody_reads_is_not_waited_for),
		cmocka_unit_test(another_process_fills_the_pipe_first),
		cmocka_unit_test(another_process_fills_the_socket_first),
		cmocka_unit_test(the_reader_goes_before_the_write),
		cmocka_unit_test(half_a_line_is_ended),
		cmocka_unit_test(lines_have_a_style),
		cmocka_unit_test(the_environment_chooses_the_style),
		cmocka_unit_test(a_reader_that_has_gone_ends_nobody), /* the last: a line of it is lost */
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
