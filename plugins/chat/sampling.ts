/**
 * The parameters that say how tokens are chosen. Adding one is a row here and its use in text/sampler.ts:
 * the schemas and readers of all APIs, the defaults of model files, the bodies for llama-server, and the
 * options of `svc run` follow from the rows. Only what the client has set is sent to an engine.
 */

/** How an API, or another program, differs from the row: in name, note, or in the values it may be given. */
interface Use { name?: string, min?: number, max?: number, note?: string }

interface Row {
  /** The field of SamplingParams. */
  field: string
  min: number
  max: number
  whole?: true
  /** What engine onnx-lm takes if neither the request nor the model has a value. */
  default: number | null
  /** What the tables of the APIs say of it. */
  note?: string
  chat: Use
  responses?: Use
  anthropic?: Use
  ollama?: Use
  /** llama.cpp's server. */
  llama?: Use
  /** generation_config.json of a model may recommend a value. */
  model?: Use
  /** An option of `svc run`. */
  cli?: Use & { value: string, help: string }
}

const OF_ANSWER = 'counts the tokens of the answer, those of the prompt too where repeat_last_n is given ' +
  'and always for models of llama-server'

/** By OpenAI's names, or vLLM's where OpenAI has none. An API takes the parameters that have a use for it. */
export const SAMPLING = {
  temperature: {
    field: 'temperature', min: 0, max: 100, default: 1,
    chat: { max: 2 }, responses: { max: 2 }, anthropic: { max: 1 }, ollama: {}, llama: {}, model: {},
    cli: { value: '<t>', max: 2, help: 'how freely it chooses, 0 to 2; 0 always takes the likeliest' }
  },
  top_p: {
    field: 'topP', min: 0, max: 1, default: 1,
    chat: {}, responses: {}, anthropic: {}, ollama: {}, llama: {}, model: {}
  },
  top_k: {
    field: 'topK', min: 0, max: 2 ** 31, whole: true, default: 0,
    // -1 is vLLM's word for off.
    chat: { min: -1 }, anthropic: {}, ollama: { min: -1 }, llama: {}, model: {}
  },
  min_p: { field: 'minP', min: 0, max: 1, default: 0, chat: {}, ollama: {}, llama: {}, model: {} },
  frequency_penalty: {
    field: 'frequencyPenalty', min: -2, max: 2, default: 0,
    chat: { note: OF_ANSWER }, ollama: {}, llama: {}
  },
  presence_penalty: {
    field: 'presencePenalty', min: -2, max: 2, default: 0,
    chat: { note: OF_ANSWER }, ollama: {}, llama: {}
  },
  repetition_penalty: {
    field: 'repetitionPenalty', min: 0.01, max: 100, default: 1,
    chat: {}, ollama: { name: 'repeat_penalty' }, llama: { name: 'repeat_penalty' }, model: {}
  },
  // llama-server gets a number always, see llama/request.ts.
  repeat_last_n: {
    field: 'repeatLastN', min: -1, max: 2 ** 31 - 1, whole: true, default: null,
    chat: {
      note: 'how many of the last tokens, prompt and answer, the three penalties count; -1: all; 0: none. ' +
        'Absent: as many as the engine usually does, 64 for models of llama-server'
    },
    ollama: {
      note: 'how many of the last tokens, prompt and answer, the three penalties count; -1: all; 0: none. ' +
        'Absent: as many as the engine usually does, 64 for models of llama-server'
    }
  },
  // llama-server gets a seed for each answer, see llama/request.ts.
  seed: {
    field: 'seed', min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER, whole: true, default: null,
    chat: {}, ollama: {},
    cli: { value: '<n>', min: 0, help: 'the same seed and question give the same answer' }
  }
} as const satisfies Record<string, Row>

type Rows = typeof SAMPLING
/** The name of a parameter in the chat API, and in tasks of the engines. */
export type Parameter = keyof Rows
/** Values by those names. */
export type Sampling = Partial<Record<Parameter, number>>
/** Every parameter with a value, by the fields of SamplingParams. */
export type SamplingNumbers = {
  [P in Parameter as Rows[P]['field']]: Rows[P]['default'] extends null ? number | null : number
}

type User = 'chat' | 'responses' | 'anthropic' | 'ollama' | 'llama' | 'model' | 'cli'
type NameFor<U extends User, P extends Parameter> =
  Rows[P] extends Record<U, { name: infer N extends string }> ? N
    : Rows[P] extends Record<U, object> ? P : never
type Fields<U extends User, Type> = {
  [P in Parameter as NameFor<U, P>]: { readonly type: Type, minimum: number, maximum: number }
}

/** A row as one user sees it; `flag` is the option of `svc run`, whose value is read under `field`. */
type Listed = Row & { parameter: Parameter, name: string, flag: string }

/** The parameters that an API or a program takes, with the names and ranges it uses. */
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

/** The schema of an API's parameters, where null is as good as absent. */
export function nullableFields<U extends User> (user: U): Fields<U, readonly ['number', 'null']> {
  return schemaFields(user, (type) => [type, 'null']) as Fields<U, readonly ['number', 'null']>
}

/** The schema of an API's parameters, where null is refused. */
export function strictFields<U extends User> (user: U): Fields<U, 'number'> {
  return schemaFields(user, (type) => type) as Fields<U, 'number'>
}

/** The parameters that are in an API's request, by the names and in the ranges of the engines. */
export function samplingOf (user: User, given: object | null | undefined): Sampling {
  const values = (given ?? {}) as Readonly<Record<string, number | null | undefined>>
  return Object.fromEntries(parametersOf(user).flatMap(({ parameter, name }) => {
    const value = values[name]
    return value == null ? [] : [[parameter, Math.max(SAMPLING[parameter].min, value)]]
  }))
}
