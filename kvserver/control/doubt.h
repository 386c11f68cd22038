/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.h -- values that may have been deleted while this server was out of the cluster. Control loop only, but for
 * the functions of kvserver.h, and doubt_fini. */
#ifndef KVRAIL_KVSERVER_CONTROL_DOUBT_H
#define KVRAIL_KVSERVER_CONTROL_DOUBT_H

#include "base/base.h"
#include "loop/loop.h"

struct kvs_server;

/* DOUBT_AWAY: others may not know this server. DOUBT_BACK: they do, or will soon. DOUBT_ASKING: the program has the
 * other members asked. */
enum doubt_state { DOUBT_OVER, DOUBT_AWAY, DOUBT_BACK, DOUBT_ASKING };

struct doubts {
	enum doubt_state state;
	struct loop_timer timer; /* of DOUBT_BACK and DOUBT_ASKING */
	struct loop_timer look;  /* armed while it matters that this server stands still */
	uint64_t seen_ns;        /* the control loop turned then */
	uint64_t since_ns;       /* what was deleted later may have been deleted without this server */
	struct kv_view others;   /* the last view while this server was AWAY */
	bool others_lost;        /* one of the members meanwhile has left: nobody knows what it remembers */
	bool member;             /* the last view has this server */
	bool open;
};

/* doubt_open -- the server is made. doubt_close -- it ends. doubt_view -- it has another view; lacked: one before it,
 * of which nobody was told, had not this server. */
void doubt_open(struct kvs_server *s);
void doubt_close(struct kvs_server *s);
void doubt_view(struct kvs_server *s, bool lacked);

#endif
