/** Creates one answer: converts units to samples, and samples into encoded chunks of the requested length. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { EngineChunk, SpanSeries, SpanSink } from '../../../kernel/api/engine.js'
import { createEncoder } from './encoder.js'
import { levelled } from './loudness.js'
import { joined, type AudioEncoder, type Encoded } from './samples.js'
import {
  FIRST_PIECE_SECONDS, PieceLengths, type Family, type SpeechRequest, type SpeechUnit
} from './family.js'
import { nothingToSpeak } from './phonemes.js'
import type { SpeechTask } from './request.js'

/** Samples below this level, -48 dBFS, are silence: voices start and end with up to 0.5 s of it. */
const SILENCE = 0.004
/** Seconds of silence that stay at both ends of a unit. */
const MARGIN_SECONDS = 0.02

const isSound = (sample: number): boolean => Math.abs(sample) >= SILENCE

/** Trims the silence at both ends of a unit to the margin. A unit without any sound stays as it is. */
async function * trimmed (
  pieces: AsyncIterable<Float32Array>, sampleRate: number
): AsyncGenerator<Float32Array> {
  const margin = Math.round(MARGIN_SECONDS * sampleRate)
  let silence: Float32Array = new Float32Array(0)
  let sounded = false
  for await (const piece of pieces) {
    const first = piece.findIndex(isSound)
    const samples = joined(silence, piece)
    const end = first < 0 ? 0 : samples.findLastIndex(isSound) + 1
    const from = sounded ? 0 : Math.max(0, silence.length + first - margin)
    silence = samples.subarray(end)
    sounded ||= first >= 0
    if (end > 0) yield samples.subarray(from, end)
  }
  yield sounded ? silence.subarray(0, margin) : silence
}

/** Yields the samples of all units, with the pauses between them. */
async function * samplesOf (
  family: Family, request: SpeechRequest, signal: AbortSignal, trace?: SpanSink
): AsyncGenerator<Float32Array> {
  let pause = 0
  let units = 0
  for (const unit of prepared(family, request, trace)) {
    if (signal.aborted) return
    if (pause > 0) yield new Float32Array(pause)
    const pieces = family.synth(unit, request, signal)
    const noted = trace === undefined ? pieces : timedPieces(pieces, family.sampleRate, trace)
    for await (const samples of trimmed(noted, family.sampleRate)) {
      yield samples
      // Native runs block this thread, so a cancellation arrives only between them.
      await nextTurn()
      if (signal.aborted) return
    }
    pause = Math.round(unit.pauseSeconds / request.speed * family.sampleRate)
    units++
  }
  if (units === 0) throw nothingToSpeak()
}

/** Yields the text's units, and records how long each took to convert. */
function * prepared (family: Family, request: SpeechRequest, trace?: SpanSink): Generator<SpeechUnit> {
  let startMs = trace?.now() ?? 0
  for (const unit of family.prepare(request.text, request)) {
    trace?.span('prepare', 'prompt', startMs, trace.now(), { unit: unit.index, symbols: unit.symbols })
    yield unit
    startMs = trace?.now() ?? 0
  }
}

async function * timedPieces (
  pieces: AsyncIterable<Float32Array>, sampleRate: number, trace: SpanSink
): AsyncGenerator<Float32Array> {
  let startMs = trace.now()
  for await (const samples of pieces) {
    trace.span('synthesise', 'synthesis', startMs, trace.now(), { seconds: samples.length / sampleRate })
    yield samples
    startMs = trace.now()
  }
}

/** Splits a stream of samples at the ends of paced chunks; `full` is true for the last part of a chunk. */
async function * sliced (
  pieces: AsyncIterable<Float32Array>, pace: PieceLengths, sampleRate: number
): AsyncGenerator<{ part: Float32Array, full: boolean }> {
  const next = (): number => Math.max(1, Math.round(pace.next() * sampleRate))
  let left = next()
  for await (const samples of pieces) {
    for (let at = 0; at < samples.length;) {
      const part = samples.subarray(at, at + left)
      at += part.length
      left -= part.length
      const full = left <= 0
      if (full) left = next()
      yield { part, full }
    }
  }
}

class ChunkWriter {
  private readonly head: { model: string, format: string, sampleRate: number }
  private readonly encoder: AudioEncoder
  private pending: Uint8Array[] = []
  private pendingSeconds = 0
  private written = 0
  private index = 0
  private readonly trace: SpanSink | undefined
  private readonly encodes: SpanSeries | undefined

  constructor (head: ChunkWriter['head'], encoder: AudioEncoder, trace?: SpanSink) {
    this.head = head
    this.encoder = encoder
    this.trace = trace
    this.encodes = trace?.series('encode', 'encode')
  }

  async push (samples: Float32Array): Promise<void> {
    const startMs = this.trace?.now() ?? 0
    this.hold(await this.encoder.encode(samples))
    this.encodes?.add(startMs, this.trace!.now())
  }

  get ready (): boolean { return this.pending.length > 0 }

  /** Flushes the encoder, so that the last chunk is not empty. */
  async finish (): Promise<void> { this.hold(await this.encoder.finish()) }

  private hold ({ bytes, seconds }: Encoded): void {
    if (bytes.length > 0) this.pending.push(bytes)
    this.pendingSeconds += seconds
  }

  /** The next chunk; `partial` is false for the last one. */
  chunk (partial: boolean): EngineChunk {
    const { model, format, sampleRate } = this.head
    const chunk: EngineChunk = {
      payload: { model, format, chunk_index: this.index++, sample_rate: sampleRate, is_partial: partial },
      media: Buffer.concat(this.pending),
      timing: { timestampSeconds: this.written, durationSeconds: this.pendingSeconds }
    }
    this.written += this.pendingSeconds
    this.pending = []
    this.pendingSeconds = 0
    return chunk
  }
}

/**
 * Speaks in chunks that grow to the requested interval. The last chunk contains what the encoder held back;
 * it is omitted after an abort.
 */
export async function * speak (
  family: Family, { encoding, interval, loudness, request }: SpeechTask, model: string, signal: AbortSignal,
  trace?: SpanSink
): AsyncGenerator<EngineChunk> {
  const { sampleRate } = family
  const encoder = await createEncoder(encoding, sampleRate)
  try {
    const level = levelled(encoder, loudness, family, request)
    const writer = new ChunkWriter({ model, format: encoding, sampleRate }, level, trace)
    const pace = new PieceLengths(FIRST_PIECE_SECONDS, interval)
    let started = false
    for await (const { part, full } of sliced(samplesOf(family, request, signal, trace), pace, sampleRate)) {
      await writer.push(part)
      // The first chunk leaves with the first sound, even if trimmed silence made it shorter.
      if ((started && !full) || !writer.ready) continue
      started = true
      yield writer.chunk(true)
      await nextTurn()
      if (signal.aborted) return
    }
    if (signal.aborted) return
    await writer.finish()
    yield writer.chunk(false)
  } finally { await encoder.close?.() }
}
