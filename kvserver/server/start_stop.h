/* SPDX-License-Identifier: Apache-2.0 */
/* start_stop.h -- starts and ends a server, in a coroutine of the control loop. */
#ifndef KVRAIL_KVSERVER_SERVER_START_STOP_H
#define KVRAIL_KVSERVER_SERVER_START_STOP_H

/* start_stop_begin -- start that coroutine; it reports by state and error. Control loop only. */
void start_stop_begin(void *server);

#endif
