/** Headers of ONNX files, read without their weights. Field numbers are from onnx.proto (ONNX 1.16). */
import type { HeaderReader } from '../cards/reader.js'

/** Limit on inputs, outputs, operators and external files, each; a file with more is rejected. */
const ENTRIES = 4096
/** Limit in bytes on the value of an external-data entry and on the name of a dimension. */
const PLACE_BYTES = 65_536
const DIM_BYTES = 256
/** Files below this IR version list their weights among the graph inputs. */
const LISTED_IR = 4
const PLACE = new Set(['location', 'offset', 'length'])

/** An input or output: element type (TensorProto.DataType) and dimensions, with names for free dimensions. */
export interface HeaderPort { name: string, elemType: number, dims: (number | string | null)[] }

export interface OnnxHeader {
  inputs: HeaderPort[]
  outputs: HeaderPort[]
  /** Paths relative to the file's folder; never outside it. */
  externalFiles: string[]
  externalBytes: Map<string, number>
  /** Operator set version by domain; the default domain is ''. */
  opsets: Map<string, number>
  /** Tensor bytes by element type, in the file and in external files. */
  bytesByType: Map<number, number>
  /** Operators at any depth, prefixed with their domain unless it is the default. */
  opTypes: Set<string>
  /** Operators that the file itself defines, in the same form as `opTypes`. */
  functions: Set<string>
  /** Version of the file format (IR); 0 if missing. */
  irVersion: number
  /** Bits per weight if MatMulNBits is used. */
  weightBits: number | null
}

/** Bytes per value by TensorProto.DataType; unlisted types count as one byte. */
const VALUE_BYTES: Record<number, number> = {
  1: 4, 4: 2, 5: 2, 6: 4, 7: 8, 10: 2, 11: 8, 12: 4, 13: 8, 14: 8, 15: 16, 16: 2
}

/** Returns why the path of an external file is invalid; null if it is valid. */
type PathCheck = (path: string) => string | null

/**
 * Reads an ONNX file by its structure and skips raw weights, so that a file of gigabytes costs a few reads.
 * @throws the reader's error if the file is broken or `pathProblem` rejects the path of external weights
 */
export async function readHeader (r: HeaderReader, pathProblem: PathCheck): Promise<OnnxHeader> {
  const scan = new OnnxScan(new ProtoWalker(r), pathProblem)
  await scan.model(r.size)
  return scan.header
}

class OnnxScan {
  readonly header: OnnxHeader = {
    inputs: [], outputs: [], externalFiles: [], externalBytes: new Map(), opsets: new Map(),
    bytesByType: new Map(), opTypes: new Set(), functions: new Set(), irVersion: 0, weightBits: null
  }

  readonly #walk: ProtoWalker
  /** Names of weights that the file lists among its inputs. */
  readonly #weights = new Set<string>()
  readonly #pathProblem: PathCheck

  constructor (walk: ProtoWalker, pathProblem: PathCheck) {
    this.#walk = walk
    this.#pathProblem = pathProblem
  }

  async model (length: number): Promise<void> {
    let graphs = 0
    await this.#walk.read({ number: 0, wire: 2, length }, {
      1: ({ value }) => { this.header.irVersion = value },
      7: async (field) => { graphs++; await this.#graph(field, true) }, 8: this.#opset,
      25: this.#function
    })
    if (graphs !== 1) this.#walk.r.fail(`it holds ${graphs} graphs, not one`)
    if (this.header.outputs.length === 0) this.#walk.r.fail('its graph has no outputs')
    this.header.inputs = this.header.inputs.filter(({ name }) => !this.#weights.has(name))
  }

  readonly #text = async (field: Field): Promise<string> => await this.#walk.text(field)

  readonly #graph = async (graph: Field, main = false): Promise<void> => {
    const { inputs, outputs } = this.header
    const ports = {
      11: async (field: Field) => { await this.#port(field, inputs) },
      12: async (field: Field) => { await this.#port(field, outputs) }
    }
    await this.#walk.read(graph, { 1: this.#node, 5: this.#tensor, 15: this.#sparse, ...main ? ports : {} })
  }

  readonly #function = async (fn: Field): Promise<void> => {
    const { 1: name = '', 10: domain = '' } = await this.#walk.read(fn,
      { 1: this.#text, 7: this.#node, 10: this.#text, 11: this.#attribute })
    this.#note(this.header.functions, name, domain)
  }

  #note (into: Set<string>, name: string, domain: string): void {
    into.add(domain === '' || domain === 'ai.onnx' ? name : `${domain}.${name}`)
    if (into.size > ENTRIES) this.#walk.r.fail(`it has more than ${ENTRIES} operators`)
  }

