/** Streamed FLAC (libFLAC compiled to JavaScript), without length and hash in the header. */
import { createRequire } from 'node:module'
import { toInt16, type AudioEncoder, type Encoded } from './samples.js'

/** The functions of libflacjs that svc uses; the package's own types require the DOM. */
interface LibFlac {
  isReady (): boolean
  on (event: 'ready', listener: () => void): void
  create_libflac_encoder (
    sampleRate: number, channels: number, bits: number, level: number, samples: number, verify: boolean,
    blockSize: number
  ): number
  init_encoder_stream (encoder: number, write: (bytes: Uint8Array) => void): number
  FLAC__stream_encoder_process_interleaved (encoder: number, samples: Int32Array, count: number): boolean
  FLAC__stream_encoder_finish (encoder: number): boolean
  FLAC__stream_encoder_delete (encoder: number): void
}

const BITS = 16
const LEVEL = 5
/** Samples per block (48 ms at 24 kHz); a small block shortens the delay. */
const BLOCK = 1152

let library: Promise<LibFlac> | undefined

/** Loads the JavaScript build, because the WebAssembly build fetches a file: URL, which Node refuses. */
async function load (): Promise<LibFlac> {
  const flac = createRequire(import.meta.url)('libflacjs/dist/libflac.min.js') as LibFlac
  if (!flac.isReady()) await new Promise<void>((resolve) => { flac.on('ready', resolve) })
  return flac
}

export async function openFlac (sampleRate: number): Promise<AudioEncoder> {
  return new FlacStream(await (library ??= load()), sampleRate)
}

class FlacStream implements AudioEncoder {
  private readonly flac: LibFlac
  private readonly sampleRate: number
  private readonly encoder: number
  private written: Uint8Array[] = []
  private samples = 0
  private blocks = 0

  constructor (flac: LibFlac, sampleRate: number) {
    this.flac = flac
    this.sampleRate = sampleRate
    this.encoder = flac.create_libflac_encoder(sampleRate, 1, BITS, LEVEL, 0, false, BLOCK)
    const status = this.encoder === 0 ? -1
      : flac.init_encoder_stream(this.encoder, (bytes) => { this.written.push(Uint8Array.from(bytes)) })
    if (status !== 0) throw new Error(`libFLAC refuses ${sampleRate} Hz (status ${status})`)
  }

  /** libFLAC withholds a complete block until the next sample arrives. */
  encode (samples: Float32Array): Encoded {
    if (samples.length === 0) return { bytes: new Uint8Array(0), seconds: 0 }
    const values = Int32Array.from(toInt16(samples))
    if (!this.flac.FLAC__stream_encoder_process_interleaved(this.encoder, values, values.length)) {
      throw new Error('libFLAC could not encode the samples')
    }
    this.samples += samples.length
    return this.drain(Math.max(0, Math.ceil(this.samples / BLOCK) - 1) * BLOCK)
  }

  finish (): Encoded {
    const first = this.samples === 0 ? this.encode(new Float32Array(1)) : undefined
    this.flac.FLAC__stream_encoder_finish(this.encoder)
    const rest = this.drain(this.samples)
    return first === undefined ? rest : { ...rest, bytes: Buffer.concat([first.bytes, rest.bytes]) }
  }

  close (): void {
    this.flac.FLAC__stream_encoder_delete(this.encoder)
  }

  /** Takes the bytes encoded so far, whose sound ends at sample `end`. */
  private drain (end: number): Encoded {
    const bytes = Buffer.concat(this.written)
    this.written = []
    const seconds = (end - this.blocks) / this.sampleRate
    this.blocks = end
    return { bytes, seconds }
  }
}
