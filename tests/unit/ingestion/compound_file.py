"""Writes the smallest OLE container ([MS-CFB]) that holds empty streams of given names."""

import struct

FREE, END, FAT_SECTOR = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD


def compound_file(names):
    """Bytes of a container with one sector of allocation table and one of directory."""
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH6x", 0x3E, 3, 0xFFFE, 9, 6)
    header += (
        struct.pack("<IIIIIIIIII", 0, 1, 1, 0, 4096, END, 0, END, 0, 0) + struct.pack("<109I", 0, *[FREE] * 108)[4:]
    )
    header = header[:76] + struct.pack("<109I", 0, *[FREE] * 108)
    table = struct.pack("<128I", FAT_SECTOR, END, *[FREE] * 126)
    entries = [_entry("Root Entry", 5, 1)]
    entries += [
        _entry(name, 2, FREE, FREE if number == len(names) else number + 1) for number, name in enumerate(names, 1)
    ]
    entries += [bytes(128)] * (4 - len(entries))
    return header + table + b"".join(entries)


def _entry(name, kind, child=FREE, right=FREE):
    encoded = name.encode("utf-16-le") + b"\0\0"
    head = encoded.ljust(64, b"\0") + struct.pack("<HBBIII", len(encoded), kind, 1, FREE, right, child)
    return head + bytes(36) + struct.pack("<IQ", END, 0)
