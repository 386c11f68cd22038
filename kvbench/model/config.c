/* SPDX-License-Identifier: Apache-2.0 */
/* config.c -- a model by its name, or by its config.json as Hugging Face has it.
 *
 * A field with null counts as absent. In a model of text and images "text_config" has the fields of text. A needed
 * field without a value is an error that names it; the format has two defaults: head_dim is hidden_size /
 * num_attention_heads, and num_key_value_heads is num_attention_heads.
 *
 * Fields of models that do not keep K and V of each token in every layer, or heads of one size, are looked for by name:
 * a wrong number of bytes must not come out. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "kvbench/model/model.h"

enum { FILE_MAX = 1 << 20 };

static const json_t *field_of(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);
	return json_is_null(v) ? NULL : v;
}

/* A dimension; absent: *out is 0. */
static int dimension(const json_t *o, const char *name, uint32_t max, const char *file, uint32_t *out,
		     struct kv_error *err)
{
	const json_t *v = field_of(o, name);
	*out = 0;
	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > (json_int_t)max)
		return kv_fail(err, -KV_EINVAL,
			       "%s: \"%s\" is not a whole number from 1 to %u: is it a model's config.json?", file,
			       name, max);
	*out = (uint32_t)json_integer_value(v);
	return 0;
}

static int lacks(const char *file, const char *field, struct kv_error *err)
{
	return kv_fail(err, -KV_EINVAL,
		       "%s has no \"%s\": take the config.json of a language model, or name a model of kv-bench models",
		       file, field);
}

static int read_kv_heads(const json_t *o, const char *file, struct model *m, struct kv_error *err)
{
	int rc = dimension(o, "num_key_value_heads", MODEL_DIMENSION_MAX, file, &m->kv_heads, err);
	if (rc == 0 && json_is_true(field_of(o, "multi_query")) &&
	    !json_is_true(field_of(o, "new_decoder_architecture")))
		m->kv_heads = 1;
	else if (rc == 0 && !m->kv_heads)
		rc = dimension(o, "num_kv_heads", MODEL_DIMENSION_MAX, file, &m->kv_heads, err);
	return rc;
}

static int read_heads(const json_t *o, const char *file, struct model *m, struct kv_error *err)
{
	uint32_t heads, hidden;
	int rc = dimension(o, "num_attention_heads", MODEL_DIMENSION_MAX, file, &heads, err);
	if (rc == 0)
		rc = read_kv_heads(o, file, m, err);
	if (rc == 0)
		rc = dimension(o, "head_dim", MODEL_DIMENSION_MAX, file, &m->head_dim, err);
	if (rc == 0)
		rc = dimension(o, "hidden_size", 1 << 24, file, &hidden, err);
	if (rc < 0)
		return rc;
	if (!m->kv_heads && !heads)
		return lacks(file, "num_key_value_heads", err);
	m->kv_heads = m->kv_heads ? m->kv_heads : heads;
	if (!m->head_dim && (!heads || !hidden))
		return lacks(file, heads ? "hidden_size" : "num_attention_heads", err);
	if (!m->head_dim && hidden % heads)
		return kv_fail(
			err, -KV_EINVAL,
			"%s has no \"head_dim\", and \"hidden_size\" %u is no multiple of %u heads: add head_dim to it",
			file, hidden, heads);
	m->head_dim = m->head_dim ? m->head_dim : hidden / heads;
	return m->head_dim <= MODEL_DIMENSION_MAX
		       ? 0
		       : kv_fail(err, -KV_EINVAL,
				 "%s: heads of %u numbers are more than %u: is it a model's config.json?", file,
				 m->head_dim, (unsigned)MODEL_DIMENSION_MAX);
}

/* False and 0 stand for a feature that a model of the family does not use. every: of layers, 1 is each of them; a list
 * of their kinds has 1 for those with K and V. */
static bool says_nothing(const json_t *v, bool every)
{
	const json_t *kind;
	size_t i;
	bool all = json_is_array(v) && json_array_size(v) > 0;
	if (!v || json_is_false(v) || (json_is_integer(v) && json_integer_value(v) <= every))
		return true;
	json_array_foreach(v, i, kind) all = all && json_is_integer(kind) && json_integer_value(kind) == 1;
	return all;
}

