/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c -- keep providers from changing the host's signal handlers. libinfinipath and libpsm2 install theirs when
 * they are loaded: a handler inside their objects is replaced by the default. Other providers change handlers while a
 * device opens: dispositions are saved before and restored after, except shm's (signals_after in engine.c). */
#include <dlfcn.h>
#include <signal.h>
#include <string.h>

#include "engine/inside.h"
#include "engine/signals.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

static const int watched[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGINT, SIGTERM};

_Static_assert(sizeof(struct sigaction) <= sizeof(((struct te_signals *)0)->saved[0].action),
	       "room for a struct sigaction");
_Static_assert(KV_COUNT(watched) <= KV_COUNT(((struct te_signals *)0)->saved), "room for each signal");

static void *handler_of(const struct sigaction *sa)
{
	return sa->sa_flags & SA_SIGINFO ? (void *)(uintptr_t)sa->sa_sigaction : (void *)(uintptr_t)sa->sa_handler;
}

static bool from_psm(void *handler)
{
	Dl_info info;
	if (handler == (void *)(uintptr_t)SIG_DFL || handler == (void *)(uintptr_t)SIG_IGN || !dladdr(handler, &info) ||
	    !info.dli_fname)
		return false;
	return strstr(info.dli_fname, "libinfinipath") || strstr(info.dli_fname, "libpsm");
}

/* The handler before psm's was the default, or under a sanitizer the sanitizer's, which reports crashes. psm leaves
 * that one for SIGFPE, so copy it from there. */
static void replaced(int sig, struct sigaction *out)
{
	memset(out, 0, sizeof(*out));
	out->sa_handler = SIG_DFL;
#if SANITIZED
	struct sigaction fpe;
	if ((sig == SIGSEGV || sig == SIGBUS || sig == SIGILL) && sigaction(SIGFPE, NULL, &fpe) == 0 &&
	    !from_psm(handler_of(&fpe)))
		*out = fpe;
#else
	(void)sig;
#endif
}

void te_signals_evict(void)
{
	for (size_t i = 0; i < KV_COUNT(watched); i++) {
		struct sigaction sa, before;
		if (sigaction(watched[i], NULL, &sa) || !from_psm(handler_of(&sa)))
			continue;
		replaced(watched[i], &before);
		(void)sigaction(watched[i], &before, NULL);
	}
}

void te_signals_save(struct te_signals *s)
{
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < KV_COUNT(watched); i++) {
		struct sigaction sa;
		memset(&sa, 0, sizeof(sa));
		(void)sigaction(watched[i], NULL, &sa);
		s->saved[i].handler = handler_of(&sa);
		memcpy(s->saved[i].action, &sa, sizeof(sa));
	}
}

void te_signals_restore(const struct te_signals *s)
{
	for (size_t i = 0; i < KV_COUNT(watched); i++) {
		struct sigaction now, old;
		if (sigaction(watched[i], NULL, &now) || handler_of(&now) == s->saved[i].handler)
			continue;
		memcpy(&old, s->saved[i].action, sizeof(old));
		(void)sigaction(watched[i], &old, NULL);
	}
}
