/* SPDX-License-Identifier: Apache-2.0 */
/* rights.c -- the rights of sessions, in the present table of tenants. */
#include "kvserver/conn/rights.h"

#include "kvserver/conn/conn.h"
#include "kvserver/tenant/tenants.h"

int grant_find(const struct kvs_server *s, const char *names, const char *space, uint64_t generation, struct grant *out)
{
	const struct tenants *t = s->keys.tenants;
	const struct tenant_row *row = t ? tenants_find(t, names) : NULL;
	if (t && !row)
		return -KV_EDENIED;
	*out = (struct grant){.generation = generation, .rights = TENANT_RIGHTS, .reads_all = true};
	memcpy(out->space, space, strnlen(space, KV_SPACE_MAX));
	if (!t)
		return 0;
	memcpy(out->tenant, row->name, sizeof(out->tenant));
	out->rights = (uint8_t)tenants_rights(t, row, out->space);
	out->reads_all = row->reads_all;
	if (!(out->rights & TENANT_CLEAR))
		out->generation = 0;
	return 0;
}

const char *grant_names(const struct conn *c, const char *identity, char *buf, size_t cap)
{
	if (!identity[0])
		return boot_peer_names(c->boot);
	memset(buf, 0, cap);
	memcpy(buf, identity, KV_MIN(strcspn(identity, "#"), cap - 2));
	return buf;
}

bool grant_reads(const struct conn *c, const void *space, size_t len)
{
	const struct tenants *t = c->server->keys.tenants;
	const struct tenant_row *row;
	char name[KV_SPACE_MAX + 1] = "";
	if (!t)
		return true;
	row = tenants_find(t, boot_peer_names(c->boot));
	memcpy(name, space, KV_MIN(len, (size_t)KV_SPACE_MAX));
	return row && tenants_rights(t, row, name) & TENANT_READ;
}
