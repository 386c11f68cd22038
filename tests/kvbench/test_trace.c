/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace.c -- the trace reader on good and bad lines, and the reference count of hits against a stupid model. */
#include <stdlib.h>
#include <unistd.h>

#include "kvbench/load/trace.h"
#include "tests/kvbench/check.h"

/* Read text as a trace and return what the last trace_next gave; *out_count requests came before. */
static int read_all(const char *text, size_t len, uint64_t *out_count, struct trace_request *last, struct kv_error *err)
{
	FILE *in = fmemopen((void *)(uintptr_t)text, len, "r");
	struct trace_reader *reader;
	int rc;
	assert_non_null(in);
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
	FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
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
	check_bad("[1, 2]\n", -KV_EINVAL, "not a JSON object");
	check_bad("17\n", -KV_EINVAL, "line 1");
	check_bad("{\"timestamp\": 1e300, \"hash_ids\": []}\n", -KV_EINVAL, "30,000 years");
	check_bad("{\"hash_ids\": [1]}\n", -KV_EINVAL, "timestamp");
	check_bad("{\"timestamp\": -1, \"hash_ids\": [1]}\n", -KV_EINVAL, "timestamp");
	check_bad("{\"timestamp\": \"0\", \"hash_ids\": [1]}\n", -KV_EINVAL, "timestamp");
	check_bad("{\"timestamp\": 0}\n", -KV_EINVAL, "hash_ids");
	check_bad("{\"timestamp\": 0, \"hash_ids\": 7}\n", -KV_EINVAL, "hash_ids");
	check_bad("{\"timestamp\": 0, \"hash_ids\": [1, -2]}\n", -KV_EINVAL, "hash_ids");
	check_bad("{\"timestamp\": 0, \"hash_ids\": [1, 2.0]}\n", -KV_EINVAL, "hash_ids");
	check_bad("{\"timestamp\": 0, \"hash_ids\": [\"a\"]}\n", -KV_EINVAL, "hash_ids");
	check_bad("{\"timestamp\": 0, \"hash_ids\": [99999999999999999999]}\n", -KV_EINVAL, "line 1");
	check_bad("{\"timestamp\": 0, \"input_length\": -5, \"hash_ids\": []}\n", -KV_EINVAL, "input_length");
	check_bad("{\"timestamp\": 0, \"output_length\": \"x\", \"hash_ids\": []}\n", -KV_EINVAL, "output_length");
	check_bad("{\"timestamp\": 0, \"timestamp\": 1, \"hash_ids\": []}\n", -KV_EINVAL, "line 1");
	check_bad("{\"timestamp\": 0, \"hash_ids\": [1]} trailing\n", -KV_EINVAL, "line 1");
	check_bad("{\"timestamp\": 0, \"hash_ids\": [1", -KV_EINVAL, "line 1");
}

static void an_error_stays(void **state)
{
	const char *text = "oops\n{\"timestamp\": 0, \"hash_ids\": [1]}\n";
	FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
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
	char *text = repeat(' ', TRACE_LINE_MAX + 3);
	struct trace_request last;
	struct kv_error err = {0};
	uint64_t count;
	(void)state;
	/* The longest line that is allowed, and one byte more. */
	text[TRACE_LINE_MAX] = '\n';
	assert_int_equal(read_all(text, TRACE_LINE_MAX + 1, &count, &last, &err), 0);
	text[TRACE_LINE_MAX] = ' ';
	text[TRACE_LINE_MAX + 1] = '\n';
	assert_int_equal(read_all(text, TRACE_LINE_MAX + 2, &count, &last, &err), -KV_ETOOBIG);
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
		cmocka_unit_test(hits_of_a_small_trace_are_counted),
		cmocka_unit_test(hits_agree_with_a_model),
		cmocka_unit_test(the_conversation_trace_has_its_known_hits),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
