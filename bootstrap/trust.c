/* SPDX-License-Identifier: Apache-2.0 */
/* trust.c -- decide which certificates one side accepts.
 *
 * OpenSSL checks chain, signatures, dates, CA rules, names and revocation. In its callback, this file adds:
 *   - A server's certificate must have the extended key usage serverAuth: else any client's certificate of a CA that
 *     sets no usages could play the server.
 *   - A client's certificate may lack usages; OpenSSL refuses one with other usages only.
 *   - Key usage, if present, must include digitalSignature.
 *
 * Names are subject alternative names only (RFC 6125).
 *
 * A changed file of revocation lists is read while the side runs, at most once a second, before a connection. If it
 * cannot be read, the former lists stay in force until they expire. The CA file is read with them, since OpenSSL cannot
 * remove a list from a store. */
#include "bootstrap/trust.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

enum { CRL_FILE_MAX = 16 << 20 /* bytes */ };

#define LOOK_NS 1000000000ull /* between checks of the CRL file */

/* Identifies a version of a file. */
struct mark {
	ino_t inode;
	off_t bytes;
	struct timespec changed;
};

struct trust {
	bool server;
	char *ca_file, *crl_file;
	struct mark mark;
	uint64_t looked_ns;
	const struct kv_log *log;
};

bool trust_is_address(const char *name)
{
	struct in6_addr any;
	return inet_pton(AF_INET, name, &any) == 1 || inet_pton(AF_INET6, name, &any) == 1;
}

/* ---- text ---- */

/* The issuer chose these bytes, and they appear in logs. */
static void printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

/* Copy a memory BIO into buf. */
static void bio_text(BIO *bio, char *buf, size_t cap)
{
	int n = bio ? BIO_read(bio, buf, (int)cap - 1) : 0;
	buf[n > 0 ? n : 0] = 0;
	if (bio && BIO_ctrl_pending(bio) > 0 && cap > 4)
		memcpy(buf + cap - 4, "...", 4);
	printable(buf);
	BIO_free(bio);
}

static void name_text(const X509_NAME *name, char *buf, size_t cap)
{
	BIO *bio = BIO_new(BIO_s_mem());
	if (bio)
		(void)X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253);
	bio_text(bio, buf, cap);
	ERR_clear_error();
}

static void names_print(BIO *bio, const X509 *cert)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		(void)BIO_write(bio, ", ", 2);
		(void)GENERAL_NAME_print(bio, sk_GENERAL_NAME_value(names, i));
	}
	GENERAL_NAMES_free(names);
}

char *trust_describe(const SSL *ssl, char *buf, size_t cap)
{
	const X509 *cert = SSL_get0_peer_certificate(ssl);
	BIO *bio = cert ? BIO_new(BIO_s_mem()) : NULL;
	if (bio) {
		(void)X509_NAME_print_ex(bio, X509_get_subject_name(cert), 0, XN_FLAG_RFC2253);
		names_print(bio, cert);
	}
	bio_text(bio, buf, cap);
	ERR_clear_error();
	return buf;
}

static void name_add(char *buf, size_t cap, size_t *len, const char *prefix, const ASN1_STRING *name)
{
	unsigned char *text = NULL;
	int n = name ? ASN1_STRING_to_UTF8(&text, name) : -1;
	bool good = n > 0 && *len + strlen(prefix) + (size_t)n + 2 <= cap;
	for (int i = 0; good && i < n; i++)
		good = text[i] >= ' ' && text[i] <= '~';
	if (good)
		*len += (size_t)snprintf(buf + *len, cap - *len, "%s%.*s", prefix, n, (const char *)text) + 1;
	OPENSSL_free(text);
}

