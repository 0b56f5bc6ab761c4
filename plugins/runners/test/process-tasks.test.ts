import t from 'tap'
import { systemClock } from '../../../kernel/api/clock.js'
import { RunnerError } from '../process/errors.js'
import { DEFAULT_LIMITS, resolveLimits } from '../process/limits.js'
import { readMessage } from '../process/messages.js'
import { TO_RUNNER } from '../process/protocol.js'
import { RunnerRecord } from '../process/record.js'
import { TaskChannels, TaskChannel } from '../process/channels.js'
import type { Link } from '../process/link.js'

function channel (limits = DEFAULT_LIMITS) {
  const grants: { chunks: number, bytes: number }[] = []
  let cancels = 0
  const made = new TaskChannel('t', limits, (kind, header) => {
    if (kind === TO_RUNNER.cancel) cancels += 1
    else grants.push(header as typeof grants[number])
  })
  const accept = (index: number, bytes = 10): string =>
    made.accept(index, { payload: { index } }, bytes, index)
  const rest = async (): Promise<(number | string)[]> => {
    const seen: (number | string)[] = []
    try {
      for (;;) {
        const chunk = await made.next(() => 0)
        if (chunk === null) return [...seen, 'end']
        seen.push(Number(chunk.payload['index']))
      }
    } catch (error) {
      return [...seen, (error as RunnerError).reason]
    }
  }
  return { made, grants, accept, rest, cancels: () => cancels }
}

t.test('duplicates are dropped, a gap fails, each task has one terminal', async (t) => {
  const check = async (
    name: string, indices: number[], last: RunnerError | null, expected: (number | string)[]
  ): Promise<void> => {
    const { made, accept, rest } = channel()
    for (const index of indices) accept(index)
    made.settle(last)
    t.equal(made.settle(new RunnerError('instance_lost', 'late')), false, 'a second terminal does not count')
    t.strictSame(await rest(), expected, name)
    t.strictSame(await rest(), expected.slice(-1), 'and stays')
  }
  await check('in order', [0, 1, 2], null, [0, 1, 2, 'end'])
  await check('duplicates', [0, 0, 1, 0, 1, 2], null, [0, 1, 2, 'end'])
  await check('gap', [0, 2], null, [0, 'provider_error'])
  await check('after the gap', [0, 2, 1], null, [0, 'provider_error'])
  await check('lost after chunks', [0, 1], new RunnerError('instance_lost', ''), [0, 1, 'instance_lost'])
  await check('cancelled: the rest is not wanted', [0, 1], new RunnerError('cancelled', ''), ['cancelled'])
})

t.test('a chunk without credit breaks the protocol; reading gives credit back', async (t) => {
  const { made, accept, grants } = channel()
  for (let i = 0; i < 64; i++) t.equal(accept(i), 'kept')
  t.throws(() => accept(64), { name: 'ProtocolError' })
  for (let i = 0; i < 16; i++) await made.next(() => 0)
  t.strictSame(grants, [{ chunks: 16, bytes: 160 }])
  t.equal(accept(64), 'kept')
  const large = channel()
  large.accept(0, DEFAULT_LIMITS.windowBytes)
  t.throws(() => large.accept(1, 1), { name: 'ProtocolError' })
})

t.test('idle counts from the last chunk, while there is credit and nothing to read', async (t) => {
  const { made, accept } = channel(resolveLimits({ windowChunks: 1 }, {}))
  t.equal(made.idleSince, null, 'before the first chunk')
  accept(0)
  t.equal(made.idleSince, null, 'unread')
  await made.next(() => 70)
  t.equal(made.idleSince, 70, 'from when credit came back')
  made.settle(null)
  t.equal(made.idleSince, null)
})

t.test('cancel is asked for once', (t) => {
  const { made, cancels } = channel()
  made.cancel(5)
  made.cancel(6)
  t.equal(made.cancelledAt, 5)
  t.equal(cancels(), 1)
  t.end()
})

