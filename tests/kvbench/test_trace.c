/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace.c -- the trace reader on good and bad lines, and the reference count of hits against a stupid model. */
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "kvbench/load/lines.h"
#include "kvbench/load/trace.h"
#include "tests/kvbench/check.h"

static int memory_file(const char *text, size_t len)
{
	int fd = memfd_create("trace", MFD_CLOEXEC);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

/* Read text as a trace and return what the last trace_next gave; *out_count requests came before. */
static int read_all(const char *text, size_t len, uint64_t *out_count, struct trace_request *last, struct kv_error *err)
{
	int in = memory_file(text, len);
	struct trace_reader *reader;
	int rc;
	assert_int_equal(trace_open_stream(in, "made", &reader, err), 0);
	*out_count = 0;
	while ((rc = trace_next(reader, last, err)) > 0)
		(*out_count)++;
	trace_close(&reader);
	assert_null(reader);
	return rc;
}

static void check_bad(const char *text, int code, const char *part)
{
	struct trace_request last;
	struct kv_error err = {0};
	uint64_t count;
	assert_int_equal(read_all(text, strlen(text), &count, &last, &err), code);
	check_contains(err.text, "made");
	check_contains(err.text, part);
}

/* jansson passes it over: 1 and 2 would be 12. */
static void a_byte_0_is_no_blank(void **state)
{
	static const char *const bad[] = {"{\"timestamp\": 0, \"hash_ids\": [1%2]}\n", "%%\n",
					  "{\"timestamp\": 0, %\"hash_ids\": [1]}"};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		struct trace_request last;
		struct kv_error err = {0};
		uint64_t count;
		char text[64];
		size_t len = strlen(bad[i]);
		memcpy(text, bad[i], len);
		for (size_t k = 0; k < len; k++)
			text[k] = text[k] == '%' ? 0 : text[k];
		assert_int_equal(read_all(text, len, &count, &last, &err), -KV_EINVAL);
		check_contains(err.text, "made line 1 has a byte 0");
	}
}

static void a_good_line_is_read(void **state)
{
	const char *text = "{\"timestamp\": 27.5, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 1, "
			   "9007199254740993]}\n";
	int in = memory_file(text, strlen(text));
	struct trace_reader *reader;
	struct trace_request q;
	struct kv_error err;
	(void)state;
	assert_int_equal(trace_open_stream(in, "made", &reader, &err), 0);
	assert_int_equal(trace_next(reader, &q, &err), 1);
	assert_int_equal(q.line, 1);
	assert_true(q.timestamp_ms == 27.5);
	assert_int_equal(q.input_length, 6758);
	assert_int_equal(q.output_length, 500);
	assert_int_equal(q.num_ids, 3);
	assert_int_equal(q.ids[2], 9007199254740993ull); /* does not fit a double */
	assert_int_equal(trace_next(reader, &q, &err), 0);
	assert_int_equal(trace_next(reader, &q, &err), 0);
	trace_close(&reader);
}

/* In form as lines of qwen_traceA_blksz_16.jsonl are: a block for each 16 tokens and for the rest of them, time from
 * 0.0 on, a first turn without a parent. */
static void a_line_of_bailian_has_seconds(void **state)
{
	const char *text = "{\"chat_id\": 0, \"parent_chat_id\": -1, \"timestamp\": 0.0, \"input_length\": 40, "
			   "\"output_length\": 9, \"type\": \"text\", \"turn\": 1, \"hash_ids\": [0, 1, 2]}\n"
			   "{\"chat_id\": 7, \"parent_chat_id\": 0, \"timestamp\": 61.114, \"input_length\": 50, "
			   "\"output_length\": 132, \"type\": \"text\", \"turn\": 2, \"hash_ids\": [0, 1, 3, 13148]}\n";
	struct trace_request q;
	struct trace_totals totals;
	struct check_file file = check_file_make(text);
	struct kv_error err;
	uint64_t count;
	(void)state;
	assert_int_equal(read_all(text, strlen(text), &count, &q, &err), 0);
	assert_int_equal(count, 2);
	assert_int_equal(q.format, TRACE_BAILIAN);
	assert_true(q.timestamp_ms > 61113.9 && q.timestamp_ms < 61114.1);
	assert_int_equal(q.input_length, 50);
	assert_int_equal(q.num_ids, 4);
	assert_int_equal(trace_scan(file.path, &totals, &err), 0);
	assert_int_equal(totals.block_tokens, 16);
	assert_int_equal(totals.prefix_hits, 2);
	assert_true(totals.first_ms == 0 && totals.last_ms > 61113.9);
	check_file_remove(&file);
	check_bad("{\"chat_id\": 1, \"timestamp\": 1}\n", -KV_EINVAL, "correct or remove the line");
	check_bad("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", -KV_EINVAL, "git lfs pull");
}