void trust_names(const SSL *ssl, char *buf, size_t cap)
{
	const X509 *cert = SSL_get0_peer_certificate(ssl);
	const X509_NAME *subject = cert ? X509_get_subject_name(cert) : NULL;
	GENERAL_NAMES *names = cert ? X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL) : NULL;
	size_t len = 0;
	memset(buf, 0, cap);
	for (int i = -1; subject && (i = X509_NAME_get_index_by_NID(subject, NID_commonName, i)) >= 0;)
		name_add(buf, cap, &len, "CN=", X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, i)));
	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		if (name->type == GEN_DNS)
			name_add(buf, cap, &len, "DNS:", name->d.dNSName);
	}
	GENERAL_NAMES_free(names);
	ERR_clear_error();
}

int64_t trust_expiry(const SSL *ssl)
{
	STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
	int64_t least = INT64_MAX;
	for (int i = 0; i < sk_X509_num(chain); i++) {
		struct tm end;
		if (ASN1_TIME_to_tm(X509_get0_notAfter(sk_X509_value(chain, i)), &end) == 1)
			least = KV_MIN(least, (int64_t)timegm(&end));
	}
	ERR_clear_error();
	return least;
}

/* ---- files ---- */

static int file_fail(struct kv_error *err, int rc, const char *what, const char *path)
{
	return kv_fail(err, rc, "cannot open the %s %s: %s; give its path, and let this user read it", what, path,
		       kv_strerror(rc));
}

int trust_file_check(const char *path, const char *what, struct kv_error *err)
{
	return access(path, R_OK) == 0 ? 0 : file_fail(err, -errno, what, path);
}

static int store_ca_add(const struct trust *t, X509_STORE *store, struct kv_error *err)
{
	int rc = trust_file_check(t->ca_file, "CA file", err);
	if (rc)
		return rc;
	ERR_clear_error();
	if (X509_STORE_load_file(store, t->ca_file) != 1) {
		const char *reason = ERR_reason_error_string(ERR_peek_error());
		rc = kv_fail(err, -KV_EINVAL, "cannot read a PEM CA certificate from %s: %s", t->ca_file,
			     reason ? reason : "OpenSSL gives no reason");
	}
	ERR_clear_error();
	return rc;
}

/* An expired list refuses everybody: report it early. */
static int crl_dates_check(const struct trust *t, const X509_CRL *crl, struct kv_error *err)
{
	const ASN1_TIME *next = X509_CRL_get0_nextUpdate(crl);
	char issuer[TRUST_NAME];
	name_text(X509_CRL_get_issuer(crl), issuer, sizeof(issuer));
	if (X509_cmp_current_time(X509_CRL_get0_lastUpdate(crl)) > 0)
		return kv_fail(err, -KV_EINVAL,
			       "CRL file %s: the list of %s is not valid yet: is this machine's clock right?",
			       t->crl_file, issuer);
	if (next && X509_cmp_current_time(next) < 0)
		return kv_fail(err, -KV_EINVAL, "CRL file %s: the list of %s has expired: fetch the CA's present one",
			       t->crl_file, issuer);
	return 0;
}

static int crl_add(const struct trust *t, X509_STORE *store, X509_CRL *crl, struct kv_error *err)
{
	int rc = crl_dates_check(t, crl, err);
	if (rc == 0 && X509_STORE_add_crl(store, crl) != 1)
		rc = kv_fail(err, -KV_ENOMEM, "no memory for the lists in CRL file %s", t->crl_file);
	return rc;
}

/* Why the last PEM block cannot be read: at the end of the file there is none. */
static int crl_end(const struct trust *t, unsigned lists, struct kv_error *err)
{
	unsigned long e = ERR_peek_last_error();
	if (lists > 0 && ERR_GET_LIB(e) == ERR_LIB_PEM && ERR_GET_REASON(e) == PEM_R_NO_START_LINE)
		return 0;
	return kv_fail(err, -KV_EINVAL, "cannot read a PEM revocation list (X509 CRL) from %s%s", t->crl_file,
		       lists > 0 ? ": a later one is damaged"
				 : "; `openssl crl -inform DER -in FILE` turns DER into PEM");
}

