/* SPDX-License-Identifier: Apache-2.0 */
/* arenas.c -- whether GETs from a server are to be pulled, and where its memory is. */
#include "kvclient/conn/arenas.h"

#include <stdlib.h>

#include "kvclient/conn/node.h"
#include "kvclient/request/pull.h"

enum { ARENA_KEYS_MAX = 1 << 18 /* of all shards of a server: bounds what its ARENAs make us keep (4 MiB) */ };

/* One message of the control connection, until it is an ARENA. */
static int arena_recv_await(struct kvc_node *n, struct wire_ctrl_msg *m, uint64_t deadline_ns)
{
	int rc;
	do {
		rc = boot_recv_await(n->conn, m, deadline_ns);
		if (rc == 0 && m->type == WIRE_CTRL_ADDRESS)
			rc = -KV_ERESET; /* the session is void already */
		if (rc == 0 && m->type == WIRE_CTRL_GOODBYE)
			rc = -KV_ELEFT;
	} while (rc == 0 && m->type != WIRE_CTRL_ARENA);
	return rc;
}

/* What a server says of its memory: the sums are the decoder's, the rest is looked at here. */
static int arena_take(struct kvc_session *s, unsigned rails, const struct wire_region *w)
{
	struct kvc_arenas *a = s->arenas;
	struct te_remote *r = &a->shard[a->count];
	uint64_t keys = (uint64_t)w->rails * w->parts;
	if (w->id != a->count || w->rails != rails || a->keys + keys > ARENA_KEYS_MAX)
		return -KV_EPROTO;
	*r = (struct te_remote){w->len_bytes, w->part_bytes, w->parts,
				w->rails,     w->virt,       calloc(keys, sizeof(*r->keys))};
	if (!r->keys)
		return -KV_ENOMEM;
	a->count++;
	a->keys += keys;
	a->write_emulated |= w->write_emulated;
	a->read_emulated |= w->read_emulated;
	for (unsigned rail = 0; rail < w->rails; rail++)
		for (uint32_t part = 0; part < w->parts; part++) {
			struct te_key *k = &r->keys[(size_t)rail * w->parts + part];
			wire_region_key(w, rail, part, &k->base, &k->key);
			if (k->base > UINT64_MAX - KV_MIN(w->part_bytes, w->len_bytes))
				return -KV_EPROTO;
		}
	return 0;
}

static int arenas_get_await(struct kvc_node *n, uint64_t deadline_ns)
{
	struct kvc_session *s = n->session;
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_ARENAS};
	int rc = kvc_pulls_init(n->client);
	if (rc == 0 && !(s->arenas = calloc(1, sizeof(*s->arenas))))
		rc = -KV_ENOMEM;
	if (rc == 0)
		rc = kvc_node_send_await(n, &m, deadline_ns);
	while (rc == 0 && s->arenas->count < s->shards) {
		rc = arena_recv_await(n, &m, deadline_ns);
		if (rc == 0)
			rc = arena_take(s, s->rails, &m.region);
	}
	if (rc < 0)
		return kv_fail(&n->error, rc, "asking for where its memory is, for mode pull: %s", kv_strerror(rc));
	return 0;
}

/* Without a demand: where the server's writes would be emulated, and our reads are not. (Emulation is a matter of both
 * ends, and of one device on either; each side tells of its own.) */
static bool pull_pays(const struct kvc_client *c, const struct kvc_arenas *a)
{
	return (c->info.write_emulated || a->write_emulated) && !c->info.read_emulated && !a->read_emulated;
}

int kvc_arenas_await(struct kvc_node *n, uint64_t deadline_ns)
{
	struct kvc_client *c = n->client;
	struct kvc_session *s = n->session;
	bool demanded = c->pool->options.mode == KVC_MODE_PULL;
	int rc;
	if (c->pool->options.mode == KVC_MODE_PUSH || (!demanded && c->info.reads_refused))
		return 0;
	if (!(s->flags & WIRE_WELCOME_PULL))
		return demanded ? kv_fail(&n->error, -KV_ENOTSUP,
					  "mode pull: it does not let clients read its memory; start it with "
					  "--allow-pull, or "
					  "use mode push or auto")
				: 0;
	rc = arenas_get_await(n, deadline_ns);
	if (rc == 0)
		s->pull = demanded || pull_pays(c, s->arenas);
	return rc;
}
