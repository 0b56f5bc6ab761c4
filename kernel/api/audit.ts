import { defineService } from './plugin.js'
import type { Caller } from './plugin.js'
import type { JsonSchema } from './schema.js'

export interface Change {
  readonly who: string
  readonly how: Caller['mode']
  /** Method and declared path of the route. */
  readonly what: string
  readonly detail: Readonly<Record<string, unknown>>
  /** Parts of the request, as they came. Their schemas say what a record may show of them. */
  readonly parts?: readonly (readonly [name: string, schema: JsonSchema | undefined, value: unknown])[]
  /** The change goes on also without a record; a later record counts the gap. */
  readonly bestEffort?: boolean
}

export interface ChangeEnd {
  readonly status: number
  readonly reason: string | null
  /** Details that the route added with `note`. */
  readonly detail: Readonly<Record<string, unknown>>
}

/** Records who changed what; it shortens long values and hides secrets. */
export interface Audit {
  /**
   * Records a requested change on disk before it happens; the returned function records how it ended. Throws
   * `audit_unavailable`: the change must then not happen.
   */
  begin (change: Change): Promise<(end: ChangeEnd) => Promise<void>>
  /** Records a refused change, soon and rate-limited. */
  refused (change: Change, end: ChangeEnd): void
}
export const AuditService = defineService<Audit>('kernel.audit')