  readonly #node = async (node: Field): Promise<void> => {
    let bits: number | null = null
    const { 4: type = '', 7: domain = '' } = await this.#walk.read(node, {
      4: this.#text, 7: this.#text, 5: async (field) => { bits = await this.#attribute(field) ?? bits }
    })
    if (type === 'MatMulNBits') this.header.weightBits ??= bits
    this.#note(this.header.opTypes, type, domain)
  }

  /** The value of an attribute `bits`; null for any other attribute. */
  readonly #attribute = async (attribute: Field): Promise<number | null> => {
    const graph = async (field: Field): Promise<void> => { await this.#graph(field) }
    const { 1: name, 3: value = null } = await this.#walk.read(attribute, {
      1: this.#text, 3: valueOf, 5: this.#tensor, 10: this.#tensor, 6: graph, 11: graph,
      22: this.#sparse, 23: this.#sparse
    })
    return name === 'bits' ? value : null
  }

  readonly #sparse = async (sparse: Field): Promise<void> => {
    await this.#walk.read(sparse, { 1: this.#tensor, 2: this.#tensor })
  }

  readonly #tensor = async (tensor: Field): Promise<void> => {
    let [values, stored] = [1, 0]
    const place = new Map<string, string>()
    const store = ({ length }: Field): void => { stored += length }
    const { 2: type = 0, 14: location = 0 } = await this.#walk.read(tensor, {
      1: async (field) => { values *= await this.#product(field) }, 2: valueOf, 4: store, 5: store,
      6: store, 7: store, 9: store, 10: store, 11: store,
      8: async (field) => { if (this.header.irVersion < LISTED_IR) await this.#weight(field) },
      13: async (field) => { await this.#place(field, place) }, 14: valueOf
    })
    const bytes = location === 1 || place.size > 0
      ? this.#external(place, values * (VALUE_BYTES[type] ?? 1))
      : stored
    const { bytesByType } = this.header
    bytesByType.set(type, (bytesByType.get(type) ?? 0) + bytes)
  }

  async #weight (name: Field): Promise<void> {
    this.#weights.add(await this.#walk.text(name))
    if (this.#weights.size > ENTRIES) this.#walk.r.fail(`it has more than ${ENTRIES} weights`)
  }

  /** Multiplies a tensor's dimensions, which are encoded as single values or packed. */
  async #product (field: Field): Promise<number> {
    if (field.wire === 0) return field.value
    if (field.length > 1024) this.#walk.r.fail('a tensor has too many dimensions')
    let [product, value, shift] = [1, 0, 0]
    for (const byte of await this.#walk.r.bytes(field.length)) {
      value += (byte & 127) * 2 ** shift
      shift += 7
      if (byte >= 128) continue
      product *= value
      value = shift = 0
    }
    return product
  }

  /** Records an external file and returns the bytes of the tensor in it. */
  #external (place: Map<string, string>, expected: number): number {
    const { r } = this.#walk
    const { externalFiles, externalBytes } = this.header
    const path = (place.get('location') ?? '').replace(/^\.\//, '')
    const problem = this.#pathProblem(path)
    if (problem !== null) r.fail(`the path of its weights is invalid: ${problem}`)
    const [offset, length] = [Number(place.get('offset') ?? 0), Number(place.get('length') ?? expected)]
    if (!Number.isSafeInteger(offset + length) || offset < 0 || length < 0) {
      r.fail(`weights in ${path} have an impossible offset or length`)
    }
    if (!externalBytes.has(path)) externalFiles.push(path)
    if (externalFiles.length > ENTRIES) r.fail(`its weights are in more than ${ENTRIES} files`)
    externalBytes.set(path, Math.max(externalBytes.get(path) ?? 0, offset + length))
    return length
  }

  async #place (entry: Field, into: Map<string, string>): Promise<void> {
    const { 1: key = '', 2: value = '' } = await this.#walk.read(entry, {
      1: this.#text,
      2: async (field) => field.length <= PLACE_BYTES ? await this.#walk.text(field, PLACE_BYTES) : ''
    })
    if (PLACE.has(key)) into.set(key, value)
  }

  readonly #opset = async (opset: Field): Promise<void> => {
    const { 1: domain = '', 2: version = 0 } = await this.#walk.read(opset, { 1: this.#text, 2: valueOf })
    this.header.opsets.set(domain, version)
    if (this.header.opsets.size > ENTRIES) this.#walk.r.fail(`it has more than ${ENTRIES} operator sets`)
  }

  /** Reads a ValueInfoProto; types other than tensors have no element type and dimensions. */
  async #port (port: Field, into: HeaderPort[]): Promise<void> {
    const found: HeaderPort = { name: '', elemType: 0, dims: [] }
    const dim = async (field: Field): Promise<void> => {
      found.dims.push(await this.#dim(field))
      if (found.dims.length > 64) this.#walk.r.fail(`${found.name} has more than 64 dimensions`)
    }
    const tensor = {
      1: ({ value }: Field) => { found.elemType = value },
      2: async (shape: Field) => await this.#walk.read(shape, { 1: dim })
    }
    await this.#walk.read(port, {
      1: async (field) => { found.name = await this.#walk.text(field) },
      2: async (type) => await this.#walk.read(type, {
        1: async (field: Field) => await this.#walk.read(field, tensor)
      })
    })
    into.push(found)
    if (into.length > ENTRIES) this.#walk.r.fail(`it has more than ${ENTRIES} inputs or outputs`)
  }

  async #dim (dim: Field): Promise<number | string | null> {
    const { 1: size, 2: name } = await this.#walk.read(dim, {
      1: ({ value }) => Number.isSafeInteger(value) ? value : null,
      2: async (field) => field.length <= DIM_BYTES ? await this.#walk.text(field) : null
    })
    return name ?? size ?? null
  }
}

