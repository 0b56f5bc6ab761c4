import {
  kernelError, type Clock, type CommandSender, type Section, type SvcError
} from '../../../kernel/index.js'
import { MAX_KEY_BYTES, MAX_KEYS, MAX_KEYS_BYTES, type Key } from './declarations.js'

interface CommandParts {
  section: Section<Key>
  revocations: Pick<Section<string>, 'get'>
  clock: Pick<Clock, 'now'>
  error: (reason: 'token_not_found' | 'token_replaced' | 'too_many_keys', message: string) => SvcError
}

/** The earlier of two times in ISO-8601; null is never. */
export const earlier = (a: string | null, b: string | null): string | null =>
  a === null || b === null ? a ?? b : a < b ? a : b

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))

/** Handler of the command `addKey`, which the master runs. */
export function keyAdder ({ section, revocations, clock, error }: CommandParts) {
  const all = (): [string, Key][] => [...section.entries()].map(({ key, value }) => [key, value])
  const hasEnded = (id: string, { expires }: Key): boolean => revocations.get(id) !== undefined ||
    (expires !== null && Date.parse(expires) <= clock.now())
  /** Makes room by forgetting ended keys, the oldest first. */
  const makeRoom = (bytes: number): void => {
    const ended = all().filter(([id, key]) => hasEnded(id, key))
      .sort(([, a], [, b]) => a.created < b.created ? -1 : 1)
    while (all().length >= MAX_KEYS || bytesOf(all()) + bytes > MAX_KEYS_BYTES) {
      const [id] = ended.shift() ?? []
      if (id === undefined) {
        throw error('too_many_keys', `The cluster has ${all().length} keys (at most ${MAX_KEYS}) of ` +
          `${bytesOf(all())} bytes (at most ${MAX_KEYS_BYTES}).`)
      }
      section.remove(id)
    }
  }
  const replace = (id: string, until: string | null): void => {
    const old = section.get(id)
    if (old === undefined || hasEnded(id, old)) throw error('token_not_found', `The key ${id} has ended.`)
    const next = all().find(([, { replaces }]) => replaces === id)
    if (next !== undefined) throw error('token_replaced', `The key ${id} was replaced by ${next[0]}.`)
    section.put(id, { ...old, expires: earlier(old.expires, until) })
  }
  return (
    { id, key, until }: { id: string, key: Key, until: string | null }, sender: CommandSender
  ): Record<string, unknown> => {
    const granted = sender.vouched(key.authorities)
    const authority = key.authorities.find((one) => !granted.includes(one))
    if (authority !== undefined) {
      throw kernelError('missing_grant', `The node cannot vouch for "${authority}".`, { authority })
    }
    const bytes = bytesOf(key)
    if (bytes > MAX_KEY_BYTES || section.get(id) !== undefined || revocations.get(id) !== undefined) {
      throw kernelError('invalid_request', `A key has at most ${MAX_KEY_BYTES} bytes and a new id; ` +
        `this one has ${bytes}: shorten its label, or name fewer models.`)
    }
    if (key.replaces !== null) replace(key.replaces, until)
    makeRoom(bytes)
    section.put(id, { ...key, node: sender.installId })
    return {}
  }
}
