/** Headers of ONNX files, read without their weights. Field numbers are from onnx.proto (ONNX 1.16). */
import { ProtoWalker, type Field, type FileReader } from './walker.js'

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
export async function readHeader (r: FileReader, pathProblem: PathCheck): Promise<OnnxHeader> {
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
    await this.#walk.each(length, (field) => {
      switch (field.number) {
        case 1: this.header.irVersion = field.value; break
        case 7: graphs++; return this.#graph(field, true)
        case 8: return this.#opset(field)
        case 25: return this.#function(field)
      }
    })
    if (graphs !== 1) this.#walk.r.fail(`it holds ${graphs} graphs, not one`)
    if (this.header.outputs.length === 0) this.#walk.r.fail('its graph has no outputs')
    this.header.inputs = this.header.inputs.filter(({ name }) => !this.#weights.has(name))
  }

  async #graph (graph: Field, main: boolean): Promise<void> {
    const { inputs, outputs } = this.header
    await this.#walk.message(graph, (field) => {
      if (field.number === 1) return this.#node(field)
      if (field.number === 5) return this.#tensor(field)
      if (field.number === 15) return this.#sparse(field)
      if (main && field.number === 11) return this.#port(field, inputs)
      if (main && field.number === 12) return this.#port(field, outputs)
    })
  }

  async #function (fn: Field): Promise<void> {
    let [name, domain] = ['', '']
    await this.#walk.message(fn, async (field) => {
      switch (field.number) {
        case 1: name = await this.#walk.text(field); break
        case 7: await this.#node(field); break
        case 10: domain = await this.#walk.text(field); break
        case 11: await this.#attribute(field, () => {}); break
      }
    })
    this.#note(this.header.functions, name, domain)
  }

  #note (into: Set<string>, name: string, domain: string): void {
    into.add(domain === '' || domain === 'ai.onnx' ? name : `${domain}.${name}`)
    if (into.size > ENTRIES) this.#walk.r.fail(`it has more than ${ENTRIES} operators`)
  }

  async #node (node: Field): Promise<void> {
    let [type, domain, bits] = ['', '', null as number | null]
    await this.#walk.message(node, async (field) => {
      if (field.number === 4) type = await this.#walk.text(field)
      if (field.number === 7) domain = await this.#walk.text(field)
      if (field.number === 5) {
        await this.#attribute(field, (name, value) => { if (name === 'bits') bits = value })
      }
    })
    if (type === 'MatMulNBits') this.header.weightBits ??= bits
    this.#note(this.header.opTypes, type, domain)
  }

  async #attribute (attribute: Field, integer: (name: string, value: number) => void): Promise<void> {
    let [name, value] = ['', null as number | null]
    await this.#walk.message(attribute, async (field) => {
      switch (field.number) {
        case 1: name = await this.#walk.text(field); break
        case 3: value = field.value; break
        case 5: case 10: await this.#tensor(field); break
        case 6: case 11: await this.#graph(field, false); break
        case 22: case 23: await this.#sparse(field); break
      }
    })
    if (value !== null) integer(name, value)
  }

  async #sparse (sparse: Field): Promise<void> {
    await this.#walk.message(sparse, (field) => {
      if (field.number === 1 || field.number === 2) return this.#tensor(field)
    })
  }

  async #tensor (tensor: Field): Promise<void> {
    const at = { values: 1, type: 0, stored: 0, external: false, place: new Map<string, string>() }
    await this.#walk.message(tensor, async (field) => {
      switch (field.number) {
        case 1: at.values *= await this.#product(field); break
        case 2: at.type = field.value; break
        case 4: case 5: case 6: case 7: case 9: case 10: case 11: at.stored += field.length; break
        case 8: if (this.header.irVersion < LISTED_IR) await this.#weight(field); break
        case 13: await this.#place(field, at.place); break
        case 14: at.external ||= field.value === 1; break
      }
    })
    const bytes = at.external || at.place.size > 0
      ? this.#external(at.place, at.values * (VALUE_BYTES[at.type] ?? 1))
      : at.stored
    const { bytesByType } = this.header
    bytesByType.set(at.type, (bytesByType.get(at.type) ?? 0) + bytes)
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
    let [key, value] = ['', '']
    await this.#walk.message(entry, async (field) => {
      if (field.number === 1) key = await this.#walk.text(field)
      if (field.number === 2 && field.length <= PLACE_BYTES) {
        value = await this.#walk.text(field, PLACE_BYTES)
      }
    })
    if (PLACE.has(key)) into.set(key, value)
  }

  async #opset (opset: Field): Promise<void> {
    let [domain, version] = ['', 0]
    await this.#walk.message(opset, async (field) => {
      if (field.number === 1) domain = await this.#walk.text(field)
      if (field.number === 2) version = field.value
    })
    this.header.opsets.set(domain, version)
    if (this.header.opsets.size > ENTRIES) this.#walk.r.fail(`it has more than ${ENTRIES} operator sets`)
  }

  async #port (port: Field, into: HeaderPort[]): Promise<void> {
    const found: HeaderPort = { name: '', elemType: 0, dims: [] }
    await this.#walk.message(port, async (field) => {
      if (field.number === 1) found.name = await this.#walk.text(field)
      if (field.number === 2) await this.#type(field, found)
    })
    into.push(found)
    if (into.length > ENTRIES) this.#walk.r.fail(`it has more than ${ENTRIES} inputs or outputs`)
  }

  /** Reads the element type and dimensions of a TypeProto; skips types other than tensors. */
  async #type (type: Field, into: HeaderPort): Promise<void> {
    await this.#walk.message(type, async (tensor) => {
      if (tensor.number !== 1) return
      await this.#walk.message(tensor, async (field) => {
        if (field.number === 1) into.elemType = field.value
        if (field.number !== 2) return
        await this.#walk.message(field, async (dim) => {
          if (dim.number === 1) into.dims.push(await this.#dim(dim))
          if (into.dims.length > 64) this.#walk.r.fail(`${into.name} has more than 64 dimensions`)
        })
      })
    })
  }

  async #dim (dim: Field): Promise<number | string | null> {
    let size: number | string | null = null
    await this.#walk.message(dim, async (field) => {
      if (field.number === 1) size = Number.isSafeInteger(field.value) ? field.value : null
      if (field.number === 2 && field.length <= DIM_BYTES) size = await this.#walk.text(field)
    })
    return size
  }
}
