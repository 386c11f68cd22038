/* SPDX-License-Identifier: Apache-2.0 */
/* membership.h -- the cluster's members, as this server knows them: kv-server --members. A thread asks a source, guards
 * the answers, and keeps a view.
 *
 * The epoch only grows while a server runs with the same source, and over a restart with --state-dir. etcd: the
 * revision of the last change; Kubernetes: the highest resource version of the slices; file: the time of its last
 * change in ms; list: the time of the start in ms; DNS: the time of an observed change in ms. A change without a number
 * of the source (a doubted member that died) takes the next one. So servers with the same members may give them
 * different epochs: views are the same when their members are, and of two that differ the one with the higher epoch is
 * newer.
 *
 * While servers disagree, their clients ask the wrong server for some keys, and miss. They never read wrong bytes:
 * blocks are immutable, and a key names one. */
#ifndef KVRAIL_KVSERVER_MEMBER_MEMBERSHIP_H
#define KVRAIL_KVSERVER_MEMBER_MEMBERSHIP_H

#include "kvserver/member/source.h"

struct membership;

/* Strings and the log must outlive the membership. */
struct membership_options {
	const char *members;       /* "etcd:..." */
	struct kv_member self;     /* this server; its address may be "" if it is not registered */
	char listen[KV_WHERE_MAX]; /* HOST:PORT of its socket; "": unknown */
	bool named;                /* the id was given: clients that use another name are refused */
	const char *cluster;       /* its name, or NULL: part of the number of each source */
	const char *state_dir; /* keeps the last view, used at the start while the source does not answer; or NULL */
	const char *user, *password_file, *token_file, *ca_file, *cert_file, *key_file; /* or NULL */
	uint64_t lease_ns, joining_ns;                                                  /* 0: 10 s, 600 s */
	unsigned pace;                    /* tests: divisor of waiting times; 0: 1 */
	const struct source_names *names; /* tests; NULL: libc's */
	const struct kv_log *log;
	/* A new view, on the membership's thread. 0, or an error: retried soon, and logged except for -KV_EBUSY. NULL:
	 * not reported. */
	int (*on_view)(void *arg, const struct kv_view *view);
	/* Once, on the membership's thread: on_view has taken a view; or the source has answered that there are no
	 * members yet, which happens where members must be ready first. NULL: not reported. */
	void (*on_ready)(void *arg);
	/* The source has lost this server, or knows it again. On the membership's thread. NULL: not reported. */
	void (*on_away)(void *arg, bool away);
	void *arg;
};

/* The present state. */
struct membership_now {
	struct kv_view view; /* the reader's: kv_view_fini. Its epoch is 0 before the first view */
	const char *source;  /* "etcd" */
	enum source_state state;
	char trouble[256];         /* why it is unreachable, or "" */
	uint64_t silence_ns;       /* since its last answer; KV_NEVER: none */
	uint64_t changes, refused; /* received views; disbelieved losses */
	uint64_t restarts;         /* how often the source began anew, or counted backwards */
	unsigned doubted;          /* members that answer, but are not named by the source */
	bool ready;                /* see on_ready */
	bool saved;                /* the view is from --state-dir, and the source has not answered since */
};

/* membership_check -- whether these options are usable; asks nobody. 0 or -KV_EINVAL with *err. */
int membership_check(const struct membership_options *options, struct kv_error *err);

/* membership_start -- ask the source from now on, and register where it does that. 0, -KV_EINVAL, -KV_ENOMEM or -errno
 * with *err. *out until membership_stop. A source that does not answer is no error: it is asked again. */
int membership_start(const struct membership_options *options, struct membership **out, struct kv_error *err);

/* membership_drain -- this server takes no more PUTs: inform the source, if it accepts that. *out_self: this server in
 * the last view that had it. False: none had. Thread: any. */
bool membership_drain(struct membership *m, struct kv_member *out_self);

/* membership_weigh -- this server has another weight; inform the source, if it registers servers. Thread: any. */
void membership_weigh(struct membership *m, uint32_t weight);

/* membership_self -- the node id of this server. Thread: any. */
const char *membership_self(const struct membership *m);

/* membership_read -- fill *out. 0 or -KV_ENOMEM. Thread: any. */
int membership_read(struct membership *m, struct membership_now *out);

/* membership_stop -- take this server out of the source, for a second at most, and end the thread. If the file system
 * or resolver blocks it, it is left behind with its memory: the process is about to end. *m becomes NULL; NULL is
 * accepted. */
void membership_stop(struct membership **m);

#endif
