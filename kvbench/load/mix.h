/* SPDX-License-Identifier: Apache-2.0 */
/* mix.h -- the read phase with --mix: GET, PUT and EXISTS among each other, in fixed parts. */
#ifndef KVRAIL_KVBENCH_LOAD_MIX_H
#define KVRAIL_KVBENCH_LOAD_MIX_H

#include "kvbench/load/phase.h"

enum mix_kind { MIX_GET, MIX_PUT, MIX_EXISTS, MIX_KINDS };

/* mix_phase -- turn a phase of GETs into one of the operations of --mix. Nothing to do without it. */
void mix_phase(struct phase *phase);

/* mix_kind_of -- the kind of operation *number: each `total` in a row have the parts of --mix, in an order that the
 * seed decides. *number becomes its place among those of its kind. */
unsigned mix_kind_of(const struct bench_options *o, uint64_t *number);

/* mix_kind_drawn -- the same of independent users: each operation is of a kind by the probability that --mix gives it,
 * whatever the others are. So the arrivals of each kind are poisson arrivals as well. */
unsigned mix_kind_drawn(const struct bench_options *o, uint64_t number);

#endif
