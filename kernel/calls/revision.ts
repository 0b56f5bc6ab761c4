import { createHash } from 'node:crypto'
import type { CapabilityDecl, IoMode } from '../api/plugin.js'
import type { JsonSchema } from '../api/schema.js'

/** The ten fields of a capability that clients see and pin. */
export interface Descriptor {
  id: string
  version: string
  title: string
  description: string
  input_schema: JsonSchema
  output_schema: JsonSchema | null
  io_mode: IoMode
  input_chunk_schema: JsonSchema | null
  output_chunk_schema: JsonSchema | null
  annotations: Readonly<Record<string, string>>
}

/** The descriptor of a declaration: absent schemas become null, everything else is left out. */
export function descriptorOf (decl: CapabilityDecl): Descriptor {
  return {
    id: decl.id,
    version: decl.version,
    title: decl.title,
    description: decl.description,
    input_schema: decl.input_schema,
    output_schema: decl.output_schema ?? null,
    io_mode: decl.io_mode,
    input_chunk_schema: decl.input_chunk_schema ?? null,
    output_chunk_schema: decl.output_chunk_schema ?? null,
    annotations: decl.annotations
  }
}

/**
 * JSON with one spelling per value: keys sorted by UTF-16 code unit at every depth, no spaces,
 * everything outside ASCII as \uXXXX (a character beyond the BMP as two escapes).
 * Throws a TypeError for what JSON cannot say.
 */
export function canonicalJson (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value === 'object' && value !== null) {
    const fields = Object.entries(value)
      .filter(([, v]) => v !== undefined)
      .sort(([a], [b]) => a < b ? -1 : 1)
      .map(([key, v]) => `${ascii(key)}:${canonicalJson(v)}`)
    return `{${fields.join(',')}}`
  }
  if (typeof value === 'string') return ascii(value)
  if (value === null || typeof value === 'boolean' || Number.isFinite(value)) return JSON.stringify(value)
  throw new TypeError(`JSON cannot say ${String(value)}`)
}

function ascii (text: string): string {
  return JSON.stringify(text).replace(/[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** First 16 lower-case hex digits of SHA-256 over the canonical JSON of the descriptor. */
export function revisionOf (descriptor: Descriptor): string {
  return createHash('sha256').update(canonicalJson(descriptor)).digest('hex').slice(0, 16)
}