static void lines_without_newline_blank_lines_and_crlf_are_read(void **state)
{
	const char *text =
		"\n  \r\n{\"timestamp\": 0, \"hash_ids\": [1]}\r\n\n{\"timestamp\": 1, \"hash_ids\": [], \"more\": {}}";
	struct trace_request last;
	struct kv_error err;
	uint64_t count;
	(void)state;
	assert_int_equal(read_all(text, strlen(text), &count, &last, &err), 0);
	assert_int_equal(count, 2);
}

static void bad_lines_are_named(void **state)
{
	(void)state;
	check_bad("{\"timestamp\": 0, \"hash_ids\": [1, 2]}\nnot json\n", -KV_EINVAL, "line 2");
	check_bad("[1, 2]\n", -KV_EINVAL, "line 1 begins a JSON array: write one object per line");
	check_bad("[\n{}\n]\n", -KV_EINVAL, "line 1 begins a JSON array");
	check_bad("{\n\"timestamp\": 0\n}\n", -KV_EINVAL, "line 1 has a part of a JSON object");
	check_bad("17\n", -KV_EINVAL, "line 1");
	check_bad("{\"timestamp\": 1e300, \"hash_ids\": []}\n", -KV_EINVAL, "30,000 years");
	check_bad("{\"timestamp\": 1767225600000000000, \"hash_ids\": [1]}\n", -KV_EINVAL, "must be in milliseconds");
	check_bad("{\"timestamp\": \"0\", \"hash_ids\": [1]}\n", -KV_EINVAL, "\"timestamp\" is neither");
	check_bad("{\"timestamp\": \"2024-13-01\", \"hash_ids\": [1]}\n", -KV_EINVAL, "\"timestamp\" is neither");
	check_bad("{\"timestamp\": true, \"hash_ids\": [1]}\n", -KV_EINVAL, "\"timestamp\" is neither");
	check_bad("{\"session_id\": \"a\", \"delay\": -1, \"hash_ids\": [1]}\n", -KV_EINVAL,
		  "\"delay\" is not a number");
	check_bad("{\"session_id\": \"a\", \"delay\": \"2024-01-01\", \"hash_ids\": [1]}\n", -KV_EINVAL, "\"delay\"");
	check_bad("{\"session_id\": [], \"hash_ids\": [1]}\n", -KV_EINVAL, "\"session_id\"");
	check_bad("{\"timestamp\": 0}\n", -KV_EINVAL, "neither \"hash_ids\" nor \"input_length\"");
	check_bad("{\"id\": \"s\", \"requests\": [{\"t\": 0}]}\n", -KV_EINVAL, "one request per line");
	check_bad("{\"timestamp\": 0, \"hash_ids\": 7}\n", -KV_EINVAL, "\"hash_ids\" is not an array");
	check_bad("{\"timestamp\": 0, \"hash_ids\": [1, 2.5]}\n", -KV_EINVAL, "item 2 of \"hash_ids\"");
	check_bad("{\"timestamp\": 0, \"hash_ids\": [1e300]}\n", -KV_EINVAL, "item 1 of \"hash_ids\"");
	check_bad("{\"timestamp\": 0, \"hash_ids\": [\"\"]}\n", -KV_EINVAL, "item 1 of \"hash_ids\"");
	check_bad("{\"timestamp\": 0, \"hash_ids\": [NaN]}\n", -KV_EINVAL, "item 1 of \"hash_ids\"");
	check_bad("{\"timestamp\": 0, \"hash_ids\": [[1]]}\n", -KV_EINVAL, "item 1 of \"hash_ids\"");
	/* The column is that of the line as it is, also where it was rewritten. */
	check_bad("{\"a\": NaN, \"hash_ids\": [14695981039346656037], x}\n", -KV_EINVAL, "column 48");
	check_bad("{\"a\": [1, 2], \"hash_ids\": [1], x}\n", -KV_EINVAL, "column 32");
	check_bad("{\"timestamp\": 0, \"input_length\": 1.5, \"hash_ids\": []}\n", -KV_EINVAL, "input_length");
	check_bad("{\"timestamp\": 0, \"input_length\": -5, \"hash_ids\": []}\n", -KV_EINVAL, "input_length");
	check_bad("{\"timestamp\": 0, \"output_length\": \"x\", \"hash_ids\": []}\n", -KV_EINVAL, "output_length");
	check_bad("{\"timestamp\": 0, \"timestamp\": 1, \"hash_ids\": []}\n", -KV_EINVAL, "line 1");
	check_bad("{\"timestamp\": 0, \"hash_ids\": [1]} trailing\n", -KV_EINVAL, "line 1");
	check_bad("{\"timestamp\": 0, \"hash_ids\": [1", -KV_EINVAL, "line 1");
}

