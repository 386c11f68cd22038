/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the options of a pool. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_POOL_OPTIONS_H
#define KVRAIL_KVCLIENT_POOL_OPTIONS_H

#include "kvclient/kvclient.h"

/* kc_options_fill -- check the caller's options, and copy them to *out with defaults filled in. Strings are not
 * copied. 0 or a code with *err. Any thread. */
int kc_options_fill(const struct kvc_options *given, struct kvc_options *out, struct kv_error *err);

#endif
