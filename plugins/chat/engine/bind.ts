/**
 * Finds out what each input and output of a graph is for. Only names, types and shapes of the session
 * decide; `genai_config.json` may give other names.
 */
import { EngineError } from '../../../kernel/api/engine.js'
import { fieldsOf, type Fields } from '../json.js'

/** An input or output of a session. A dimension is a number, or a name where it is free. */
export interface Port { name: string, type: string, shape: ReadonlyArray<number | string> }

/** Types of numbers that a cache or logits may have. */
export type Real = 'float32' | 'float16'
/** Types that token ids, masks and positions may have. */
export type Whole = 'int64' | 'int32'

/** An input of whole numbers. */
export interface WholePort { name: string, type: Whole }

/**
 * One tensor of the KV cache: what the graph gives back under `output` goes in again as `input`.
 * In memory it is `[lead, rows, heads, span, width]`; span is 1 for a state that does not grow.
 */
export interface CacheTensor {
  input: string
  output: string
  type: Real
  lead: number
  heads: number
  width: number
  /** True for keys and values, which get one more entry per token. */
  grows: boolean
  /** Dimensions of a state that does not grow, after the rows. */
  rest: number[]
}

/** How to run a decoder. */
export interface Binding {
  ids: WholePort
  mask: WholePort | null
  positions: WholePort | null
  /** The position of the first token. */
  firstPosition: number
  /** Input that says of how many last tokens logits are wanted. */
  keep: WholePort | null
  /** Of a graph changed to give back new entries only (graph-changes.ts): where they are. */
  places: WholePort | null
  logits: { name: string, type: Real }
  tensors: CacheTensor[]
  /** True where the graph takes one sequence only. */
  single: boolean
}

/** Names that differ from the usual ones; `pairs` are patterns of state inputs and outputs with `%d`. */
export interface Names {
  ids: string
  mask: string
  positions: string
  logits: string
  pairs: Array<[input: string, output: string]>
}

/** Sizes from the card, used only where the graph leaves them open. */
export interface Sizes { kvHeads: number, headSize: number }

const DEFAULT_NAMES: Names = {
  ids: 'input_ids', mask: 'attention_mask', positions: 'position_ids', logits: 'logits', pairs: []
}
const KEEP = 'num_logits_to_keep'
/** An input of a graph that was changed to give back new entries only. */
export const PLACES = 'svc_places'

const fail = (message: string): EngineError => new EngineError('model_invalid', message)

/** The names that a `genai_config.json` gives; the usual ones where it says nothing. */
export function namesOf (genai: unknown): Names {
  const decoder = fieldsOf(fieldsOf(fieldsOf(genai)['model'])['decoder'])
  const inputs = fieldsOf(decoder['inputs'])
  const outputs = fieldsOf(decoder['outputs'])
  const text = (from: Fields, key: string, usual: string): string =>
    typeof from[key] === 'string' ? from[key] : usual
  const pairs = Object.keys(inputs).filter((key) => key.startsWith('past_')).flatMap(
    (key): Array<[string, string]> => {
      const input = inputs[key]
      const output = outputs[key.replace('past_', 'present_')]
      return typeof input === 'string' && typeof output === 'string' ? [[input, output]] : []
    })
  return {
    ids: text(inputs, 'input_ids', DEFAULT_NAMES.ids),
    mask: text(inputs, 'attention_mask', DEFAULT_NAMES.mask),
    positions: text(inputs, 'position_ids', DEFAULT_NAMES.positions),
    logits: text(outputs, 'logits', DEFAULT_NAMES.logits),
    pairs
  }
}

/**
 * Families whose positions transformers.js counts from 1. Only distances matter to rotations, but otherwise
 * logits in half precision are not the same.
 */
const FROM_ONE = new Set(['gemma3', 'gemma3_text', 'paligemma'])

/** The position of the first token, by the model's config.json. */
export const firstPositionOf = (config: unknown): number =>
  FROM_ONE.has(String(fieldsOf(config)['model_type'])) ? 1 : 0

/** The output with the next state of an input: by the given pairs, else by the usual renaming. */
function partnerOf (input: string, outputs: ReadonlyMap<string, Port>, names: Names): string | undefined {
  const candidates = names.pairs.flatMap(([from, to]) => {
    const [before = '', after = ''] = from.split('%d')
    const middle = input.slice(before.length, input.length - after.length)
    const fits = input.startsWith(before) && input.endsWith(after) && /^\d+$/.test(middle)
    return fits ? [to.replace('%d', middle)] : []
  })
  if (input.startsWith('past')) {
    candidates.push(input.replace('past_key_values', 'present'), input.replace('past', 'present'))
  }
  return candidates.find((name) => outputs.has(name))
}

/** An input of whole numbers. @throws EngineError model_invalid for another type or more dimensions */
export function whole (port: Port | undefined, rank: number): WholePort | null {
  if (port === undefined) return null
  if (port.type !== 'int64' && port.type !== 'int32') {
    throw fail(`input "${port.name}" of the graph has type ${port.type}: int64 and int32 can be fed`)
  }
  if (port.shape.length > rank) {
    throw fail(`input "${port.name}" of the graph has shape ${shapeText(port)}: ` +
      `at most ${rank} dimensions can be fed`)
  }
  return { name: port.name, type: port.type }
}

const shapeText = ({ shape }: Port): string => `[${shape.join(', ')}]`
const fixed = (dim: number | string | undefined): dim is number => typeof dim === 'number' && dim > 0