static int crls_parse(const struct trust *t, BIO *bio, X509_STORE *store, struct kv_error *err)
{
	unsigned lists = 0;
	X509_CRL *crl;
	int rc = 0;
	ERR_clear_error();
	while (rc == 0 && (crl = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL))) {
		rc = crl_add(t, store, crl, err);
		X509_CRL_free(crl);
		lists++;
	}
	if (rc == 0)
		rc = crl_end(t, lists, err);
	ERR_clear_error();
	return rc;
}

/* Regular files only: a device or pipe could block. */
static int crl_file_check(const struct trust *t, struct mark *out, struct kv_error *err)
{
	struct stat st;
	if (stat(t->crl_file, &st) != 0)
		return file_fail(err, -errno, "CRL file", t->crl_file);
	if (!S_ISREG(st.st_mode) || st.st_size > CRL_FILE_MAX)
		return kv_fail(err, -KV_EINVAL, "the CRL file %s is not a regular file of at most %d MiB", t->crl_file,
			       CRL_FILE_MAX >> 20);
	*out = (struct mark){.inode = st.st_ino, .bytes = st.st_size, .changed = st.st_mtim};
	return trust_file_check(t->crl_file, "CRL file", err);
}

static int store_crls_add(const struct trust *t, X509_STORE *store, struct mark *out, struct kv_error *err)
{
	int rc = crl_file_check(t, out, err);
	BIO *bio = rc == 0 ? BIO_new_file(t->crl_file, "re") : NULL;
	if (rc == 0 && !bio)
		rc = kv_fail(err, -KV_EINVAL, "cannot open the CRL file %s: let this user read it", t->crl_file);
	if (rc == 0)
		rc = crls_parse(t, bio, store, err);
	BIO_free(bio);
	return rc;
}

/* All or nothing: the former store stays if a file cannot be used. */
static int store_load(struct trust *t, SSL_CTX *ssl_ctx, struct kv_error *err)
{
	struct mark mark = {.bytes = 0};
	X509_STORE *store = X509_STORE_new();
	int rc = store ? store_ca_add(t, store, err) : kv_fail(err, -KV_ENOMEM, "no memory for the CA certificates");
	if (rc == 0 && t->crl_file)
		rc = store_crls_add(t, store, &mark, err);
	if (rc) {
		X509_STORE_free(store);
		return rc;
	}
	SSL_CTX_set_cert_store(ssl_ctx, store); /* takes ownership */
	t->mark = mark;
	return 0;
}

static int revocation_set(SSL_CTX *ssl_ctx, struct kv_error *err)
{
	if (X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ssl_ctx),
					X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) == 1)
		return 0;
	return kv_fail(err, -KV_ENOTSUP, "OpenSSL does not check revocation lists");
}

int trust_create(SSL_CTX *ssl_ctx, const struct trust_settings *s, struct trust **out, struct kv_error *err)
{
	struct trust *t = calloc(1, sizeof(*t));
	int rc = 0;
	if (!t)
		return kv_fail(err, -KV_ENOMEM, "no memory for the TLS settings");
	t->server = s->server;
	t->log = s->log;
	t->ca_file = strdup(s->ca_file);
	t->crl_file = s->crl_file ? strdup(s->crl_file) : NULL;
	if (!t->ca_file || (s->crl_file && !t->crl_file))
		rc = kv_fail(err, -KV_ENOMEM, "no memory for the TLS settings");
	if (rc == 0)
		rc = store_load(t, ssl_ctx, err);
	if (rc == 0 && t->crl_file)
		rc = revocation_set(ssl_ctx, err);
	if (rc)
		trust_destroy(&t);
	else
		*out = t;
	return rc;
}

void trust_destroy(struct trust **trust)
{
	struct trust *t = *trust;
	if (!t)
		return;
	free(t->ca_file);
	free(t->crl_file);
	free(t);
	*trust = NULL;
}

void trust_log(struct trust *t, const struct kv_log *log)
{
	t->log = log;
}

