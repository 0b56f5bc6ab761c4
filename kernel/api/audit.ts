import { defineService } from './plugin.js'
import type { Caller } from './plugin.js'

/** A change that somebody asks for. */
export interface Change {
  /** The id of the caller. */
  readonly who: string
  readonly how: Caller['mode']
  /** Method and declared path of the route. */
  readonly what: string
  /** What is asked for: JSON, bounded, without secrets. */
  readonly detail: Readonly<Record<string, unknown>>
  /** The change goes on also without a record; a later record counts the gap. */
  readonly bestEffort?: boolean
}

/** How it ended: the HTTP status and the reason of a failure. */
export interface ChangeEnd {
  readonly status: number
  readonly reason: string | null
  /** What the route added by `note`. */
  readonly detail: Readonly<Record<string, unknown>>
}

/** Keeps who changed what. The kernel asks whichever plugin provides it. */
export interface Audit {
  /**
   * Resolves once it is on disk that the change was asked for; the change is made after that. What it
   * resolves with is told the end, and resolves when that is written, or will be once the disk takes it.
   * Throws `audit_unavailable`: then nothing is changed.
   */
  begin (change: Change): Promise<(end: ChangeEnd) => Promise<void>>
  /** A change that was asked for and not allowed. Written soon, and as often as its bounds allow. */
  refused (change: Change, end: ChangeEnd): void
}
export const AuditService = defineService<Audit>('kernel.audit')
