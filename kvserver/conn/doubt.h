/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.h -- values possibly deleted while this server was out of the cluster. Control loop only, except the functions
 * of kvserver.h. */
#ifndef KVRAIL_KVSERVER_CONN_DOUBT_H
#define KVRAIL_KVSERVER_CONN_DOUBT_H

#include "base/base.h"
#include "kvserver/conn/gone.h"
#include "loop/loop.h"

struct doubt_verdicts;
struct kvs_server;

/* DOUBT_AWAY: others may not know this server. DOUBT_BACK: they do, or will soon. DOUBT_ASKING: the program asks the
 * other members. */
enum doubt_state { DOUBT_OVER, DOUBT_AWAY, DOUBT_BACK, DOUBT_ASKING };

struct doubts {
	enum doubt_state state;
	struct loop_timer timer; /* of DOUBT_BACK and DOUBT_ASKING */
	struct loop_timer look;
	uint64_t seen_ns;
	int64_t since_ns;  /* later deletions may have missed this server; maybe before the clock's zero */
	uint64_t until_ns; /* the others are asked again until then; 0: once */
	bool waits_logged;
	struct gone gone; /* members that have left with what they knew */
	bool member;
	bool known;                      /* a view had it */
	bool first;                      /* the doubt is that of a new member */
	struct doubt_verdicts *recalled; /* under the server's lock: to be taken by the control loop ... */
	bool recall_over, recall_again;  /* ... if this is true; not all have answered yet */
	bool open;
};

/* doubt_open -- the server is made. doubt_close -- it ends. doubt_view -- it has another view; lacked: an unannounced
 * view in between lacked this server. doubt_restored -- values of a former server are back, which ended ago_ns ago:
 * until the others are asked, they are hidden. Before the loops turn. */
void doubt_restored(struct kvs_server *s, uint64_t ago_ns);

/* doubt_former -- the members that this server knew before its restart (gone_former). Before the loops turn. */
void doubt_former(struct kvs_server *s, const uint64_t *names, uint32_t count);
void doubt_open(struct kvs_server *s);
void doubt_close(struct kvs_server *s);
void doubt_view(struct kvs_server *s, bool lacked);

#endif
