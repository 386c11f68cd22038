/* SPDX-License-Identifier: Apache-2.0 */
/* test_model.c -- bytes of KV caches against values that were worked out by hand, config.json good and bad, and what
 * a measured rate means for a prefix. */
#include <errno.h>
#include <math.h>

#include "kvbench/model/model.h"
#include "kvbench/setup/options.h"
#include "tests/kvbench/check.h"

static uint64_t token_bytes(const char *name, uint32_t tp, int dtype)
{
	struct model m;
	struct model_bytes b;
	struct kv_error err = {0};
	assert_int_equal(model_find(name, &m, &err), 0);
	assert_int_equal(model_measure(&m, &(struct model_layout){tp, dtype, 16}, &b, &err), 0);
	assert_int_equal(b.block, 16 * b.token);
	assert_int_equal(b.block, b.slice * b.slices);
	assert_int_equal(b.slices, b.slices_per_layer * m.layers);
	return b.token;
}

static void bytes_are_those_worked_out_by_hand(void **state)
{
	(void)state;
	assert_int_equal(token_bytes("llama-3-8b", 1, MODEL_BF16), 131072);      /* 2 x 32 x 8 x 128 x 2 */
	assert_int_equal(token_bytes("llama-3-70b", 1, MODEL_BF16), 327680);     /* 2 x 80 x 8 x 128 x 2 */
	assert_int_equal(token_bytes("llama-3.1-405b", 1, MODEL_BF16), 516096);  /* 2 x 126 x 8 x 128 x 2 */
	assert_int_equal(token_bytes("qwen3-8b", 1, MODEL_FP16), 147456);        /* 2 x 36 x 8 x 128 x 2 */
	assert_int_equal(token_bytes("qwen3-235b-a22b", 1, MODEL_BF16), 192512); /* 2 x 94 x 4 x 128 x 2 */
	assert_int_equal(token_bytes("deepseek-v3", 1, MODEL_BF16), 70272);      /* (512 + 64) x 61 x 2 */
	assert_int_equal(token_bytes("kimi-k2", 1, MODEL_FP8), 35136);
	assert_int_equal(token_bytes("gpt-oss-20b", 1, MODEL_BF16), 49152);  /* 2 x 24 x 8 x 64 x 2 */
	assert_int_equal(token_bytes("gpt-oss-120b", 1, MODEL_BF16), 73728); /* 2 x 36 x 8 x 64 x 2 */
	assert_int_equal(token_bytes("llama-3-8b", 1, MODEL_FP32), 262144);
	assert_int_equal(token_bytes("llama-3-8b", 1, MODEL_INT8), 65536);
	assert_int_equal(token_bytes("META-LLAMA/Meta-Llama-3-8B", 1, MODEL_FP8), 65536);
}

static void ranks_divide_heads_and_not_mla(void **state)
{
	struct model m;
	struct model_bytes b;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(token_bytes("llama-3-70b", 8, MODEL_BF16), 40960);
	assert_int_equal(token_bytes("llama-3-70b", 16, MODEL_BF16), 40960); /* two ranks keep the same head */
	assert_int_equal(token_bytes("deepseek-v3", 8, MODEL_BF16), 70272);
	assert_int_equal(model_find("llama-3-8b", &m, &err), 0);
	assert_int_equal(model_measure(&m, &(struct model_layout){3, MODEL_BF16, 16}, &b, &err), -KV_EINVAL);
	check_contains(err.text, "8 KV heads of llama-3-8b: use a --tp");
	assert_int_equal(model_find("deepseek-v3", &m, &err), 0);
	assert_int_equal(model_measure(&m, &(struct model_layout){3, MODEL_BF16, 256}, &b, &err), 0);
	assert_int_equal(b.slices, 61);
	assert_int_equal(b.slice, 256 * 576 * 2);
}

static int parse(const char *text, struct model *m, struct kv_error *err)
{
	return model_parse(text, strlen(text), "made", m, err);
}

