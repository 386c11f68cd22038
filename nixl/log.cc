/* SPDX-License-Identifier: Apache-2.0 */
/* log.cc -- one write(2) for each line, so lines of several threads do not mix. Bytes of a key that are no printable
 * ASCII become '?'. */
#include "nixl/log.h"

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>

#include <unistd.h>

namespace kvrail
{
namespace
{

enum { LINES_PER_SECOND = 10, LINE_CAP = 1024 };

std::mutex lock;
long second;
unsigned lines, left_out;

/* Whether this line may be written; *out_left_out: how many were not, before it. */
bool admitted(unsigned *out_left_out)
{
	auto now = std::chrono::steady_clock::now().time_since_epoch();
	long at = (long)std::chrono::duration_cast<std::chrono::seconds>(now).count();
	std::lock_guard<std::mutex> held(lock);
	if (at != second)
		lines = 0;
	second = at;
	if (lines >= LINES_PER_SECOND) {
		left_out++;
		return false;
	}
	lines++;
	*out_left_out = left_out;
	left_out = 0;
	return true;
}

} // namespace

void say(int limit, int level, const char *format, ...)
{
	static const char *const tags[] = {"ERROR", "ERROR", "WARN ", "INFO "};
	char text[LINE_CAP], line[LINE_CAP + 128];
	unsigned before = 0;
	va_list ap;
	int n;
	if (level > limit || (level != LOG_ALWAYS && !admitted(&before)))
		return;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	for (char *c = text; *c; c++)
		*c = *c < ' ' || *c > '~' ? '?' : *c;
	n = snprintf(line, sizeof(line), "%s kvrail: nixl: %s", tags[level], text);
	if (before > 0)
		n += snprintf(line + n, sizeof(line) - (size_t)n, " (%u more lines were left out before)", before);
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nobody reads it */
}

} // namespace kvrail
