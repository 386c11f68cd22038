/* SPDX-License-Identifier: Apache-2.0 */
/* tenants.c -- the table of tenants: parsed from JSON, and asked when a session opens its namespace.
 *
 * docs/reference/tenants.schema.json describes the file. Every field is known, and every value within its bounds, or
 * the whole file is refused with the place of the first fault. */
#include "kvserver/tenant/tenants.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { IDENTITY_MAX = 128, VALUES_MAX = 1 << 18 };

struct rule {
	char name[KV_SPACE_MAX + 1];
	uint8_t len, rights;
	bool prefix; /* of the names that begin so */
	uint16_t tenant;
};

struct identity {
	const char *name; /* of the document */
	uint16_t tenant;
};

struct tenants {
	_Atomic unsigned refs;
	json_t *document;
	struct tenant_row *row;
	struct rule *rule;         /* those of a tenant lie together */
	struct identity *identity; /* by name */
	unsigned rows, rules, identities;
};

struct at {
	const char *path;
	unsigned tenant;
	struct kv_error *err;
};

static int fail(const struct at *at, const char *field, const char *text)
{
	return kv_fail(at->err, -KV_EINVAL, "%.200s: tenants[%u].%s: %s", at->path, at->tenant, field, text);
}

/* ---- the fields of a tenant ---- */

static int name_take(const struct at *at, const json_t *value, struct tenants *t)
{
	const char *name = json_string_value(value);
	if (!name || !name[0] || strlen(name) > KV_SPACE_MAX || !kv_space_check(name, strlen(name)))
		return fail(at, "name", "it is a text of 1 to 64 bytes without control characters");
	for (unsigned i = 0; i < at->tenant; i++)
		if (strcmp(t->row[i].name, name) == 0)
			return fail(at, "name", "an earlier tenant has the same name");
	memcpy(t->row[at->tenant].name, name, strlen(name));
	return 0;
}

static int identities_take(const struct at *at, const json_t *value, struct tenants *t)
{
	if (json_array_size(value) == 0)
		return fail(at, "identities", "it is a list of at least one text");
	for (size_t i = 0; i < json_array_size(value); i++) {
		const char *name = json_string_value(json_array_get(value, i));
		if (!name || !name[0] || strlen(name) > IDENTITY_MAX)
			return fail(at, "identities", "each is a text of 1 to 128 characters");
		if (strchr(name, '#'))
			return fail(at, "identities",
				    "a '#' is not allowed: a#1 and a#2 in a file of keys are both the identity a");
		if (t->identities == TENANTS_IDENTITIES_MAX)
			return fail(at, "identities", "there are more than 16384 of all tenants");
		t->identity[t->identities++] = (struct identity){name, (uint16_t)at->tenant};
	}
	return 0;
}

/* 0: not one of the words of rights. */
static uint8_t rights_read(const char *text)
{
	static const char letters[] = "rwdpc";
	uint8_t rights = 0;
	for (; text && *text; text++) {
		const char *letter = strchr(letters, *text);
		if (!letter || rights >> (letter - letters) & 1)
			return 0;
		rights |= (uint8_t)(1 << (letter - letters));
	}
	return rights & TENANT_READ ? rights : 0;
}

static int namespaces_take(const struct at *at, json_t *value, struct tenants *t)
{
	const char *name;
	json_t *text;
	if (!json_is_object(value))
		return fail(at, "namespaces", "it is an object of names and their rights");
	json_object_foreach(value, name, text)
	{
		size_t len = strlen(name);
		struct rule *r = &t->rule[t->rules];
		if (t->rules == TENANTS_RULES_MAX)
			return fail(at, "namespaces", "there are more than 4096 of all tenants");
		*r = (struct rule){.prefix = len && name[len - 1] == '*', .tenant = (uint16_t)at->tenant};
		len -= r->prefix;
		if (len > KV_SPACE_MAX || !kv_space_check(name, len))
			return fail(at, "namespaces",
				    "a name has at most 64 bytes without control characters, then perhaps a '*'");
		r->rights = rights_read(json_string_value(text));
		if (!r->rights)
			return fail(at, "namespaces",
				    "rights are a text of the letters r, w, d, p and c, each at most once, with an r");
		r->len = (uint8_t)len;
		memcpy(r->name, name, len);
		t->row[at->tenant].reads_all |= r->prefix && len == 0;
		t->rules++;
	}
	return 0;
}

