/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the command line of kv-server. */
#ifndef KVRAIL_KVSERVER_OPTIONS_H
#define KVRAIL_KVSERVER_OPTIONS_H

#include "kvserver/kvserver.h"
#include "kvserver/member/membership.h"

enum { FLAGS_FD_NONE = 0 }; /* stdin is never one of these descriptors */

/* Rows of options write into `server` and `members` where these have the option's unit; flags_options and
 * flags_membership convert the rest. */
struct flags {
	struct kvs_options server;
	struct membership_options members;
	uint64_t memory_mb, landing_mb, chunk, lease_ms, drain_mb;
	uint32_t slow_ms, spin_us, drain_sec, ready_fd, psk_fd;
	uint32_t weight, lease_sec, joining_sec; /* 0: not given */
	const char *events;
	const char *zone, *make_psk, *identity, *server_name, *log_level, *http_addr, *config;
	bool http_insecure, allow_drain, die_with_parent, handover;
	int numa, log_format; /* log_format: enum kv_log_format */
	int arena, local;     /* arena 1: private; local 1: off */
	int recover;          /* 1: verify */
};

/* flags_parse -- 0, 1 (help or version was printed), or -KV_EINVAL with *err. Includes the file of --config, whose
 * strings live until the next call. */
int flags_parse(int argc, char **argv, struct flags *out, struct kv_error *err);

/* flags_reload -- parse the same command line and its file again, and store into *running the options that may change
 * at run time. out_taken lists these with their values, out_left those that need a restart; both have cap bytes. 0, or
 * -KV_EINVAL with *err: no change. */
int flags_reload(int argc, char **argv, struct flags *running, char *out_taken, char *out_left, size_t cap,
		 struct kv_error *err);

/* flags_options -- the server options for these flags. psk: the line read from --psk-fd, or NULL. */
void flags_options(const struct flags *f, const char *psk, const struct kv_log *log, struct kvs_options *out);

/* flags_membership -- the options of --members for a server that listens on `address` ("host:port") and has this
 * incarnation. 0, or -KV_EINVAL with *err. */
int flags_membership(const struct flags *f, const char *address, uint64_t incarnation, const struct kv_log *log,
		     struct membership_options *out, struct kv_error *err);

/* flags_psk_read -- read one line "identity:hex" from an inherited descriptor, and close it. 0 or -KV_EINVAL, -errno
 * with *err. */
int flags_psk_read(int fd, char *buf, size_t cap, struct kv_error *err);

#endif
