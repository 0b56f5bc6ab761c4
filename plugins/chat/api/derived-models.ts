/**
 * Models that are made of others: another name, a system message, parameters. They have no files of their
 * own.
 */
import { createHash } from 'node:crypto'
import { present } from '../../runners/language/json.js'
import { samplingOf } from '../../runners/language/sampling.js'
import { message } from './schema.js'
import type { CommandDecl, FromSchema, SectionDecl } from '../../../kernel/index.js'
import type { ModelAlias } from '../../staging/service.js'
import type { ChatBody, CompletionBody } from './schema.js'

const text = { type: 'string' } as const

const made = {
  type: 'object', additionalProperties: false, required: ['from', 'at'],
  properties: {
    from: { ...text, description: 'the model that answers' },
    at: { ...text, description: 'when it was made, ISO-8601' },
    system: text,
    license: text,
    /** By Ollama's names. */
    parameters: { type: 'object' },
    messages: { type: 'array', items: message }
  }
} as const
export type DerivedModel = FromSchema<typeof made>

/** Models that are made of others. */
export interface DerivedModels {
  all (): Iterable<{ key: string, value: DerivedModel }>
  put (name: string, made: DerivedModel): Promise<unknown>
  remove (name: string): Promise<unknown>
}

export const sections = {
  made: {
    writer: 'master',
    summary: 'Name to a model that is made of another one: its parameters, messages and system message.',
    value: made
  }
} as const satisfies Record<string, SectionDecl>

export const commands = {
  make: {
    summary: 'Makes a model of another one, or makes it anew.',
    args: {
      type: 'object', additionalProperties: false, required: ['name', 'made'],
      properties: { name: text, made }
    },
    result: { type: 'object', required: ['name'], properties: { name: text } }
  },
  unmake: {
    summary: 'Removes a model that was made of another one; that one stays.',
    args: { type: 'object', additionalProperties: false, required: ['name'], properties: { name: text } },
    result: { type: 'object', required: ['removed'], properties: { removed: { type: 'boolean' } } }
  }
} as const satisfies Record<string, CommandDecl>

/** Fields of the chat request that a model may be made with. */
type Preset = Pick<ChatBody,
  'temperature' | 'stop' | 'max_tokens' | 'repetition_penalty' | 'repeat_last_n'>

/** Parameters by Ollama's names as fields of the chat request. */
export function chatParameters (parameters: object | null | undefined): Preset {
  const { num_predict: most, stop } = (parameters ?? {}) as { num_predict?: number, stop?: string | string[] }
  // Zero and less mean: as much as there is room for.
  const max_tokens = most != null && most > 0 ? most : null
  return { ...samplingOf('ollama', parameters), ...present({ stop, max_tokens }) }
}

/** The request as that model takes it: what it says itself counts before what the model was made with. */
export function applyDerivedModel (body: ChatBody, made: DerivedModel | undefined): ChatBody {
  if (made === undefined) return body
  const { system, messages = [] } = made
  const has = body.messages.some(({ role }) => role === 'system' || role === 'developer')
  return {
    ...withDefaults(body, chatParameters(made.parameters)),
    messages: [
      ...system === undefined || has ? [] : [{ role: 'system', content: system }],
      ...messages as ChatBody['messages'], ...body.messages
    ]
  }
}

/** The names that clients may use for models: of the settings, and of what was made. */
export function otherNames ({ aliases, makes }: {
  aliases: Readonly<Record<string, string>>, makes: DerivedModels
}): ModelAlias[] {
  const made = [...makes.all()].map(({ key: id, value }): ModelAlias =>
    ({ id, root: value.from, madeMs: Date.parse(value.at) }))
  const known = new Map(made.map((name) => [name.id, name]))
  // The settings count first, as where a request names a model.
  const set = Object.entries(aliases).map(([id, name]): ModelAlias =>
    ({ ...known.get(name) ?? { root: name, madeMs: null }, id }))
  return [...set, ...made]
}

/** The request with these fields where it has none of its own. */
export function withDefaults<B extends ChatBody | CompletionBody> (body: B, defaults: object): B {
  const { max_completion_tokens: most } = body as ChatBody
  const given = Object.entries(body).filter(([, value]) => value != null)
  const own = most == null ? {} : { max_tokens: most }
  return { ...body, ...defaults, ...own, ...Object.fromEntries(given) }
}

/** SHA-256 of what makes it this model; `base` is the digest of the one it is made of. */
export function digestOf (made: DerivedModel, base: string): string {
  return createHash('sha256').update(JSON.stringify([base, { ...made, at: '' }])).digest('hex')
}
