/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- a node's data and functions private to kvclient/conn/ (and tests). On the client's loop; only _await
 * functions park. */
#ifndef KVRAIL_KVCLIENT_CONN_PRIVATE_H
#define KVRAIL_KVCLIENT_CONN_PRIVATE_H

#include "kvclient/core/client.h"

struct kc_node_attempt {
	struct co *dialer; /* while the node's coroutine dials */
	struct co *joiner; /* while it uses the Unix socket */
	uint64_t first_ns;
	bool first_told;         /* reported to the pool */
	unsigned failures;       /* since the last attachment */
	struct wire_prior prior; /* set if the next WELCOME must wait for the end of its transfers */
};

/* Life signs of the control connection (conn/serve.c). */
struct kc_node_pulse {
	uint64_t beat_ns;  /* between two checks */
	uint64_t quiet_ns; /* permitted silence unless asked */
	uint64_t sequence; /* of our last heartbeat */
	uint64_t heard_ns; /* 0: never */
	uint64_t said_ns;  /* our last message */
	uint64_t asked_ns; /* our unanswered question; 0: none */
	uint64_t wait_ns;  /* start of the wait that made us ask */
	unsigned silent;   /* checks while an answer is owed */
};

/* Our memory as the server knows it (conn/regions.c). Slot 0 is the receive buffer's. */
struct kc_node_regions {
	/* Region id announced for slot i; 0: none. */
	uint32_t acked[KC_MEMS_MAX + 2];
	struct kc_refused {
		uint32_t id;
		int32_t status;
	} refused[KC_MEMS_MAX + 2]; /* last region the server refused */
	unsigned revokes;           /* unanswered */
};

struct kc_node_links {
	uint32_t known;                                  /* number of links the bits are about */
	uint64_t out[KV_SHARDS_MAX * KV_RAILS_MAX / 64]; /* a bit per link */
	bool news;                                       /* log with the next attachment */
};

/* Its member, where view and list have different addresses (conn/alias.c). */
struct kc_node_alias {
	uint64_t first;         /* hash of the address to dial first; 0: the list's first */
	uint64_t dialled, next; /* the connection's address, and the next one in the list; 0: none */
	uint64_t at[KV_ADDRESSES_MAX];
	unsigned count;
	char id[KV_NAME_MAX]; /* of the member; "": unknown */
};

struct kc_node_own {
	struct kc_node_attempt attempt;
	struct kc_node_pulse pulse;
	struct kc_node_regions regions;
	struct kc_node_links links;
	struct kc_node_alias alias;
	bool trouble[KC_TROUBLES]; /* with its server (core/troubles.h) */
	bool link_silent;          /* the only link to a shard fell silent */
	bool welcomed;
	uint64_t down_ns;     /* while DOWN: since when */
	uint64_t patience_ns; /* while CONNECTING: calls use other servers after it (node.c) */
	uint64_t owed_from;   /* first DELETE it missed */
	uint64_t connects, ping_ns;
};

enum { KC_SILENCE_BEATS_MIN = 2 };

/* kc_node_silence_ns -- a server silent for this time is down. */
static inline uint64_t kc_node_silence_ns(const struct kc_node *n)
{
	return KV_MAX(KC_SILENCE_BEATS_MIN * n->own->pulse.beat_ns, n->client->pool->options.peer_timeout_ns);
}

/* kc_node_answers_wait -- whether the server may delay its next answer until transfers have ended, which may be the
 * trouble. */
static inline bool kc_node_answers_wait(const struct kc_node *n)
{
	return n->own->regions.revokes > 0 || kc_sessions_parting(&n->sessions);
}

/* ---- connect.c ---- */

/* kc_connect_await -- attach on the present control connection or a new one. For the node's coroutine alone. 0, with
 * n->attachment and n->control.conn; or a code with n->error. -KV_ERESET: overtaken (n->redo), or no fault of the
 * server. A partial attachment stays in the node. */
int kc_connect_await(struct kc_node *n);

/* kc_conn_close_await -- once no coroutine sends on it. */
void kc_conn_close_await(struct kc_node *n);

/* ---- arenas.c ---- */

/* kc_arenas_await -- a step of attaching: learn the server's arenas, if it allows pulls, and decide about pulling
 * (session.pull). 0, or a code with n->error. -KV_ENOTSUP: the pool demands pull, the server forbids it. */
int kc_arenas_await(struct kc_node *n, uint64_t deadline_ns);

/* kc_node_told_await -- a step of attaching: receive the next message of this type. 0, or a code of boot_recv_await or
 * kc_node_aside. */
int kc_node_told_await(struct kc_node *n, enum wire_ctrl type, struct wire_ctrl_msg *m, uint64_t deadline_ns);

/* kc_landings_await -- a step of attaching, after kc_local_await: ask for landing areas, if offered and our messages
 * stay behind our writes. A server on this host has given its own. 0, or a code with n->error. */
int kc_landings_await(struct kc_node *n, uint64_t deadline_ns);

/* ---- local_attach.c ---- */

/* kc_local_await -- a step of attaching, after kc_links_await: share the memory of a server on this host, if both sides
 * want to (attachment.local). 0, also without it; or a code with n->error: the control connection or the attachment
 * has ended. */
int kc_local_await(struct kc_node *n, uint64_t deadline_ns);
/* kc_local_ended_await -- whether the server has closed the Unix socket of the present attachment. Takes a
 * millisecond. */
bool kc_local_ended_await(struct kc_node *n);
/* kc_local_leave -- the attachment, which is not open any more, ends its use of channels. Harmless without any. */
void kc_local_leave(struct kc_attachment *s);

/* ---- health.c ---- */

/* kc_links_await -- a step of attaching: ping all links. 0: every shard has a working link, and the others had time to
 * answer; or a code with n->error. */
int kc_links_await(struct kc_node *n, uint64_t deadline_ns);
/* kc_link_check -- at every beat (serve.c). 0, or the reason to end the attachment, with n->error. */
int kc_link_check(struct kc_node *n, struct kc_link *l, uint64_t now, uint64_t silence_ns);

#endif
