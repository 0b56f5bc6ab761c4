/** A decoder on onnxruntime: runs a bound session, and keeps the KV cache that comes back. */
import { Tensor, type InferenceSession } from 'onnxruntime-node'
import { EngineError, type EngineEnv } from '../../../kernel/api/engine.js'
import {
  newEntriesOf, type Binding, type CacheTensor, type NewEntries, type WholePort
} from './bind.js'
import {
  continued, dimsOf, emptyBatch, fullBatch, hasRoom, offsetOf, packRows, sizeOf, stateBytes,
  tokenBytes, viewOf, type Decoder, type Forward, type KvBatch, type Padding, type RowSource
} from './cache.js'
import { floatsOf, realTensor, wholeTensor, type Feeds, type Part } from './tensors.js'

/** How the graph takes several sequences; found out by probe.ts. */
export interface BatchSupport { padding: Padding, ragged: boolean, chunked: boolean, maxRows: number }

/**
 * How many times longer it takes to copy an entry into a new batch than to pass it by as padding in a step:
 * padding in front is worked on like any entry, padding behind is only cleared.
 */
const COPY_COST = { left: 1.5, right: 12 } as const
/**
 * Spare entries of each row, so that a batch is copied once per so many tokens: of n, half are padding in a
 * step on average, and each step has the n-th part of a copy. This number costs the least.
 */
const spareOf = (span: number, padding: Padding): number =>
  Math.ceil(Math.sqrt(2 * COPY_COST[padding] * span))

/** Entries of a row that the mask is about: padding behind is left out. */
const totalOf = ({ span, room }: KvBatch, added: number, padding: Padding): number =>
  (padding === 'left' ? room : span) + added

/** The mask of padded rows with `added` new tokens each. */
function maskOf (port: WholePort, batch: KvBatch, added: number, padding: Padding): Tensor {
  const { lengths } = batch
  const total = totalOf(batch, added, padding)
  const dims = [lengths.length, total]
  const size = lengths.length * total
  const mask = port.type === 'int32' ? new Int32Array(size) : new BigInt64Array(size)
  lengths.forEach((length, row) => {
    const from = row * total + offsetOf(padding, total, length + added)
    if (mask instanceof Int32Array) mask.fill(1, from, from + length + added)
    else mask.fill(1n, from, from + length + added)
  })
  return new Tensor(port.type, mask, dims)
}

/** Where the graph puts the new entries of each row. */
function placesOf ({ lengths, room }: KvBatch, added: number, padding: Padding): number[] {
  return lengths.flatMap((length) => {
    const first = padding === 'left' ? room : length
    return Array.from({ length: added }, (_, i) => first + i)
  })
}

/** A bound session as a decoder. */
export class OnnxDecoder implements Decoder<KvBatch> {
  readonly tokenBytes: number
  readonly stateBytes: number
  readonly weightBytes: number
  readonly rewinds: boolean
  /** The probe tries several; not changed afterwards. */
  batching: BatchSupport
  readonly binding: Binding
  private readonly session: InferenceSession
  private readonly env: EngineEnv
  /** Outputs of new entries; none where the graph gives back whole states. */
  private readonly entries: NewEntries[]
  /** Outputs of all that goes in again. */
  private readonly states: string[]

  constructor (session: InferenceSession, binding: Binding, weightBytes: number, env: EngineEnv) {
    this.session = session
    this.binding = binding
    this.env = env
    this.weightBytes = weightBytes
    this.tokenBytes = tokenBytes(binding.tensors)
    this.stateBytes = stateBytes(binding.tensors)
    this.rewinds = binding.tensors.every(({ grows }) => grows)
    this.entries = binding.places === null ? [] : newEntriesOf(binding.tensors)
    const apart = binding.tensors.filter(({ grows }) => binding.places === null || !grows)
    this.states = [...this.entries, ...apart].map(({ output }) => output)
    this.batching = { padding: 'left', ragged: false, chunked: true, maxRows: Infinity }
  }

  get maxRows (): number { return this.batching.maxRows }
  get ragged (): boolean { return this.batching.ragged }
  get chunked (): boolean { return this.batching.chunked }

  empty (): KvBatch { return emptyBatch(this.binding.tensors) }

  pack (rows: ReadonlyArray<RowSource>): KvBatch {
    return this.packed(rows, 0)
  }

  /** With room for so many entries, and for spare ones where the graph takes padding. */
  private packed (rows: readonly RowSource[], added: number): KvBatch {
    const { binding, batching } = this
    const span = added + Math.max(...rows.map(({ length }) => length))
    const spare = binding.places !== null && batching.ragged ? spareOf(span, batching.padding) : 0
    return packRows(binding.tensors, rows, batching.padding, added + spare)
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
      await this.session.run(feeds, fetches))
    return { batch: this.following(batch, made, added), logits: logits ? this.lastRows(made, rows) : [] }
  }

  /** Frees the session. */
  async close (): Promise<void> { await this.session.release() }

  private following (batch: KvBatch, made: Feeds, added: number): KvBatch {
    const { binding: { tensors, places }, batching: { padding } } = this
    const { lengths, room } = batch
    const parts = this.partsOf(made, lengths.length, places === null ? room + added : added)
    if (places === null) return fullBatch(lengths.map((length) => length + added), room + added, parts)
    const rows = (): RowSource[] => lengths.map((length, row) => ({ batch, row, length }))
    const roomy = hasRoom(batch, added) ? batch : this.packed(rows(), added)
    return continued(tensors, roomy, parts, added, padding)
  }

  /** What came back, by tensor, with so many entries per row. */
  private partsOf (made: Feeds, rows: number, entries: number): Part[] {
    const fresh = new Map<CacheTensor, Part>()
    for (const { output, tensors } of this.entries) {
      const size = sizeOf(tensors[0] as CacheTensor, rows, entries)
      const all = this.partOf(made, output, size * tensors.length)
      tensors.forEach((tensor, i) => { fresh.set(tensor, all.subarray(i * size, (i + 1) * size)) })
    }
    return this.binding.tensors.map((tensor) =>
      fresh.get(tensor) ?? this.partOf(made, tensor.output, sizeOf(tensor, rows, entries)))
  }

  private feedsOf (batch: KvBatch, ids: readonly number[], added: number): Feeds {
    const { binding, batching } = this
    const rows = batch.lengths.length
    const feeds: Feeds = { [binding.ids.name]: wholeTensor(binding.ids, ids, [rows, added]) }
    if (binding.mask !== null) {
      feeds[binding.mask.name] = maskOf(binding.mask, batch, added, batching.padding)
    }
    if (binding.positions !== null) {
      const first = binding.firstPosition
      const positions = batch.lengths.flatMap((length) =>
        Array.from({ length: added }, (_, i) => first + length + i))
      feeds[binding.positions.name] = wholeTensor(binding.positions, positions, [rows, added])
    }
    if (binding.keep !== null) feeds[binding.keep.name] = wholeTensor(binding.keep, [1], [])
    if (binding.places !== null) {
      const places = placesOf(batch, added, batching.padding)
      feeds[binding.places.name] = wholeTensor(binding.places, places, [rows, 1, added, 1])
    }
    binding.tensors.forEach((tensor, i) => {
      const part = viewOf(tensor, batch.parts[i] as Part, batch)
      feeds[tensor.input] = realTensor(tensor.type, part, dimsOf(tensor, rows, batch.room))
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
    const data = tensor.data as Part
    return Array.from({ length: rows }, (_, row) =>
      floatsOf(data.subarray((row + 1) * each - size, (row + 1) * each)))
  }
}
