/* SPDX-License-Identifier: Apache-2.0 */
/* assert.c -- a broken rule ends a build for developers. */
#include "base/assert.h"

#ifdef NDEBUG

void (*kv_rule_broken)(const char *rule, const char *file, int line);

#else

#include <stdio.h>
#include <stdlib.h>

static void broken(const char *rule, const char *file, int line)
{
	fprintf(stderr, "%s:%d: broken: %s\n", file, line, rule);
	abort();
}

void (*kv_rule_broken)(const char *rule, const char *file, int line) = broken;

#endif
