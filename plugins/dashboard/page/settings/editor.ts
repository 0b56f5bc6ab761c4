import { problemsOf } from '../discovery/schema.js'
import { grouped as byKey } from '../ui/text.js'
import type { Replies } from '../../../../docs/reference/replies.js'

export type SettingSchema = Record<string, unknown> & {
  type?: string | string[], enum?: unknown[], description?: string, default?: unknown
}
export type Setting = Replies['GET /config']['entries'][number] & { schema: SettingSchema | null }

export type Kind = 'switch' | 'choice' | 'number' | 'text' | 'lines' | 'json'

export function kindOf (schema: SettingSchema | null): Kind {
  if (schema?.enum !== undefined) return 'choice'
  const types = [schema?.type ?? []].flat().filter((type) => type !== 'null')
  if (types.length !== 1) return 'json'
  switch (types[0]) {
    case 'boolean': return 'switch'
    case 'integer':
    case 'number': return 'number'
    case 'string': return 'text'
    case 'array': return isTextList(schema!) ? 'lines' : 'json'
    default: return 'json'
  }
}

const isTextList = (schema: SettingSchema): boolean =>
  (schema['items'] as SettingSchema | undefined)?.type === 'string'

export function textOf (kind: Kind, value: unknown): string {
  if (value === undefined || value === null) return ''
  if (kind === 'lines') return (value as string[]).join('\n')
  return kind === 'json' ? JSON.stringify(value, null, 2) : String(value)
}

/** A parsed value, or a sentence that says why the text is invalid. */
export type Read = { value: unknown } | { problem: string }

/** The typed text as a value, checked against the schema; empty input means the default. */
export function readText (schema: SettingSchema | null, text: string): Read {
  const kind = kindOf(schema)
  if (text.trim() === '' && kind !== 'lines') return { value: null }
  const read = valueOf(kind, schema, text)
  if ('problem' in read || schema === null) return read
  const worst = problemsOf(plain(schema), read.value).at(-1)
  return worst === undefined ? read : { problem: worst.message }
}

function valueOf (kind: Kind, schema: SettingSchema | null, text: string): Read {
  switch (kind) {
    case 'switch': return { value: text === 'true' }
    case 'choice': return { value: schema!.enum!.find((one) => String(one) === text) ?? text }
    case 'number': {
      const value = Number(text)
      return Number.isFinite(value) ? { value } : { problem: `"${text}" is not a number.` }
    }
    case 'lines': return { value: text.split('\n').map((line) => line.trim()).filter((line) => line !== '') }
    case 'text': return { value: text }
    case 'json': try {
      return { value: JSON.parse(text) as unknown }
    } catch (error) {
      return { problem: `This is not JSON: ${(error as Error).message}.` }
    }
  }
}

/** Removes `format`, because only the node knows the formats that svc defines, and it checks them. */
function plain (schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(plain)
  if (typeof schema !== 'object' || schema === null) return schema
  return Object.fromEntries(Object.entries(schema).filter(([key]) => key !== 'format')
    .map(([key, value]) => [key, plain(value)]))
}

/** Why a setting cannot be changed here; null if it can. */
export function fixedBy ({ local, origin, schema }: Setting): string | null {
  if (origin === 'flag' || origin === 'env') return 'Set there, it counts more than svc.yaml.'
  return local === true || schema?.['x-local'] === true
    ? 'Changed on the machine of the node only: in svc.yaml, or with svc config set.' : null
}

const ORIGINS = { flag: 'command line', env: 'environment', file: 'svc.yaml', default: 'default' } as const

export function originText ({ origin, source, line }: Setting): string {
  if (origin === undefined) return 'not set'
  if (origin === 'env' && source !== undefined) return `environment: ${source}`
  return origin === 'file' && line !== undefined ? `svc.yaml, line ${line}` : ORIGINS[origin]
}

/** Groups settings by the first part of their path, plugin settings by plugin, in the node's order. */
export function grouped (settings: readonly Setting[], search: string): [string, Setting[]][] {
  const wanted = search.trim().toLowerCase()
  const found = settings.filter(({ path, schema }) =>
    `${path} ${schema?.description ?? ''}`.toLowerCase().includes(wanted))
  return [...byKey(found, ({ path }) => {
    const [first = '', second] = path.split('.')
    return second === undefined ? 'general' : first === 'plugins' ? `plugins.${second}` : first
  })]
}
