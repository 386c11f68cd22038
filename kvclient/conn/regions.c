/* SPDX-License-Identifier: Apache-2.0 */
/* regions.c -- regions announced to a server, while attaching and later, and revoked. */
#include "kvclient/conn/regions.h"

#include <stdlib.h>

#include "kvclient/conn/node.h"
#include "kvclient/conn/private.h"
#include "kvclient/core/waits.h"

static int region_send_await(struct kc_node *n, struct te_region *region, uint32_t id, uint64_t deadline_ns)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_REGION};
	struct te_remote remote;
	struct te_key *keys = NULL;
	uint8_t *packed = NULL;
	int rc = -KV_ENOMEM;
	te_region_announce(region, &remote, NULL);
	keys = calloc((size_t)remote.rails * remote.parts, sizeof(*keys));
	packed = calloc((size_t)remote.rails * remote.parts, 16);
	if (!keys || !packed)
		goto out;
	te_region_announce(region, &remote, keys);
	m.region.id = id;
	m.region.rails = remote.rails;
	m.region.parts = remote.parts;
	m.region.virt = remote.virt;
	m.region.len_bytes = remote.len_bytes;
	m.region.part_bytes = remote.part_bytes;
	m.region.keys = packed;
	for (unsigned rail = 0; rail < remote.rails; rail++) {
		for (uint32_t part = 0; part < remote.parts; part++) {
			const struct te_key *k = &keys[(size_t)rail * remote.parts + part];
			wire_region_put(packed, remote.parts, rail, part, k->base, k->key);
		}
	}
	rc = kc_node_send_await(n, &m, deadline_ns);
out:
	free(keys);
	free(packed);
	return rc;
}

/* Wait until the server has answered about region `id`, or the attachment is lost. The slot is this registration's
 * alone: answers to others may be read in the same turn. */
static int answer_await(struct kc_node *n, uint64_t attaches, uint32_t slot, uint32_t id, bool known,
			uint64_t deadline_ns)
{
	while ((n->own->regions.acked[slot] == id) != known) {
		int rc;
		if (n->own->regions.refused[slot].id == id)
			return wire_status_error(n->own->regions.refused[slot].status);
		if (n->client->closing)
			return -KV_ECLOSED;
		if (!kc_node_uses(n, attaches))
			return -KV_EPEERDOWN;
		rc = kc_wait_queue_await(n->client, &n->changed, deadline_ns);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int kc_node_region_await(struct kc_node *n, struct te_region *region, uint32_t id, uint32_t slot, uint64_t deadline_ns)
{
	uint64_t attaches = n->attaches;
	int rc;
	if (n->state != KC_NODE_UP || n->own->regions.acked[slot] == id)
		return 0;
	rc = region_send_await(n, region, id, deadline_ns);
	if (rc == 0)
		rc = answer_await(n, attaches, slot, id, true, deadline_ns);
	/* The next attachment announces all regions. */
	return rc == -KV_EPEERDOWN ? 0 : rc;
}

bool kc_node_knows(const struct kc_node *n, const struct kc_client_mem *m)
{
	return n->own->regions.acked[m->slot] == m->id;
}

static bool attaching(const struct kc_node *n)
{
	return n->attachment && n->attachment->open && !n->attachment->served;
}

/* In the present attachment. -KV_EPEERDOWN: it was lost. */
static int revoke_await(struct kc_node *n, uint32_t id, uint32_t slot, uint64_t deadline_ns)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_REVOKE, .region_ok.id = id};
	bool up = n->state == KC_NODE_UP;
	uint64_t attaches = n->attaches;
	int rc = kc_node_send_await(n, &m, deadline_ns);
	/* Before the attachment is up nothing has used the region: await no answer. Do not attach anew: a program that
	 * registers and frees memory all the time would never be attached. */
	return rc == 0 && up ? answer_await(n, attaches, slot, id, false, deadline_ns) : rc;
}

int kc_node_revoke_await(struct kc_node *n, uint32_t id, uint32_t slot, uint64_t deadline_ns)
{
	uint64_t attaches;
	int rc = 0;
	n->own->regions.revokes++;
	do { /* again, if the next attachment has announced it */
		if (n->own->regions.acked[slot] != id || !(n->state == KC_NODE_UP || attaching(n)))
			break;
		attaches = n->attaches;
		rc = revoke_await(n, id, slot, deadline_ns);
	} while (rc == -KV_EPEERDOWN && n->attaches != attaches);
	n->own->regions.revokes--;
	if (n->own->regions.acked[slot] == id)
		n->own->regions.acked[slot] = 0;
	return rc == -KV_EPEERDOWN ? 0 : rc;
}

/* The next unacknowledged region. */
static bool region_missing(const struct kc_node *n, struct te_region **out, uint32_t *out_id, uint32_t *out_slot)
{
	const struct kvc_client *c = n->client;
	if (n->own->regions.acked[0] != KC_REGION_BUFFER) {
		*out = c->region;
		*out_id = KC_REGION_BUFFER;
		*out_slot = 0;
		return true;
	}
	for (unsigned i = 0; i < c->mems.count; i++) {
		const struct kc_client_mem *m = c->mems.at[i];
		if (m->closing || n->own->regions.acked[m->slot] == m->id)
			continue;
		*out = m->region;
		*out_id = m->id;
		*out_slot = m->slot;
		return true;
	}
	return false;
}

static int region_announce_await(struct kc_node *n, struct te_region *region, uint32_t id, uint32_t slot,
				 uint64_t deadline_ns)
{
	struct wire_ctrl_msg m;
	int rc;
	n->own->regions.acked[slot] = id; /* now: it may be revoked before the answer (kc_node_revoke_await) */
	rc = region_send_await(n, region, id, deadline_ns);
	while (rc == 0) {
		rc = boot_recv_await(n->control.conn, &m, deadline_ns);
		if (rc == 0 && m.type == WIRE_CTRL_REGION_OK && m.region_ok.id == id)
			break;
		if (rc == 0)
			rc = kc_node_aside(n, &m);
	}
	if (rc == 0)
		rc = wire_status_error(m.region_ok.status);
	if (rc < 0)
		return kv_fail(&n->error, rc, "announcing memory region %u: %s", id, kv_strerror(rc));
	return 0;
}

int kc_regions_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct te_region *region;
	uint32_t id, slot;
	int rc = 0;
	while (rc == 0 && !(n->redo || n->client->closing) && region_missing(n, &region, &id, &slot))
		rc = region_announce_await(n, region, id, slot, deadline_ns);
	return rc;
}

void kc_region_answer(struct kc_node *n, uint32_t id, int32_t status, bool known)
{
	struct kvc_client *c = n->client;
	for (unsigned i = 0; i < c->mems.count; i++) {
		uint32_t slot = c->mems.at[i]->slot;
		if (c->mems.at[i]->id != id)
			continue;
		if (status != WIRE_OK)
			n->own->regions.refused[slot] = (struct kc_refused){id, status};
		else if (known)
			n->own->regions.acked[slot] = id;
		else if (n->own->regions.acked[slot] == id)
			n->own->regions.acked[slot] = 0;
	}
	co_queue_wake_all(&n->changed);
}
