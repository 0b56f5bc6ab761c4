import { defineService, type Caller } from './plugin.js'
import type { JsonSchema } from './schema.js'

export interface Change {
  readonly who: string
  readonly how: Caller['mode']
  /** Method and declared path of the route. */
  readonly what: string
  readonly detail: Readonly<Record<string, unknown>>
  /** Parts of the request as received. The schemas decide which fields may appear in the audit record. */
  readonly parts?: readonly (readonly [name: string, schema: JsonSchema | undefined, value: unknown])[]
  /** True if the change may go ahead unrecorded; a later record then states how many records are missing. */
  readonly bestEffort?: boolean
}

export interface ChangeEnd {
  readonly status: number
  readonly reason: string | null
  /** Details that the route added with `note`. */
  readonly detail: Readonly<Record<string, unknown>>
}

/** Records who changed what, with long values shortened and secrets hidden. */
export interface Audit {
  /**
   * Records a requested change on disk before it happens; the returned function records its outcome. Throws
   * `audit_unavailable` if that fails, in which case the change must not be made.
   */
  begin (change: Change): Promise<(end: ChangeEnd) => Promise<void>>
  /** Queues a record of a refused change; the rate of such records is limited. */
  refused (change: Change, end: ChangeEnd): void
}
export const AuditService = defineService<Audit>('kernel.audit')
