/** Bounds that are checked before any work. */
import { refused } from './errors.js'
import type { ChatConfig } from '../config.js'

/** Largest body in bytes. */
export const BODY_BYTES = 4 * 1024 * 1024

/** Bounds of a request; sizes in KiB. */
export type Limits = Omit<ChatConfig, 'model_aliases'>

/** Throws `invalid_request` when a list has too many entries; `what` names them. */
export function atMost (path: string, count: number, most: number, what: string): void {
  if (count > most) throw refused(path, `has ${count} ${what}; at most ${most} are taken`)
}

/** Throws `invalid_request` when a schema is larger or nested deeper than the limits. */
export function checkSchema (path: string, schema: unknown, limits: Limits): void {
  const { schema_depth: levels, schema_kib: kib } = limits
  if (deeperThan(schema, levels)) throw refused(path, `is nested deeper than ${levels} levels`)
  const bytes = Buffer.byteLength(JSON.stringify(schema ?? null))
  if (bytes > kib * 1024) throw refused(path, `has ${bytes} bytes; at most ${kib * 1024} are taken`)
}

/** Whether objects and lists are nested in more than `levels` levels. Pure; looks no deeper than that. */
export function deeperThan (value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  return Object.values(value).some((inner) => deeperThan(inner, levels - 1))
}
