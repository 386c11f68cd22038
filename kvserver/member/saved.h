/* SPDX-License-Identifier: Apache-2.0 */
/* saved.h -- this server's last view in a file, for the next start: kv-server --state-dir. */
#ifndef KVRAIL_KVSERVER_MEMBER_SAVED_H
#define KVRAIL_KVSERVER_MEMBER_SAVED_H

#include "kvserver/member/member.h"

/* An older view is not used. */
#define SAVED_AGE_MAX_MS (24ull * 3600 * 1000)

struct saving;

/* saved_origin -- a number for the --members and --cluster of a view. */
uint64_t saved_origin(const char *members, const char *cluster);

/* saved_read -- the view in DIR, and its age by the time of day (0 if saved in the future). 0, and the caller frees
 * *out; -KV_ENOTFOUND: none; or -KV_EINVAL (torn, of another origin as well old), -KV_ENOMEM, -errno, with a sentence
 * in *err. */
int saved_read(const char *dir, uint64_t origin, uint64_t now_ms, struct kv_view *out, uint64_t *out_age_ms,
	       struct kv_error *err);

/* saved_write -- replace the view in DIR: written, synced, renamed, readable by its owner alone. Blocks on the disk. 0,
 * -KV_ENOMEM or -errno with *err: the former file stays. */
int saved_write(const char *dir, uint64_t origin, uint64_t now_ms, const struct kv_view *view, struct kv_error *err);

/* saving_start -- saved_write on a thread of its own. DIR is copied. 0, -KV_ENOMEM or -errno. saving_take -- whether it
 * has ended; then *out_rc and *err are those of saved_write, and *s becomes NULL. saving_drop -- leave it behind; *s
 * becomes NULL. One thread. */
int saving_start(const char *dir, uint64_t origin, const struct kv_view *view, struct saving **out);
bool saving_take(struct saving **s, int *out_rc, struct kv_error *err);
void saving_drop(struct saving **s);

#endif