static void an_error_stays(void **state)
{
	const char *text = "oops\n{\"timestamp\": 0, \"hash_ids\": [1]}\n";
	int in = memory_file(text, strlen(text));
	struct trace_reader *reader;
	struct trace_request q;
	struct kv_error first, again;
	(void)state;
	assert_int_equal(trace_open_stream(in, "made", &reader, &first), 0);
	assert_int_equal(trace_next(reader, &q, &first), -KV_EINVAL);
	assert_int_equal(trace_next(reader, &q, &again), -KV_EINVAL);
	assert_string_equal(first.text, again.text);
	trace_close(&reader);
}

static void a_zero_byte_is_an_error(void **state)
{
	const char text[] = "{\"timestamp\": 0, \0\"hash_ids\": [1]}\n";
	struct trace_request last;
	struct kv_error err;
	uint64_t count;
	(void)state;
	assert_int_equal(read_all(text, sizeof(text) - 1, &count, &last, &err), -KV_EINVAL);
}

static char *repeat(char c, size_t n)
{
	char *text = malloc(n);
	assert_non_null(text);
	memset(text, c, n);
	return text;
}

static void a_line_has_a_longest_length(void **state)
{
	char *text = repeat(' ', LINE_MAX_BYTES + 3);
	struct trace_request last;
	struct kv_error err = {0};
	uint64_t count;
	(void)state;
	/* The longest line that is allowed, and one byte more. */
	text[LINE_MAX_BYTES] = '\n';
	assert_int_equal(read_all(text, LINE_MAX_BYTES + 1, &count, &last, &err), 0);
	text[LINE_MAX_BYTES] = ' ';
	text[LINE_MAX_BYTES + 1] = '\n';
	assert_int_equal(read_all(text, LINE_MAX_BYTES + 2, &count, &last, &err), -KV_ETOOBIG);
	check_contains(err.text, "line 1");
	free(text);
}

static void write_ids(FILE *out, unsigned n)
{
	fputs("{\"timestamp\": 0, \"hash_ids\": [", out);
	for (unsigned i = 0; i < n; i++)
		fprintf(out, "%s%u", i ? "," : "", i);
	fputs("]}\n", out);
}

static void a_line_has_a_largest_number_of_ids(void **state)
{
	struct check_file file;
	struct trace_totals totals;
	struct kv_error err;
	FILE *out;
	(void)state;
	out = check_file_open(&file);
	write_ids(out, TRACE_IDS_MAX);
	fclose(out);
	assert_int_equal(trace_scan(file.path, &totals, &err), 0);
	assert_int_equal(totals.ids_max, TRACE_IDS_MAX);
	check_file_remove(&file);
	out = check_file_open(&file);
	write_ids(out, TRACE_IDS_MAX + 1);
	fclose(out);
	assert_int_equal(trace_scan(file.path, &totals, &err), -KV_ETOOBIG);
	check_contains(err.text, "line 1");
	check_file_remove(&file);
}

static void missing_and_empty_files_are_told(void **state)
{
	struct check_file file = check_file_make("\n\n");
	struct trace_totals totals;
	struct kv_error err;
	(void)state;
	assert_int_equal(trace_scan(file.path, &totals, &err), -KV_EINVAL);
	check_file_remove(&file);
	assert_true(trace_scan(file.path, &totals, &err) < 0);
	check_contains(err.text, file.path);
}

/* ---- what programs write ---- */

/* The ids of a line. */
static unsigned ids_of(const char *hash_ids, uint64_t *out, unsigned max)
{
	struct trace_reader *reader;
	struct trace_request q;
	struct kv_error err = {0};
	char text[1024];
	int in;
	snprintf(text, sizeof(text), "{\"timestamp\": 0, \"hash_ids\": [%s]}\n", hash_ids);
	in = memory_file(text, strlen(text));
	assert_int_equal(trace_open_stream(in, "made", &reader, &err), 0);
	if (trace_next(reader, &q, &err) != 1)
		fail_msg("%s", err.text);
	assert_true(q.num_ids <= max);
	memcpy(out, q.ids, q.num_ids * sizeof(*out));
	trace_close(&reader);
	return q.num_ids;
}

