/** The settings: servers, the models that they answer with, and fallback chains. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { FromSchema } from '../../kernel/index.js'

const text = { type: 'string', minLength: 1, maxLength: 512 } as const
const amount = (of: string) =>
  ({ type: 'number', minimum: 0, maximum: 1_000_000, description: `Price of 1,000,000 tokens of ${of}.` }) as const
const seconds = (of: string, most: number) =>
  ({ type: 'integer', minimum: 1, maximum: most, description: `Longest wait for ${of}, seconds.` }) as const
const address = { pattern: '^https?://[^@?#\\s]+$', maxLength: 2048 } as const

const price = {
  type: 'object', additionalProperties: false, required: ['currency', 'prompt', 'completion'],
  properties: {
    currency: { type: 'string', pattern: '^[A-Z]{3,5}$' }, prompt: amount('a prompt'),
    completion: amount('an answer')
  }
} as const

const model = {
  type: 'object', additionalProperties: false,
  properties: {
    id: { ...text, description: 'Its name at the server; the same when absent.' },
    context: { type: 'integer', minimum: 1, maximum: 2 ** 31, description: 'Context length in tokens.' },
    external: { type: 'boolean' },
    max_tokens: { type: 'integer', minimum: 1, maximum: 2 ** 31, description: 'Most tokens of an answer.' },
    weight: { type: 'number', exclusiveMinimum: 0, maximum: 1000, description: 'Share in a chain with `spread`.' },
    price
  }
} as const

const server = {
  'type': ['string', 'object'], ...address, 'x-expected': 'an address such as http://host:11434/v1, or keys',
  'additionalProperties': false, 'required': ['url'],
  'properties': {
    url: { type: 'string', ...address, description: 'Base address of its OpenAI API, such as https://host/v1.' },
    key: { ...text, 'x-secret': true },
    key_file: { ...text, description: 'File with the key; relative to the home.' },
    key_env: { ...text, description: 'Environment variable with the key.' },
    headers: {
      'type': 'object', 'additionalProperties': { type: 'string', pattern: '^[\\t\\x20-\\x7e]*$' }, 'x-secret': true,
      'propertyNames': { pattern: '^[A-Za-z0-9-]{1,100}$' }
    },
    external: { type: 'boolean', description: 'Whether its models may be outside the local network.' },
    models: {
      type: ['array', 'object'], items: text, maxItems: 200, maxProperties: 200, additionalProperties: model,
      description: 'Its models, by name; when absent, those that it lists.'
    },
    first_event_seconds: seconds('the first event', 3600), idle_seconds: seconds('each further event', 3600)
  }
} as const

const chain = {
  type: 'object', additionalProperties: false, required: ['try'],
  properties: {
    try: { type: 'array', items: text, minItems: 1, maxItems: 16, uniqueItems: true },
    spread: { type: 'boolean', description: 'True: in a random order by weight.' },
    when: {
      type: 'object', additionalProperties: false,
      properties: {
        queue: { type: 'integer', minimum: 0, maximum: 10_000 }, first_token_seconds: seconds('a token', 3600)
      }
    }
  }
} as const

export const config = {
  type: 'object', additionalProperties: false,
  properties: {
    servers: {
      'type': 'object', 'x-local': true, 'default': {}, 'maxProperties': 64, 'additionalProperties': server,
      'propertyNames': { pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' },
      'description': 'Servers with OpenAI\'s API, by name: an address, or keys with values. Their models are ' +
        'called NAME/MODEL.',
      'examples': [{ ollama: 'http://192.168.1.5:11434/v1' }]
    },
    models: {
      'type': 'object', 'x-local': true, 'default': {}, 'maxProperties': 64, 'additionalProperties': chain,
      'propertyNames': { pattern: '^[A-Za-z0-9][A-Za-z0-9._/-]{0,95}$' },
      'description': 'Fallback chains, by name: the models to try in order, and when to go on to the next one.',
      'examples': [{ chat: { try: ['local/qwen', 'openrouter/qwen'], when: { first_token_seconds: 20 } } }]
    }
  }
} as const

type GivenModel = FromSchema<typeof model>
type GivenServer = Omit<Exclude<FromSchema<typeof server>, string>, 'headers' | 'models'> &
  { headers?: Record<string, string>, models?: readonly string[] | Record<string, GivenModel> }
export type Price = FromSchema<typeof price>
export type Chain = FromSchema<typeof chain>

/** A model as its server knows it: `id` is its name there, `context` in tokens. */
export interface Entry {
  id: string, context: number, external: boolean, weight: number, maxTokens: number | undefined
  price: Price | undefined
}
export interface ServerSettings {
  name: string, url: URL, key: string | undefined, headers: Record<string, string>
  external: boolean, firstMs: number, idleMs: number
  /** By name in svc; undefined: those that the server lists. */
  models: Map<string, Entry> | undefined
  /** Why this node cannot use the server; null if it can. */
  missing: string | null
}

const CONTEXT = 8192
/** Most tokens of an answer that costs money, unless `max_tokens` says otherwise. */
const PRICED_TOKENS = 4096

export const entryOf = (name: string, external: boolean, given: GivenModel = {}): Entry => ({
  id: given.id ?? name, context: given.context ?? CONTEXT, external: given.external ?? external,
  weight: given.weight ?? 1, price: given.price,
  maxTokens: given.max_tokens ?? (given.price === undefined ? undefined : PRICED_TOKENS)
})

/** Reads the servers, and their keys from files and the environment. */
export function serversOf (
  given: Readonly<Record<string, unknown>>, home: string, env: Readonly<Record<string, string | undefined>>
): ServerSettings[] {
  return Object.entries(given as Record<string, string | GivenServer>).map(([name, one]) => {
    const { url, external = false, models, headers = {}, ...more } = typeof one === 'string' ? { url: one } : one
    const named: Record<string, GivenModel> | undefined =
      models === undefined || !isList(models) ? models : Object.fromEntries(models.map((id) => [id, {}]))
    const entries = named === undefined ? undefined
      : new Map(Object.entries(named).map(([id, about]) => [`${name}/${id}`, entryOf(id, external, about)]))
    const { first_event_seconds: first = 120, idle_seconds: idle = 60 } = more
    return {
      name, url: new URL(url.replace(/\/+$/, '')), headers, external, firstMs: first * 1000, idleMs: idle * 1000,
      models: entries, ...keyOf(more, home, env)
    }
  })
}

const isList = (value: object): value is readonly string[] => Array.isArray(value)

function keyOf (
  { key, key_file: file, key_env: variable }: Partial<GivenServer>, home: string,
  env: Readonly<Record<string, string | undefined>>
): Pick<ServerSettings, 'key' | 'missing'> {
  const [where, read] = file !== undefined ? [`the file ${file}`, readKey(resolve(home, file))]
    : variable !== undefined ? [`the variable ${variable}`, env[variable]?.trim()] : ['`key`', key]
  if (read === undefined && where === '`key`') return { key: undefined, missing: null }
  return /^[\x21-\x7e]+$/.test(read ?? '') ? { key: read, missing: null }
    : { key: undefined, missing: `${where} has no key` }
}

function readKey (path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return undefined
  }
}

/** Throws an Error that names the field if a chain tries a chain. */
export function checkChains (chains: Readonly<Record<string, Chain>>): void {
  for (const [name, { try: targets }] of Object.entries(chains)) {
    const other = targets.findIndex((target) => Object.hasOwn(chains, target))
    if (other < 0) continue
    throw new Error(`plugins.upstreams.models.${name}.try.${other}: ${targets[other]} is a chain, and a ` +
      'chain tries models only')
  }
}
