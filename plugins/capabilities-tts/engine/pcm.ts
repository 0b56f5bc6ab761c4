/** 16-bit samples, bare or behind a WAV header. */
import { toInt16, type AudioEncoder, type Encoded } from './audio.js'

/**
 * A WAV header for mono 16-bit sound of unknown length: both sizes are 0xFFFFFFFF, as streaming writers do.
 */
export function wavHeader (sampleRate: number): Uint8Array {
  const header = Buffer.alloc(44)
  header.write('RIFF', 0, 'latin1')
  header.writeUInt32LE(0xffffffff, 4)
  header.write('WAVEfmt ', 8, 'latin1')
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(sampleRate, 24)
  header.writeUInt32LE(sampleRate * 2, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36, 'latin1')
  header.writeUInt32LE(0xffffffff, 40)
  return header
}

/** Little-endian 16-bit mono samples, after `header`. */
export class PcmStream implements AudioEncoder {
  private readonly sampleRate: number
  private header: Uint8Array
  // The last sample waits for the end, so that the last chunk of an answer has bytes.
  private held: Int16Array = new Int16Array(1)
  private heldCount = 0

  constructor (sampleRate: number, header: Uint8Array) {
    this.sampleRate = sampleRate
    this.header = header
  }

  encode (samples: Float32Array): Encoded {
    if (samples.length === 0) return { bytes: new Uint8Array(), seconds: 0 }
    const pcm = toInt16(samples)
    const out = this.write([...this.takeHeld(), pcm.subarray(0, -1)])
    this.held = pcm.slice(-1)
    this.heldCount = 1
    return out
  }

  finish (): Encoded {
    return this.write(this.heldCount === 0 ? [new Int16Array(1)] : this.takeHeld())
  }

  private takeHeld (): Int16Array[] {
    const held = this.heldCount === 0 ? [] : [this.held]
    this.heldCount = 0
    return held
  }

  private write (parts: Int16Array[]): Encoded {
    const count = parts.reduce((sum, part) => sum + part.length, 0)
    const bytes = Buffer.alloc(this.header.length + count * 2)
    bytes.set(this.header)
    let at = this.header.length
    for (const part of parts) for (const v of part) at = bytes.writeInt16LE(v, at)
    this.header = new Uint8Array()
    return { bytes, seconds: count / this.sampleRate }
  }
}