static void a_configuration_is_read(void **state)
{
	struct model m;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(parse("{\"model_type\": \"llama\", \"num_hidden_layers\": 32, \"num_key_value_heads\": 8, "
			       "\"hidden_size\": 4096, \"num_attention_heads\": 32, \"head_dim\": null}",
			       &m, &err),
			 0);
	assert_string_equal(m.name, "llama");
	assert_int_equal(m.layers * m.kv_heads * m.head_dim, 32 * 8 * 128);
	assert_int_equal(parse("{\"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4}", &m, &err),
			 0);
	assert_int_equal(m.kv_heads, 4); /* no groups */
	assert_int_equal(m.head_dim, 16);
	assert_int_equal(parse("{\"num_hidden_layers\": 61, \"num_key_value_heads\": 128, \"kv_lora_rank\": 512, "
			       "\"qk_rope_head_dim\": 64}",
			       &m, &err),
			 0);
	assert_int_equal(m.kv_lora_rank + m.rope_dim, 576);
	assert_int_equal(
		parse("{\"text_config\": {\"num_hidden_layers\": 3, \"num_key_value_heads\": 1, \"head_dim\": 5}}", &m,
		      &err),
		0);
	assert_int_equal(m.layers, 3);
}

static void sliding_windows_are_counted(void **state)
{
	struct model m;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(parse("{\"num_hidden_layers\": 3, \"num_key_value_heads\": 8, \"head_dim\": 64, "
			       "\"sliding_window\": 128, \"layer_types\": "
			       "[\"sliding_attention\", \"full_attention\", \"sliding_attention\"]}",
			       &m, &err),
			 0);
	assert_int_equal(m.sliding_layers, 2);
	assert_int_equal(m.window, 128);
	assert_int_equal(parse("{\"num_hidden_layers\": 3, \"num_key_value_heads\": 8, \"head_dim\": 64, "
			       "\"sliding_window\": 4096, \"use_sliding_window\": false}",
			       &m, &err),
			 0);
	assert_int_equal(m.sliding_layers + m.window, 0);
	assert_int_equal(parse("{\"num_hidden_layers\": 3, \"num_key_value_heads\": 8, \"head_dim\": 64, "
			       "\"sliding_window\": 4096}",
			       &m, &err),
			 0);
	assert_int_equal(m.sliding_layers, 3);
}

/* As the models' own code has it where the file has no list. */
static void windows_without_a_list_follow_the_family(void **state)
{
	static const struct {
		const char *more;
		unsigned layers, sliding;
	} of[] = {
		{"\"model_type\": \"gemma2\"", 42, 21},
		{"\"model_type\": \"gemma3_text\"", 62, 52},
		{"\"model_type\": \"cohere2\", \"sliding_window_pattern\": 4", 32, 24},
		{"\"model_type\": \"qwen2\", \"use_sliding_window\": true, \"max_window_layers\": 20", 28, 8},
		{"\"model_type\": \"qwen2\", \"use_sliding_window\": true, \"max_window_layers\": 99", 28, 0},
		{"\"model_type\": \"exaone4\", \"sliding_window_pattern\": \"LLLG\", \"layer_types\": "
		 "[\"sliding_attention\", \"full_attention\"]",
		 2, 1},
		{"\"model_type\": \"mistral\"", 32, 32},
	};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(of); i++) {
		struct model m;
		struct kv_error err = {0};
		char text[512];
		snprintf(text, sizeof(text),
			 "{\"num_hidden_layers\": %u, \"num_key_value_heads\": "
			 "8, \"head_dim\": 64, \"sliding_window\": 4096, %s}",
			 of[i].layers, of[i].more);
		assert_int_equal(parse(text, &m, &err), 0);
		assert_int_equal(m.sliding_layers, of[i].sliding);
		assert_int_equal(m.window, of[i].sliding ? 4096 : 0);
	}
}

