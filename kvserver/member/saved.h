/* SPDX-License-Identifier: Apache-2.0 */
/* saved.h -- the last view of this server, in a file that outlives it: kv-server --state-dir. */
#ifndef KVRAIL_KVSERVER_MEMBER_SAVED_H
#define KVRAIL_KVSERVER_MEMBER_SAVED_H

#include "kvserver/member/member.h"

/* A view that is older is not started from. */
#define SAVED_AGE_MAX_MS (24ull * 3600 * 1000)

struct saving;

/* saved_origin -- a number for the --members and the --cluster that a view belongs to. */
uint64_t saved_origin(const char *members, const char *cluster);

/* saved_read -- the view in DIR, and its age by the time of day (0 if it was saved in the future). 0, and the caller
 * frees *out; -KV_ENOTFOUND: none was saved; or -KV_EINVAL (torn, of another origin, too old), -KV_ENOMEM, -errno, with
 * one sentence in *err. */
int saved_read(const char *dir, uint64_t origin, uint64_t now_ms, struct kv_view *out, uint64_t *out_age_ms,
	       struct kv_error *err);

/* saved_write -- replace the view in DIR: the file is written, synced and renamed, and belongs to its owner alone.
 * Blocks as long as the disk does. 0, -KV_ENOMEM or -errno with *err: the former file stays. */
int saved_write(const char *dir, uint64_t origin, uint64_t now_ms, const struct kv_view *view, struct kv_error *err);

/* saving_start -- saved_write on a thread of its own. DIR is copied. 0, -KV_ENOMEM or -errno.
 * saving_take -- whether it has ended; then *out_rc and *err are those of saved_write, and *s becomes NULL.
 * saving_drop -- leave it behind; *s becomes NULL. One thread. */
int saving_start(const char *dir, uint64_t origin, const struct kv_view *view, struct saving **out);
bool saving_take(struct saving **s, int *out_rc, struct kv_error *err);
void saving_drop(struct saving **s);

#endif
