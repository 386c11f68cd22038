/* SPDX-License-Identifier: Apache-2.0 */
/* conn.h -- a client's control connection, for conn.c, hello.c and logical.c. */
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
	bool serving;                    /* beats have begun */
	bool knocking;                   /* it has a place at the door */
	bool talking;                    /* its first bytes have come */
	bool cut;                        /* to make room for others */
	bool lost;                       /* a beat could not be sent */
	bool told;                       /* that the server ends */
	bool parting;                    /* its client said goodbye */
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
};

int conn_send_await(struct conn *c, const struct wire_ctrl_msg *m);
const char *conn_name(const struct conn *c, char *buf, size_t cap);

/* conn_beats_begin -- heartbeats go out from now on, which see that the client is gone while the reader waits. A second
 * time it does nothing. */
void conn_beats_begin(struct conn *c);

/* conn_welcomed -- its attachment's client has had WELCOME: it may be told news of it, and is if there are any. */
void conn_welcomed(struct conn *c);

/* conn_knocked -- it has done with the door: it gives its place there to others. A second time it does nothing. */
void conn_knocked(struct conn *c);

/* conn_cut -- end it: everything that waits in it returns. Whoever reads it does the rest. */
void conn_cut(struct conn *c);

/* conn_over -- nothing is to be waited for any more: it is being closed, or its client is gone. */
static inline bool conn_over(const struct conn *c)
{
	return c->closing || c->lost;
}

/* conn_retire_await -- its attachment is void from now on and ends beside the next one. Returns at once, or when it has
 * ended if no coroutine was to be had. */
void conn_retire_await(struct conn *c);

/* ---- hello.c ---- */

/* hello_first_await -- from the first message to the WELCOME. hello_again_await -- HELLO on a connection that has, or
 * had, an attachment. 0, or why the connection ends: the client has been told. */
int hello_first_await(struct conn *c);
int hello_again_await(struct conn *c, const struct wire_hello *h);

/* ---- logical.c ---- */

/* further_message_await -- one of the SESSION messages. 0, or why the connection ends. further_fini -- the attachment
 * ends: on the shards its sessions go with its own. */
int further_message_await(struct conn *c, const struct wire_ctrl_msg *m);
void further_fini(struct attachment *a);

#endif
