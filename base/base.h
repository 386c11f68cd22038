/* SPDX-License-Identifier: Apache-2.0 */
/* base.h -- the public headers of base/. Others include only this one, except that kvclient/kvclient.h includes
 * base/codes.h and a program's main.c may include base/early.h. */
#ifndef KVRAIL_BASE_BASE_H
#define KVRAIL_BASE_BASE_H

#include "base/addr.h"
#include "base/assert.h"
#include "base/base64.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/drained.h"
#include "base/error.h"
#include "base/event.h"
#include "base/hash.h"
#include "base/hist.h"
#include "base/json.h"
#include "base/key.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mac.h"
#include "base/metrics.h"
#include "base/nearest.h"
#include "base/opt.h"
#include "base/opt_file.h"
#include "base/opt_rows.h"
#include "base/out_file.h"
#include "base/printable.h"
#include "base/random.h"
#include "base/rate.h"
#include "base/seal.h"
#include "base/signals.h"
#include "base/stay_loaded.h"
#include "base/stdio_fds.h"
#include "base/terminal.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/view.h"
#include "base/window.h"
#include "base/wrap.h"

#endif
