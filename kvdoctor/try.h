/* SPDX-License-Identifier: Apache-2.0 */
/* try.h -- the arguments of a trial's child; its report is struct trial (doctor.h). Private to kvdoctor/. */
#ifndef KVRAIL_KVDOCTOR_TRY_H
#define KVRAIL_KVDOCTOR_TRY_H

#include "kvdoctor/doctor.h"
#include "probe/probe.h"

struct try_args {
	char provider[KV_NAME_MAX], nic[KV_RAILS_MAX * KV_NAME_MAX]; /* nic: names, or "" */
	struct sockaddr_storage local;                               /* source address, or zeros */
	uint32_t rails, engines, messages, receives;
	uint64_t region_bytes;
	uint64_t files_soft;
};

_Static_assert(sizeof(struct try_args) <= PROBE_INPUT_MAX && sizeof(struct trial) <= PROBE_RESULT_MAX,
	       "both pass a pipe whole");

#endif
