/* SPDX-License-Identifier: Apache-2.0 */
/* error.c -- names and texts of error codes.
 *
 * Known codes have string constants; only unknown ones use thread-local buffers, one per function, so that one printf
 * may call all three. strerrordesc_np (glibc 2.32) is thread-safe and not translated. libfabric's codes are in a table
 * here, since base/ does not link libfabric. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

enum { ERRNO_LAST = 255, FI_FIRST = 256, FI_LAST = 999, NAME_CAP = 32, TEXT_CAP = 48 };

struct code_row {
	int code;
	const char *name, *key, *text;
};

static const struct code_row rows[] = {
	{0, "OK", "ok", "success"},

	/* <rdma/fi_errno.h>: up to 269 in 1.17, the others since 1.20 and 2.x. */
	{256, "FI_EOTHER", "fi_eother", "unspecified fabric error"},
	{257, "FI_ETOOSMALL", "fi_etoosmall", "the buffer given to the fabric is too small"},
	{258, "FI_EOPBADSTATE", "fi_eopbadstate", "the fabric object is in a state that does not permit the operation"},
	{259, "FI_EAVAIL", "fi_eavail", "an error entry is waiting in the fabric queue"},
	{260, "FI_EBADFLAGS", "fi_ebadflags", "the provider does not support these flags"},
	{261, "FI_ENOEQ", "fi_enoeq", "the fabric event queue is missing or unavailable"},
	{262, "FI_EDOMAIN", "fi_edomain", "invalid fabric resource domain"},
	{263, "FI_ENOCQ", "fi_enocq", "the fabric completion queue is missing or unavailable"},
	{264, "FI_ECRC", "fi_ecrc", "CRC error on the fabric"},
	{265, "FI_ETRUNC", "fi_etrunc", "the fabric message was longer than the receive buffer"},
	{266, "FI_ENOKEY", "fi_enokey", "the memory key that the operation requires is not available"},
	{267, "FI_ENOAV", "fi_enoav", "the fabric address vector is missing or unavailable"},
	{268, "FI_EOVERRUN", "fi_eoverrun", "a fabric queue has been overrun"},
	{269, "FI_ENORX", "fi_enorx", "the receiver has no receive buffers posted"},
	{270, "FI_ENOMR", "fi_enomr", "the memory registration limit is exceeded"},
	{271, "FI_EFIREWALLADDR", "fi_efirewalladdr", "the peer is behind a firewall and must connect first"},

	{KV_ETIMEOUT, "KV_ETIMEOUT", "timeout", "the deadline passed"},
	{KV_ECANCELED, "KV_ECANCELED", "canceled", "cancelled before it took effect"},
	{KV_EPEERDOWN, "KV_EPEERDOWN", "peer_down", "the peer is not reachable, or died during the call"},
	{KV_ENOTFOUND, "KV_ENOTFOUND", "not_found", "no such key, id or server"},
	{KV_EEXIST, "KV_EEXIST", "exists", "another value is already stored under this key"},
	{KV_EBUSY, "KV_EBUSY", "busy", "a bounded queue or budget is full; try again later"},
	{KV_ECORRUPT, "KV_ECORRUPT", "corrupt", "the checksum does not match, or no key of ours sealed the value"},
	{KV_EDENIED, "KV_EDENIED", "denied", "authentication or authorisation failed"},
	{KV_ETOOBIG, "KV_ETOOBIG", "too_big",
	 "a GET's destination is shorter than the value, or a PUT's value is longer than "
	 "kv-server's --value-max or than its --memory-mb divided by its --worker-threads"},
	{KV_EINVAL, "KV_EINVAL", "invalid", "invalid argument"},
	{KV_ENOMEM, "KV_ENOMEM", "no_memory",
	 "no memory here, or no room in the server: its values are pinned, being read or being written"},
	{KV_EPROTO, "KV_EPROTO", "protocol", "the peer broke the protocol"},
	{KV_EVERSION, "KV_EVERSION", "version", "protocol, provider or eager size do not match"},
	{KV_ECLOSED, "KV_ECLOSED", "closed", "the object was closed during the call"},
	{KV_ELIMIT, "KV_ELIMIT", "limit", "a resource limit of the machine is too low"},
	{KV_EFULL, "KV_EFULL", "full", "the server admits no more clients"},
	{KV_ENOTSUP, "KV_ENOTSUP", "not_supported", "not supported by this build, provider or server"},
	{KV_ESTALE, "KV_ESTALE", "stale", "the block changed between two ranges"},
	{KV_ERESET, "KV_ERESET", "reset", "the endpoint was rebuilt under the operation"},
	{KV_EPROVIDER, "KV_EPROVIDER", "provider", "the fabric provider failed"},
	{KV_EINTERNAL, "KV_EINTERNAL", "internal", "internal error"},
	{KV_ELEFT, "KV_ELEFT", "left", "the server is shutting down and accepts no more requests"},
	{KV_EDELETED, "KV_EDELETED", "deleted", "the key was deleted lately"},
	{KV_ETIER, "KV_ETIER", "tier", "the value is on the server's tier, and not in its memory"},
};