static bool mark_same(const struct mark *m, const struct stat *st)
{
	return m->inode == st->st_ino && m->bytes == st->st_size && m->changed.tv_sec == st->st_mtim.tv_sec &&
	       m->changed.tv_nsec == st->st_mtim.tv_nsec;
}

void trust_refresh(struct trust *t, SSL_CTX *ssl_ctx, uint64_t now_ns)
{
	struct kv_error err = {0};
	struct stat st;
	if (!t->crl_file || now_ns - t->looked_ns < LOOK_NS)
		return;
	t->looked_ns = now_ns;
	if (stat(t->crl_file, &st) != 0 || mark_same(&t->mark, &st))
		return; /* it is being replaced; the last lists count meanwhile */
	if (store_load(t, ssl_ctx, &err) == 0) {
		kv_event(t->log, KV_LOG_INFO, KV_EVENT("crl_read", KV_FIELD("file", t->crl_file)),
			 "CRL file %s was read again", t->crl_file);
		return;
	}
	t->mark = (struct mark){.inode = st.st_ino, .bytes = st.st_size, .changed = st.st_mtim}; /* reported once */
	kv_event(t->log, KV_LOG_WARN, KV_EVENT("crl_failed", KV_FIELD("reason", err.text)),
		 "%s; the former lists stay in force", err.text);
}

/* ---- names ---- */

void trust_name(const char *host, char out[TRUST_HOST])
{
	size_t len;
	snprintf(out, TRUST_HOST, "%s", host);
	len = strcspn(out, "%");
	if (len > 1 && out[len - 1] == '.')
		len--;
	out[len] = 0;
}

int trust_expect(SSL *ssl, const char *name)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
	int ok = trust_is_address(name) ? X509_VERIFY_PARAM_set1_ip_asc(param, name)
					: X509_VERIFY_PARAM_set1_host(param, name, strlen(name));
	X509_VERIFY_PARAM_set_hostflags(param,
					X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	return ok == 1 ? 0 : -KV_ENOMEM;
}

/* ---- the verdict ---- */

/* Checks that OpenSSL leaves out. X509_get_key_usage is all ones without key usage. */
static void usage_judge(const struct trust *t, X509 *cert, struct trust_verdict *v)
{
	uint32_t wanted = t->server ? XKU_SSL_CLIENT : XKU_SSL_SERVER, extended = X509_get_extended_key_usage(cert);
	bool absent = extended == UINT32_MAX;
	if (absent ? !t->server : !(extended & wanted))
		v->usage = TRUST_USAGE_ROLE;
	else if (!(X509_get_key_usage(cert) & KU_DIGITAL_SIGNATURE))
		v->usage = TRUST_USAGE_KEY;
}

int trust_judge(const struct trust *t, int ok, X509_STORE_CTX *store, struct trust_verdict *v)
{
	X509 *cert = X509_STORE_CTX_get_current_cert(store);
	v->depth = X509_STORE_CTX_get_error_depth(store);
	if (cert && v->depth == 0)
		usage_judge(t, cert, v);
	if (ok && v->usage == TRUST_USAGE_FINE)
		return 1;
	if (ok)
		X509_STORE_CTX_set_error(store, X509_V_ERR_INVALID_PURPOSE);
	v->error = X509_STORE_CTX_get_error(store);
	if (cert) {
		name_text(X509_get_subject_name(cert), v->name, sizeof(v->name));
		name_text(X509_get_issuer_name(cert), v->issuer, sizeof(v->issuer));
	}
	return 0;
}

/* ---- the sentence ---- */

static int name_explain(const char *expected, struct kv_error *err)
{
	return kv_fail(
		err, -KV_EDENIED,
		"its certificate does not name \"%s\": issue one with that subject alternative name, or name the "
		"server as its certificate does (--server-name, server_name)",
		expected ? expected : "");
}

