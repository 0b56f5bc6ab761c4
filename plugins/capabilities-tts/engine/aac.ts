/** AAC-LC as ADTS frames (FFmpeg's encoder in WebAssembly, in a worker thread). */
import type { Worker } from 'node:worker_threads'
import { registerAacEncoder } from '@mediabunny/aac-encoder'
import { AdtsOutputFormat, AudioSample, AudioSampleSource, Output, StreamTarget } from 'mediabunny'
import { EngineError } from '../../../kernel/api/engine.js'
import { clipped, type AudioEncoder, type Encoded } from './samples.js'

/** Sampling rates in Hz that ADTS can express. */
export const AAC_RATES: readonly number[] = [
  8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000
]
/** Samples per frame, and encoder delay in frames. */
const FRAME = 1024
const DELAY = 2
const bitrateOf = (rate: number): number => rate <= 24_000 ? 64_000 : 96_000

let registered = false
/** Encoders start one at a time, so that each can be matched with the worker thread it creates. */
let begun: Promise<unknown> = Promise.resolve()

/**
 * Runs `begin` and reports the death of the worker thread that `begin` creates, because the package's own
 * promises then never settle.
 */
async function watched (begin: () => Promise<void>, died: (why: string) => void): Promise<void> {
  const seen = (worker: Worker): void => {
    let asked = false
    const terminate = worker.terminate.bind(worker)
    worker.terminate = async () => {
      asked = true
      return await terminate()
    }
    worker.once('error', (error) => { died((error as Error).message) })
    worker.once('exit', (code) => { if (!asked) died(`exit code ${code}`) })
  }
  const before = begun
  begun = (async () => {
    await before.catch(() => {})
    process.once('worker', seen)
    try {
      await begin()
    } finally {
      process.off('worker', seen)
    }
  })()
  await begun
}

export async function openAac (sampleRate: number): Promise<AudioEncoder> {
  if (!registered) registerAacEncoder()
  registered = true
  const stream = new AacStream(sampleRate)
  await stream.start()
  return stream
}

class AacStream implements AudioEncoder {
  private readonly sampleRate: number
  private readonly source: AudioSampleSource
  private readonly output: Output
  private written: Uint8Array[] = []
  private samples = 0
  private packets = 0
  private arrived = (): void => {}
  /** Rejects when the worker thread dies. */
  private readonly death: Promise<never>
  private died = (_why: string): void => {}
  private dead = false

  constructor (sampleRate: number) {
    this.sampleRate = sampleRate
    this.source = new AudioSampleSource({
      codec: 'aac', bitrate: bitrateOf(sampleRate), onEncodedPacket: () => { this.packets++; this.arrived() }
    })
    const sink = new WritableStream<{ data: Uint8Array }>({
      write: ({ data }) => { this.written.push(Uint8Array.from(data)) }
    })
    this.output = new Output({ format: new AdtsOutputFormat(), target: new StreamTarget(sink) })
    this.output.addAudioTrack(this.source)
    this.death = new Promise((_resolve, reject) => {
      this.died = (why) => {
        this.dead = true
        reject(new EngineError('provider_error', `the thread of the AAC encoder has exited (${why}): ` +
        'retry, or request another response_format'))
      }
    })
    // The thread may die while no call awaits `death`; avoid an unhandled rejection.
    this.death.catch(() => {})
  }

  async start (): Promise<void> {
    await this.output.start()
  }

  async encode (samples: Float32Array): Promise<Encoded> {
    if (samples.length > 0) await this.add(samples)
    // Wait for the worker thread, so that samples do not pile up in its queue.
    while (this.packets < Math.floor(this.samples / FRAME) - DELAY) {
      await this.alive(new Promise<void>((resolve) => { this.arrived = resolve }))
    }
    return this.drain()
  }

  async finish (): Promise<Encoded> {
    if (this.samples === 0) await this.add(new Float32Array(1))
    await this.alive(this.output.finalize())
    return this.drain()
  }

  async close (): Promise<void> {
    if (this.output.state === 'finalized') return
    const cancelled = this.output.cancel()
    if (this.dead) cancelled.catch(() => {})
    else await this.alive(cancelled)
  }

  private async alive<T> (work: Promise<T>): Promise<T> { return await Promise.race([work, this.death]) }

  private async add (data: Float32Array): Promise<void> {
    const first = this.samples === 0
    const timestamp = this.samples / this.sampleRate
    this.samples += data.length
    const sample = new AudioSample({
      data: clipped(data), format: 'f32', numberOfChannels: 1, sampleRate: this.sampleRate, timestamp
    })
    const add = async (): Promise<void> => { await this.alive(this.source.add(sample)) }
    // The first samples start the encoder and its thread.
    if (first) await watched(add, this.died)
    else await add()
    sample.close()
  }

  private drain (): Encoded {
    const bytes = Buffer.concat(this.written)
    this.written = []
    return { bytes, seconds: framesIn(bytes) * FRAME / this.sampleRate }
  }
}

/** Counts ADTS frames by the frame length in bits 30 to 42 of each header. */
function framesIn (bytes: Buffer): number {
  let frames = 0
  for (let at = 0; at + 7 <= bytes.length; frames++) {
    at += ((bytes[at + 3]! & 3) << 11) | (bytes[at + 4]! << 3) | (bytes[at + 5]! >> 5)
  }
  return frames
}
