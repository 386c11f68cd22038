/* SPDX-License-Identifier: Apache-2.0 */
/* source.h -- where a server learns who belongs to the cluster: one interface, five implementations (kv-server
 * --members). A source is a state machine on the thread of membership.c: it is turned when something is due, hears of
 * its HTTP calls through web.h, and tells what it knows through struct source_sink.
 *
 * A source never empties a view because it cannot ask: it says trouble, and the view stays. */
#ifndef KVRAIL_KVSERVER_MEMBER_SOURCE_H
#define KVRAIL_KVSERVER_MEMBER_SOURCE_H

#include "kvserver/member/member.h"

struct source;
struct web;

/* What a source tells. All run on the thread that turns it. */
struct source_sink {
	void *arg;
	/* The source has answered: these are the members, all of them, with the source's number and an epoch, of which
	 * membership.h has more. Copied. */
	void (*members)(void *arg, const struct kv_view *named);
	/* The source has answered, and nothing has changed. */
	void (*alive)(void *arg);
	/* It does not answer, or what it answers is of no use; why: a sentence without its end. Called at each try. */
	void (*trouble)(void *arg, const char *why);
	/* So many members have their address for an id, `address` among them, since nobody says their names. */
	void (*unnamed)(void *arg, const char *address, unsigned members);
	/* The source has lost this server (away), so that others may use a view without it; or knows it again. NULL:
	 * nobody hears of it. */
	void (*away)(void *arg, bool away);
};

/* How a name is looked up; tests bring their own. Both as in netdb.h. */
struct addrinfo;
struct source_names {
	int (*look_up)(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out);
	void (*free)(struct addrinfo *list);
	int (*name_of)(const struct addrinfo *a, char *buf, unsigned cap); /* 0: the name that the address has */
};

struct source_setup {
	const char *spec;      /* what stands behind "etcd:" */
	const char *cluster;   /* or NULL */
	struct kv_member self; /* what this server registers (etcd) */
	const char *user, *password_file, *token_file, *ca_file, *cert_file, *key_file; /* or NULL */
	uint64_t lease_ns, joining_ns;
	unsigned pace;                    /* tests: all waiting times are divided by it; 1 */
	const struct source_names *names; /* NULL: libc's */
	struct web *web;
	const struct source_sink *sink;
	const struct kv_log *log;
};

struct source_class {
	const char *name; /* "etcd" */
	/* check -- whether these options can be used; asks nobody. 0 or -KV_EINVAL with *err. */
	int (*check)(const struct source_setup *setup, struct kv_error *err);
	/* open -- of a setup that was checked, and that outlives it. 0 or -KV_ENOMEM. */
	int (*open)(const struct source_setup *setup, struct source **out);
	/* turn -- do what is due. Returns when it wants its next turn, in ns of the monotonic clock. */
	uint64_t (*turn)(struct source *s, uint64_t now_ns);
	/* announce -- this server's state has changed. NULL: others learn it otherwise. */
	void (*announce)(struct source *s, enum kv_member_state state);
	/* weigh -- this server's weight has changed. NULL: others learn it otherwise. */
	void (*weigh)(struct source *s, uint32_t weight);
	/* leave -- take this server out, once more to each call. True: that is done, or cannot be. NULL: none is in. */
	bool (*leave)(struct source *s);
	void (*close)(struct source **s);
	bool registers, asks_http;
	bool own_epochs; /* its epoch is the time in ms at which this server began or saw a change: each has its own */
};

extern const struct source_class source_list, source_file, source_dns, source_kube, source_etcd;

/* source_class_of -- the class that "etcd:..." names, and *out_spec what stands behind the colon. NULL with *err:
 * there is none. */
const struct source_class *source_class_of(const char *text, const char **out_spec, struct kv_error *err);

#endif
