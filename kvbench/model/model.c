/* SPDX-License-Identifier: Apache-2.0 */
/* model.c -- the table of models, and the arithmetic of their KV caches.
 *
 * Grouped-query attention keeps K and V of each KV head, layer by layer: two slices per layer. Multi-head latent
 * attention (DeepSeek V3, Kimi K2) keeps one compressed vector and one rotary key per token and layer, which all heads
 * share: one slice per layer on every rank. A block has the bytes of every layer, those with a sliding window as well,
 * since engines store it so. */
#include "kvbench/model/model.h"

#include <math.h>
#include <string.h>

/* num_hidden_layers, num_key_value_heads, head_dim, kv_lora_rank, qk_rope_head_dim, and how many layer_types are
 * "sliding_attention" with which sliding_window: from config.json of each repository on huggingface.co. */
const struct model model_table[] = {
	{"llama-3-8b", "meta-llama/Meta-Llama-3-8B", 32, 8, 128, 0, 0, 0, 0},
	{"llama-3-70b", "meta-llama/Meta-Llama-3-70B", 80, 8, 128, 0, 0, 0, 0},
	{"llama-3.1-405b", "meta-llama/Llama-3.1-405B", 126, 8, 128, 0, 0, 0, 0},
	{"qwen3-0.6b", "Qwen/Qwen3-0.6B", 28, 8, 128, 0, 0, 0, 0},
	{"qwen3-1.7b", "Qwen/Qwen3-1.7B", 28, 8, 128, 0, 0, 0, 0},
	{"qwen3-4b", "Qwen/Qwen3-4B", 36, 8, 128, 0, 0, 0, 0},
	{"qwen3-8b", "Qwen/Qwen3-8B", 36, 8, 128, 0, 0, 0, 0},
	{"qwen3-14b", "Qwen/Qwen3-14B", 40, 8, 128, 0, 0, 0, 0},
	{"qwen3-32b", "Qwen/Qwen3-32B", 64, 8, 128, 0, 0, 0, 0},
	{"qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B", 48, 4, 128, 0, 0, 0, 0},
	{"qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B", 94, 4, 128, 0, 0, 0, 0},
	{"deepseek-v3", "deepseek-ai/DeepSeek-V3", 61, 0, 0, 512, 64, 0, 0},
	{"kimi-k2", "moonshotai/Kimi-K2-Instruct", 61, 0, 0, 512, 64, 0, 0},
	{"gpt-oss-20b", "openai/gpt-oss-20b", 24, 8, 64, 0, 0, 12, 128},
	{"gpt-oss-120b", "openai/gpt-oss-120b", 36, 8, 64, 0, 0, 18, 128},
	{.name = ""},
};

const char *const model_dtype_names[] = {"bf16", "fp16", "fp32", "fp8", "int8", NULL};
static const uint64_t dtype_bytes[] = {2, 2, 4, 1, 1};

/* KV heads of a rank; 0: they cannot be divided so. */
static uint32_t heads_of(uint32_t heads, uint32_t tp)
{
	if (heads % tp == 0)
		return heads / tp;
	return tp % heads == 0 ? 1 : 0;
}

int model_measure(const struct model *m, const struct model_layout *l, struct model_bytes *out, struct kv_error *err)
{
	struct model_bytes b = {0};
	uint64_t number = dtype_bytes[l->dtype];
	if (m->kv_lora_rank) {
		b.slices_per_layer = 1;
		b.slice = (uint64_t)(m->kv_lora_rank + m->rope_dim) * number * l->block_tokens;
	} else {
		b.heads = heads_of(m->kv_heads, l->tp);
		if (b.heads == 0)
			return kv_fail(err, -KV_EINVAL,
				       "%u ranks cannot divide the %u KV heads of %s: "
				       "use a --tp that divides them, or a multiple of them",
				       l->tp, m->kv_heads, m->name);
		b.slices_per_layer = 2;
		b.slice = (uint64_t)b.heads * m->head_dim * number * l->block_tokens;
	}
	b.slices = b.slices_per_layer * m->layers;
	b.block = b.slice * b.slices;
	b.token = b.block / l->block_tokens;
	*out = b;
	return 0;
}

/* Whole blocks are loaded. */
static uint64_t whole(double tokens, uint32_t block_tokens)
{
	double n = ceil(tokens / block_tokens) * block_tokens;
	return n < 1e18 ? (uint64_t)n : 0;
}

/* Up to first_tokens take first_s; the rest comes at tokens_per_s. */
struct model_load model_load_of(uint64_t first_tokens, uint32_t block_tokens, double tokens_per_s, double first_s,
				uint64_t prefix_tokens, double prefill_rate)
{
	struct model_load l = {.tokens_per_s = tokens_per_s};
	double first = (double)first_tokens, gain;
	if (tokens_per_s <= 0)
		return (struct model_load){0};
	l.prefix_s = first_s + (prefix_tokens > first_tokens ? (double)prefix_tokens - first : 0) / tokens_per_s;
	if (prefill_rate <= 0)
		return l;
	l.prefill_s = (double)prefix_tokens / prefill_rate;
	gain = 1 / prefill_rate - 1 / tokens_per_s;
	if (first_s <= first / prefill_rate) {
		l.break_even = whole(first_s * prefill_rate, block_tokens);
	} else if (gain > 0) {
		l.break_even = whole(first + (first_s - first / prefill_rate) / gain, block_tokens);
	}
	return l;
}
