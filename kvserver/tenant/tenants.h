/* SPDX-License-Identifier: Apache-2.0 */
/* tenants.h -- the tenants of a server, as the file of --tenants has them: their identities, rights and limits. A table
 * never changes. Thread: any. */
#ifndef KVRAIL_KVSERVER_TENANT_TENANTS_H
#define KVRAIL_KVSERVER_TENANT_TENANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum {
	TENANTS_MAX = 256,
	TENANTS_RULES_MAX = 4096,
	TENANTS_IDENTITIES_MAX = 16384, /* of all tenants */
	TENANTS_FILE_MAX = 4 << 20
};

/* What a tenant may do in a namespace. Without TENANT_READ it has no other right there. */
enum tenant_right {
	TENANT_READ = 1,
	TENANT_WRITE = 2,
	TENANT_DELETE = 4,
	TENANT_PIN = 8,
	TENANT_CLEAR = 16,
	TENANT_RIGHTS = 31
};

/* Of a server, all shards together. UINT64_MAX: no limit. */
struct tenant_limits {
	uint64_t memory_share,
		memory_cap;          /* bytes of the memory for values that evictions leave, or that it may have */
	uint64_t tier_cap, pins_cap; /* bytes */
	uint64_t requests_max;       /* in flight */
	uint64_t read_rate;          /* bytes a second of values read */
	uint64_t sessions_max;       /* open at a time; not divided among the shards */
};

struct tenant_row {
	char name[KV_SPACE_MAX + 1];
	bool reads_all; /* it may read each namespace */
	struct tenant_limits limits;
};

struct tenants;

/* tenants_load -- read the file, which only its owner may write. tenants_parse -- the text of such a file. 0;
 * -KV_EINVAL with file and place; -KV_EDENIED (others may write it), -KV_ENOMEM, -errno. *out has one reference. */
int tenants_load(const char *path, struct tenants **out, struct kv_error *err);
int tenants_parse(const char *text, size_t len, const char *path, struct tenants **out, struct kv_error *err);

/* tenants_ref -- one more reference, which it returns. tenants_unref -- end one; *t becomes NULL, NULL is accepted. */
struct tenants *tenants_ref(struct tenants *t);
void tenants_unref(struct tenants **t);

/* tenants_fit -- whether a server of this memory and number of shards can keep the limits. 0 or -KV_EINVAL. */
int tenants_fit(const struct tenants *t, uint64_t memory_bytes, unsigned shards, struct kv_error *err);

/* tenants_row -- tenant i in the order of the file; NULL: there are fewer. */
const struct tenant_row *tenants_row(const struct tenants *t, unsigned i);

/* tenants_find -- the tenant of these names (boot_peer_names). NULL: they are unknown, or of several tenants. */
const struct tenant_row *tenants_find(const struct tenants *t, const char *names);

/* tenants_rights -- of a tenant in a namespace: those of its rule that is the exact name, or else the longest prefix of
 * it. 0: none. */
unsigned tenants_rights(const struct tenants *t, const struct tenant_row *row, const char *space);

/* tenants_owner -- the tenant charged for a namespace: of those that may write it, the one with the exact name or else
 * the longest prefix, and of these the first in the file. NULL: none may write it. */
const struct tenant_row *tenants_owner(const struct tenants *t, const char *space);

#endif