static bool number_read(const json_t *value, uint64_t *out)
{
	if (json_is_integer(value) && json_integer_value(value) >= 0) {
		*out = (uint64_t)json_integer_value(value);
		return true;
	}
	return json_is_string(value) && kv_size_parse(json_string_value(value), out) == 0;
}

static const struct limit {
	const char *name;
	size_t offset;
	uint64_t least;
} limits[] = {
	{"memory_share", offsetof(struct tenant_limits, memory_share), 0},
	{"memory_cap", offsetof(struct tenant_limits, memory_cap), 0},
	{"tier_cap", offsetof(struct tenant_limits, tier_cap), 0},
	{"pins_cap", offsetof(struct tenant_limits, pins_cap), 0},
	{"requests_max", offsetof(struct tenant_limits, requests_max), 1},
	{"read_rate", offsetof(struct tenant_limits, read_rate), 1},
	{"sessions_max", offsetof(struct tenant_limits, sessions_max), 1},
};

static int limit_take(const struct at *at, const char *name, const json_t *value, struct tenants *t)
{
	for (unsigned i = 0; i < KV_COUNT(limits); i++) {
		uint64_t number;
		if (strcmp(limits[i].name, name) != 0)
			continue;
		if (!number_read(value, &number) || number < limits[i].least)
			return fail(at, name, "it is a number, or a text like \"4GiB\"");
		memcpy((char *)&t->row[at->tenant].limits + limits[i].offset, &number, sizeof(number));
		return 0;
	}
	return kv_fail(at->err, -KV_EINVAL, "%.200s: tenants[%u] has an unknown field \"%.64s\"", at->path, at->tenant,
		       name);
}

