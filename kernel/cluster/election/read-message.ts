import type { Message, MessageKind, MessageOf } from './messages.js'

type Check = (value: unknown) => boolean
type Shape<T> = { readonly [F in Exclude<keyof T, 'kind'>]: Check }

const text: Check = (v) => typeof v === 'string' && v.length > 0
const flag: Check = (v) => typeof v === 'boolean'
const count: Check = (v) => Number.isSafeInteger(v) && (v as number) >= 0
const span: Check = (v) => Number.isFinite(v) && (v as number) >= 0
const names: Check = (v) => Array.isArray(v) && v.every(text)
const given: Check = () => true
const oneOf = (...words: string[]): Check => (v) => words.includes(v as string)
const orNull = (check: Check): Check => (v) => v === null || check(v)

function record (shape: Readonly<Record<string, Check>>): Check {
  const fields = Object.entries(shape)
  return (value) => typeof value === 'object' && value !== null &&
    fields.every(([name, check]) => check((value as Record<string, unknown>)[name]))
}

const token = { term: count, master: text }
const leader = record({ ...token, sid: text, boot: count })
const fresh = record({ term: count, seq: count })
const finite: Check = (v) => Number.isFinite(v)
const ballot = record({ term: count, seq: count, eligible: flag, weight: finite, nodeId: text })
const change = record({ kind: oneOf('command', 'voters') })
const accepted = record({ ok: (v) => v === true, sid: text, term: count, seq: count })
const refused = record({ ok: (v) => v === false, code: text })

const SHAPES: { readonly [K in MessageKind]: Shape<MessageOf<K>> } = {
  heartbeat: {
    count,
    boot: count,
    role: oneOf('follower', 'pre-vote', 'campaign', 'claim', 'master'),
    leader: orNull(leader),
    promised: count,
    fresh,
    followers: names,
    age: span,
    durable: flag
  },
  'pre-vote': { round: count },
  'pre-vote-answer': { round: count, grant: flag, leader: orNull(leader) },
  ballot: { term: count, ballot },
  stale: { term: count },
  claim: { leader, fresh },
  'claim-answer': { sid: text, vote: oneOf('yes', 'no', 'abstain'), promised: count },
  append: { leader, fresh, body: given },
  need: { sid: text },
  ack: { sid: text, term: count, seq: count },
  nack: { sid: text, promised: record(token) },
  probe: { nonce: count },
  'probe-answer': { nonce: count, leader: orNull(leader), promised: count },
  command: { id: text, sid: text, change },
  'command-answer': { id: text, sid: text, outcome: (v) => accepted(v) || refused(v) }
}

const checks = new Map(Object.entries(SHAPES).map(([kind, shape]) => [kind, record(shape)]))

/**
 * A message from another node, or null when its kind is unknown here or a field is missing or of the wrong
 * type. Fields that are unknown here are left alone: another version may have added them.
 */
export function readMessage (value: unknown): Message | null {
  if (typeof value !== 'object' || value === null) return null
  const check = checks.get((value as { kind?: unknown }).kind as string)
  return check?.(value) === true ? value as Message : null
}
