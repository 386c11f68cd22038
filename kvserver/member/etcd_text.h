/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_text.h -- etcd's v3 API as JSON: make requests and read answers, without I/O. */
#ifndef KVRAIL_KVSERVER_MEMBER_ETCD_TEXT_H
#define KVRAIL_KVSERVER_MEMBER_ETCD_TEXT_H

#include <jansson.h>

#include "kvserver/member/member.h"

enum { ETCD_LEASE_MAX = 32, ETCD_MARK_LEN = 16 };

/* Each returns malloc'ed text, or NULL: no memory. prefix ends with '/'. */
char *etcd_auth_text(const char *user, const char *password);
char *etcd_grant_text(uint64_t seconds);
char *etcd_lease_text(const char *lease); /* keepalive, revoke */
char *etcd_put_text(const char *prefix, const struct kv_member *m, const char *lease);
char *etcd_range_text(const char *prefix);
char *etcd_watch_text(const char *prefix, uint64_t from);
char *etcd_mark_text(const char *prefix, const char *mark); /* a transaction: the mark, if there is none yet */

/* etcd_member_read -- a member from {"key":...,"value":...}. False: not one of ours. */
bool etcd_member_read(const json_t *kv, const char *prefix, struct kv_member *out);
/* etcd_id_read -- the node id of a key. False: not one of ours. */
bool etcd_id_read(const json_t *kv, const char *prefix, char id[KV_NAME_MAX]);

/* etcd_mark_read -- the mark from a key and its value: PREFIX/incarnation with sixteen random hexadecimal digits, put
 * once per etcd and prefix. An etcd that lost its data gets another one; a restored one brings it back. False: another
 * key; mark is "" if its value is invalid. */
bool etcd_mark_read(const json_t *kv, const char *prefix, char mark[ETCD_MARK_LEN + 1]);

/* etcd_revision -- header.revision of an answer, or 0. */
uint64_t etcd_revision(const json_t *answer);

/* etcd_error -- the text of an error answer, or "". Valid as long as the answer. */
const char *etcd_error(const json_t *answer);

/* etcd_error_is_auth -- whether this text means that the token is not accepted (any longer). */
bool etcd_error_is_auth(const char *words);

#endif
