/* SPDX-License-Identifier: Apache-2.0 */
/* conductor.h -- starts and ends a server, in a coroutine of the control loop. */
#ifndef KVRAIL_KVSERVER_CONTROL_CONDUCTOR_H
#define KVRAIL_KVSERVER_CONTROL_CONDUCTOR_H

/* conductor_begin -- start that coroutine; it reports by state and error. Control loop only. */
void conductor_begin(void *server);

#endif
