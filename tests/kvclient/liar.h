/* SPDX-License-Identifier: Apache-2.0 */
/* liar.h -- a server made by hand, in a thread of this process, that answers as it is told: honestly, or with one lie.
 * It holds one value under every key, LIAR_VALUE bytes by test_fill(.., LIAR_SEED), and pushes it in chunks of 64 KiB.
 */
#ifndef KVRAIL_TESTS_KVCLIENT_LIAR_H
#define KVRAIL_TESTS_KVCLIENT_LIAR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

enum { LIAR_LANDING = 256 << 10, LIAR_VALUE = 200000, LIAR_SEED = 77, LIAR_CHUNKS = 4 };

enum lie {
	LIE_NONE,
	/* about a GET */
	LIE_WRONG_ID,       /* the reply names an id that was never sent */
	LIE_STATUS,         /* a status that nobody knows */
	LIE_FABRIC,         /* its provider failed, liar_failures times; then it did not */
	LIE_POSTED_MORE,    /* one write more than were made */
	LIE_POSTED_LESS,    /* one less */
	LIE_POSTED_NONE,    /* none, though bytes are to come */
	LIE_IMM_GENERATION, /* writes carry an immediate of another generation */
	LIE_IMM_SLOT,       /* ... of a slot that there is not */
	LIE_IMM_MORE,       /* one write more, after the reply */
	LIE_INLINE_SHORT,   /* 100 bytes inside the reply are said to be all of it */
	LIE_INLINE_LONG,    /* more bytes inside the reply than the value is said to have */
	LIE_BEFORE,         /* the bytes are said to lie before their destination, though nobody allowed that */
	LIE_TWICE,          /* the reply comes twice */
	LIE_TYPE,           /* it is a reply to a PUT */
	LIE_TAG,            /* the frame's tag is wrong */
	LIE_MARK,           /* the frame has another session's mark */
	LIE_REPLAY,         /* the frame comes twice */
	LIE_JUNK,           /* before the reply comes a frame that is none */
	LIE_LENGTH,         /* the value is longer than values can be */
	LIE_BYTES,          /* the checksum is that of other bytes */
	LIE_SCRIPT,         /* as liar_script says */
	LIE_SILENT,         /* no reply to anything but PING */
	LIE_CANCEL,         /* no reply, and CANCEL is answered with nonsense */
	/* about a lease */
	LIE_LEASE_OUTSIDE, /* the bytes lie far outside the arena */
	LIE_LEASE_EDGE,    /* ... or partly */
	LIE_LEASE_OTHER,   /* they are other bytes of it */
	LIE_LEASE_SHORT,   /* it is over when it arrives */
	LIE_LEASE_LONG,    /* the value is longer than values can be */
	LIE_LEASE_TWICE,   /* the reply comes twice */
	LIE_LEASE_PUSHED,  /* the bytes are written as well, with immediates */
	LIE_LEASE_SILENT,  /* no answer, and CANCEL is told that nothing was written */
	/* about a lease over a channel */
	LIE_LOCAL_EMPTY,   /* no lease and no bytes */
	LIE_LOCAL_POSTED,  /* writes that nobody asked for */
	LIE_LOCAL_FOLLOWS, /* the bytes are said to be there */
	LIE_LOCAL_INLINE,  /* more bytes inside the reply than fit */
	LIE_LOCAL_MARK,    /* the frame has another session's mark */
	LIE_LOCAL_SHARD,   /* ... or another shard */
	LIE_LOCAL_JUNK,    /* a frame that is none */
	LIE_LOCAL_BUSY,    /* no lease now, always */
	LIE_LOCAL_CLOSE,   /* it closes the Unix socket; once */
	/* about the memory on this host, when it is asked for; to newcomers, as the next ones */
	LIE_JOIN_SILENT,   /* there is no answer */
	LIE_JOIN_REFUSE,   /* refused, with control characters */
	LIE_JOIN_NAME,     /* nobody listens there */
	LIE_JOIN_LONG,     /* a name that fills its field */
	LIE_JOIN_TWICE,    /* two answers */
	LIE_JOIN_END,      /* the socket is closed at once */
	LIE_JOIN_STILL,    /* nothing comes over it */
	LIE_JOIN_JUNK,     /* bytes that are no shard */
	LIE_JOIN_SHARD,    /* another shard */
	LIE_JOIN_SHARDS,   /* too many shards */
	LIE_JOIN_LARGER,   /* the arena is smaller than it is said to be */
	LIE_JOIN_UNSEALED, /* its size may still change */
	LIE_JOIN_CHANNEL,  /* the channel is a small file */
	LIE_JOIN_BELL,     /* the bell is a file */
	LIE_JOIN_PROOF,    /* another process has the name of its socket */
	/* about the arena, when it is asked for; told to clients of LIAR_NEWCOMER and above, as others may connect
	   again meanwhile */
	LIE_ARENA_KEY,   /* its key is another one */
	LIE_ARENA_BASE,  /* it begins elsewhere */
	LIE_ARENA_SHARD, /* it is another shard's */
	LIE_ARENA_SMALL, /* it is smaller than the value */
	LIE_ARENA_NONE,  /* there is no answer */
	/* about a PUT that landed */
	LIE_LANDED_SILENT,  /* no answer */
	LIE_LANDED_ID,      /* the answer names an id that was never sent */
	LIE_LANDED_TYPE,    /* it is an answer to a GET */
	LIE_LANDED_TWICE,   /* the answer comes twice */
	LIE_LANDED_CORRUPT, /* the bytes are said to be wrong */
	LIE_LANDED_HALF,    /* keys that end with an odd byte get no answer, until the lie is another */
	LIE_LANDED_ODD,     /* keys that end with an odd byte are said to have no room */
	LIE_LANDED_INVALID, /* they are said to lie outside */
	LIE_LANDED_UNSEEN,  /* no answer, and CANCEL is told that nothing came */
	LIE_LANDED_LATE,    /* ... that it was answered; two answers come when the lie is another */
	LIE_LANDED_PART,    /* as LIE_LANDED_HALF, and of every second of those CANCEL is told that it was answered */
	LIE_LANDED_POSTED,  /* no answer, and CANCEL is told that it was answered, and of writes */
	/* about the landing area, as about the arena */
	LIE_LANDING_KEY,   /* its key is another one */
	LIE_LANDING_BASE,  /* it begins elsewhere */
	LIE_LANDING_SHARD, /* it is another shard's */
	LIE_LANDING_RAILS, /* it is on more rails */
	LIE_LANDING_SPLIT, /* it has several parts, smaller than a range */
	LIE_LANDING_PARTS, /* ... more than anybody needs */
	LIE_LANDING_HUGE,  /* it is larger than any memory */
	LIE_LANDING_TINY,  /* it is smaller than a page */
	LIE_LANDING_EMPTY, /* there is none left */
	LIE_LANDING_TWICE, /* it is told twice */
	LIE_LANDING_NONE,  /* there is no answer */
	/* on the control connection, once it is up */
	LIE_REGIONS,       /* REGION_OK and REVOKE_OK for regions that nobody announced: harmless */
	LIE_WELCOME,       /* a second WELCOME */
	LIE_HELLO,         /* a client's message */
	LIE_DRAINS,        /* that it drains, as nobody has asked */
	LIE_DRAINED,       /* ... and what came of it */
	LIE_BYTES_CONTROL, /* bytes that are no message */
	/* about further sessions */
	LIE_NO_CHALLENGE,
	LIE_TWO_CHALLENGES,
	LIE_SESSION_SILENT, /* no answer to a question */
	LIE_SESSION_ID,     /* an answer to a question that nobody asked */
	LIE_SESSION_TWICE,  /* two answers to one */
	LIE_SESSION_RUDE,   /* refused, with control characters and a status that nobody knows */
	LIE_SESSION_PARTED, /* says goodbye to a session that nobody closes */
	LIE_PARTING_SILENT, /* no answer to a goodbye */
	LIE_PARTING_OTHER,  /* the answer names another session */
	LIE_UNASKED,        /* offers its memory, and nobody asked; on the control connection */
	LIE_VOID,           /* says ADDRESS instead of answering PINGs: this session only */
	LIES
};