static int tenant_take(const struct at *at, json_t *object, struct tenants *t)
{
	struct tenant_limits *l = &t->row[at->tenant].limits;
	const char *name;
	json_t *value;
	int rc = name_take(at, json_object_get(object, "name"), t);
	*l = (struct tenant_limits){0, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
	if (rc == 0)
		rc = identities_take(at, json_object_get(object, "identities"), t);
	if (rc == 0)
		rc = namespaces_take(at, json_object_get(object, "namespaces"), t);
	json_object_foreach(object, name, value) if (rc == 0 && strcmp(name, "name") && strcmp(name, "identities") &&
						     strcmp(name, "namespaces")) rc = limit_take(at, name, value, t);
	if (rc == 0 && l->memory_share > l->memory_cap)
		rc = fail(at, "memory_share", "it is larger than memory_cap");
	return rc;
}

/* ---- the document ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct identity *)a)->name, ((const struct identity *)b)->name);
}

static int identities_sort(struct tenants *t, struct at *at)
{
	qsort(t->identity, t->identities, sizeof(t->identity[0]), by_name);
	for (unsigned i = 1; i < t->identities; i++)
		if (by_name(&t->identity[i - 1], &t->identity[i]) == 0)
			return kv_fail(at->err, -KV_EINVAL,
				       "%.200s: the identity \"%s\" is listed twice; it is of one tenant", at->path,
				       t->identity[i].name);
	return 0;
}

static int table_alloc(struct tenants *t, const json_t *list)
{
	size_t identities = 0, rules = 0;
	t->rows = (unsigned)json_array_size(list);
	for (unsigned i = 0; i < t->rows; i++) {
		const json_t *object = json_array_get(list, i);
		identities += json_array_size(json_object_get(object, "identities"));
		rules += json_object_size(json_object_get(object, "namespaces"));
	}
	t->row = calloc(t->rows, sizeof(t->row[0]));
	t->rule = calloc(KV_MIN(rules, (size_t)TENANTS_RULES_MAX) + 1, sizeof(t->rule[0]));
	t->identity = calloc(KV_MIN(identities, (size_t)TENANTS_IDENTITIES_MAX) + 1, sizeof(t->identity[0]));
	return t->row && t->rule && t->identity ? 0 : -KV_ENOMEM;
}

static int table_fill(struct tenants *t, struct at *at)
{
	json_t *list = json_object_get(t->document, "tenants");
	size_t count = json_array_size(list);
	int rc = 0;
	if (count == 0 || count > TENANTS_MAX || json_object_size(t->document) != 1)
		return kv_fail(at->err, -KV_EINVAL,
			       "%.200s: it is an object with one field, \"tenants\": a list of 1 to %d tenants",
			       at->path, TENANTS_MAX);
	if (table_alloc(t, list))
		return kv_fail(at->err, -KV_ENOMEM, "no memory for the tenants of %.200s", at->path);
	for (; rc == 0 && at->tenant < t->rows; at->tenant++)
		rc = tenant_take(at, json_array_get(list, at->tenant), t);
	return rc ? rc : identities_sort(t, at);
}

/* The document becomes the table's. */
static int table_make(json_t *document, const json_error_t *why, const char *path, struct tenants **out,
		      struct kv_error *err)
{
	struct at at = {.path = path, .err = err};
	struct tenants *t = calloc(1, sizeof(*t));
	int rc = t ? 0 : kv_fail(err, -KV_ENOMEM, "no memory for the tenants of %.200s", path);
	if (rc == 0 && !document)
		rc = kv_fail(err, -KV_EINVAL, "%.200s, line %d, column %d: %s", path, why->line, why->column,
			     why->text);
	if (!t) {
		json_decref(document);
		return rc;
	}
	t->refs = 1;
	t->document = document;
	if (rc == 0)
		rc = table_fill(t, &at);
	if (rc)
		tenants_unref(&t);
	else
		*out = t;
	return rc;
}

int tenants_parse(const char *text, size_t len, const char *path, struct tenants **out, struct kv_error *err)
{
	json_error_t why = {.line = 1, .text = "it has too many values"};
	json_t *document = NULL;
	size_t values = 0;
	for (size_t i = 0; i < len; i++) /* each takes many times its bytes of memory */
		values += text[i] == ',' || text[i] == '[' || text[i] == '{';
	if (values < VALUES_MAX)
		document = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	return table_make(document, &why, path, out, err);
}

static int file_check(int fd, const char *path, size_t *out_len, struct kv_error *err)
{
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		return kv_fail(err, -errno, "--tenants %.200s cannot be read: %s", path, kv_strerror(-errno));
	if (!S_ISREG(st.st_mode) || st.st_size > TENANTS_FILE_MAX)
		return kv_fail(err, -KV_EINVAL, "--tenants %.200s is not a regular file of at most 4 MiB", path);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return kv_fail(err, -KV_EDENIED,
			       "--tenants %.200s may be written by other users (mode %03o): run `chmod go-w %.200s`",
			       path, (unsigned)(st.st_mode & 0777), path);
	*out_len = (size_t)st.st_size;
	return 0;
}

/* A file that changes meanwhile is cut, and then no document. */
static int text_read(int fd, const char *path, char *text, size_t *len, struct kv_error *err)
{
	size_t cap = *len;
	for (*len = 0; *len < cap;) {
		ssize_t n = read(fd, text + *len, cap - *len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return kv_fail(err, -errno, "--tenants %.200s cannot be read: %s", path, kv_strerror(-errno));
		if (n == 0)
			break;
		*len += (size_t)n;
	}
	return 0;
}

int tenants_load(const char *path, struct tenants **out, struct kv_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *text = NULL;
	size_t len = 0;
	int rc = file_check(fd, path, &len, err);
	if (rc == 0) {
		text = malloc(len + 1);
		rc = text ? text_read(fd, path, text, &len, err)
			  : kv_fail(err, -KV_ENOMEM, "no memory to read --tenants %.200s", path);
	}
	if (fd >= 0)
		close(fd);
	if (rc == 0)
		rc = tenants_parse(text, len, path, out, err);
	free(text);
	return rc;
}

struct tenants *tenants_ref(struct tenants *t)
{
	t->refs++;
	return t;
}

void tenants_unref(struct tenants **table)
{
	struct tenants *t = *table;
	*table = NULL;
	if (!t || --t->refs > 0)
		return;
	free(t->row);
	free(t->rule);
	free(t->identity);
	json_decref(t->document);
	free(t);
}

int tenants_fit(const struct tenants *t, uint64_t memory_bytes, unsigned shards, struct kv_error *err)
{
	char all[32], memory[32];
	uint64_t shares = 0;
	for (unsigned i = 0; i < t->rows; i++) {
		const struct tenant_limits *l = &t->row[i].limits;
		shares = l->memory_share > UINT64_MAX - shares ? UINT64_MAX : shares + l->memory_share;
		if (l->requests_max < shards || l->read_rate < shards)
			return kv_fail(err, -KV_EINVAL,
				       "tenant \"%s\": %s is less than 1 for each of the %u worker threads",
				       t->row[i].name, l->requests_max < shards ? "requests_max" : "read_rate", shards);
	}
	if (shares <= memory_bytes)
		return 0;
	return kv_fail(
		err, -KV_EINVAL,
		"the tenants' memory_share is %s together, and --memory-mb is %s: lower the one or raise the other",
		kv_size_format(shares, all, sizeof(all)), kv_size_format(memory_bytes, memory, sizeof(memory)));
}

/* ---- look-ups ---- */

const struct tenant_row *tenants_row(const struct tenants *t, unsigned i)
{
	return i < t->rows ? &t->row[i] : NULL;
}

const struct tenant_row *tenants_find(const struct tenants *t, const char *names)
{
	const struct tenant_row *found = NULL;
	for (; *names; names += strlen(names) + 1) {
		const struct identity key = {.name = names};
		const struct identity *i = bsearch(&key, t->identity, t->identities, sizeof(key), by_name);
		if (i && found && found != &t->row[i->tenant])
			return NULL;
		if (i)
			found = &t->row[i->tenant];
	}
	return found;
}

static unsigned fits(const struct rule *r, const char *space, size_t len)
{
	if (r->len > len || memcmp(r->name, space, r->len) != 0 || (!r->prefix && r->len != len))
		return 0;
	return r->prefix ? 1u + r->len : KV_SPACE_MAX + 2u;
}

unsigned tenants_rights(const struct tenants *t, const struct tenant_row *row, const char *space)
{
	size_t len = strlen(space);
	unsigned best = 0, rights = 0;
	for (unsigned i = 0; i < t->rules; i++) {
		const struct rule *r = &t->rule[i];
		unsigned fit = &t->row[r->tenant] == row ? fits(r, space, len) : 0;
		if (fit > best) {
			best = fit;
			rights = r->rights;
		}
	}
	return rights;
}

const struct tenant_row *tenants_owner(const struct tenants *t, const char *space)
{
	size_t len = strlen(space);
	const struct rule *best = NULL;
	unsigned most = 0;
	for (unsigned i = 0; i < t->rules; i++) {
		const struct rule *r = &t->rule[i];
		unsigned fit = r->rights & TENANT_WRITE ? fits(r, space, len) : 0;
		if (fit > most) {
			most = fit;
			best = r;
		}
	}
	return best ? &t->row[best->tenant] : NULL;
}
