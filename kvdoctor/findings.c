/* SPDX-License-Identifier: Apache-2.0 */
/* findings.c -- the list of findings. It is bounded, for machines with hundreds of devices: see doctor_found. */
#include <stdarg.h>

#include "kvdoctor/doctor.h"

const char *const section_names[SECTIONS] = {"libraries", "devices", "network", "run", "try", "advice"};

struct finding *doctor_found(struct doctor *d, enum section section, enum kv_status status, const char *id,
			     const char *subject, const char *name, const char *fmt, ...)
{
	va_list ap;
	bool full = d->num_findings >= FINDINGS_MAX - 1;
	struct finding *f = &d->finding[full ? FINDINGS_MAX - 1 : d->num_findings];
	d->num_findings += d->num_findings < FINDINGS_MAX;
	/* The worst status of the findings that did not fit still counts for the verdict. */
	enum kv_status worst = full && d->num_findings == FINDINGS_MAX ? f->status : KV_OK;
	*f = (struct finding){.section = section,
			      .status = KV_MAX(status, worst),
			      .unit = "",
			      .need = KV_UNKNOWN,
			      .have = KV_UNKNOWN};
	snprintf(f->id, sizeof(f->id), "%s", id);
	snprintf(f->subject, sizeof(f->subject), "%s", subject);
	snprintf(f->name, sizeof(f->name), "%s", name);
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return f;
}

void doctor_remedy(struct doctor *d, const char *fmt, ...)
{
	struct finding *f = &d->finding[d->num_findings - 1];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(f->remedy, sizeof(f->remedy), fmt, ap);
	va_end(ap);
}

void doctor_verdict(struct doctor *d, enum section section, const char *subject, const struct kv_verdict *v)
{
	struct finding *f = doctor_found(d, section, v->status, v->id, subject, v->name, "%s", v->text);
	f->unit = v->unit;
	f->need = v->need;
	f->have = v->have;
	doctor_remedy(d, "%s", v->remedy);
}

unsigned doctor_count(const struct doctor *d, enum kv_status status)
{
	unsigned n = 0;
	for (unsigned i = 0; i < d->num_findings; i++)
		n += d->finding[i].status == status;
	return n;
}

enum kv_status doctor_worst(const struct doctor *d)
{
	if (doctor_count(d, KV_FAIL))
		return KV_FAIL;
	return doctor_count(d, KV_WARN) ? KV_WARN : KV_OK;
}

const char *doctor_status_name(enum kv_status status)
{
	static const char *const names[] = {"skipped", "ok", "info", "warning", "fails"};
	return (unsigned)status < KV_COUNT(names) ? names[status] : "";
}
