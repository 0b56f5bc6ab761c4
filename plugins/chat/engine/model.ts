/** A decoder on onnxruntime: feeds a bound session, and keeps what comes back as the state of its rows. */
import { Tensor, type InferenceSession } from 'onnxruntime-node'
import { EngineError, type EngineEnv } from '../../../kernel/engine.js'
import type { Binding, WholePort } from './bind.js'
import {
  dimsOf, emptyBatch, offsetOf, packRows, sizeOf, stateBytes, tokenBytes, type KvBatch, type Padding,
  type Part, type RowSource
} from './cache.js'
import type { Decoder, Forward } from './decoder.js'
import { floatsOfHalves } from './half.js'

/** How the graph takes several sequences; found out by probe.ts. */
export interface Habits { padding: Padding, ragged: boolean, chunked: boolean, maxRows: number }

/** Inputs or outputs by name. */
export type Feeds = Record<string, Tensor>

/** Whole numbers as the port takes them. */
export function wholeTensor (port: WholePort, values: ArrayLike<number>, dims: readonly number[]): Tensor {
  if (port.type === 'int32') return new Tensor('int32', Int32Array.from(values), dims)
  const data = new BigInt64Array(values.length)
  for (let i = 0; i < values.length; i++) data[i] = BigInt(values[i] as number)
  return new Tensor('int64', data, dims)
}

const real = (type: 'float32' | 'float16', part: Part, dims: readonly number[]): Tensor =>
  part instanceof Float32Array ? new Tensor('float32', part, dims) : new Tensor(type, part, dims)

/** The mask of padded rows with `added` new tokens each. */
function maskOf ({ lengths, span }: KvBatch, added: number, padding: Padding): Uint8Array {
  const total = span + added
  const mask = new Uint8Array(lengths.length * total)
  lengths.forEach((length, row) => {
    const from = row * total + offsetOf(padding, total, length + added)
    mask.fill(1, from, from + length + added)
  })
  return mask
}

/** A bound session as a decoder. */
export class OnnxDecoder implements Decoder<KvBatch> {
  readonly tokenBytes: number
  readonly stateBytes: number
  readonly weightBytes: number
  readonly rewinds: boolean
  /** The probe tries several; not changed afterwards. */
  habits: Habits
  readonly binding: Binding
  private readonly session: InferenceSession
  private readonly env: EngineEnv
  private readonly states: string[]

  constructor (session: InferenceSession, binding: Binding, weightBytes: number, env: EngineEnv) {
    this.session = session
    this.binding = binding
    this.env = env
    this.weightBytes = weightBytes
    this.tokenBytes = tokenBytes(binding.slots)
    this.stateBytes = stateBytes(binding.slots)
    this.rewinds = binding.slots.every(({ grows }) => grows)
    this.states = binding.slots.map(({ output }) => output)
    this.habits = { padding: 'left', ragged: true, chunked: true, maxRows: Infinity }
  }

  get maxRows (): number { return this.habits.maxRows }
  get ragged (): boolean { return this.habits.ragged }
  get chunked (): boolean { return this.habits.chunked }

  empty (): KvBatch { return emptyBatch(this.binding.slots) }

  pack (rows: ReadonlyArray<RowSource>): KvBatch {
    return packRows(this.binding.slots, rows, this.habits.padding)
  }

  async forward (
    batch: KvBatch, tokens: ReadonlyArray<readonly number[]>, logits: boolean
  ): Promise<Forward<KvBatch>> {
    const rows = batch.lengths.length
    const added = tokens[0]?.length ?? 0
    const feeds = this.feedsOf(batch, tokens.flat(), added)
    const fetches = logits ? [this.binding.logits.name, ...this.states] : this.states
    const label = added === 1 ? 'decode' : 'prefill'
    const made = await this.env.work(label, rows * added, async () =>
      await this.session.run(feeds, fetches) as Feeds)
    const lengths = batch.lengths.map(length => length + added)
    const span = batch.span + added
    const parts = this.binding.slots.map(slot => this.partOf(made, slot.output, sizeOf(slot, rows, span)))
    return { batch: { lengths, span, parts }, logits: logits ? this.lastRows(made, rows) : [] }
  }

  /** Frees the session. */
  async close (): Promise<void> { await this.session.release() }

  private feedsOf (batch: KvBatch, ids: readonly number[], added: number): Feeds {
    const { binding, habits } = this
    const rows = batch.lengths.length
    const feeds: Feeds = { [binding.ids.name]: wholeTensor(binding.ids, ids, [rows, added]) }
    if (binding.mask !== null) {
      const mask = maskOf(batch, added, habits.padding)
      feeds[binding.mask.name] = wholeTensor(binding.mask, mask, [rows, batch.span + added])
    }
    if (binding.positions !== null) {
      const positions = batch.lengths.flatMap(length => Array.from({ length: added }, (_, i) => length + i))
      feeds[binding.positions.name] = wholeTensor(binding.positions, positions, [rows, added])
    }
    if (binding.keep !== null) feeds[binding.keep.name] = wholeTensor(binding.keep, [1], [])
    binding.slots.forEach((slot, i) => {
      const part = batch.parts[i] as Part
      feeds[slot.input] = real(slot.type, part, dimsOf(slot, rows, batch.span))
    })
    return feeds
  }

  private partOf (made: Feeds, name: string, size: number): Part {
    const data = made[name]?.data
    if (!(data instanceof Float32Array || data instanceof Uint16Array) || data.length !== size) {
      throw new EngineError('model_invalid', `output "${name}" of the graph has shape ` +
        `[${made[name]?.dims.join(', ') ?? ''}]: ${size} numbers were expected`)
    }
    return data
  }

  /** The logits of each row's last token. */
  private lastRows (made: Feeds, rows: number): Float32Array[] {
    const { name } = this.binding.logits
    const tensor = made[name]
    const size = tensor?.dims.at(-1) ?? 0
    const each = (tensor?.data.length ?? 0) / rows
    if (tensor === undefined || size === 0 || each % size !== 0) {
      throw new EngineError('model_invalid', `output "${name}" of the graph has shape ` +
        `[${tensor?.dims.join(', ') ?? ''}]: [rows, tokens, vocabulary] was expected`)
    }
    return Array.from({ length: rows }, (_, row) => {
      const data = tensor.data as Part
      const last = data.subarray((row + 1) * each - size, (row + 1) * each)
      return last instanceof Float32Array ? last : floatsOfHalves(last)
    })
  }
}