/* The essentials of public files; a number of bytes for any of these would be a wrong one. */
static void models_that_keep_something_else_are_refused(void **state)
{
	static const struct {
		const char *more, *part;
	} bad[] = {
		{"\"model_type\": \"qwen3_next\", \"full_attention_interval\": 4", "full_attention_interval"},
		{"\"linear_attn_config\": {\"full_attn_layers\": [4]}, \"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64",
		 "linear_attn_config"},
		{"\"attn_type_list\": [0, 0, 1, 1]", "attn_type_list"},
		{"\"attn_layer_period\": 8, \"attn_layer_offset\": 4", "attn_layer_period"},
		{"\"hybrid_override_pattern\": \"M-M*\"", "hybrid_override_pattern"},
		{"\"block_configs\": [{\"attention\": {}}]", "block_configs"},
		{"\"mamba_d_ssm\": 1536", "keep a state besides K and V"},
		{"\"num_kv_shared_layers\": 1", "use the K and V of others"},
		{"\"use_cla\": true, \"cla_share_factor\": 2", "use_cla"},
		{"\"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64, \"index_head_dim\": 128", "keys of an indexer"},
		{"\"num_attention_groups\": 1", "num_attention_groups"},
		{"\"head_dim\": 192, \"v_head_dim\": 128", "V has heads of 128 numbers, and K of 192"},
	};
	static const char *const good[] = {
		"\"attn_type_list\": [1, 1, 1, 1]",
		"\"full_attention_interval\": 1",
		"\"use_cla\": false",
		"\"num_kv_shared_layers\": 0",
		"\"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64, \"v_head_dim\": 128",
		"\"mamba_d_ssm\": 9, \"layer_types\": [\"attention\", \"attention\", \"attention\", \"attention\"]",
		"\"layer_types\": [\"chunked_attention\", \"full_attention\", \"full_attention\", \"full_attention\"]"};
	struct model m;
	struct kv_error err = {0};
	char text[512];
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad) + KV_COUNT(good); i++) {
		bool is_bad = i < KV_COUNT(bad);
		snprintf(text, sizeof(text),
			 "{\"num_hidden_layers\": 4, \"num_attention_heads\": 8, \"num_key_value_heads\": 2, "
			 "\"hidden_size\": 512, %s}",
			 is_bad ? bad[i].more : good[i - KV_COUNT(bad)]);
		assert_int_equal(parse(text, &m, &err), is_bad ? -KV_ENOTSUP : 0);
		if (is_bad) {
			check_contains(err.text, bad[i].part);
			check_contains(err.text, "give the bytes of a block by --value-size");
		}
	}
}

static void falcons_heads_have_names_of_their_own(void **state)
{
	struct model m;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(parse("{\"model_type\": \"falcon\", \"hidden_size\": 4544, \"num_attention_heads\": 71, "
			       "\"num_hidden_layers\": 32, \"multi_query\": true, \"new_decoder_architecture\": false}",
			       &m, &err),
			 0);
	assert_int_equal(m.kv_heads, 1);
	assert_int_equal(m.head_dim, 64);
	assert_int_equal(parse("{\"model_type\": \"falcon\", \"hidden_size\": 8192, \"num_attention_heads\": 128, "
			       "\"num_hidden_layers\": 60, \"num_kv_heads\": 8, \"multi_query\": true, "
			       "\"new_decoder_architecture\": true}",
			       &m, &err),
			 0);
	assert_int_equal(m.kv_heads, 8);
}

static void bad_configurations_are_named(void **state)
{
	static const struct {
		const char *text, *part;
	} bad[] = {
		{"{", "made is no JSON"},
		{"[1]", "no JSON object"},
		{"{}", "made has no \"num_hidden_layers\": take"},
		{"{\"num_hidden_layers\": 0}", "\"num_hidden_layers\" is not a whole number from 1"},
		{"{\"num_hidden_layers\": \"32\"}", "is not a whole number"},
		{"{\"num_hidden_layers\": 32}", "no \"num_key_value_heads\""},
		{"{\"num_hidden_layers\": 32, \"num_key_value_heads\": 8}", "no \"num_attention_heads\""},
		{"{\"num_hidden_layers\": 32, \"num_attention_heads\": 8}", "no \"hidden_size\""},
		{"{\"num_hidden_layers\": 32, \"num_attention_heads\": 7, \"hidden_size\": 64}",
		 "no multiple of 7 heads"},
		{"{\"num_hidden_layers\": 1, \"num_attention_heads\": 1, \"hidden_size\": 9999999}",
		 "are more than 4096"},
		{"{\"num_hidden_layers\": 32, \"kv_lora_rank\": 512}", "no \"qk_rope_head_dim\""},
		{"{\"num_hidden_layers\": 2, \"num_key_value_heads\": 8, \"head_dim\": 64, \"layer_types\": [\"a\"]}",
		 "not a list of its 2 layers"},
		{"{\"num_hidden_layers\": 1, \"num_key_value_heads\": 8, \"head_dim\": 64, \"layer_types\": "
		 "[\"linear_attention\"]}",
		 "layer 0 is \"linear_attention\""},
		{"{\"num_hidden_layers\": 1, \"num_key_value_heads\": 8, \"head_dim\": 64, \"layer_types\": "
		 "[\"sliding_attention\"]}",
		 "no \"sliding_window\""},
	};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		struct model m;
		struct kv_error err = {0};
		assert_true(parse(bad[i].text, &m, &err) < 0);
		check_contains(err.text, bad[i].part);
	}
}

