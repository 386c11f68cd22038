/* SPDX-License-Identifier: Apache-2.0 */
/* log.h -- the plug-in's own lines on stderr. The library writes its lines itself. */
#ifndef KVRAIL_NIXL_LOG_H
#define KVRAIL_NIXL_LOG_H

namespace kvrail
{

/* Levels are those of kvc_options.log_level. LOG_ALWAYS: an error that no level and no flood hides. */
enum { LOG_ALWAYS = 0, LOG_ERROR = 1, LOG_WARN = 2, LOG_INFO = 3 };

/* say -- write one line, if `level` is at most `limit`. Of a flood, ten lines a second are written, and the number of
 * the others. Thread: any; never fails. */
__attribute__((format(printf, 3, 4))) void say(int limit, int level, const char *format, ...);

} // namespace kvrail

#endif