static void ids_are_of_64_bits_in_any_form(void **state)
{
	uint64_t id[8];
	(void)state;
	assert_int_equal(ids_of("14695981039346656037, -3750763034362895579, 18446744073709551615, -1, "
				"-9223372036854775808, 9223372036854775807, 9223372036854775808",
				id, 8),
			 7);
	assert_true(id[0] == 14695981039346656037ull && id[1] == id[0]); /* one hash, unsigned and signed */
	assert_true(id[2] == UINT64_MAX && id[3] == UINT64_MAX);
	assert_true(id[4] == 1ull << 63 && id[5] == INT64_MAX && id[6] == 1ull << 63);
	assert_int_equal(ids_of("7, 4294967303, 8589934599, 7.0, 9007199254740991.0", id, 8), 5);
	assert_true(id[0] == 7 && id[1] == (1ull << 32) + 7 && id[2] == (2ull << 32) + 7 && id[3] == 7);
	assert_true(id[4] == (1ull << 53) - 1);
	assert_int_equal(ids_of("\"a3f\", \"0xA3F\", \"ffffffffffffffff\", \"0\"", id, 8), 4);
	assert_true(id[0] == 0xa3f && id[1] == 0xa3f && id[2] == UINT64_MAX && id[3] == 0);
	/* Longer hashes, other texts, and numbers of more than 64 bits: hashed, equal if the text is. */
	assert_int_equal(ids_of("\"d41d8cd98f00b204e9800998ecf8427e\", \"d41d8cd98f00b204e9800998ecf8427f\", "
				"\"d41d8cd98f00b204e9800998ecf8427e\", \"block-7\", \"block-8\", "
				"99999999999999999999999, 99999999999999999999998, 99999999999999999999999",
				id, 8),
			 8);
	assert_true(id[0] != id[1] && id[0] == id[2] && id[3] != id[4] && id[5] != id[6] && id[5] == id[7]);
}

static void the_largest_id_is_counted_as_any_other(void **state)
{
	struct check_file file = check_file_make(
		"{\"hash_ids\": [18446744073709551615, 0]}\n{\"hash_ids\": [18446744073709551615, 0, 1]}\n");
	struct trace_totals t;
	struct kv_error err;
	(void)state;
	assert_int_equal(trace_scan(file.path, &t, &err), 0);
	assert_true(t.distinct == 3 && t.prefix_hits == 2 && t.untimed == 2);
	check_file_remove(&file);
}

static void fields_may_be_missing_null_and_floats(void **state)
{
	const char *text = "\xef\xbb\xbf{\"timestamp\": 0.0, \"input_length\": 1024.0, \"output_length\": NaN, "
			   "\"hash_ids\": [1, 2]}\n"
			   "{\"hash_ids\": [1], \"input_length\": null, \"text\": \"NaN \\\" 99999999999999999999\"}\n"
			   "{\"created_time\": 27.5, \"input_tokens\": 100, \"output_tokens\": 5}\n"
			   "{\"timestamp\": \"1970-01-01T00:00:02Z\", \"input_length\": 7, \"hash_ids\": null}\n"
			   "{\"timestamp\": NaN, \"hash_ids\": [3]}";
	int in = memory_file(text, strlen(text));
	const struct {
		double ms;
		uint64_t input, output;
		unsigned ids;
		bool timed;
	} want[] = {{0, 1024, 0, 2, true},
		    {0, 0, 0, 1, false},
		    {27.5, 100, 5, 0, true},
		    {2000, 7, 0, 0, true},
		    {2000, 0, 0, 1, false}};
	struct trace_reader *reader;
	struct trace_request q;
	struct kv_error err;
	(void)state;
	assert_int_equal(trace_open_stream(in, "made", &reader, &err), 0);
	for (unsigned i = 0; i < KV_COUNT(want); i++) {
		assert_int_equal(trace_next(reader, &q, &err), 1);
		assert_true(q.timestamp_ms == want[i].ms && q.timed == want[i].timed && q.num_ids == want[i].ids);
		assert_true(q.input_length == want[i].input && q.output_length == want[i].output);
	}
	assert_int_equal(trace_next(reader, &q, &err), 0);
	trace_close(&reader);
}

static void times_may_be_below_0(void **state)
{
	struct check_file file =
		check_file_make("{\"timestamp\": -500, \"hash_ids\": [1]}\n{\"timestamp\": -250, \"hash_ids\": [1]}\n");
	struct trace_totals t;
	struct kv_error err;
	(void)state;
	assert_int_equal(trace_scan(file.path, &t, &err), 0);
	assert_true(t.first_ms == -500 && t.last_ms == -250 && t.back == 0 && t.untimed == 0);
	check_file_remove(&file);
}

/* ---- sessions ---- */

/* Turns of a session stand together; by their times they alternate. */
#define SESSIONS                                                                                                       \
	"{\"session_id\": \"a\", \"timestamp\": 100, \"hash_ids\": [1]}\n"                                             \
	"{\"session_id\": \"a\", \"delay\": 50, \"hash_ids\": [1, 2]}\n"                                               \
	"{\"session_id\": \"a\", \"delay_ms\": 50.5, \"hash_ids\": [9, 1]}\n"                                          \
	"{\"session_id\": 7, \"timestamp\": 120, \"hash_ids\": [9]}\n"                                                 \
	"{\"session_id\": 7, \"delay\": 30, \"hash_ids\": [9, 2]}\n"                                                   \
	"{\"session_id\": \"7\", \"hash_ids\": [5]}\n"                                                                 \
	"{\"session_id\": 7, \"timestamp\": 400, \"delay\": 1, \"hash_ids\": [4]}\n"