static void a_file_is_read_and_a_wrong_name_is_told(void **state)
{
	struct check_file file =
		check_file_make("{\"num_hidden_layers\": 2, \"num_key_value_heads\": 1, \"head_dim\": 8}");
	struct model m;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(model_find(file.path, &m, &err), 0);
	assert_int_equal(m.head_dim, 8);
	check_file_remove(&file);
	assert_int_equal(model_find("llama-4", &m, &err), -KV_EINVAL);
	check_contains(err.text, "there is no model 'llama-4': kv-bench models lists them");
	assert_int_equal(model_find("/nonexistent/config.json", &m, &err), -ENOENT);
	check_contains(err.text, "cannot be opened");
	assert_int_equal(model_find("/", &m, &err), -KV_EINVAL);
	check_contains(err.text, "is no file");
	assert_int_equal(model_find("/dev/zero", &m, &err), -KV_EINVAL);
}

static void options_set_the_value_size(void **state)
{
	char *argv[] = {"kv-bench", "--model", "llama-3-8b", "--tp", "8", "--dtype", "fp8", NULL},
	     *two[] = {"kv-bench", "--model", "llama-3-8b", "--value-size", "4KB", NULL},
	     *none[] = {"kv-bench", "--tp", "2", NULL},
	     *large[] = {"kv-bench", "--model", "llama-3-70b", "--block-tokens", "65536", NULL};
	struct bench_options o;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(bench_options_parse(7, argv, &o, &err), 0);
	assert_int_equal(o.load.value_size, 16 * 8192);
	assert_int_equal(o.model.bytes.slice, 2048);
	assert_int_equal(bench_options_parse(5, two, &o, &err), -KV_EINVAL);
	check_contains(err.text, "--model sets the value size");
	assert_int_equal(bench_options_parse(3, none, &o, &err), -KV_EINVAL);
	check_contains(err.text, "add --model");
	assert_int_equal(bench_options_parse(5, large, &o, &err), -KV_EINVAL);
	check_contains(err.text, "use fewer --block-tokens");
}

static void a_prefix_follows_from_what_was_measured(void **state)
{
	struct model_load l = model_load_of(16, 16, 160000, 0.001, 8016, 8000);
	(void)state;
	assert_true(fabs(l.prefix_s - 0.051) < 1e-9);  /* 1 ms, and 8,000 tokens at 160,000 per second */
	assert_true(fabs(l.prefill_s - 1.002) < 1e-9); /* 8,016 at 8,000 per second */
	assert_int_equal(l.break_even, 16);            /* 1 ms of prefill is 8 tokens: a block is the least */
	/* The first GET takes as long as 100 tokens of prefill; loading is twice as fast from then on. */
	l = model_load_of(16, 16, 2000, 0.1, 16, 1000);
	assert_int_equal(l.break_even, 192); /* 100 ms + (n - 16) / 2000 = n / 1000 at 184: 12 blocks */
	l = model_load_of(16, 16, 500, 0.1, 16, 1000);
	assert_int_equal(l.break_even, 0);
	l = model_load_of(16, 16, 500, 0.1, 16, 0);
	assert_true(l.prefill_s == 0 && l.break_even == 0 && l.prefix_s == 0.1);
	l = model_load_of(16, 16, 0, 0.1, 16, 1000);
	assert_true(l.tokens_per_s == 0 && l.prefix_s == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_those_worked_out_by_hand),
		cmocka_unit_test(ranks_divide_heads_and_not_mla),
		cmocka_unit_test(a_configuration_is_read),
		cmocka_unit_test(sliding_windows_are_counted),
		cmocka_unit_test(windows_without_a_list_follow_the_family),
		cmocka_unit_test(models_that_keep_something_else_are_refused),
		cmocka_unit_test(falcons_heads_have_names_of_their_own),
		cmocka_unit_test(bad_configurations_are_named),
		cmocka_unit_test(a_file_is_read_and_a_wrong_name_is_told),
		cmocka_unit_test(options_set_the_value_size),
		cmocka_unit_test(a_prefix_follows_from_what_was_measured),
	};
	return cmocka_run_group_tests_name("kvbench/model", tests, NULL, NULL);
}
