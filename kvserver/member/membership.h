/* SPDX-License-Identifier: Apache-2.0 */
/* membership.h -- who belongs to the cluster, as this server knows it: kv-server --members. A thread of its own asks a
 * source, guards what it hears, and keeps a view.
 *
 * The epoch only grows while a server runs and its source is the same, and over a restart with --state-dir. etcd: the
 * revision of the last change; Kubernetes: the highest resource version of the slices; file: the time of its last
 * change in ms; list: the time of the start in ms; DNS: the time at which a change was seen, in ms. A change that the
 * source has no number for (a doubted member that has died) takes the next one. So servers that have the same members
 * may give them different epochs: views are the same when their members are, and of two that differ the one with the
 * higher epoch is newer.
 *
 * While servers disagree, their clients look for some keys at the wrong server, and miss. They never read wrong bytes:
 * blocks are immutable, and a key names one. */
#ifndef KVRAIL_KVSERVER_MEMBER_MEMBERSHIP_H
#define KVRAIL_KVSERVER_MEMBER_MEMBERSHIP_H

#include "kvserver/member/source.h"

struct membership;

/* Strings and the log must live as long as the thing. */
struct membership_options {
	const char *members;       /* "etcd:..." */
	struct kv_member self;     /* this server; its address may be "" where it is not to be registered */
	char listen[KV_WHERE_MAX]; /* HOST:PORT that it listens on; "": not known */
	bool named;                /* the id was given: clients that call this server otherwise are refused */
	const char *cluster;       /* its name, or NULL: part of the number of each source */
	const char
		*state_dir; /* the last view is kept there, and begun with where the source does not answer; or NULL */
	const char *user, *password_file, *token_file, *ca_file, *cert_file, *key_file; /* or NULL */
	uint64_t lease_ns, joining_ns;                                                  /* 0: 10 s, 600 s */
	unsigned pace;                    /* tests: waiting times are divided by it; 0: 1 */
	const struct source_names *names; /* tests; NULL: libc's */
	const struct kv_log *log;
	/* There is another view. On the thread of the membership. 0, or an error: it is called again soon. But for
	 * -KV_EBUSY that is logged. NULL: nobody hears of it. */
	int (*on_view)(void *arg, const struct kv_view *view);
	/* Once, on the thread of the membership: there is a view, which on_view has taken; or the source has answered
	 * that there are no members yet, as where those that are not ready are none. NULL: nobody waits for that. */
	void (*on_ready)(void *arg);
	/* The source has lost this server, or knows it again. On the thread of the membership. NULL: nobody hears. */
	void (*on_away)(void *arg, bool away);
	void *arg;
};

/* What is known now. */
struct membership_now {
	struct kv_view view; /* the reader's: kv_view_fini. Its epoch is 0 before there is one */
	const char *source;  /* "etcd" */
	enum source_state state;
	char trouble[256];         /* why it is unreachable, or "" */
	uint64_t silence_ns;       /* since it answered; KV_NEVER: it never did */
	uint64_t changes, refused; /* views that came; losses that were not believed */
	uint64_t restarts;         /* times that the source began anew, or counted backwards */
	unsigned doubted;          /* members that only answer, and that the source does not name */
	bool ready;                /* see on_ready */
	bool saved;                /* the view is of --state-dir, and the source has not answered since */
};

/* membership_check -- whether these options can be used; asks nobody. 0 or -KV_EINVAL with *err. */
int membership_check(const struct membership_options *options, struct kv_error *err);

/* membership_start -- ask, from now on, and be registered where the source does that. 0, -KV_EINVAL, -KV_ENOMEM or
 * -errno with *err. *out until membership_stop. A source that does not answer is no error: it is asked again. */
int membership_start(const struct membership_options *options, struct membership **out, struct kv_error *err);

/* membership_drain -- this server wants no PUTs any more: the source is told, if it takes that. *out_self: this server
 * in the last view that had it. False: none had. Thread: any. */
bool membership_drain(struct membership *m, struct kv_member *out_self);

/* membership_weigh -- this server has another weight; the source is told, if it registers servers. Thread: any. */
void membership_weigh(struct membership *m, uint32_t weight);

/* membership_self -- the node id of this server. Thread: any. */
const char *membership_self(const struct membership *m);

/* membership_read -- fill *out. 0 or -KV_ENOMEM. Thread: any. */
int membership_read(struct membership *m, struct membership_now *out);

/* membership_stop -- take this server out of the source, for a second at most, and end the thread. If it is blocked in
 * the file system or the resolver it is left behind with its memory: the process is to end. *m becomes NULL; NULL is
 * accepted. */
void membership_stop(struct membership **m);

#endif
