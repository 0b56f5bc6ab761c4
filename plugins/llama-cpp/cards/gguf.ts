/** Reads GGUF headers (versions 2 and 3). Checks every length against the file's size before using it. */
import { withReader, type HeaderReader } from '../../runners/cards/reader.js'

const HEADER_BYTES = 64 * 1024 * 1024
const KEY_BYTES = 65_535
/** Limit on metadata entries, and on tensors; real files have thousands. */
const ENTRIES = 65_536
const STRING_BYTES = 1024 * 1024
const ARRAY_DEPTH = 8
/** Longest array whose values are kept, enough for one value per layer. */
const SMALL_ARRAY = 4096

/** A metadata array; `values` is null unless it is short and has integers or booleans (true is 1). */
export interface GgufArray { length: number, values: readonly number[] | null }

/** A metadata value; null for a string of more than 1 MiB. */
export type GgufValue = number | boolean | string | GgufArray | null

/** A tensor's description; `bytes` is 0 for an unknown type. */
export interface GgufTensor { name: string, shape: readonly number[], type: string, bytes: number }

export interface GgufHeader {
  metadata: Map<string, GgufValue>
  tensors: readonly GgufTensor[]
  /** Size of all weights in bytes, including tensors of unknown types. */
  weightBytes: number
}

/** Sizes in bytes by metadata type; types 8 (string) and 9 (array) have no fixed size. */
const SIZES: Record<number, number> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 }
const STRING = 8
const ARRAY = 9

/**
 * Reads a header of at most 64 MiB, never the weights. Tensors must end inside the file.
 * @throws CardError
 */
export async function readGguf (path: string): Promise<GgufHeader> {
  return await withReader(path, async (r) => {
    r.limit(HEADER_BYTES)
    await r.ready(24)
    if (r.size < 24 || (await r.text(4)) !== 'GGUF') r.fail('it is not a GGUF file')
    const version = r.u32()
    if (version !== 2 && version !== 3) r.fail(`GGUF version ${version} is not 2 or 3 (little-endian)`)
    const tensorCount = entries(r, 'tensors', 24)
    const pairs = entries(r, 'metadata entries', 13)
    const metadata = await readMetadata(r, pairs)
    return { metadata, ...await readTensors(r, tensorCount, alignment(r, metadata)) }
  })
}

/** Reads a 64-bit count; fails if that many items of at least `each` bytes exceed the rest of the file. */
function count (r: HeaderReader, what: string, each: number): number {
  const value = r.u64()
  if (value * BigInt(each) > BigInt(r.left)) r.fail(`it claims ${value} ${what}, more than the file can hold`)
  return Number(value)
}

function entries (r: HeaderReader, what: string, each: number): number {
  const value = count(r, what, each)
  return value <= ENTRIES ? value : r.fail(`it has ${value} ${what}, more than ${ENTRIES}`)
}

async function whole (r: HeaderReader, what: string): Promise<number> {
  await r.ready(8)
  const value = r.u64()
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) r.fail(`${what} ${value} is too large`)
  return Number(value)
}

async function key (r: HeaderReader): Promise<string> {
  const length = await whole(r, 'a length')
  if (length > KEY_BYTES) r.fail(`a name of ${length} bytes is longer than ${KEY_BYTES}`)
  return await r.text(length)
}

async function readMetadata (r: HeaderReader, pairs: number): Promise<Map<string, GgufValue>> {
  const metadata = new Map<string, GgufValue>()
  for (let i = 0; i < pairs; i++) {
    const name = await key(r)
    await r.ready(4)
    metadata.set(name, await readValue(r, r.u32()))
  }
  return metadata
}

async function readValue (r: HeaderReader, type: number): Promise<GgufValue> {
  if (type === ARRAY) return await readArray(r, 1)
  if (type === STRING) {
    const length = await whole(r, 'a length')
    if (length <= STRING_BYTES) return await r.text(length)
    r.skip(length)
    return null
  }
  await r.ready(8)
  return fixed(r, type)
}

/** Reads a number or boolean. The caller must have awaited `ready`, so that its bytes are loaded. */
function fixed (r: HeaderReader, type: number): number | boolean {
  switch (type) {
    case 0: return r.u8()
    case 1: return r.u8() << 24 >> 24
    case 2: return r.u8() | r.u8() << 8
    case 3: return (r.u8() | r.u8() << 8) << 16 >> 16
    case 4: return r.u32()
    case 5: return r.i32()
    case 6: return float32(r.u32())
    case 7: return r.u8() !== 0
    case 10: return Number(r.u64())
    case 11: return Number(BigInt.asIntN(64, r.u64()))
    case 12: return r.f64()
    default: return r.fail(`metadata has the unknown type ${type}`)
  }
}

const float32 = (bits: number): number => {
  const view = new DataView(new ArrayBuffer(4))
  view.setUint32(0, bits)
  return view.getFloat32(0)
}

async function readArray (r: HeaderReader, depth: number): Promise<GgufArray> {
  if (depth > ARRAY_DEPTH) r.fail(`arrays are nested more than ${ARRAY_DEPTH} levels deep`)
  await r.ready(12)
  const type = r.u32()
  const size = SIZES[type]
  const length = count(r, 'array items', size ?? (type === ARRAY ? 12 : 8))
  if (size !== undefined) return { length, values: await readFixed(r, type, length, size) }
  if (type !== STRING && type !== ARRAY) r.fail(`an array has the unknown type ${type}`)
  for (let i = 0; i < length; i++) {
    if (type === ARRAY) await readArray(r, depth + 1)
    else await skipString(r)
  }
  return { length, values: null }
}