function real ({ name, type }: Port, what: string): Real {
  if (type === 'float32' || type === 'float16') return type
  throw fail(`${what} "${name}" of the graph has type ${type}: float32 and float16 are served`)
}

/** Sizes of keys and values: `[rows, heads, past, width]`, or both as `[2, rows, heads, past, width]`. */
export function growing (
  port: Port, sizes: Sizes
): Pick<CacheTensor, 'lead' | 'heads' | 'width'> | undefined {
  const lead = port.shape.length === 5 && port.shape[0] === 2 ? 2 : 1
  const [rows, heads, past, width] = lead === 2 ? port.shape.slice(1) : port.shape
  const rank = lead === 2 ? 5 : 4
  if (port.shape.length !== rank || fixed(past) || (fixed(rows) && rows !== 1)) return undefined
  const known = { heads: fixed(heads) ? heads : sizes.kvHeads, width: fixed(width) ? width : sizes.headSize }
  return known.heads > 0 && known.width > 0 ? { lead, ...known } : undefined
}

function cacheTensorOf (port: Port, output: Port, sizes: Sizes): CacheTensor {
  const type = real(port, 'input')
  if (output.type !== type) {
    throw fail(`"${port.name}" of the graph is ${type}, but comes back as ${output.type}`)
  }
  const base = { input: port.name, output: output.name, type }
  const grown = growing(port, sizes)
  if (grown !== undefined) return { ...base, ...grown, grows: true, rest: [] }
  const rest = port.shape.slice(1).filter(fixed)
  // Keys and values of a fixed number of tokens would look like a state whose output is left open.
  const open = (dim: number | string | undefined): boolean => port.shape.length < 4 && !fixed(dim)
  const stays = rest.length === port.shape.length - 1 && rest.length > 0 &&
    output.shape.length === port.shape.length &&
    rest.every((dim, i) => output.shape[i + 1] === dim || open(output.shape[i + 1]))
  if (!stays || (fixed(port.shape[0]) && port.shape[0] !== 1)) {
    throw fail(`the state "${port.name}" of the graph has shape ${shapeText(port)} and comes back as ` +
      `${shapeText(output)}: served are [rows, heads, past, size], [2, rows, heads, past, size], and ` +
      'states of one size')
  }
  return { ...base, lead: 1, heads: 1, width: rest.reduce((a, b) => a * b, 1), grows: false, rest }
}

/**
 * Finds out what each input and output is for.
 * @throws EngineError model_invalid naming what is missing, unknown or of a wrong type
 */
export function bind (
  inputs: readonly Port[], outputs: readonly Port[], sizes: Sizes, names: Names = DEFAULT_NAMES
): Binding {
  const given = new Map(inputs.map((port) => [port.name, port]))
  const made = new Map(outputs.map((port) => [port.name, port]))
  const ids = whole(given.get(names.ids), 2)
  const logits = made.get(names.logits)
  if (ids === null) throw fail(`the graph has no input "${names.ids}": it has ${listed(inputs)}`)
  if (logits === undefined) throw fail(`the graph has no output "${names.logits}": it has ${listed(outputs)}`)
  const mask = whole(given.get(names.mask), 2)
  const positions = whole(given.get(names.positions), 2)
  const keep = whole(given.get(KEEP), 1)
  const places = whole(given.get(PLACES), 4)
  const plain = new Set([names.ids, names.mask, names.positions, KEEP, PLACES])
  const tensors = inputs.filter(({ name }) => !plain.has(name)).map((port) => {
    const partner = partnerOf(port.name, made, names)
    if (partner === undefined) {
      throw fail(`the graph wants an input "${port.name}" (${port.type} ${shapeText(port)}) that this ` +
        `engine does not know, and no output carries it on: outputs are ${listed(outputs)}`)
    }
    return cacheTensorOf(port, made.get(partner) as Port, sizes)
  })
  if (!tensors.some(({ grows }) => grows)) {
    throw fail(`the graph has no past key values: its inputs are ${listed(inputs)}`)
  }
  return {
    ids,
    mask,
    positions,
    firstPosition: 0,
    keep,
    places,
    logits: { name: logits.name, type: real(logits, 'output') },
    tensors,
    single: inputs.some(({ name, shape }) => name !== KEEP && shape[0] === 1)
  }
}

/** New entries of tensors of one shape, which a changed graph gives back in one output, one after another. */
export interface NewEntries { output: string, tensors: CacheTensor[] }

/** The outputs of a graph that gives back new entries only: one for each shape that keys and values have. */
export function newEntriesOf (tensors: readonly CacheTensor[]): NewEntries[] {
  const shapes = new Map<string, CacheTensor[]>()
  for (const tensor of tensors.filter(({ grows }) => grows)) {
    const shape = `${tensor.type} ${tensor.lead} ${tensor.heads} ${tensor.width}`
    shapes.set(shape, [...shapes.get(shape) ?? [], tensor])
  }
  return [...shapes.values()].map((members, i) => ({ output: `svc_new_${i}`, tensors: members }))
}

const MAX_NAMES = 12

/** Names of ports for a message. */
export function listed (ports: readonly Port[]): string {
  const names = ports.slice(0, MAX_NAMES).map(({ name }) => name).join(', ')
  return ports.length > MAX_NAMES ? `${names} and ${ports.length - MAX_NAMES} more` : names
}