#define LIAR_NEWCOMER 1000u /* a client id */

extern _Atomic int liar_lie;
extern _Atomic uint64_t liar_sessions;
extern _Atomic unsigned liar_failures;
/* What LIE_SCRIPT does to one GET after the other: b, the server is busy; c, the checksum is that of other bytes. Then
 * it is honest. liar_checks counts the GETs that ask it to look at its memory first (WIRE_GET_CHECK). */
extern const char *_Atomic liar_script;
extern _Atomic unsigned liar_checks;
extern _Atomic uint64_t liar_leases, liar_releases; /* given out; given back by clients */
extern _Atomic uint64_t liar_landed, liar_strewn;   /* PUTs that landed: with their bytes; with other bytes */

/* liar_provider -- of its engine; NULL: test_provider(). liar_pull -- clients may read its memory.
 * liar_lands -- they write their PUTs. Before liar_start. */
extern const char *liar_provider;
extern _Atomic bool liar_pull, liar_lands;
/* liar_local -- it shares its memory with clients, all of which are on this host. Before liar_start. */
extern _Atomic bool liar_local;

/* liar_welcome -- changes the WELCOME before it is sent; NULL: nothing. On the liar's thread. */
extern void (*_Atomic liar_welcome)(struct wire_ctrl_msg *m);

/* liar_region -- sees each announcement of memory, before and after it is answered; NULL: nothing. On the liar's
 * thread.
 */
extern void (*_Atomic liar_region)(const struct wire_region *w, bool answered);
/* liar_revoke -- sees the id of each region that is revoked. */
extern void (*_Atomic liar_revoke)(uint32_t id);

/* liar_start -- listen; returns "127.0.0.1:PORT". liar_stop -- however its clients feel about it. */
const char *liar_start(void);
void liar_stop(void);

#endif
