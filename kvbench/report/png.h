/* SPDX-License-Identifier: Apache-2.0 */
/* png.h -- pictures of pixels, made by rsvg-convert where that is installed. */
#ifndef KVRAIL_KVBENCH_REPORT_PNG_H
#define KVRAIL_KVBENCH_REPORT_PNG_H

#include "base/base.h"

/* png_from_svg -- convert, in a child process. The caller frees what is returned; NULL with *err, which says what to
 * install where the converter is missing. */
char *png_from_svg(const char *svg, size_t svg_len, size_t *len, struct kv_error *err);

#endif
