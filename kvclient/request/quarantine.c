/* SPDX-License-Identifier: Apache-2.0 */
/* quarantine.c -- the limit of unsafe bytes: pieces in quarantine and of orphans, at most a quarter of the buffer.
 * Limbo (buffer.limbo_bytes, until old endpoints close) is extra; the counter quarantined_bytes shows all three. */
#include "kvclient/request/fence.h"

#include "kvclient/request/private.h"

void kc_quarantine_take(struct kvc_client *c, struct kc_req *r)
{
	if (c->buffer.quarantined_bytes == 0)
		c->requests->unsafe.quarantine_ns = loop_turn_now(c->loop);
	kc_buffer_quarantine(&c->buffer, &r->mem.piece);
}

bool kc_client_quarantine_full(const struct kvc_client *c, uint64_t more_bytes)
{
	return c->buffer.quarantined_bytes + c->requests->unsafe.orphan_bytes + more_bytes > c->buffer.len_bytes / 4;
}

void kc_client_quarantine_count(struct kvc_client *c)
{
	kc_set(&c->count.quarantined_bytes,
	       c->buffer.quarantined_bytes + c->buffer.limbo_bytes + c->requests->unsafe.orphan_bytes);
}