static void delays_count_from_the_turn_before_and_sort_the_trace(void **state)
{
	static const struct {
		uint64_t line;
		double ms;
		unsigned ids;
	} want[] = {{1, 100, 1}, {6, 100, 1}, {4, 120, 1}, {2, 150, 2}, {5, 150, 2}, {3, 200.5, 2}, {7, 400, 1}};
	struct check_file file = check_file_make(SESSIONS);
	struct trace_reader *reader;
	struct trace_request q;
	struct trace_totals t;
	struct kv_error err;
	(void)state;
	assert_int_equal(trace_open(file.path, &reader, &err), 0);
	for (unsigned i = 0; i < KV_COUNT(want); i++) {
		assert_int_equal(trace_next(reader, &q, &err), 1);
		assert_true(q.line == want[i].line && q.timestamp_ms == want[i].ms && q.num_ids == want[i].ids);
	}
	assert_int_equal(q.ids[0], 4);
	assert_int_equal(trace_next(reader, &q, &err), 0);
	trace_close(&reader);
	assert_int_equal(trace_scan(file.path, &t, &err), 0);
	assert_true(t.requests == 7 && t.back == 0 && t.untimed == 1);
	assert_int_equal(t.prefix_hits, 1 + 2 + 2); /* of lines 2, 5 and 3; in the order of lines 3 would have none */
	check_file_remove(&file);
}

static void a_stream_with_delays_keeps_its_order(void **state)
{
	struct trace_request last;
	struct kv_error err;
	uint64_t count;
	(void)state;
	assert_int_equal(read_all(SESSIONS, strlen(SESSIONS), &count, &last, &err), 0);
	assert_true(count == 7 && last.line == 7);
}

/* Random sessions against a plain list that is sorted. */
enum { TURNS = 500, SESSIONS_MADE = 300 };

static void sorted_sessions_agree_with_a_model(void **state)
{
	struct kv_prng prng = check_seed();
	static double last[SESSIONS_MADE], ms[TURNS];
	struct check_file file;
	struct trace_reader *reader;
	struct trace_request q;
	struct kv_error err;
	double before = 0;
	FILE *out = check_file_open(&file);
	(void)state;
	for (unsigned i = 0; i < SESSIONS_MADE; i++)
		last[i] = -1;
	for (unsigned i = 0; i < TURNS; i++) {
		unsigned s = (unsigned)kv_prng_below(&prng, SESSIONS_MADE), n = (unsigned)kv_prng_below(&prng, 1000);
		const char *name = last[s] < 0 ? "timestamp" : "delay";
		ms[i] = last[s] < 0 ? n : last[s] + n;
		last[s] = ms[i];
		fprintf(out, "{\"session_id\": \"s%u\", \"%s\": %u, \"hash_ids\": [%u]}\n", s, name, n, i);
	}
	fclose(out);
	assert_int_equal(trace_open(file.path, &reader, &err), 0);
	for (unsigned i = 0; i < TURNS; i++) {
		assert_int_equal(trace_next(reader, &q, &err), 1);
		assert_true(q.timestamp_ms >= before && q.timestamp_ms == ms[q.line - 1] && q.ids[0] == q.line - 1);
		before = q.timestamp_ms;
	}
	assert_int_equal(trace_next(reader, &q, &err), 0);
	trace_close(&reader);
	check_file_remove(&file);
}

static void a_pipe_with_delays_is_refused(void **state)
{
	struct trace_reader *reader;
	struct trace_request q;
	struct kv_error err = {0};
	char path[32];
	int fd[2];
	(void)state;
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(write(fd[1], SESSIONS, strlen(SESSIONS)), (ssize_t)strlen(SESSIONS));
	close(fd[1]);
	snprintf(path, sizeof(path), "/dev/fd/%d", fd[0]);
	assert_int_equal(trace_open(path, &reader, &err), 0);
	assert_int_equal(trace_next(reader, &q, &err), 1);
	assert_int_equal(trace_next(reader, &q, &err), -KV_EINVAL);
	check_contains(err.text, "must be a regular file");
	trace_close(&reader);
	close(fd[0]);
}

/* ---- gzip ---- */

static void write_gzip(const char *path, const char *mode, const char *text)
{
	gzFile out = gzopen(path, mode);
	assert_non_null(out);
	assert_int_equal(gzwrite(out, text, (unsigned)strlen(text)), (int)strlen(text));
	assert_int_equal(gzclose(out), Z_OK);
}