/* Ignores the sign; unsigned, since -INT_MIN is no int. */
static unsigned magnitude(int code)
{
	return code < 0 ? 0u - (unsigned)code : (unsigned)code;
}

static const struct code_row *row_find(unsigned code)
{
	for (size_t i = 0; i < KV_COUNT(rows); i++) {
		if ((unsigned)rows[i].code == code)
			return &rows[i];
	}
	return NULL;
}

static const char *unknown_name(unsigned code, const char *errno_prefix, const char *fi_prefix, const char *kv_prefix,
				char *buf)
{
	const char *prefix = kv_prefix;
	if (code <= FI_LAST)
		prefix = code <= ERRNO_LAST ? errno_prefix : fi_prefix;
	snprintf(buf, NAME_CAP, "%s_%u", prefix, code);
	return buf;
}

const char *kv_strerror(int code)
{
	static _Thread_local char buf[TEXT_CAP];
	unsigned n = magnitude(code);
	const struct code_row *row = row_find(n);
	if (row)
		return row->text;
	const char *text = n <= ERRNO_LAST ? strerrordesc_np((int)n) : NULL;
	if (text)
		return text;
	snprintf(buf, sizeof(buf), "unknown %serror %u", n >= FI_FIRST && n <= FI_LAST ? "fabric " : "", n);
	return buf;
}

const char *kv_errname(int code)
{
	static _Thread_local char buf[NAME_CAP];
	unsigned n = magnitude(code);
	const struct code_row *row = row_find(n);
	if (row)
		return row->name;
	const char *name = n <= ERRNO_LAST ? strerrorname_np((int)n) : NULL;
	return name ? name : unknown_name(n, "ERRNO", "FI", "KV", buf);
}

const char *kv_errkey(int code)
{
	static _Thread_local char buf[NAME_CAP];
	unsigned n = magnitude(code);
	const struct code_row *row = row_find(n);
	if (row)
		return row->key;
	const char *name = n <= ERRNO_LAST ? strerrorname_np((int)n) : NULL;
	if (!name)
		return unknown_name(n, "errno", "fi", "kv", buf);
	size_t i = 0;
	/* Not tolower(): independent of the locale. */
	for (; name[i] && i < sizeof(buf) - 1; i++)
		buf[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
	buf[i] = '\0';
	return buf;
}

int kv_fail(struct kv_error *err, int code, const char *fmt, ...)
{
	/* A positive code or zero must not read as success. */
	if (code >= 0)
		code = code > 0 ? -code : -KV_EINTERNAL;
	if (!err)
		return code;
	int saved = errno;
	/* err->text may be an argument. */
	char text[sizeof(err->text)];
	va_list ap;
	va_start(ap, fmt);
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		snprintf(text, sizeof(text), "%s", kv_strerror(code));
	va_end(ap);
	memcpy(err->text, text, strlen(text) + 1);
	err->code = code;
	errno = saved;
	return code;
}

/* text_append -- copy s behind the first `at` bytes, cut at the end. Returns the length. */
static size_t text_append(char *text, size_t at, const char *s)
{
	size_t n = strnlen(s, sizeof(((struct kv_error *)0)->text) - 1 - at);
	memcpy(text + at, s, n);
	text[at + n] = '\0';
	return at + n;
}

int kv_fail_more(struct kv_error *err, const char *fmt, ...)
{
	if (!err)
		return -KV_EINTERNAL;
	int saved = errno;
	/* The old sentence may be an argument, so it is copied first. */
	char prefix[sizeof(err->text)], old[sizeof(err->text)];
	memcpy(old, err->text, sizeof(old));
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(prefix, sizeof(prefix), fmt, ap);
	va_end(ap);
	if (n >= 0) {
		size_t at = text_append(err->text, 0, prefix);
		at = text_append(err->text, at, ": ");
		text_append(err->text, at, old);
	}
	errno = saved;
	return err->code;
}
