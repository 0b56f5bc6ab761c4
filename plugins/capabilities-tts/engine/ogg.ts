/** Writes Ogg pages (RFC 3533) for one logical stream. */

/** Maximum number of lacing values in a page. */
const SEGMENTS = 255
const FIRST_PAGE = 2
const LAST_PAGE = 4

/** Ogg's CRC: polynomial 0x04c11db7, most significant bit first, without inversion. */
const CRC = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte << 24
  for (let bit = 0; bit < 8; bit++) value = (value << 1) ^ (value < 0 ? 0x04c11db7 : 0)
  return value
})

function checksum (bytes: Uint8Array): number {
  let value = 0
  for (const byte of bytes) value = (value << 8) ^ CRC[(value >>> 24) ^ byte]!
  return value >>> 0
}

/** `granule`: position after the packet, in samples. */
export interface Packet { bytes: Uint8Array, granule: number }

/** Writes packets as pages; never splits a packet of less than 65,025 bytes. */
export class OggWriter {
  private readonly serial: number
  private sequence = 0

  constructor (serial: number) {
    this.serial = serial
  }

  /** Uses as few pages as possible; `last` marks the end of the stream. */
  pages (packets: readonly Packet[], last = false): Uint8Array {
    const pages: Uint8Array[] = []
    for (let at = 0; at < packets.length;) {
      const end = this.fitting(packets, at)
      pages.push(this.page(packets.slice(at, end), last && end === packets.length))
      at = end
    }
    return Buffer.concat(pages)
  }

  private fitting (packets: readonly Packet[], from: number): number {
    let segments = 0
    let end = from
    while (end < packets.length) {
      segments += lacing(packets[end]!.bytes)
      if (segments > SEGMENTS && end > from) break
      end++
    }
    return end
  }

  private page (packets: readonly Packet[], last: boolean): Uint8Array {
    const lengths = packets.flatMap(({ bytes }) =>
      Array.from({ length: lacing(bytes) }, (_, i) => Math.min(255, bytes.length - i * 255)))
    const header = Buffer.alloc(27)
    header.write('OggS', 0, 'latin1')
    header[5] = (this.sequence === 0 ? FIRST_PAGE : 0) | (last ? LAST_PAGE : 0)
    header.writeBigUInt64LE(BigInt(packets.at(-1)!.granule), 6)
    header.writeUInt32LE(this.serial, 14)
    header.writeUInt32LE(this.sequence++, 18)
    header[26] = lengths.length
    const page = Buffer.concat([header, Uint8Array.from(lengths), ...packets.map(({ bytes }) => bytes)])
    page.writeUInt32LE(checksum(page), 22)
    return page
  }
}

/** Number of lacing values: one per 255 bytes, and a last one below 255. */
const lacing = (bytes: Uint8Array): number => Math.floor(bytes.length / 255) + 1
