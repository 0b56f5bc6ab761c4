import t from 'tap'
import { createLog } from '../observe/log.js'
import { createLogRing, withoutSecrets } from '../observe/log-ring.js'
import { manualClock } from '../testing/index.js'

const runner = { runnerId: 'r1', instanceId: 'i1', modelId: 'acme/chat' }
const at = (seconds: number): string => new Date(Date.UTC(2026, 0, 31, 8, 0, seconds)).toISOString()

const json = (fields: Record<string, unknown>): string => `${JSON.stringify({
  level: 30, time: at(0), node: 'n', msg: 'hello', ...fields
})}\n`

t.test('a line of the log, in parts', (t) => {
  const ring = createLogRing({ clock: manualClock() })
  ring.push(json({ level: 40, plugin: 'runners', modelId: 'acme/chat', runnerId: 'r1', attempts: 2 }))
  t.same(ring.lines(), [{
    seq: 1, at: at(0), level: 'warn', source: 'node', plugin: 'runners', modelId: 'acme/chat', runnerId: 'r1',
    message: 'hello', fields: { modelId: 'acme/chat', runnerId: 'r1', attempts: 2 }
  }])
  t.same([ring.firstSeq, ring.nextSeq], [1, 2])
  t.end()
})

t.test('a runner\'s output, and lines that are no JSON', (t) => {
  const ring = createLogRing({ clock: manualClock() })
  ring.output(runner, 'stderr', 'loading with token=abcdefgh now')
  ring.push('{"level":')
  ring.push('[]\n')
  ring.push(json({ time: 'never', level: 'x', msg: 5, modelId: {} }))
  const [output, ...odd] = ring.lines()
  t.match(output, {
    level: 'info', source: 'runner', plugin: null, modelId: 'acme/chat', runnerId: 'r1',
    message: 'loading with token= [redacted] now', fields: { instanceId: 'i1', stream: 'stderr' }
  })
  t.match(odd, [{ message: '{"level":' }, { message: '[]' }, { message: '', level: 'info', modelId: null }])
  ring.output(runner, 'stdout', 'x'.repeat(1e6))
  t.equal(ring.lines().at(-1)!.message.length, 8192)
  t.end()
})

t.test('what looks like a credential is cut out', (t) => {
  const rows: [string, string][] = [
    ['Authorization: Bearer abc.def-123456', 'Authorization: [redacted] [redacted]'],
    ['{"api_key":"abcd1234","n":1}', '{"api_key": [redacted]","n":1}'],
    ['password = hunter2!', 'password = [redacted]'],
    ['at https://ann:pa55@h/x?a=1#f (or ws://h/?b), /events?since=3',
      'at https://********@h/x?******** (or ws://h/?******** /events?since=3'],
    ['tokens: 128 in 3 s', 'tokens: 128 in 3 s'], ['the key is in the lock', 'the key is in the lock']
  ]
  for (const [text, expect] of rows) t.equal(withoutSecrets(text).replace(/ +/g, ' '), expect, text)
  t.end()
})

t.test('bounded by lines and by bytes', (t) => {
  const few = createLogRing({ clock: manualClock(), lines: 3 })
  for (let i = 0; i < 5000; i++) few.push(json({ i }))
  t.same(few.lines().map(({ fields }) => fields['i']), [4997, 4998, 4999])
  t.same([few.firstSeq, few.nextSeq], [4998, 5001])
  const small = createLogRing({ clock: manualClock(), bytes: 10_000 })
  for (let i = 0; i < 100; i++) small.push(json({ text: 'é'.repeat(500) }))
  t.ok(small.lines().length >= 8 && small.lines().length <= 10, `${small.lines().length} of 1,000 bytes`)
  small.push(json({ text: 'x'.repeat(20_000) }))
  t.equal(small.lines().length, 1, 'the newest stays, however long')
  t.end()
})

t.test('which lines are wanted', (t) => {
  const ring = createLogRing({ clock: manualClock(), lines: 8 })
  ring.push(json({ msg: 'gone' }))
  const levels = [10, 20, 30, 40, 50, 60]
  levels.forEach((level, i) => { ring.push(json({ level, msg: `m${i}`, time: at(i), plugin: `p${i % 2}` })) })
  ring.push(json({ msg: 'm6', modelId: 'acme/chat', time: at(6) }))
  ring.push(json({ msg: 'm7', modelId: 'acme/other', time: at(7) }))
  const rows: [Parameters<typeof ring.lines>[0], string][] = [
    [undefined, 'm0 m1 m2 m3 m4 m5 m6 m7'], [{ limit: 2 }, 'm6 m7'], [{ level: 'error' }, 'm4 m5'],
    [{ plugin: 'p1' }, 'm1 m3 m5'], [{ modelId: 'acme/chat' }, 'm6'],
    [{ sinceMs: Date.parse(at(6)) }, 'm6 m7'],
    [{ afterSeq: 0, limit: 2 }, 'm0 m1'], [{ afterSeq: 7 }, 'm6 m7'], [{ afterSeq: 99 }, ''],
    [{ level: 'warn', plugin: 'p1', limit: 1 }, 'm5']
  ]
  for (const [want, expect] of rows) {
    t.equal(ring.lines(want).map(({ message }) => message).join(' '), expect, JSON.stringify(want))
  }
  t.end()
})

t.test('who listens hears of each line until it stops', (t) => {
  const ring = createLogRing({ clock: manualClock() })
  let heard = 0
  const stop = ring.onLine(() => { heard++ })
  ring.push(json({}))
  ring.output(runner, 'stdout', 'x')
  stop()
  ring.push(json({}))
  t.equal(heard, 2)
  t.end()
})

t.test('the node\'s log goes into the ring, after secrets were cut out of it', async (t) => {
  const log = createLog({
    level: 'warn', json: false, ingestUrl: undefined, clock: manualClock(), base: { node: 'n1' }
  })
  log.child('chat').warn({ token: 'abc', deep: { key: 'x' }, long: 'x'.repeat(5000) }, 'careful')
  log.root.warn({ at: { url: 'https://u:pw-1@h/x?key=pw-2' }, err: new Error('no ws://h/?pw-3') },
    'asked https://h?pw-4')
  log.root.info({}, 'too low')
  const [line, asked, ...rest] = log.ring.lines()
  t.match(asked, { message: 'asked https://h?********', fields: { at: { url: /h\/x\?\*/ } } })
  t.notMatch(JSON.stringify(asked), /pw-/)
  t.match(line, { level: 'warn', plugin: 'chat', message: 'careful', fields: { token: '[redacted]' } })
  t.same(line!.fields['deep'], { key: '[redacted]' })
  t.equal((line!.fields['long'] as string).length, 2048)
  t.same(rest, [])
  await log.close()
})