static int purpose_explain(const struct trust *t, const struct trust_verdict *v, struct kv_error *err)
{
	if (v->depth > 0)
		return kv_fail(err, -KV_EDENIED, "the certificate of its CA (%s) does not allow this use", v->name);
	if (v->usage == TRUST_USAGE_KEY)
		return kv_fail(err, -KV_EDENIED,
			       "its certificate (%s) must not sign: "
			       "its key usage lacks digitalSignature; issue one with it",
			       v->name);
	return kv_fail(
		err, -KV_EDENIED,
		"its certificate (%s) is not made for its role: its extended key usage lacks %s; issue one for a %s",
		v->name, t->server ? "clientAuth" : "serverAuth", t->server ? "client" : "server");
}

static int revocation_explain(const struct trust *t, const struct trust_verdict *v, struct kv_error *err)
{
	switch (v->error) {
	case X509_V_ERR_CERT_REVOKED:
		return kv_fail(err, -KV_EDENIED,
			       "its certificate%s (%s) is revoked by our CRL file %s: issue a new one",
			       v->depth > 0 ? "'s CA" : "", v->name, t->crl_file);
	case X509_V_ERR_UNABLE_TO_GET_CRL:
	case X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER:
	case X509_V_ERR_DIFFERENT_CRL_SCOPE:
		return kv_fail(err, -KV_EDENIED,
			       "our CRL file %s has no list of its issuer (%s): "
			       "append that CA's list, in PEM; every CA of the chain needs one",
			       t->crl_file, v->issuer);
	case X509_V_ERR_CRL_HAS_EXPIRED:
	case X509_V_ERR_CRL_NOT_YET_VALID:
		return kv_fail(
			err, -KV_EDENIED,
			"the list of %s in our CRL file %s has expired or is not valid yet: replace the file by "
			"the CA's present list (the file is then read again without a restart), or set the clock",
			v->issuer, t->crl_file);
	default:
		return kv_fail(err, -KV_EDENIED,
			       "the list of %s in our CRL file %s cannot be used (%s): fetch it again", v->issuer,
			       t->crl_file, X509_verify_cert_error_string(v->error));
	}
}

int trust_explain(const struct trust *t, const struct trust_verdict *v, const char *expected, struct kv_error *err)
{
	switch (v->error) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return name_explain(expected, err);
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_CERT_SIGNATURE_FAILURE:
		return kv_fail(err, -KV_EDENIED,
			       "its certificate was not issued by the CA in our CA file: "
			       "use certificates of one CA on both sides");
	case X509_V_ERR_CERT_HAS_EXPIRED:
		return kv_fail(err, -KV_EDENIED,
			       "its certificate, or its CA's, has expired: renew it, or set the clocks");
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return kv_fail(err, -KV_EDENIED,
			       "its certificate, or its CA's, is not valid yet: set the clocks, or wait until it is");
	case X509_V_ERR_INVALID_PURPOSE:
		return purpose_explain(t, v, err);
	case X509_V_ERR_CERT_REVOKED:
	case X509_V_ERR_UNABLE_TO_GET_CRL:
	case X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER:
	case X509_V_ERR_DIFFERENT_CRL_SCOPE:
	case X509_V_ERR_CRL_HAS_EXPIRED:
	case X509_V_ERR_CRL_NOT_YET_VALID:
	case X509_V_ERR_CRL_SIGNATURE_FAILURE:
	case X509_V_ERR_UNABLE_TO_DECRYPT_CRL_SIGNATURE:
	case X509_V_ERR_KEYUSAGE_NO_CRL_SIGN:
	case X509_V_ERR_ERROR_IN_CRL_LAST_UPDATE_FIELD:
	case X509_V_ERR_ERROR_IN_CRL_NEXT_UPDATE_FIELD:
	case X509_V_ERR_UNHANDLED_CRITICAL_CRL_EXTENSION:
		return revocation_explain(t, v, err);
	default:
		return kv_fail(err, -KV_EDENIED, "its certificate is refused (%s)",
			       X509_verify_cert_error_string(v->error));
	}
}
