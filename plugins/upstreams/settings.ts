/** The settings: servers, the models that they answer with, and fallback chains. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { closedObject, type FromSchema } from '../../kernel/index.js'

const text = { type: 'string', minLength: 1, maxLength: 512 } as const
const name = { type: 'string', pattern: '^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,120}$' } as const
const address = { format: 'uri', pattern: '^https?://[^@?#\\s]+$', maxLength: 2048 } as const
const flag = { type: 'boolean' } as const
const count = { type: 'integer', minimum: 1, maximum: 2 ** 31 } as const
const seconds = { type: 'integer', minimum: 1, maximum: 3600 } as const
const amount = { type: 'number', minimum: 0, maximum: 1_000_000 } as const
const mapOf = (pattern: string) =>
  ({ type: 'object', maxProperties: 64, propertyNames: { pattern } }) as const

/** Amounts are for 1,000,000 tokens. */
const price = closedObject({
  currency: { type: 'string', pattern: '^[A-Z]{3,5}$' }, prompt: amount, completion: amount
})

const model = closedObject({
  id: text, context: count, max_tokens: count, external: flag, price,
  weight: { type: 'number', exclusiveMinimum: 0, maximum: 1000 }
}, [])

const server = {
  'type': ['string', 'object'], ...address, 'x-expected': 'an address such as http://host:11434/v1, or keys',
  'additionalProperties': false, 'required': ['url'],
  'properties': {
    url: { type: 'string', ...address }, key: { ...text, 'pattern': '^[\\x21-\\x7e]+$', 'x-secret': true },
    key_file: text, key_env: text, external: flag, timeout_seconds: seconds,
    api: { enum: ['openai', 'anthropic'], default: 'openai' },
    headers: {
      ...mapOf('^[A-Za-z0-9-]{1,100}$'), 'x-secret': true,
      'additionalProperties': { type: 'string', pattern: '^[\\t\\x20-\\x7e]*$' }
    },
    models: {
      type: ['array', 'object'], items: name, maxItems: 200, maxProperties: 200, propertyNames: name,
      additionalProperties: model
    }
  }
} as const

const chain = closedObject({
  try: { type: 'array', items: text, minItems: 1, maxItems: 16, uniqueItems: true }, spread: flag,
  when: closedObject({ queue: { ...count, minimum: 0 }, first_token_seconds: seconds }, [])
}, ['try'])

export const config = closedObject({
  servers: {
    ...mapOf('^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'), 'x-local': true, 'default': {},
    'additionalProperties': server,
    'description': 'Servers with OpenAI\'s or Anthropic\'s API, by name: an address, or keys. Models are ' +
      'NAME/MODEL.',
    'examples': [{ ollama: 'http://192.168.1.5:11434/v1' }]
  },
  models: {
    ...mapOf('^[A-Za-z0-9][A-Za-z0-9._/-]{0,95}$'), 'x-local': true, 'default': {},
    'additionalProperties': chain,
    'description': 'Fallback chains, by name: models to try in order, and when to go on to the next one.',
    'examples': [{ chat: { try: ['acme/qwen', 'openrouter/qwen'], when: { first_token_seconds: 20 } } }]
  }
}, [])

type GivenModel = FromSchema<typeof model>
type GivenServer = Omit<Exclude<FromSchema<typeof server>, string>, 'headers' | 'models'> &
  { headers?: Record<string, string>, models?: readonly string[] | Record<string, GivenModel> }
export type Price = FromSchema<typeof price>
export type Chain = FromSchema<typeof chain>

/** A model as its server knows it: `id` is its name there, `context` in tokens. */
export interface Entry {
  id: string, context: number, weight: number, maxTokens: number | undefined, price: Price | undefined
}
export interface ServerSettings {
  name: string, url: URL, key: string | undefined, headers: Record<string, string>
  api: 'openai' | 'anthropic'
  /** Whether it may be outside the local network, which needs an authority of the caller. */
  external: boolean
  silenceMs: number
  /** By name in svc; undefined: those that the server lists. */
  models: Map<string, Entry> | undefined
  /** Why this node does not have the server's key; null if it has it, or needs none. */
  missing: string | null
}

export const DEFAULT_CONTEXT = 8192
/** Most tokens of an answer that costs money, unless `max_tokens` says otherwise. */
const PRICED_TOKENS = 4096

export const entryOf = (
  name: string, { id = name, context = DEFAULT_CONTEXT, weight = 1, price, max_tokens: most }: GivenModel
): Entry => ({ id, context, weight, price, maxTokens: most ?? (price && PRICED_TOKENS) })

/** Reads the servers, and their keys from files and the environment. */
export function serversOf (
  given: Readonly<Record<string, unknown>>, home: string, env: Readonly<Record<string, string | undefined>>
): ServerSettings[] {
  return Object.entries(given as Record<string, string | GivenServer>).map(([name, one]) => {
    const { url, models, headers = {}, ...more } = typeof one === 'string' ? { url: one } : one
    const { external = false, timeout_seconds: silence = 120, key, key_file: file, key_env: variable } = more
    const { api = 'openai' } = more
    const entries: [string, GivenModel][] | undefined = models === undefined || !isList(models)
      ? models && Object.entries(models) : models.map((id) => [id, {}])
    const path = file === undefined ? undefined : resolve(home, file)
    const at = `plugins.upstreams.servers.${name}`
    if (path !== undefined && existsSync(path) && !statSync(path).isFile()) {
      throw new Error(`${at}.key_file is not a file: ${path}`)
    }
    const read = (path === undefined ? variable === undefined ? key : env[variable]
      : existsSync(path) ? readFileSync(path, 'utf8') : undefined)?.trim() ?? ''
    const isKey = /^[\x21-\x7e]+$/.test(read)
    return {
      name, api, url: new URL(url), headers, silenceMs: silence * 1000, key: isKey ? read : undefined,
      external: external || entries?.some(([, about]) => about.external) === true,
      models: entries && new Map(entries.map(([id, about]) => [`${name}/${id}`, entryOf(id, about)])),
      missing: isKey || (file ?? variable) === undefined ? null : `${file ?? variable} has no key`
    }
  })
}

const isList = (value: object): value is readonly string[] => Array.isArray(value)

/** Throws an Error that names the field if a chain tries a chain. */
export function checkChains (chains: Readonly<Record<string, Chain>>): void {
  for (const [name, { try: targets }] of Object.entries(chains)) {
    const at = targets.findIndex((target) => Object.hasOwn(chains, target))
    if (at < 0) continue
    throw new Error(`plugins.upstreams.models.${name}.try.${at}: ${targets[at]} is a chain; name models only`)
  }
}
