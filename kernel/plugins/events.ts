import type { EventDecl } from '../api/plugin.js'
import { schemaChecker } from '../api/validate.js'

export interface BusEvent {
  kind: string
  owner: string
  plane: EventDecl['plane']
  payload: Record<string, unknown>
}

export interface Bus {
  declare (owner: string, events: Readonly<Record<string, EventDecl>>): void
  /**
   * Emits an event; throws for an undeclared kind. An invalid payload throws in tests; otherwise the event is
   * delivered anyway, since it has happened, but counted and reported once per kind.
   */
  emit (owner: string, kind: string, payload: Record<string, unknown>): void
  /** Listens to one kind, or to `*`; returns a function that unregisters it. */
  on (kind: string, fn: (event: BusEvent) => void): () => void
  /** Delivers the events queued while the plugins started; later events are delivered immediately. */
  open (): void
  /** All declared event kinds of the durable plane. */
  durableKinds (): string[]
  readonly durableCount: number
  readonly invalidCount: number
}

export interface BusOptions {
  /** Tests only: throws for an invalid payload. */
  strict: boolean
  onError: (error: unknown, kind: string) => void
  /** Called for the first invalid event of each kind. */
  onInvalid: (owner: string, kind: string, problem: string) => void
}

/**
 * The typed in-process event bus. Queues events until it opens, so that plugins that start later miss none.
 */
export function createBus (options: BusOptions): Bus {
  const kinds = new Map<string, { owner: string, decl: EventDecl, check: (v: unknown) => string | null }>()
  const listeners = new Map<string, Set<(event: BusEvent) => void>>()
  let durableCount = 0
  let invalidCount = 0
  const invalidKinds = new Set<string>()
  let waiting: BusEvent[] | null = []
  const deliver = (key: string, event: BusEvent): void => {
    for (const fn of listeners.get(key) ?? []) {
      try { fn(event) } catch (error) { options.onError(error, event.kind) }
    }
  }
  const send = (event: BusEvent): void => {
    deliver(event.kind, event)
    deliver('*', event)
  }
  return {
    declare (owner, events) {
      for (const [kind, decl] of Object.entries(events)) {
        kinds.set(kind, { owner, decl, check: schemaChecker(decl.payload) })
      }
    },
    emit (owner, kind, payload) {
      const known = kinds.get(kind)
      if (known === undefined || known.owner !== owner) {
        throw new Error(`"${owner}" has not declared the event ${kind}`)
      }
      const problem = known.check(payload)
      if (problem !== null) {
        if (options.strict) throw new Error(`event ${kind} of "${owner}": ${problem}`)
        invalidCount++
        if (!invalidKinds.has(kind)) options.onInvalid(owner, kind, problem)
        invalidKinds.add(kind)
      }
      if (known.decl.plane === 'durable') durableCount++
      const event: BusEvent = { kind, owner, plane: known.decl.plane, payload }
      if (waiting !== null) waiting.push(event)
      else send(event)
    },
    open () {
      const held = waiting ?? []
      waiting = null
      for (const event of held) send(event)
    },
    on (kind, fn) {
      const set = listeners.get(kind) ?? new Set()
      listeners.set(kind, set.add(fn))
      return () => { set.delete(fn) }
    },
    durableKinds: () => [...kinds].filter(([, { decl }]) => decl.plane === 'durable').map(([kind]) => kind),
    get durableCount () { return durableCount },
    get invalidCount () { return invalidCount }
  }
}
