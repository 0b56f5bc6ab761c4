/**
 * Derived models: another name, system message and parameters for the files of a base model.
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
    from: { ...text, description: 'the base model' },
    at: { ...text, description: 'creation time, ISO-8601' },
    system: text,
    license: text,
    /** Sampling and context parameters under Ollama's names. */
    parameters: { type: 'object' },
    messages: { type: 'array', items: message }
  }
} as const
export type DerivedModel = FromSchema<typeof made>

export interface DerivedModels {
  all (): Iterable<{ key: string, value: DerivedModel }>
  put (name: string, made: DerivedModel): Promise<unknown>
  remove (name: string): Promise<unknown>
}

export const sections = {
  made: {
    writer: 'master',
    summary: 'Derived models by name: base model, parameters, messages and system message.',
    value: made
  }
} as const satisfies Record<string, SectionDecl>

export const commands = {
  make: {
    summary: 'Creates or replaces a derived model.',
    args: {
      type: 'object', additionalProperties: false, required: ['name', 'made'],
      properties: { name: text, made }
    },
    result: { type: 'object', required: ['name'], properties: { name: text } }
  },
  unmake: {
    summary: 'Removes a derived model; its base model stays.',
    args: { type: 'object', additionalProperties: false, required: ['name'], properties: { name: text } },
    result: { type: 'object', required: ['removed'], properties: { removed: { type: 'boolean' } } }
  }
} as const satisfies Record<string, CommandDecl>

/** Chat request fields that a derived model may preset. */
type Preset = Pick<ChatBody,
  'temperature' | 'stop' | 'max_tokens' | 'repetition_penalty' | 'repeat_last_n'>

/** Maps Ollama's parameters to chat request fields. */
export function chatParameters (parameters: object | null | undefined): Preset {
  const { num_predict: most, stop } = (parameters ?? {}) as { num_predict?: number, stop?: string | string[] }
  // In Ollama, zero and below mean no limit.
  const max_tokens = most != null && most > 0 ? most : null
  return { ...samplingOf('ollama', parameters), ...present({ stop, max_tokens }) }
}

/** Applies a derived model's presets; fields in the request take precedence. */
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

/** All alternative model names: aliases from the settings, and derived models. */
export function otherNames ({ aliases, derivedModels }: {
  aliases: Readonly<Record<string, string>>, derivedModels: DerivedModels
}): ModelAlias[] {
  const made = [...derivedModels.all()].map(({ key: id, value }): ModelAlias =>
    ({ id, root: value.from, madeMs: Date.parse(value.at) }))
  const known = new Map(made.map((name) => [name.id, name]))
  // Aliases from the settings take precedence, as in `resolveName`.
  const set = Object.entries(aliases).map(([id, name]): ModelAlias =>
    ({ ...known.get(name) ?? { root: name, madeMs: null }, id }))
  return [...set, ...made]
}

/** Fills in `defaults` for fields that the request leaves out. */
export function withDefaults<B extends ChatBody | CompletionBody> (body: B, defaults: object): B {
  const { max_completion_tokens: most } = body as ChatBody
  const given = Object.entries(body).filter(([, value]) => value != null)
  const own = most == null ? {} : { max_tokens: most }
  return { ...body, ...defaults, ...own, ...Object.fromEntries(given) }
}

/** SHA-256 over the definition and `base`, the digest of the base model. */
export function digestOf (made: DerivedModel, base: string): string {
  return createHash('sha256').update(JSON.stringify([base, { ...made, at: '' }])).digest('hex')
}
