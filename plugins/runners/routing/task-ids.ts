import { createHash } from 'node:crypto'
import type { Clock, CommandDecl } from '../../../kernel/index.js'

/** How soon after the start, and after a master that could not be asked, a namespace is asked for, ms. */
const FIRST_MS = 100
const AGAIN_MS = 5_000

/** Asks the master for a namespace of task ids. */
export const taskSpace = {
  summary: 'Makes a namespace for the task ids of the node that asks; every call makes another one.',
  args: { type: 'object', additionalProperties: false },
  result: { type: 'object', required: ['namespace'], properties: { namespace: { type: 'string' } } }
} as const satisfies CommandDecl

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** A UUID of version 5 (RFC 9562, 5.5). Throws a TypeError when the namespace is no UUID. */
export function uuidV5 (namespace: string, name: string): string {
  if (!UUID.test(namespace)) throw new TypeError(`"${namespace}" is no UUID in lower case`)
  const space = Buffer.from(namespace.replaceAll('-', ''), 'hex')
  const bytes = createHash('sha1').update(space).update(name).digest().subarray(0, 16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x50
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

export interface TaskIdsParts {
  /** A random UUID. */
  newId (): string
  /** Asks the master for a namespace: a random UUID that it makes for this node alone. */
  ask (): Promise<string>
  session: { readonly sessionId: string, readonly masterNodeId: string | null }
  clock: Pick<Clock, 'after'>
  /** Told why the master could not be asked. */
  failed (error: unknown): void
}

/** Makes the ids of the tasks that enter the cluster at this node. */
export interface TaskIds {
  /** The next id; never waits for anything. */
  next (): string
  /** Gets a namespace for the session there is now, unless it has one; call it after each change. */
  refresh (): void
  /** Asks no more. */
  close (): void
}

/**
 * The master makes task ids without being asked for each: once in a session it gives a node a namespace, and
 * the node's ids are the UUIDs of version 5 in it, one after the other. Before the first, and while there is
 * no master, the node goes on in the namespace it has: at first one of its own. Namespaces are random and the
 * count goes on from one to the next, so no id comes twice, in no session and after no restart.
 */
export function createTaskIds ({ newId, ask, session, clock, failed }: TaskIdsParts): TaskIds {
  let namespace = newId()
  let count = 0
  /** The session whose master has been asked. */
  let asked: string | null = null
  const refresh = (): void => {
    const { sessionId, masterNodeId } = session
    if (masterNodeId === null || asked === sessionId) return
    asked = sessionId
    ask().then((given) => {
      if (!UUID.test(given)) throw new TypeError(`the master gave "${given}", which is no UUID`)
      if (asked === sessionId) namespace = given
    }).catch((error: unknown) => {
      if (asked === sessionId) asked = null
      failed(error)
      if (!closed) again(AGAIN_MS)
    })
  }
  let closed = false
  let cancel = (): void => {}
  const again = (ms: number): void => {
    cancel()
    cancel = clock.after(ms, refresh)
  }
  again(FIRST_MS)
  return {
    next: () => uuidV5(namespace, String(count++)),
    refresh,
    close () {
      closed = true
      cancel()
    }
  }
}
