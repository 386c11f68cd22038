/* SPDX-License-Identifier: Apache-2.0 */
/* local_peers.c -- the table of the peers on this host, whose messages go through a channel (local/local.h).
 *
 * A peer is in the table exactly while te_peer.channel is set. A cut, a reset and the peer's close take it out: its
 * frames and our queued ones belong to an attachment that ended. The table is compact, so that a turn touches few cache
 * lines; while notify.c walks it, callbacks may add peers at the end and empty any entry. */
#include <errno.h>
#include <stdlib.h>

#include "engine/inside.h"
#include "engine/local_peers.h"
#include "engine/rail.h"

enum { LOCALS_FIRST = 16 };

void locals_free(struct locals *l)
{
	KV_ASSERT(l->count == 0);
	free(l->at);
	free(l->buf);
}

static int grow(struct locals *l)
{
	uint32_t room = l->room ? 2 * l->room : LOCALS_FIRST;
	struct local_entry *at = realloc(l->at, room * sizeof(*at));
	if (!at)
		return -KV_ENOMEM;
	l->at = at;
	l->room = room;
	return 0;
}

int local_enter(struct te_peer *peer, struct local_channel *channel)
{
	struct locals *l = &peer->te->locals;
	if (!l->buf)
		l->buf = aligned_alloc(KV_LINES, KV_MSG_MAX);
	if (!l->buf || (l->count == l->room && grow(l)))
		return -KV_ENOMEM;
	peer->channel = channel;
	peer->local_at = l->count;
	l->at[l->count++] = (struct local_entry){.peer = peer, .channel = channel};
	l->changed = true;
	return 0;
}

static void fill_hole(struct locals *l, uint32_t at)
{
	struct local_entry last = l->at[--l->count];
	l->at[at] = last;
	if (at < l->count && last.peer)
		last.peer->local_at = at;
}

void local_leave(struct te_peer *peer)
{
	struct locals *l = &peer->te->locals;
	if (!peer->channel)
		return;
	KV_ASSERT(l->at[peer->local_at].peer == peer);
	l->at[peer->local_at] = (struct local_entry){.peer = NULL};
	peer->channel = NULL;
	l->changed = true;
	l->holes = true;
	if (!l->walked)
		local_walked(l);
}

void local_walk(struct locals *l)
{
	KV_ASSERT_HOT(!l->walked && !l->holes);
	l->walked = true;
}

void local_walked(struct locals *l)
{
	l->walked = false;
	if (KV_LIKELY(!l->holes))
		return;
	l->holes = false;
	for (uint32_t i = 0; i < l->count;)
		if (l->at[i].peer)
			i++;
		else
			fill_hole(l, i);
}

void local_failed(struct te_peer *peer, int rc)
{
	struct te *te = peer->te;
	peer->down = te->locals.down = true;
	if (rc == -KV_EPROTO && rail_log_due(++te->stats.local_lies))
		kv_warn(te->log,
			"a peer on this host wrote nonsense to its channel in shared memory: it is down (%llu so far)",
			(unsigned long long)te->stats.local_lies);
}

enum post local_post(struct te_peer *peer, const uint8_t *data, uint32_t len)
{
	struct te *te = peer->te;
	int rc = local_send(peer->channel, data, len);
	if (rc == -KV_EBUSY)
		return POST_STALLED;
	if (KV_UNLIKELY(rc)) {
		local_failed(peer, rc);
		return POST_FAILED;
	}
	te->stats.local_sends++;
	return POST_DONE;
}

int locals_sleep(struct locals *l)
{
	l->asleep = true;
	for (uint32_t i = 0; i < l->count; i++)
		if (local_sleep(l->at[i].channel))
			return -EAGAIN;
	return 0;
}

void locals_wake(struct locals *l)
{
	if (!l->asleep)
		return;
	l->asleep = false;
	l->fabric_unseen = TE_FABRIC_TURNS;
	for (uint32_t i = 0; i < l->count; i++)
		local_wake(l->at[i].channel);
}