/* Fields of models whose layers keep different things. by_kind: layer_types is more exact, where the file has it. */
static int refuse_others(const json_t *o, const char *file, const struct model *m, struct kv_error *err)
{
	static const struct {
		const char *name, *what;
		bool by_kind;
	} fields[] = {
		{"full_attention_interval", "only some layers keep K and V of each token", true}, /* Qwen3-Next */
		{"linear_attn_config", "only some layers keep K and V of each token", true},      /* Kimi Linear */
		{"attn_type_list", "only some layers keep K and V of each token", true},          /* MiniMax M1 */
		{"attn_layer_period", "only some layers keep K and V of each token", true},       /* Jamba */
		{"attn_layer_indices", "only some layers keep K and V of each token", true},      /* Bamba */
		{"layers_block_type", "only some layers keep K and V of each token", true},       /* Zamba */
		{"block_types", "only some layers keep K and V of each token", true},             /* RecurrentGemma */
		{"hybrid_override_pattern", "only some layers keep K and V of each token", true}, /* Nemotron-H */
		{"block_configs", "layers have heads of their own, or none", true},               /* Nemotron */
		{"mamba_d_ssm", "layers keep a state besides K and V", true},                     /* Falcon-H1 */
		{"num_kv_shared_layers", "some layers use the K and V of others", false},         /* Gemma 3n */
		{"use_cla", "some layers use the K and V of others", false},                      /* Hunyuan */
		{"index_head_dim", "layers also keep keys of an indexer", false},                 /* DeepSeek V3.2 */
		{"num_attention_groups", "heads share K and V in groups of its own", false},      /* Step 3 */
		{"global_head_dim", "heads of some layers have another size", false},             /* Gemma 4 */
		{"swa_head_dim", "heads of some layers have another size", false},                /* MiMo V2 */
	};
	uint32_t v_head = 0;
	for (unsigned i = 0; i < KV_COUNT(fields); i++)
		if (!says_nothing(field_of(o, fields[i].name), fields[i].by_kind) &&
		    !(fields[i].by_kind && field_of(o, "layer_types")))
			return kv_fail(err, -KV_ENOTSUP,
				       "%s: \"%s\" says that %s: give the bytes of a block by --value-size", file,
				       fields[i].name, fields[i].what);
	if (!m->kv_lora_rank && dimension(o, "v_head_dim", MODEL_DIMENSION_MAX, file, &v_head, err) < 0)
		return -KV_EINVAL;
	if (v_head && v_head != m->head_dim)
		return kv_fail(err, -KV_ENOTSUP,
			       "%s: V has heads of %u numbers, and K of %u: give the bytes of a block by --value-size",
			       file, v_head, m->head_dim);
	return 0;
}

/* Layers by their kinds; a kind without K and V of each token cannot be counted in bytes of a token. */
static int read_kinds(const json_t *kinds, const char *file, struct model *m, struct kv_error *err)
{
	if (!json_is_array(kinds) || json_array_size(kinds) != m->layers)
		return kv_fail(err, -KV_EINVAL,
			       "%s: \"layer_types\" is not a list of its %u layers: correct one of the two", file,
			       m->layers);
	for (size_t i = 0; i < json_array_size(kinds); i++) {
		const char *kind = json_string_value(json_array_get(kinds, i));
		if (kind && strcmp(kind, "sliding_attention") == 0)
			m->sliding_layers++;
		else if (!kind || (strcmp(kind, "full_attention") != 0 && strcmp(kind, "attention") != 0 &&
				   strcmp(kind, "chunked_attention") != 0))
			return kv_fail(err, -KV_ENOTSUP,
				       "%s: layer %zu is \"%s\", which keeps no K and V of each token: "
				       "give the bytes of a block by --value-size",
				       file, i, kind ? kind : "?");
	}
	return 0;
}

/* Without a list: how many layers look back sliding_window tokens only. Every n-th is a full one if there is a pattern;
 * Qwen2 begins at a layer; Gemma's older files do not say it, but their code does. */
static int sliding_of(const json_t *o, const char *file, const struct model *m, uint32_t *out, struct kv_error *err)
{
	const json_t *pattern = field_of(o, "sliding_window_pattern"), *type = field_of(o, "model_type");
	const char *name = json_is_string(type) ? json_string_value(type) : "";
	uint32_t every = strcmp(name, "gemma2") == 0 ? 2 : strncmp(name, "gemma3", 6) == 0 ? 6 : 0, first = 0;
	int rc = json_is_integer(pattern)
			 ? dimension(o, "sliding_window_pattern", MODEL_DIMENSION_MAX, file, &every, err)
			 : 0;
	if (rc == 0 && strncmp(name, "qwen2", 5) == 0)
		rc = dimension(o, "max_window_layers", MODEL_DIMENSION_MAX, file, &first, err);
	*out = every ? m->layers - m->layers / every : m->layers - KV_MIN(first, m->layers);
	return rc;
}

