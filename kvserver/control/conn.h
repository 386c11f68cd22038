/* SPDX-License-Identifier: Apache-2.0 */
/* conn.h -- a client's control connection: sending, heartbeats, and its end. Control loop only. serve.c reads it. */
#ifndef KVRAIL_KVSERVER_CONTROL_CONN_H
#define KVRAIL_KVSERVER_CONTROL_CONN_H

#include "kvserver/control/attachment.h"
#include "kvserver/control/server.h"

enum {
	CONN_ENDING_MAX = 4,    /* attachments of a connection that may be ending beside the one in use */
	CONN_HELLOS_BURST = 16, /* HELLOs of a connection at once, and then ... */
	CONN_HELLOS_RATE = 20   /* per second */
};

/* Proofs for further sessions that were wrong, since ... */
struct conn_failures {
	unsigned count;
	uint64_t last_ns;
};

struct conn {
	struct kv_list node, knock; /* knock: of server.knocking, while it has no session */
	struct kvs_server *server;
	int fd; /* until the TLS handshake is over; then -1 */
	struct sockaddr_storage peer;
	uint64_t source; /* of many connections, perhaps */
	struct boot_conn *boot;
	struct co *reader;
	bool beating, closing, admitted; /* beating: a coroutine is there for it. admitted: it counts as a client */
	bool busy;                       /* the reader has a message to work on, and would not see a question */
	bool serving;                    /* beats have begun */
	bool knocking;                   /* it has a place at the door */
	bool talking;                    /* its first bytes have come */
	bool cut;                        /* to make room for others */
	bool lost;                       /* a beat could not be sent */
	bool told;                       /* that the server ends */
	bool parting;                    /* its client said goodbye */
	bool drain_asked;                /* its client asked for the drain: it is told what came of that */
	bool view_asked;                 /* its client asked for the view: it is told when that changes */
	uint64_t view_told;              /* the number of the view that it was told of */
	uint64_t accepted_ns;
	struct attachment *now; /* in use; NULL: none yet, or the next one is being made */
	bool welcome;           /* ... and its client knows: it may be told news of it */
	uint32_t attachments;   /* there were so many */
	unsigned ending;        /* attachments that end beside it, each in a coroutine of its own */
	struct bucket hellos;
	struct conn_failures failures;
	struct co *beater;       /* the coroutine, once it runs */
	struct loop_timer timer; /* the next beat, while not beating */
	uint64_t due_ns, beats;
	uint64_t quiet_ms; /* that the last beat told: the next one is due by then */
};

/* conn_send_await -- send a message within HANDSHAKE_NS. 0, or what boot_send_await says. conn_name -- the client's
 * address, for the log, into buf; returns buf. */
int conn_send_await(struct conn *c, const struct wire_ctrl_msg *m);
const char *conn_name(const struct conn *c, char *buf, size_t cap);

/* log_allowed -- whether one more sentence about strangers may go to the log: they cannot fill it. */
bool log_allowed(struct kvs_server *server);

/* conn_beats_init -- call it of a new connection, before anything else. */
void conn_beats_init(struct conn *c);

/* conn_beats_begin -- heartbeats go out from now on; they notice a client that has gone while the reader waits. A
 * second time it does nothing. conn_beats_end_await -- no further beat begins, and the last one has ended. */
void conn_beats_begin(struct conn *c);
void conn_beats_end_await(struct conn *c);

/* conn_busy -- the reader works on a message from now on, or (false) reads again: meanwhile heartbeats go out unasked,
 * each heartbeat_ms. */
void conn_busy(struct conn *c, bool busy);

/* conn_answer_await -- the client asks whether the server is there: answer with a heartbeat. 0, or what
 * boot_send_await says. */
int conn_answer_await(struct conn *c);

/* conns_news -- the view has changed: heartbeats tell all clients that have asked for it, sooner than else where there
 * are few members. */
void conns_news(struct kvs_server *server);

/* conn_welcomed -- WELCOME was sent: the client may be told news of its attachment, and is if there are any. */
void conn_welcomed(struct conn *c);

/* conn_knocked -- the connection gives its place among strangers to others. A second time it does nothing. */
void conn_knocked(struct conn *c);

/* conn_cut -- end the connection: every wait in it returns. Its reader does the rest. */
void conn_cut(struct conn *c);

/* conn_over -- the reader must not wait any more: the connection is being closed, or its client is gone. */
static inline bool conn_over(const struct conn *c)
{
	return c->closing || c->lost;
}

/* conn_retire_await -- its attachment is void from now on and ends beside the next one. Returns at once; if there is no
 * coroutine for that, when the attachment has ended. */
void conn_retire_await(struct conn *c);

/* conns_cut -- break every connection: each ends by itself. */
void conns_cut(struct kvs_server *server);

/* conns_goodbye -- tell all clients that the server ends (stop_asked is set): each finishes what is under way, says
 * goodbye and leaves. */
void conns_goodbye(struct kvs_server *server);

/* conns_anew -- tell clients that their session is void and that they must begin a new one: all clients, or those whose
 * shards asked for it. */
void conns_anew(struct kvs_server *server, bool all);

#endif
