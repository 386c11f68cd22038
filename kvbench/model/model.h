/* SPDX-License-Identifier: Apache-2.0 */
/* model.h -- the size of a language model's KV cache: bytes of a token, of a block, and the slices of a block. */
#ifndef KVRAIL_KVBENCH_MODEL_MODEL_H
#define KVRAIL_KVBENCH_MODEL_MODEL_H

#include <stdint.h>
#include <stdio.h>

#include "base/base.h"

enum {
	MODEL_DIMENSION_MAX = 4096, /* of layers, heads and a head's dimension each, so that no product overflows */
	MODEL_BLOCK_TOKENS_MAX = 65536,
	MODEL_TP_MAX = 4096
};

/* The dimensions, with the names that a config.json of Hugging Face has for them. */
struct model {
	char name[64];
	char source[64];
	uint32_t layers;                 /* num_hidden_layers */
	uint32_t kv_heads, head_dim;     /* K and V of each head; 0 with MLA */
	uint32_t kv_lora_rank, rope_dim; /* MLA: one latent vector and qk_rope_head_dim per token; else 0 */
	uint32_t sliding_layers, window; /* layers that look back this number of tokens only; 0, 0: none */
};

enum model_dtype { MODEL_BF16, MODEL_FP16, MODEL_FP32, MODEL_FP8, MODEL_INT8 };
extern const char *const model_dtype_names[];

struct model_layout {
	uint32_t tp; /* ranks of tensor parallelism */
	int dtype;   /* enum model_dtype */
	uint32_t block_tokens;
};

/* The part of a model that one rank keeps. */
struct model_bytes {
	uint64_t token, block; /* bytes */
	uint64_t slice;        /* bytes of one slice of a block: K or V of a layer, or a layer's latent vectors */
	uint32_t slices_per_layer, slices;
	uint32_t heads; /* KV heads on a rank; 0 with MLA, which every rank keeps whole */
};

extern const struct model model_table[]; /* ends with an empty name */

/* model_find -- by name (letters' case does not matter) or by repository; else by a path of a config.json.
 * Errors, with one sentence in *err: -KV_EINVAL (no such model, or a field is missing or makes no sense), -errno of the
 * file, -KV_ENOTSUP (layers that keep something other than K and V of each token). */
int model_find(const char *name, struct model *out, struct kv_error *err);

/* model_parse -- a config.json as text; name is for messages. Errors: as model_find. */
int model_parse(const char *text, size_t len, const char *name, struct model *out, struct kv_error *err);

/* model_measure -- 0, or -KV_EINVAL when heads cannot be divided among the ranks. */
int model_measure(const struct model *model, const struct model_layout *layout, struct model_bytes *out,
		  struct kv_error *err);

/* The measurement of one rank, and the times of prefixes. Times are in seconds. */
struct model_load {
	double tokens_per_s;
	double prefix_s;  /* of prefix_tokens at that rate, behind the first block's latency */
	double prefill_s; /* to compute them; 0: no prefill rate is known */
	uint64_t
		break_even; /* tokens, in whole blocks, from which on loading is faster; 0: never, or no prefill rate */
};

/* model_load_of -- tokens come at tokens_per_s; the first call brings first_tokens of them and takes first_s.
 * prefill_rate: tokens per second, 0: unknown. */
struct model_load model_load_of(uint64_t first_tokens, uint32_t block_tokens, double tokens_per_s, double first_s,
				uint64_t prefix_tokens, double prefill_rate);

/* model_main -- kv-bench models: the table. The exit status. argv[0] is the program's name. */
int model_main(int argc, char **argv);

struct models_options {
	struct model_layout layout;
	const char *model; /* NULL: all of the table */
	bool config;
};
extern const struct kv_opt models_options_table[];

/* Rows that kv-bench and kv-bench models have in common. */
#define MODEL_TP_ROW(...)                                                                                              \
	{.name = "tp",                                                                                                 \
	 .type = KV_OPT_U32,                                                                                           \
	 .metavar = "N",                                                                                               \
	 .def = "1",                                                                                                   \
	 .min = 1,                                                                                                     \
	 .max = MODEL_TP_MAX,                                                                                          \
	 .help = "Ranks of tensor parallelism that divide the KV heads of a model. MLA is not divided.",               \
	 __VA_ARGS__}
#define MODEL_DTYPE_ROW(...)                                                                                           \
	{.name = "dtype",                                                                                              \
	 .type = KV_OPT_CHOICE,                                                                                        \
	 .metavar = "TYPE",                                                                                            \
	 .def = "bf16",                                                                                                \
	 .choices = model_dtype_names,                                                                                 \
	 .help = "Type of the numbers in the KV cache of a model",                                                     \
	 __VA_ARGS__}
#define MODEL_BLOCK_ROW(...)                                                                                           \
	{.name = "block-tokens",                                                                                       \
	 .type = KV_OPT_U32,                                                                                           \
	 .metavar = "N",                                                                                               \
	 .def = "16",                                                                                                  \
	 .min = 1,                                                                                                     \
	 .max = MODEL_BLOCK_TOKENS_MAX,                                                                                \
	 .help = "Tokens of a block of a model's KV cache.",                                                           \
	 __VA_ARGS__}

#endif