/** Skips a string, awaiting only if bytes are missing, because vocabularies have 100,000s of strings. */
async function skipString (r: HeaderReader): Promise<void> {
  const wait = r.ready(8)
  if (wait !== undefined) await wait
  const length = r.u64()
  if (length > BigInt(r.left)) r.fail(`a text of ${length} bytes exceeds the file`)
  r.skip(Number(length))
}

async function readFixed (
  r: HeaderReader, type: number, length: number, size: number
): Promise<number[] | null> {
  if (type === 6 || type === 12 || length > SMALL_ARRAY) {
    r.skip(length * size)
    return null
  }
  const values: number[] = []
  for (let i = 0; i < length; i++) {
    const wait = r.ready(8)
    if (wait !== undefined) await wait
    values.push(Number(fixed(r, type)))
  }
  return values
}

/** Alignment of the weights in bytes: a power of two, 32 by default. */
function alignment (r: HeaderReader, metadata: Map<string, GgufValue>): number {
  const value = metadata.get('general.alignment') ?? 32
  if (typeof value === 'number' && value >= 1 && value <= 2 ** 20 && Math.log2(value) % 1 === 0) return value
  return r.fail('general.alignment is not a power of two up to 1 MiB')
}

async function readTensors (
  r: HeaderReader, count: number, align: number
): Promise<Pick<GgufHeader, 'tensors' | 'weightBytes'>> {
  const places: { tensor: GgufTensor, end: bigint }[] = []
  for (let i = 0; i < count; i++) places.push(await readTensor(r))
  const dataOffset = Math.ceil(r.position / align) * align
  for (const { tensor: { type }, end: length } of places) {
    const end = BigInt(dataOffset) + length
    if (end > BigInt(r.size)) r.fail(`a ${type} tensor ends at byte ${end}, beyond the end of the file`)
  }
  return { tensors: places.map(({ tensor }) => tensor), weightBytes: Math.max(0, r.size - dataOffset) }
}

/** Reads a tensor's description, and where its data ends, relative to the start of all data. */
async function readTensor (r: HeaderReader): Promise<{ tensor: GgufTensor, end: bigint }> {
  const name = await key(r)
  await r.ready(4)
  const dims = r.u32()
  if (dims > 8) r.fail(`tensor ${JSON.stringify(name.slice(0, 60))} has ${dims} dimensions`)
  await r.ready(dims * 8 + 12)
  const shape = Array.from({ length: dims }, () => r.u64())
  const id = r.u32()
  const offset = r.u64()
  // No bytes are counted for an unknown type.
  const [type, blockValues, blockBytes] = GGML_TYPES[id] ?? [`type ${id}`, 1, 0]
  const values = shape.reduce((a, b) => a * b, 1n)
  const bytes = (values + BigInt(blockValues - 1)) / BigInt(blockValues) * BigInt(blockBytes)
  return { tensor: { name, shape: shape.map(Number), type, bytes: Number(bytes) }, end: offset + bytes }
}

/** Quantization types by GGML number: the name, the values in a block, and the bytes of a block. */
const GGML_TYPES: Readonly<Record<number, readonly [name: string, values: number, bytes: number]>> = {
  0: ['fp32', 1, 4], 1: ['fp16', 1, 2], 2: ['Q4_0', 32, 18], 3: ['Q4_1', 32, 20], 6: ['Q5_0', 32, 22],
  7: ['Q5_1', 32, 24], 8: ['Q8_0', 32, 34], 9: ['Q8_1', 32, 36], 10: ['Q2_K', 256, 84],
  11: ['Q3_K', 256, 110], 12: ['Q4_K', 256, 144], 13: ['Q5_K', 256, 176], 14: ['Q6_K', 256, 210],
  15: ['Q8_K', 256, 292], 16: ['IQ2_XXS', 256, 66], 17: ['IQ2_XS', 256, 74], 18: ['IQ3_XXS', 256, 98],
  19: ['IQ1_S', 256, 50], 20: ['IQ4_NL', 32, 18], 21: ['IQ3_S', 256, 110], 22: ['IQ2_S', 256, 82],
  23: ['IQ4_XS', 256, 136], 24: ['int8', 1, 1], 25: ['int16', 1, 2], 26: ['int32', 1, 4],
  27: ['int64', 1, 8], 28: ['fp64', 1, 8], 29: ['IQ1_M', 256, 56], 30: ['bf16', 1, 2],
  34: ['TQ1_0', 256, 54], 35: ['TQ2_0', 256, 66], 39: ['MXFP4', 32, 17]
}

/** Names of quantization mixes by the metadata value `general.file_type`. */
export const FILE_TYPES: Readonly<Record<number, string>> = {
  0: 'fp32', 1: 'fp16', 2: 'Q4_0', 3: 'Q4_1', 7: 'Q8_0', 8: 'Q5_0', 9: 'Q5_1', 10: 'Q2_K', 11: 'Q3_K_S',
  12: 'Q3_K_M', 13: 'Q3_K_L', 14: 'Q4_K_S', 15: 'Q4_K_M', 16: 'Q5_K_S', 17: 'Q5_K_M', 18: 'Q6_K',
  19: 'IQ2_XXS', 20: 'IQ2_XS', 21: 'Q2_K_S', 22: 'IQ3_XS', 23: 'IQ3_XXS', 24: 'IQ1_S', 25: 'IQ4_NL',
  26: 'IQ3_S', 27: 'IQ3_M', 28: 'IQ2_S', 29: 'IQ2_M', 30: 'IQ4_XS', 31: 'IQ1_M', 32: 'bf16', 36: 'TQ1_0',
  37: 'TQ2_0', 38: 'MXFP4'
}
