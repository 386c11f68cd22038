/* SPDX-License-Identifier: Apache-2.0 */
/* conn.h -- a client's control connection: sending, heartbeats, and its end. Control loop only. reader.c reads it. */
#ifndef KVRAIL_KVSERVER_CONN_CONN_H
#define KVRAIL_KVSERVER_CONN_CONN_H

#include "kvserver/conn/attachment.h"
#include "kvserver/conn/follow.h"
#include "kvserver/server/server.h"

enum {
	CONN_ENDING_MAX = 4,    /* ending attachments of a connection, besides the one in use */
	CONN_HELLOS_BURST = 16, /* HELLOs of a connection at once, and then ... */
	CONN_HELLOS_RATE = 20   /* per second */
};

/* Wrong proofs for further sessions, since ... */
struct conn_failures {
	unsigned count;
	uint64_t last_ns;
};

struct beats {
	bool on;                 /* they have begun */
	bool sending;            /* a coroutine sends one ... */
	struct co *co;           /* ... this one, once it runs */
	struct loop_timer timer; /* the next one, while none is sent */
	uint64_t due_ns, count;
	uint64_t quiet_ms; /* announced by the last one: the next one is due by then */
};

struct conn {
	struct kv_list node, knock; /* knock: of strangers.knocking, while it has no attachment */
	struct kvs_server *server;
	int fd; /* until the TLS handshake is over; then -1 */
	struct sockaddr_storage peer;
	uint64_t source; /* kv_sockaddr_source of the peer: shared by connections of one address */
	uint64_t accepted_ns;
	struct boot_conn *boot;
	struct co *reader;
	struct beats beats;
	bool knocking;
	bool talking;
	bool cut; /* to make room for others */
	bool admitted;
	struct tenant_places *places; /* while admitted: of its tenant; NULL: without tenants */
	bool busy;                    /* the reader works on a message, and would not see a question */
	bool closing;                 /* it ends */
	bool lost;                    /* a beat could not be sent */
	bool goodbye_sent;            /* of the server's end */
	bool parting;                 /* its client said goodbye */
	bool drain_asked;             /* its client asked for the drain, and gets the result */
	bool view_asked;              /* its client asked for the view, and hears of changes */
	uint64_t view_announced;      /* the last view number announced to it */
	struct attachment *now;       /* in use; NULL: none yet, or the next one is being made */
	bool welcome;                 /* ... and its client knows it: news may be sent */
	uint32_t attachments;         /* number so far */
	unsigned ending;              /* ending attachments, each in a coroutine of its own */
	struct bucket hellos;
	struct conn_failures failures;
	struct follow follow; /* its question for events */
};

/* conn_send_await -- send a message within HANDSHAKE_NS. 0, or a code of boot_send_await. conn_name -- write the
 * client's address, for the log, into buf; returns buf. */
int conn_send_await(struct conn *c, const struct wire_ctrl_msg *m);
const char *conn_name(const struct conn *c, char *buf, size_t cap);

/* conn_beats_init -- for a new connection, before anything else. */
void conn_beats_init(struct conn *c);

/* conn_beats_begin -- start heartbeats; they notice a gone client while the reader waits. A second call does nothing.
 * conn_beats_end_await -- start no further beat, and wait for the last one. */
void conn_beats_begin(struct conn *c);
void conn_beats_end_await(struct conn *c);

/* conn_say -- a message is due now: a coroutine sends it. */
void conn_say(struct conn *c);

/* conn_busy -- the reader works on a message, or (false) reads again: in between heartbeats are sent every
 * heartbeat_ms. */
void conn_busy(struct conn *c, bool busy);

/* conn_answer_await -- answer the client's question with a heartbeat. 0, or a code of boot_send_await. */
int conn_answer_await(struct conn *c);

/* conns_news -- the view has changed: heartbeats inform all clients that asked for it, sooner than usual where there
 * are few members. */
void conns_news(struct kvs_server *server);

/* conn_anew -- its client must say HELLO again. */
void conn_anew(struct conn *c);

/* conn_welcomed -- WELCOME was sent: from now on the client gets its attachment's news. */
void conn_welcomed(struct conn *c);

/* conn_knocked -- the connection frees its stranger's place. A second call does nothing. */
void conn_knocked(struct conn *c);

/* conn_cut -- end the connection: every wait in it returns, and its reader ends it. */
void conn_cut(struct conn *c);

/* conn_over -- the reader must not wait any more: the connection is closing, or its client is gone. */
static inline bool conn_over(const struct conn *c)
{
	return c->closing || c->lost;
}

/* conn_retire_await -- its attachment is void and ends alongside the next one. Returns at once; without a free
 * coroutine, when the attachment has ended. */
void conn_retire_await(struct conn *c);

/* conns_cut -- break every connection: each ends by itself. */
void conns_cut(struct kvs_server *server);

/* conns_goodbye -- announce the server's end to all clients (stop_asked is set): each finishes its calls, says goodbye
 * and leaves. */
void conns_goodbye(struct kvs_server *server);

/* conns_anew -- inform clients that their attachment is void: all clients, or those marked by shards. */
void conns_anew(struct kvs_server *server, bool all);

#endif
