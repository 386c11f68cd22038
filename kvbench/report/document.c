/* SPDX-License-Identifier: Apache-2.0 */
/* document.c -- members of a JSON report: each is checked before it is used. */
#include "kvbench/report/document.h"

#include <math.h>
#include <stdarg.h>

json_t *document_at(const json_t *doc, ...)
{
	json_t *at = (json_t *)doc;
	const char *name;
	va_list names;
	va_start(names, doc);
	while (at && (name = va_arg(names, const char *)))
		at = json_object_get(at, name);
	va_end(names);
	return json_is_null(at) ? NULL : at;
}

double document_number(const json_t *object, const char *name)
{
	const json_t *n = json_object_get(object, name);
	return json_is_number(n) ? json_number_value(n) : NAN;
}

const char *document_text(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}