const valueOf = ({ value }: Field): number => value

const HEAD_BYTES = 20
const DEPTH = 96
/** Limit on the fields read from a file, which bounds the time for a file of tiny fields. */
const FIELDS = 8_000_000

interface Field {
  number: number
  /** Wire type: 0 varint, 1 64-bit, 2 length-delimited, 5 32-bit. */
  wire: number
  /** Unsigned value of a varint; not exact above 2^53. */
  value: number
  /** Length of the content in bytes; the content starts at the reader's position. */
  length: number
}

/** By field number, what to do with the content of a field. Content that is not read is skipped. */
type Readers = Readonly<Record<number, (field: Field) => unknown>>
type Results<R> = { [N in keyof R]?: R[N] extends (field: Field) => infer T ? Awaited<T> : never }

class ProtoWalker {
  readonly r: HeaderReader
  #depth = 0
  #fields = 0

  constructor (r: HeaderReader) { this.r = r }

  /**
   * Reads the message whose content is at the reader's position; each function is called with the reader at
   * the content of its field. Returns the results by field number, of a repeated field the last one.
   * @throws the reader's error for content outside the message
   */
  async read<const R extends Readers> (
    { wire, number, length }: Pick<Field, 'wire' | 'number' | 'length'>, readers: R
  ): Promise<Results<R>> {
    const { r } = this
    if (wire !== 2) r.fail(`field ${number} should be a message`)
    const end = r.position + length
    const results: Record<number, unknown> = {}
    if (++this.#depth > DEPTH) r.fail(`messages are nested deeper than ${DEPTH}`)
    while (r.position < end) {
      const wait = r.ready(HEAD_BYTES)
      if (wait !== undefined) await wait
      const field = this.#head(end)
      const next = r.position + field.length
      const reader = readers[field.number]
      const result = reader?.(field)
      if (reader !== undefined) results[field.number] = result instanceof Promise ? await result : result
      r.seek(next)
    }
    this.#depth--
    return results as Results<R>
  }

  /** Content of a field as text. @throws the reader's error above `limit` bytes */
  async text (field: Field, limit = 4096): Promise<string> {
    if (field.wire !== 2) this.r.fail(`field ${field.number} should be text`)
    if (field.length > limit) this.r.fail(`a text of ${field.length} bytes is longer than ${limit}`)
    return await this.r.text(field.length)
  }

  #head (end: number): Field {
    const { r } = this
    if (++this.#fields > FIELDS) r.fail(`it has more than ${FIELDS} fields`)
    const tag = this.#varint()
    const [number, wire] = [Math.floor(tag / 8), tag % 8]
    if (number < 1 || number > 536_870_911) r.fail(`${number} is not a valid field number`)
    const field = { number, wire, value: 0, length: 0 }
    if (wire === 0) field.value = this.#varint()
    else if (wire === 1) field.length = 8
    else if (wire === 2) field.length = this.#varint()
    else if (wire === 5) field.length = 4
    else r.fail(`field ${number} has wire type ${wire}`)
    if (r.position + field.length > end) r.fail(`field ${number} is longer than its message`)
    return field
  }

  #varint (): number {
    let value = 0
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.r.u8()
      value += (byte & 127) * 2 ** shift
      if (byte < 128) return value
    }
    return this.r.fail('a number has more than ten bytes')
  }
}
