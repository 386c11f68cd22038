/* SPDX-License-Identifier: Apache-2.0 */
/* codes.h -- the error codes of KVRail. Installed beside kvclient.h, so it includes nothing and declares no function;
 * kvc_strerror, kvc_errname and kvc_errkey name a code.
 *
 * An error is an int, 0 or negative: -errno (1..255), libfabric's codes (256..999), or ours (1000 and up). Ours are
 * part of ABI and wire protocol: never renumber one. */
#ifndef KVRAIL_CODES_H
#define KVRAIL_CODES_H

enum {
	KV_ETIMEOUT = 1001,  /* the deadline has passed */
	KV_ECANCELED = 1002, /* cancelled before it took effect */
	KV_EPEERDOWN = 1003, /* the peer is unreachable, or died during the call */
	KV_ENOTFOUND = 1004, /* no such key, id or server */
	KV_EEXIST = 1005,    /* another value is committed under this key */
	KV_EBUSY = 1006,     /* a queue or budget is full, or the object in use: try later */
	KV_ECORRUPT = 1007,  /* a checksum did not match, or no key of ours sealed the value; no bytes were delivered */
	KV_EDENIED = 1008,   /* authentication or authorisation failed */
	KV_ETOOBIG = 1009,   /* longer than destination, limit or memory */
	KV_EINVAL = 1010,    /* a wrong argument or option */
	KV_ENOMEM = 1011,    /* no memory in this process, or no room at the server */
	KV_EPROTO = 1012,    /* the peer broke the protocol */
	KV_EVERSION = 1013,  /* protocol, provider or eager size differ */
	KV_ECLOSED = 1014,   /* the object was closed under the call */
	KV_ELIMIT = 1015,    /* a limit of machine or KVRail, named in the text */
	KV_EFULL = 1016,     /* the server admits no more clients */
	KV_ENOTSUP = 1017,   /* this build, provider or server cannot do it */
	KV_ESTALE = 1018,    /* the block changed between two ranges; internal, retried */
	KV_ERESET = 1019,    /* the endpoint was rebuilt under the operation; internal, retried */
	KV_EPROVIDER = 1020, /* other failure of the provider */
	KV_EINTERNAL = 1021, /* a bug of ours, contained */
	KV_ELEFT = 1022,     /* the server shut down, with its values */
	KV_EDELETED = 1023,  /* deleted or replaced lately; internal: callers see a miss */
	KV_ETIER = 1024      /* a miss in memory: the server has the value on its tier (KVC_MEMORY_ONLY) */
};

/* struct kv_error -- a code with one sentence: what failed, on what, why, and the way out. The caller's; each function
 * with one accepts NULL. */
struct kv_error {
	int code;
	char text[512];
};

#endif
