/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h -- signal dispositions, which providers change. Private to engine/. */
#ifndef KVRAIL_ENGINE_SIGNALS_H
#define KVRAIL_ENGINE_SIGNALS_H

#include <stdint.h>

struct te_signals {
	struct {
		void *handler;
		uint8_t action[256]; /* struct sigaction, opaque here */
	} saved[8];
};

/* te_signals_evict -- remove the handlers installed by psm libraries when they were loaded. te_signals_save, _restore
 * -- the dispositions of the process, around calls in which providers change them. Thread: any, one at a time. */
void te_signals_evict(void);
void te_signals_save(struct te_signals *s);
void te_signals_restore(const struct te_signals *s);

#endif
