/**
 * The sampling parameters. To add one, add a row here: the schemas and readers of all APIs, the requests to
 * llama-server and the options of `svc run` are derived from the rows. Only parameters that the client sets
 * are sent to an engine.
 */

/** The name, range or note of a parameter in one API or program, if it differs from the parameter's row. */
interface Use { name?: string, min?: number, max?: number, note?: string }

interface Row {
  min: number
  max: number
  whole?: true
  /** llama.cpp's default if neither the request nor the model sets a value; null if the default varies. */
  default: number | null
  note?: string
  chat: Use
  responses?: Use
  anthropic?: Use
  ollama?: Use
  llama?: Use
  /** Name in GGUF metadata after `general.sampling.`; generation_config.json uses the names of the rows. */
  gguf?: Use
  cli?: Use & { value: string, help: string }
}

const COUNTED = 'number of last tokens, prompt and answer, that the three penalties count; -1: all; 0: none'
const OF_LAST = 'counts the last repeat_last_n tokens of prompt and answer'

/** Keyed by OpenAI's names, or by vLLM's if OpenAI has none. An API accepts the parameters that list it. */
export const SAMPLING = {
  temperature: {
    min: 0, max: 100, default: 0.8, gguf: { name: 'temp' },
    chat: { max: 2 }, responses: { max: 2 }, anthropic: { max: 1 }, ollama: {}, llama: {},
    cli: { value: '<t>', max: 2, help: 'randomness, 0 to 2; 0 always takes the likeliest token' }
  },
  top_p: {
    min: 0, max: 1, default: 0.95,
    chat: {}, responses: {}, anthropic: {}, ollama: {}, llama: {}, gguf: {}
  },
  top_k: {
    min: 0, max: 2 ** 31, whole: true, default: 40,
    // vLLM accepts -1 to disable top_k.
    chat: { min: -1 }, anthropic: {}, ollama: { min: -1 }, llama: {}, gguf: { min: -1 }
  },
  min_p: { min: 0, max: 1, default: 0.05, chat: {}, ollama: {}, llama: {}, gguf: {} },
  frequency_penalty: {
    min: -2, max: 2, default: 0,
    chat: { note: OF_LAST }, ollama: {}, llama: {}
  },
  presence_penalty: {
    min: -2, max: 2, default: 0,
    chat: { note: OF_LAST }, ollama: {}, llama: {}
  },
  repetition_penalty: {
    min: 0.01, max: 100, default: 1, gguf: { name: 'penalty_repeat' },
    chat: {}, ollama: { name: 'repeat_penalty' }, llama: { name: 'repeat_penalty' }
  },
  // No `llama` entry, because llama-server always gets a number; see llama/request.ts.
  repeat_last_n: {
    min: -1, max: 2 ** 31 - 1, whole: true, default: 64,
    chat: { note: COUNTED }, ollama: { note: COUNTED }, gguf: { name: 'penalty_last_n' }
  },
  seed: {
    min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER, whole: true, default: null,
    chat: {}, ollama: {},
    cli: { value: '<n>', min: 0, help: 'the same seed and prompt give the same answer' }
  }
} as const satisfies Record<string, Row>

type Rows = typeof SAMPLING
/** The name of a parameter, as in the chat API and in engine tasks. */
export type Parameter = keyof Rows
export type Sampling = Partial<Record<Parameter, number>>

type User = 'chat' | 'responses' | 'anthropic' | 'ollama' | 'llama' | 'gguf' | 'cli'
type NameFor<U extends User, P extends Parameter> =
  Rows[P] extends Record<U, { name: infer N extends string }> ? N
    : Rows[P] extends Record<U, object> ? P : never
type Fields<U extends User, Type> = {
  [P in Parameter as NameFor<U, P>]: { readonly type: Type, minimum: number, maximum: number }
}

/** A row with the name and range that one API or program uses; `flag` is the option of `svc run`. */
type Listed = Row & { parameter: Parameter, name: string, flag: string }

/** The parameters that an API or program accepts, with its names and ranges. */
export function parametersOf (user: User): Listed[] {
  return Object.entries(SAMPLING as Record<Parameter, Row>).flatMap(([parameter, row]) => {
    const use = row[user]
    const flag = `--${parameter.replaceAll('_', '-')}`
    const listed = { name: parameter, ...row, ...use, parameter: parameter as Parameter, flag }
    return use === undefined ? [] : [listed]
  })
}

const schemaFields = (user: User, typeOf: (type: string) => unknown): object =>
  Object.fromEntries(parametersOf(user).map(({ name, min, max, whole, note }) => [name, {
    type: typeOf(whole === true ? 'integer' : 'number'), minimum: min, maximum: max,
    ...note === undefined ? {} : { description: note }
  }]))

/** Schema fields of an API in which null means absent. */
export function nullableFields<U extends User> (user: U): Fields<U, readonly ['number', 'null']> {
  return schemaFields(user, (type) => [type, 'null']) as Fields<U, readonly ['number', 'null']>
}

/** Schema fields of an API that rejects null. */
export function strictFields<U extends User> (user: U): Fields<U, 'number'> {
  return schemaFields(user, (type) => type) as Fields<U, 'number'>
}

/** The sampling parameters in an API request, with the engines' names and ranges. */
export function samplingOf (user: User, given: object | null | undefined): Sampling {
  const values = (given ?? {}) as Readonly<Record<string, number | null | undefined>>
  return Object.fromEntries(parametersOf(user).flatMap(({ parameter, name }) => {
    const value = values[name]
    return value == null ? [] : [[parameter, Math.max(SAMPLING[parameter].min, value)]]
  }))
}

/**
 * Sampling parameters of a GGUF model: from its generation_config.json, otherwise from its metadata, which
 * llama-server reads too. Values out of range are ignored.
 */
export function modelSampling (
  metadata: ReadonlyMap<string, unknown>, config: Readonly<Record<string, unknown>>
): Sampling {
  const rows = parametersOf('gguf')
  return samplingOf('gguf', Object.fromEntries(rows.map(({ parameter, name, min, max, whole }) => {
    const value = [config[parameter], metadata.get(`general.sampling.${name}`)].find((one) =>
      typeof one === 'number' && one >= min && one <= max && (whole !== true || Number.isInteger(one)))
    // Metadata values are 32-bit floats: without rounding, 0.7 would read as 0.699999988.
    return [name, typeof value === 'number' ? Number(value.toPrecision(6)) : null]
  })))
}
