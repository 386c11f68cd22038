/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_stand_in.h -- what both stand-ins for engine/fabric/fabric.h do alike is in fabric_stand_in.c. */
#ifndef KVRAIL_TESTS_FABRIC_STAND_IN_H
#define KVRAIL_TESTS_FABRIC_STAND_IN_H

enum { STAND_IN_ENDPOINT_ERROR = 268 /* FI_EOVERRUN: the endpoint is of no more use */ };

#endif
