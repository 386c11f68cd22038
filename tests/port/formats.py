# SPDX-License-Identifier: Apache-2.0
"""formats.py -- what libfabric's tcp providers say to each other, as bytes: enough to greet one and to say what it should not hear.

Two formats. `Rxm`: tcp;ofi_rxm, the same in libfabric 1.17 and 2.1. `Native`: RDM endpoints of the tcp provider itself (2.1: "tcp", --provider tcp-native;
1.17: "net"). Both begin a connection with a control header of 32 bytes and some data, and then frame every message with a header of 16 bytes. Under rxm a
message begins with rxm's own packet header of 64 bytes. All numbers are the host's byte order, but for the size of the control data and native's port and pid.

The names are libfabric's: include/ofi_proto.h, prov/tcp/src/{tcpx.h,xnet_proto.h,xnet_rdm_cm.c}, prov/rxm/src/rxm.h.
"""
import struct

CTRL_BYTES, BASE_BYTES, PKT_BYTES = 32, 16, 64
CONNREQ, CONNRESP, NACK = 0, 1, 6  # ofi_ctrl_hdr.type
CTRL_VERSION = 3

OP_MSG, OP_TAGGED, OP_READ_REQ, OP_READ_RSP, OP_WRITE = 0, 1, 2, 3, 4  # base_hdr.op
OP_TAG_RTS, OP_CTS, OP_DATA = 5, 6, 7  # native, 2.1
OP_DATA_ACK = 2  # base_hdr.op_data
REMOTE_CQ_DATA, DELIVERY_COMPLETE, COMMIT_COMPLETE, TCPX_TAGGED = 1, 4, 8, 128  # base_hdr.flags

EAGER, SEG, RNDV_REQ, RNDV_RD_DONE, ATOMIC, ATOMIC_RESP, CREDIT, RNDV_WR_DATA, RNDV_WR_DONE = range(9)  # rxm_pkt.ctrl_hdr.type
RXM_MSG, RXM_TAGGED, RXM_ATOMIC, RXM_ATOMIC_FETCH = 0, 1, 6, 7  # rxm_pkt.hdr.op
EAGER_LIMIT = 16384  # libfabric's default of FI_OFI_RXM_BUFFER_SIZE, which all our programs leave alone


def ctrl(kind=CONNREQ, data=b"", version=CTRL_VERSION, size=None, order=1):
    """A control header and its data. order: 1 as the host, 1 << 56 the other byte order."""
    return struct.pack("<BB", version, kind) + struct.pack(">H", len(data) if size is None else size) + struct.pack("<IQQQ", 0, 0, 0, order) + data


def base(op=OP_MSG, body=b"", flags=0, op_data=0, iovs=0, extra=b"", version=3, hdr_size=None, size=None, order="<"):
    """A message of the tcp provider: header, `extra` bytes that belong to the header, and its body."""
    hdr = BASE_BYTES + len(extra) if hdr_size is None else hdr_size
    total = BASE_BYTES + len(extra) + len(body) if size is None else size
    return struct.pack(order + "BBHBBBBQ", version, op, flags, op_data, iovs, hdr & 255, 0, total & (1 << 64) - 1) + extra + body


def rma_iov(addr, length, key):
    return struct.pack("<QQQ", addr & (1 << 64) - 1, length & (1 << 64) - 1, key & (1 << 64) - 1)


def packet(kind, body=b"", conn=0, msg_id=0, size=None, op=RXM_MSG, seg_size=0, seg_no=0, ctrl_data=0, flags=0, data=0, tag=0, version=4, op_version=2):
    """An rxm packet: rxm_pkt with `body` behind it."""
    return (struct.pack("<BBHIQQQ", version, kind, seg_size, seg_no, conn & (1 << 64) - 1, msg_id & (1 << 64) - 1, ctrl_data) +
            struct.pack("<BBBBIQQQ", op_version, 0, op, 0, flags, (len(body) if size is None else size) & (1 << 64) - 1, data, tag) + body)


def rndv_body(iovs):
    """rxm_rndv_hdr: four places, of which `iovs` are used."""
    return b"".join(rma_iov(*i) for i in iovs) + bytes(24 * (4 - len(iovs))) + struct.pack("<Q", len(iovs))


class Rxm:
    """tcp;ofi_rxm."""
    name, prefix = "rxm", PKT_BYTES

    @staticmethod
    def greeting(port, pid=4242, index=0, version=1, endian=2, ctrl_version=4, op_version=3, eager=EAGER_LIMIT):
        """rxm_cm_data.connect. endian: 2 is little, as ofi_detect_endianness says."""
        return struct.pack("<BBBBHBBIIII", version, endian, ctrl_version, op_version, port, 0, 0, eager, 1024, index, pid)

    @staticmethod
    def accepted(data):
        """The index by which packets must name the connection."""
        return struct.unpack_from("<I", data)[0] if len(data) >= 16 else None

    @staticmethod
    def message(body, conn=0, **more):
        return base(body=packet(EAGER, body, conn=conn), **more)


class Native:
    """The tcp provider's own RDM endpoints."""
    name, prefix = "native", 0

    @staticmethod
    def greeting(port, pid=4242, index=0, version=1):
        return struct.pack("<BB", version, 0) + struct.pack(">HI", port, pid)

    @staticmethod
    def accepted(data):
        return 0 if len(data) >= 8 else None

    @staticmethod
    def message(body, conn=0, **more):
        return base(body=body, **more)


FORMATS = {"tcp": Rxm, "tcp-native": Native, "net": Native}
