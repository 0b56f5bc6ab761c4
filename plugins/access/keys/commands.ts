import {
  kernelError, type Clock, type CommandSender, type Section, type SvcError
} from '../../../kernel/index.js'
import { MAX_KEY_BYTES, MAX_KEYS, MAX_KEYS_BYTES, type Key } from './declarations.js'

interface CommandParts {
  section: Section<Key>
  clock: Pick<Clock, 'now'>
  error: (reason: 'token_not_found' | 'token_replaced' | 'too_many_keys', message: string) => SvcError
}

interface Addition { id: string, key: Key, until: string | null }

export const hasEnded = ({ expires, revoked }: Key, nowMs: number): boolean =>
  revoked || (expires !== null && !(Date.parse(expires) > nowMs))

/** The earlier of two times in ISO-8601; null is never. */
export const earlier = (a: string | null, b: string | null): string | null =>
  a === null || b === null ? a ?? b : a < b ? a : b

/** Commands that change the keys of the cluster. Only the master runs them, synchronously, without I/O. */
export function keyCommands ({ section, clock, error }: CommandParts) {
  const all = (): [string, Key][] => [...section.entries()].map(({ key, value }) => [key, value])
  /** Makes room by forgetting ended keys, the oldest first. */
  const makeRoom = (bytes: number): void => {
    const ended = all().filter(([, key]) => hasEnded(key, clock.now()))
      .sort(([, a], [, b]) => a.created < b.created ? -1 : 1)
    for (;;) {
      const kept = all()
      const size = bytesOf(kept)
      if (kept.length < MAX_KEYS && size + bytes <= MAX_KEYS_BYTES) return
      const [id] = ended.shift() ?? []
      if (id === undefined) {
        throw error('too_many_keys', `The cluster has ${kept.length} keys (at most ${MAX_KEYS}) of ` +
          `${size} bytes (at most ${MAX_KEYS_BYTES}).`)
      }
      section.remove(id)
    }
  }
  return {
    addKey: (
      { id, key, until }: Addition, sender: CommandSender
    ): Record<string, unknown> => {
      const granted = sender.vouched(key.authorities)
      const authority = key.authorities.find((one) => !granted.includes(one))
      if (authority !== undefined) {
        throw kernelError('missing_grant', `The node cannot vouch for "${authority}".`, { authority })
      }
      const bytes = bytesOf(key)
      if (bytes > MAX_KEY_BYTES || section.get(id) !== undefined) {
        throw kernelError('invalid_request', `A key has at most ${MAX_KEY_BYTES} bytes and a new id; ` +
          `this one has ${bytes}: shorten its label, or name fewer models.`)
      }
      if (key.replaces !== null) replace(key.replaces, until)
      makeRoom(bytes)
      section.put(id, { ...key, node: sender.installId })
      return {}
    },
    endKey: ({ id }: { id: string }): Record<string, unknown> => {
      const key = section.get(id)
      if (key?.revoked === false) section.put(id, { ...key, revoked: true })
      return {}
    }
  }

  function replace (id: string, until: string | null): void {
    const old = section.get(id)
    if (old === undefined || hasEnded(old, clock.now())) {
      throw error('token_not_found', `The key ${id} has ended, or does not exist.`)
    }
    const next = all().find(([, { replaces }]) => replaces === id)
    if (next !== undefined) throw error('token_replaced', `The key ${id} was replaced by ${next[0]}.`)
    section.put(id, { ...old, expires: earlier(old.expires, until) })
  }
}

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))
