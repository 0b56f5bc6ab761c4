/** The messages from a runner, which are checked because its engine may be third-party code. */
import { compileStrict, issuesOf } from '../../../kernel/api/validate.js'
import { openObject, type EngineChunk, type FromSchema } from '../../../kernel/index.js'
import { ProtocolError } from './errors.js'
import { FROM_RUNNER, type Frame } from './protocol.js'

const count = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const
const amount = { type: 'number', minimum: 0 } as const
const object = { type: 'object' } as const
const text = { type: 'string', maxLength: 8_192 } as const
const label = { type: 'string', maxLength: 64 } as const
const reason = { type: 'string', maxLength: 64, pattern: '^[a-z][a-z0-9_]*$' } as const
/** The runner's span record of a traced task, which is not checked here. */
const trace = {} as const
const list = <const I extends object>(items: I) => ({ type: 'array', maxItems: 1_024, items } as const)

/** Messages may have more fields, because engines may come with a newer version. */
const MESSAGES = {
  hello: openObject({ pid: count }),
  progress: openObject({ loaded: amount, total: amount }),
  loaded: openObject({ info: object }),
  warming: openObject({}),
  ready: openObject({ warmupMs: amount }),
  /** Work that has started or ended since the last message, and the total cost of ended work by label. */
  work: openObject({
    /** `units` is the amount of work, in a unit that the engine chooses. */
    open: list(openObject({ id: count, label, units: amount })),
    closed: { type: 'array', items: { type: 'integer' } },
    measured: list(openObject({ label, units: amount, ms: amount }))
  }),
  chunk: openObject({
    index: count, payload: object, timing: openObject({ timestampSeconds: amount, durationSeconds: amount })
  }, ['index', 'payload']),
  /** The input that the task has read so far, in bytes as the sender counts them. */
  read: openObject({ total: count }),
  end: openObject({ trace }, []),
  fail: openObject({ reason, message: text, details: object, trace }, ['reason', 'message', 'details']),
  log: openObject({ level: { enum: ['info', 'warn', 'error'] }, message: text, fields: object }),
  fatal: openObject({ stage: text, message: text, reason }, ['stage', 'message'])
} as const

type Type = keyof typeof MESSAGES
export type RunnerMessage = { [T in Type]: { type: T } & FromSchema<(typeof MESSAGES)[T]> }[Type]
export type WorkMessage = FromSchema<(typeof MESSAGES)['work']>

const TYPES = new Map(Object.entries(FROM_RUNNER).map(([type, kind]) => [kind as number, type as Type]))

/** The message in a runner's frame. Throws ProtocolError naming the invalid field. */
export function readMessage ({ kind, header }: Pick<Frame, 'kind' | 'header'>): RunnerMessage {
  const type = TYPES.get(kind)
  if (type === undefined) throw new ProtocolError(`frame of unknown kind ${kind}`)
  const fits = compileStrict(MESSAGES[type])
  if (fits(header)) return { ...header, type } as RunnerMessage
  const { path, message } = issuesOf(fits.errors)[0]!
  const field = path.split('.').findLast((name) => !/^\d+$/.test(name))
  throw new ProtocolError(`frame field "${field}" ${message}`)
}

export function chunkOf (
  { payload, timing }: RunnerMessage & { type: 'chunk' }, { media }: Pick<Frame, 'media'>
): EngineChunk {
  return {
    payload, ...(media.byteLength === 0 ? {} : { media }), ...(timing === undefined ? {} : { timing })
  }
}