static void gzip_files_are_read(void **state)
{
	struct check_file file = check_file_make("");
	struct trace_totals t;
	struct kv_error err;
	FILE *out;
	(void)state;
	write_gzip(file.path, "wb", "\xef\xbb\xbf{\"timestamp\": 0, \"hash_ids\": [1, 2]}\n{\"timesta");
	write_gzip(file.path, "ab", "mp\": 5, \"hash_ids\": [1, 2, 3]}\n"); /* a second member */
	out = fopen(file.path, "ab");
	fwrite("\0\0\0", 1, 3, out);
	fclose(out);
	assert_int_equal(trace_scan(file.path, &t, &err), 0);
	assert_true(t.requests == 2 && t.prefix_hits == 2);
	write_gzip(file.path, "wb", SESSIONS); /* read twice */
	assert_int_equal(trace_scan(file.path, &t, &err), 0);
	assert_true(t.requests == 7 && t.prefix_hits == 5);
	check_file_remove(&file);
}

static void check_scan_fails(const char *path, const char *part)
{
	struct trace_totals t;
	struct kv_error err = {0};
	assert_int_equal(trace_scan(path, &t, &err), -KV_EINVAL);
	check_contains(err.text, path);
	check_contains(err.text, part);
}

static void write_bytes(const char *path, const char *mode, const char *bytes, size_t len)
{
	FILE *f = fopen(path, mode);
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* One member of two requests. Returns its length. */
static size_t gzip_member(const char *path, char *out, size_t cap)
{
	size_t len;
	FILE *f;
	write_gzip(path, "wb",
		   "{\"timestamp\": 0, \"hash_ids\": [1, 2]}\n{\"timestamp\": 5, \"hash_ids\": [1, 2, 3]}\n");
	f = fopen(path, "rb");
	len = fread(out, 1, cap, f);
	fclose(f);
	return len;
}

static void damaged_gzip_files_are_refused(void **state)
{
	struct check_file file = check_file_make("");
	char whole[4096];
	size_t len = gzip_member(file.path, whole, sizeof(whole));
	(void)state;
	for (size_t cut = 2; cut < len; cut++) { /* at each byte */
		write_bytes(file.path, "wb", whole, cut);
		check_scan_fails(file.path, "ends early");
	}
	for (size_t i = len - 8; i < len; i++) { /* its checksum and its length */
		whole[i] ^= 1;
		write_bytes(file.path, "wb", whole, len);
		check_scan_fails(file.path, "are damaged");
		whole[i] ^= 1;
	}
	whole[len] = 'x';
	write_bytes(file.path, "wb", whole, len + 1);
	check_scan_fails(file.path, "the gzip data of");
	check_file_remove(&file);
}

static void damaged_further_members_are_refused(void **state)
{
	struct check_file file = check_file_make("");
	char whole[4096];
	size_t len = gzip_member(file.path, whole, sizeof(whole));
	(void)state;
	for (size_t cut = 1; cut < len; cut++) {
		write_bytes(file.path, "wb", whole, len);
		write_bytes(file.path, "ab", whole, cut);
		check_scan_fails(file.path, "ends early");
	}
	for (size_t i = 0; i < 2; i++) { /* its first bytes */
		write_bytes(file.path, "wb", whole, len);
		whole[i] ^= 1;
		write_bytes(file.path, "ab", whole, len);
		whole[i] ^= 1;
		check_scan_fails(file.path, "are damaged after line 2");
	}
	write_bytes(file.path, "wb", whole, len);
	write_bytes(file.path, "ab", "\0\0", 2);
	write_bytes(file.path, "ab", whole, len); /* behind zeros there is nothing */
	check_scan_fails(file.path, "are damaged after line 2");
	check_file_remove(&file);
}

static void other_formats_are_named(void **state)
{
	(void)state;
	check_bad("\x28\xb5\x2f\xfd....", -KV_EINVAL, "zstd -d");
	check_bad("PAR1....", -KV_EINVAL, "Parquet");
	check_bad("BZh9....", -KV_EINVAL, "bzip2 -d");
	check_bad("\xff\xfe{.", -KV_EINVAL, "UTF-16");
}

/* ---- CSV ---- */

static void check_times(const char *text, unsigned count, const double *ms)
{
	int in = memory_file(text, strlen(text));
	struct trace_reader *reader;
	struct trace_request q;
	struct kv_error err;
	assert_int_equal(trace_open_stream(in, "made", &reader, &err), 0);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(trace_next(reader, &q, &err), 1);
		assert_true(q.format == TRACE_CSV && q.timed && q.num_ids == 0);
		assert_true(fabs(q.timestamp_ms - ms[i]) < 0.001);
	}
	assert_int_equal(trace_next(reader, &q, &err), 0);
	trace_close(&reader);
}

