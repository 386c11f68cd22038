/* SPDX-License-Identifier: Apache-2.0 */
/* zmq.h -- ZeroMQ as a transport of events. */
#ifndef KVRAIL_KVSERVER_EVENTS_ZMQ_H
#define KVRAIL_KVSERVER_EVENTS_ZMQ_H

struct kvs_transport;

/* zmq_transport -- a PUB socket, and a ROUTER socket for replays. NULL: this program was built without libzmq. */
const struct kvs_transport *zmq_transport(void);

#endif