static int read_windows(const json_t *o, const char *file, struct model *m, struct kv_error *err)
{
	const json_t *use = field_of(o, "use_sliding_window"), *kinds = field_of(o, "layer_types");
	int rc = dimension(o, "sliding_window", 1 << 30, file, &m->window, err);
	if (rc == 0 && kinds)
		rc = read_kinds(kinds, file, m, err);
	else if (rc == 0 && m->window && !json_is_false(use))
		rc = sliding_of(o, file, m, &m->sliding_layers, err);
	if (rc == 0 && m->sliding_layers && !m->window)
		rc = lacks(file, "sliding_window", err);
	if (!m->sliding_layers)
		m->window = 0;
	return rc;
}

static int read_config(const json_t *o, const char *file, struct model *m, struct kv_error *err)
{
	int rc = dimension(o, "num_hidden_layers", MODEL_DIMENSION_MAX, file, &m->layers, err);
	if (rc == 0 && !m->layers)
		rc = lacks(file, "num_hidden_layers", err);
	if (rc == 0)
		rc = dimension(o, "kv_lora_rank", MODEL_DIMENSION_MAX, file, &m->kv_lora_rank, err);
	if (rc == 0 && m->kv_lora_rank)
		rc = dimension(o, "qk_rope_head_dim", MODEL_DIMENSION_MAX, file, &m->rope_dim, err);
	else if (rc == 0)
		rc = read_heads(o, file, m, err);
	if (rc == 0 && m->kv_lora_rank && !m->rope_dim)
		rc = lacks(file, "qk_rope_head_dim", err);
	if (rc == 0)
		rc = refuse_others(o, file, m, err);
	return rc == 0 ? read_windows(o, file, m, err) : rc;
}

int model_parse(const char *text, size_t len, const char *name, struct model *out, struct kv_error *err)
{
	struct model m = {0};
	json_error_t why;
	json_t *root = json_loadb(text, len, 0, &why);
	const json_t *o = root;
	int rc;
	if (!root)
		return kv_fail(err, -KV_EINVAL, "%s is no JSON (line %d: %s): take the config.json of a language model",
			       name, why.line, why.text);
	if (!field_of(o, "num_hidden_layers") && json_is_object(field_of(o, "text_config")))
		o = field_of(o, "text_config");
	rc = json_is_object(o)
		     ? read_config(o, name, &m, err)
		     : kv_fail(err, -KV_EINVAL, "%s is no JSON object: take the config.json of a language model", name);
	snprintf(m.name, sizeof(m.name), "%s",
		 json_is_string(field_of(o, "model_type")) ? json_string_value(field_of(o, "model_type")) : "a model");
	snprintf(m.source, sizeof(m.source), "%s", name);
	if (rc == 0)
		*out = m;
	json_decref(root);
	return rc;
}

static int read_file(const char *path, struct model *out, struct kv_error *err)
{
	static char text[FILE_MAX + 1];
	struct stat st;
	size_t len;
	FILE *in;
	int rc = 0;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return kv_fail(err, -KV_EINVAL, "%s is no file: name the config.json itself", path);
	in = fopen(path, "re");
	if (!in)
		return kv_fail(err, -errno, "%s cannot be opened: %s", path, kv_strerror(errno));
	len = fread(text, 1, sizeof(text), in);
	if (ferror(in))
		rc = kv_fail(err, -EIO, "%s cannot be read", path);
	else if (len > FILE_MAX)
		rc = kv_fail(err, -KV_EINVAL, "%s has more than 1 MiB: it is no config.json of a model", path);
	fclose(in);
	return rc == 0 ? model_parse(text, len, path, out, err) : rc;
}

static bool looks_like_file(const char *name)
{
	size_t len = strlen(name);
	struct stat st;
	return (len > 5 && strcasecmp(name + len - 5, ".json") == 0) || stat(name, &st) == 0;
}

int model_find(const char *name, struct model *out, struct kv_error *err)
{
	for (const struct model *m = model_table; m->name[0]; m++)
		if (strcasecmp(m->name, name) == 0 || strcasecmp(m->source, name) == 0) {
			*out = *m;
			return 0;
		}
	if (looks_like_file(name))
		return read_file(name, out, err);
	return kv_fail(err, -KV_EINVAL,
		       "there is no model '%s': kv-bench models lists them, or give the path of its config.json", name);
}