static void times_of_azure_and_burstgpt_are_read(void **state)
{
	(void)state;
	check_times("TIMESTAMP,ContextTokens,GeneratedTokens\n"
		    "2023-11-16 18:15:46.6805900,374,44\n2024-05-10 00:00:00.009930+00:00,2162,5\n",
		    2, (double[]){1700158546680.59, 1715299200009.93});
	check_times("\xef\xbb\xbfTimestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\r\n"
		    "5,ChatGPT,472,18,490,Conversation log\r\n\r\n45.5,ChatGPT,1087,0,1087,Conversation log",
		    2, (double[]){5000, 45500});
	check_times("Log Type,\"Session, ID\",\"Timestamp\"\n\"a, b\",,\" 1e2 \"\n", 1, (double[]){100000});
	check_times("arrived_at,num_prefill_tokens,num_decode_tokens\n-0.5,1,2\n", 1, (double[]){-500});
	check_times("timestamp,a\n2024-05-10T00:00:00Z,\n2024-05-10 00:00:00.5z,\n2024-05-10T02:00:00+02,\n"
		    "2024-05-09T23:30:00-0030,\n",
		    4, (double[]){1715299200000, 1715299200500, 1715299200000, 1715299200000});
	check_times("timestamp,x\n2000-02-29T23:30:00-01:30,\n1969-12-31T23:59:59,\n2024-02-28,\n", 3,
		    (double[]){951872400000, -1000, 1709078400000});
}

static void bad_rows_of_csv_are_named(void **state)
{
	(void)state;
	check_bad("a,b\n1,2\n", -KV_EINVAL, "line 1: neither a JSON object nor the names of CSV columns");
	check_bad("a,timestamp\n1,2\n3\n", -KV_EINVAL, "line 3: there are fewer columns");
	check_bad("a,timestamp\n1,now\n", -KV_EINVAL, "line 2: the time 'now'");
	check_bad("a,timestamp\n1,\n", -KV_EINVAL, "line 2: the time ''");
	check_bad("a,timestamp\n1,nan\n", -KV_EINVAL, "line 2: the time 'nan'");
	check_bad("a,timestamp\n1,1e300\n", -KV_EINVAL, "30,000 years");
	check_bad("timestamp,a\n2024-05-10T00:00:00.5e3,\n", -KV_EINVAL, "line 2: the time");
	check_bad("timestamp,a\n2024-05-10T00:00:00.,\n", -KV_EINVAL, "line 2: the time");
	check_bad("timestamp,a\n2024-05-10T00:00:00+2,\n", -KV_EINVAL, "line 2: the time");
	check_bad("timestamp,a\n2024-05-10T00:00,\n", -KV_EINVAL, "line 2: the time");
	check_bad("timestamp,a\n2023-02-30x,1\n", -KV_EINVAL, "line 2: the time '2023-02-30x'");
}

static void check_tokens(const char *text, unsigned want)
{
	struct check_file file = check_file_make(text);
	struct trace_totals t;
	struct kv_error err;
	assert_int_equal(trace_scan(file.path, &t, &err), 0);
	assert_int_equal(t.block_tokens, want);
	check_file_remove(&file);
}

static void blocks_have_as_many_tokens_as_the_lengths_say(void **state)
{
	(void)state;
	check_tokens("{\"input_length\": 1024, \"hash_ids\": [1, 2]}\n", 512);
	check_tokens("{\"input_length\": 250, \"hash_ids\": [1, 2, 3, 4]}\n{\"input_length\": 5, \"hash_ids\": [9]}\n",
		     64);
	check_tokens(
		"{\"input_length\": 250, \"hash_ids\": [1, 2, 3, 4]}\n{\"input_length\": 9, \"hash_ids\": [1, 2]}\n",
		512);
	check_tokens("{\"chat_id\": 1, \"input_length\": 250, \"hash_ids\": [1, 2, 3, 4]}\n", 64);
	check_tokens("{\"chat_id\": 1, \"hash_ids\": [1]}\n{\"hash_ids\": [2]}\n", 0);
}

/* ---- the reference count ---- */

static void hits_of_a_small_trace_are_counted(void **state)
{
	struct check_file file = check_file_make(
		"{\"timestamp\": 0, \"hash_ids\": [0, 1, 2]}\n"
		"{\"timestamp\": 5, \"hash_ids\": [0, 1, 3]}\n"      /* 2 hits */
		"{\"timestamp\": 5, \"hash_ids\": [9, 0, 1]}\n"      /* none: the prefix counts */
		"{\"timestamp\": 7, \"hash_ids\": [4, 4, 4]}\n"      /* none: a request is no help to itself */
		"{\"timestamp\": 8, \"hash_ids\": [4, 4, 9, 7]}\n"); /* 3 hits */
	struct trace_totals t;
	struct kv_error err;
	(void)state;
	assert_int_equal(trace_scan(file.path, &t, &err), 0);
	assert_int_equal(t.requests, 5);
	assert_int_equal(t.blocks, 16);
	assert_int_equal(t.prefix_hits, 5);
	assert_int_equal(t.distinct, 7);
	assert_int_equal(t.ids_max, 4);
	assert_true(t.first_ms == 0 && t.last_ms == 8);
	check_file_remove(&file);
}