t.test('the table: one release per task, unknown tasks refused, a bad payload takes no place', (t) => {
  const released: string[] = []
  const send = (_kind: number, _task: number, header: object): void => { JSON.stringify(header) }
  const link = { send } as unknown as Link
  const table = new TaskChannels(DEFAULT_LIMITS, systemClock, link, new RunnerRecord(systemClock, 8))
  const open = (taskId: string, payload: Record<string, unknown> = {}): void => {
    table.open(taskId, { kind: 'tts', payload }, () => { released.push(taskId) }, undefined)
  }
  const frame = { media: new Uint8Array(0), bytes: 10 }
  open('a')
  open('b')
  t.throws(() => { open('c', { n: 1n }) }, TypeError)
  t.strictSame(table.taskIds, ['a', 'b'])
  table.onMessage(1, { type: 'end' }, frame)
  table.onMessage(1, { type: 'end' }, frame)
  t.strictSame(released, ['a'])
  t.throws(() => { table.onMessage(9, { type: 'end' }, frame) }, /unknown task 9/)
  t.throws(() => { table.onMessage(0, { type: 'end' }, frame) }, /unknown task 0/)
  table.loseAll(new RunnerError('instance_lost', ''))
  table.loseAll(new RunnerError('instance_lost', ''))
  t.strictSame(released, ['a', 'b'])
  t.end()
})

t.test('messages are checked field by field', (t) => {
  const check = (kind: number, header: Record<string, unknown>, expected: RegExp | object): void => {
    const name = `${kind} ${JSON.stringify(header)}`
    if (expected instanceof RegExp) t.throws(() => readMessage({ kind, header }), expected, name)
    else t.match(readMessage({ kind, header }), expected, name)
  }
  check(16, { pid: 5 }, { type: 'hello', pid: 5 })
  check(16, { pid: '5' }, /"pid"/)
  check(17, { loaded: 1, total: -1 }, /"total"/)
  check(17, { loaded: null, total: 1 }, /"loaded"/)
  check(21, { open: [], closed: [1], measured: [] }, { type: 'work', closed: [1] })
  check(21, { open: [1], closed: [], measured: [] }, /"open"/)
  check(21, { open: [], closed: ['x'], measured: [] }, /"closed"/)
  check(21, { open: [{ id: 1, label: 'x'.repeat(65), units: 1 }], closed: [], measured: [] }, /"label"/)
  check(22, { index: 0, payload: {} }, { type: 'chunk', index: 0 })
  check(22, { index: 1.5, payload: {} }, /"index"/)
  check(22, { index: 0, payload: [] }, /"payload"/)
  check(24, { reason: 'x_y', message: 'm', details: {} }, { type: 'fail', reason: 'x_y' })
  check(24, { reason: 'X', message: 'm', details: {} }, /"reason"/)
  check(25, { level: 'debug', message: 'm', fields: {} }, /"level"/)
  check(99, {}, /unknown kind 99/)
  t.end()
})

t.test('limits: defaults, the variable, overrides, nonsense', (t) => {
  const check = (value: string | undefined, overrides: object, expected: number | RegExp): void => {
    const resolve = (): number => resolveLimits(overrides, { SVC_WARMUP_DEADLINE_SECONDS: value }).warmupMs
    if (typeof expected === 'number') t.equal(resolve(), expected, `${value}`)
    else t.throws(resolve, expected, `${value}`)
  }
  check(undefined, {}, 300_000)
  check('', {}, 300_000)
  check('3', {}, 3_000)
  check('0.5', {}, 500)
  check('3', { warmupMs: 7 }, 7)
  check('0', {}, /SVC_WARMUP_DEADLINE_SECONDS.*"0"/)
  check('-1', {}, /SVC_WARMUP_DEADLINE_SECONDS/)
  check('soon', {}, /"soon"/)
  check('1e9', {}, /at most 86400/)
  t.end()
})
