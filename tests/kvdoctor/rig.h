/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h -- a doctor's report of a machine that is made up, and cmocka with the headers that it wants before it. */
#ifndef KVRAIL_TESTS_KVDOCTOR_RIG_H
#define KVRAIL_TESTS_KVDOCTOR_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kvdoctor/doctor.h"

/* rig_make, rig_remove -- setup and teardown: *state is a struct doctor with default options, nothing found yet, and a
 * run over tcp on loopback that takes 4 endpoints (kv-bench) and 2 (kv-server). */
int rig_make(void **state);
int rig_remove(void **state);

/* rig_options -- of the rig's doctor, to be changed. */
struct doctor_options *rig_options(struct doctor *d);

/* rig_text -- the report as text; the caller frees it. */
char *rig_text(const struct doctor *d);

/* rig_finding -- the first finding of this id, NULL: none. */
const struct finding *rig_finding(const struct doctor *d, const char *id);

/* rig_is -- fails the test unless there is a finding of this id with this status, and text and remedy contain these. */
void rig_is(const struct doctor *d, const char *id, enum kv_status status, const char *text, const char *remedy);

#endif
