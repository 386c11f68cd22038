/* SPDX-License-Identifier: Apache-2.0 */
/* source.h -- a source of the cluster's members: one interface, five implementations (kv-server --members). A source is
 * a state machine on the thread of membership.c: it gets turns, makes HTTP calls through web.h, and reports through
 * struct source_sink. It never empties a view for lack of answers: it reports trouble, and the view stays. */
#ifndef KVRAIL_KVSERVER_MEMBER_SOURCE_H
#define KVRAIL_KVSERVER_MEMBER_SOURCE_H

#include "kvserver/member/member.h"

struct source;
struct web;

/* A source's reports. All run on the thread of its turns. */
struct source_sink {
	void *arg;
	/* The source has answered with all its members, its number and an epoch (see membership.h). Copied. */
	void (*members)(void *arg, const struct kv_view *named);
	/* The source has answered without a change. */
	void (*alive)(void *arg);
	/* No usable answer; why: a sentence without its end. Called at each try. */
	void (*trouble)(void *arg, const char *why);
	/* This many members have their address for an id, `address` among them, since their names are unknown. */
	void (*unnamed)(void *arg, const char *address, unsigned members);
	/* The source has lost this server (away), so that others may use a view without it; or knows it again. NULL:
	 * not reported. */
	void (*away)(void *arg, bool away);
};

/* Name look-up; tests bring their own. Both as in netdb.h. */
struct addrinfo;
struct source_names {
	int (*look_up)(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out);
	void (*free)(struct addrinfo *list);
	int (*name_of)(const struct addrinfo *a, char *buf, unsigned cap); /* 0: the name of the address */
};

struct source_setup {
	const char *spec;      /* the text behind "etcd:" */
	const char *cluster;   /* or NULL */
	struct kv_member self; /* this server's registration (etcd) */
	const char *user, *password_file, *token_file, *ca_file, *cert_file, *key_file; /* or NULL */
	uint64_t lease_ns, joining_ns;
	unsigned pace;                    /* tests: divisor of all waiting times; 1 */
	const struct source_names *names; /* NULL: libc's */
	struct web *web;
	const struct source_sink *sink;
	const struct kv_log *log;
};

struct source_class {
	const char *name; /* "etcd" */
	/* check -- whether these options are usable; asks nobody. 0 or -KV_EINVAL with *err. */
	int (*check)(const struct source_setup *setup, struct kv_error *err);
	/* open -- from a checked setup, which outlives the source. 0 or -KV_ENOMEM. */
	int (*open)(const struct source_setup *setup, struct source **out);
	/* turn -- do the due work. Returns the time of its next turn, in ns of the monotonic clock. */
	uint64_t (*turn)(struct source *s, uint64_t now_ns);
	/* announce -- this server's state has changed. NULL: others learn it otherwise. */
	void (*announce)(struct source *s, enum kv_member_state state);
	/* weigh -- this server's weight has changed. NULL: others learn it otherwise. */
	void (*weigh)(struct source *s, uint32_t weight);
	/* leave -- take this server out; call it again until true (done, or impossible). NULL: never registered. */
	bool (*leave)(struct source *s);
	void (*close)(struct source **s);
	bool registers, asks_http;
};

extern const struct source_class source_list, source_file, source_dns, source_kube, source_etcd;

/* source_class_of -- the class named by "etcd:...", and in *out_spec the text behind the colon. NULL with *err: no such
 * class. */
const struct source_class *source_class_of(const char *text, const char **out_spec, struct kv_error *err);

#endif