enum { MODEL_IDS = 500, MODEL_REQUESTS = 400, MODEL_LEN = 20 };

/* Random requests, written to a file and counted with an array of what was seen. */
static void model_make(struct kv_prng *prng, FILE *out, struct trace_totals *want)
{
	bool seen[MODEL_IDS] = {false};
	*want = (struct trace_totals){.requests = MODEL_REQUESTS};
	for (unsigned q = 0; q < MODEL_REQUESTS; q++) {
		unsigned ids[MODEL_LEN], n = (unsigned)kv_prng_below(prng, MODEL_LEN), prefix = 0;
		uint64_t base = kv_prng_below(prng, 20) * 17;
		fprintf(out, "{\"timestamp\": %u, \"hash_ids\": [", q);
		for (unsigned i = 0; i < n; i++) {
			ids[i] = (unsigned)((base + (i < 10 ? i : kv_prng_below(prng, MODEL_IDS))) % MODEL_IDS);
			fprintf(out, "%s%u", i ? ", " : "", ids[i]);
		}
		fputs("]}\n", out);
		while (prefix < n && seen[ids[prefix]])
			prefix++;
		for (unsigned i = 0; i < n; i++) {
			want->distinct += !seen[ids[i]];
			seen[ids[i]] = true;
		}
		want->blocks += n;
		want->prefix_hits += prefix;
	}
}

static void hits_agree_with_a_model(void **state)
{
	struct kv_prng prng = check_seed();
	struct trace_totals want, got;
	struct check_file file;
	struct kv_error err;
	FILE *out = check_file_open(&file);
	(void)state;
	model_make(&prng, out, &want);
	fclose(out);
	assert_int_equal(trace_scan(file.path, &got, &err), 0);
	assert_int_equal(got.requests, want.requests);
	assert_int_equal(got.blocks, want.blocks);
	assert_int_equal(got.distinct, want.distinct);
	assert_int_equal(got.prefix_hits, want.prefix_hits);
	check_file_remove(&file);
}

static void the_conversation_trace_has_its_known_hits(void **state)
{
	const char *path = getenv("KVRAIL_TRACE");
	struct trace_totals t;
	struct kv_error err;
	(void)state;
	if (!path)
		path = "../shared/data/conversation_trace.jsonl";
	if (access(path, R_OK) != 0) {
		printf("# skipped: %s is not there (KVRAIL_TRACE names another place)\n", path);
		skip();
	}
	assert_int_equal(trace_scan(path, &t, &err), 0);
	assert_int_equal(t.requests, 12031);
	assert_int_equal(t.blocks, 288500);
	assert_int_equal(t.prefix_hits, 105710);
	assert_int_equal(t.distinct, 182790);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_line_is_read),
		cmocka_unit_test(a_byte_0_is_no_blank),
		cmocka_unit_test(a_line_of_bailian_has_seconds),
		cmocka_unit_test(lines_without_newline_blank_lines_and_crlf_are_read),
		cmocka_unit_test(bad_lines_are_named),
		cmocka_unit_test(an_error_stays),
		cmocka_unit_test(a_zero_byte_is_an_error),
		cmocka_unit_test(a_line_has_a_longest_length),
		cmocka_unit_test(a_line_has_a_largest_number_of_ids),
		cmocka_unit_test(missing_and_empty_files_are_told),
		cmocka_unit_test(ids_are_of_64_bits_in_any_form),
		cmocka_unit_test(the_largest_id_is_counted_as_any_other),
		cmocka_unit_test(fields_may_be_missing_null_and_floats),
		cmocka_unit_test(times_may_be_below_0),
		cmocka_unit_test(delays_count_from_the_turn_before_and_sort_the_trace),
		cmocka_unit_test(a_stream_with_delays_keeps_its_order),
		cmocka_unit_test(sorted_sessions_agree_with_a_model),
		cmocka_unit_test(a_pipe_with_delays_is_refused),
		cmocka_unit_test(gzip_files_are_read),
		cmocka_unit_test(damaged_gzip_files_are_refused),
		cmocka_unit_test(damaged_further_members_are_refused),
		cmocka_unit_test(other_formats_are_named),
		cmocka_unit_test(times_of_azure_and_burstgpt_are_read),
		cmocka_unit_test(bad_rows_of_csv_are_named),
		cmocka_unit_test(blocks_have_as_many_tokens_as_the_lengths_say),
		cmocka_unit_test(hits_of_a_small_trace_are_counted),
		cmocka_unit_test(hits_agree_with_a_model),
		cmocka_unit_test(the_conversation_trace_has_its_known_hits),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
